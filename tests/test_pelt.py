"""PELT through the Python API: the kernel's vectors, closed forms, shapes, and what is refused."""

import gzip
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import schedlab as sl
from schedlab.pelt import NICE_0_LOAD, RUNNABLE, RUNNING, SLEEPING

ARITHMETIC = Path(__file__).parent / "vectors" / "arithmetic"
MS = 1_000_000


def cases(name: str) -> Iterator[dict[str, Any]]:
    data = (ARITHMETIC / name).read_bytes()
    text = gzip.decompress(data) if name.endswith(".gz") else data
    return (json.loads(line) for line in text.splitlines())


@pytest.mark.parametrize(
    ("name", "form"),
    [
        ("pelt_modern_seq.jsonl.gz", "modern"),
        ("pelt_halflife_seq.jsonl.gz", "modern"),
        ("pelt_old_seq.jsonl.gz", "old"),
    ],
)
def test_sequences_of_real_kernels(name: str, form: str) -> None:
    replayed = 0
    for case in cases(name):
        half_life_ms = case.get("hl", 32)
        entity = sl.pelt.Entity(form=form, half_life_ms=half_life_ms)
        cfs_rq = sl.pelt.CfsRq(form=form, half_life_ms=half_life_ms)
        last, contrib, *sums = case["init"]
        entity.state = cfs_rq.state = sl.pelt.State(last, contrib, *sums)
        for step, ((op, now, weight, on_rq, runnable, running), out) in enumerate(
            zip(case["in"], case["out"], strict=True)
        ):
            signals: sl.pelt.Entity | sl.pelt.CfsRq = entity
            entity.weight = weight
            if op == 0:
                ret = entity.update(now, on_rq=bool(on_rq), runnable=runnable, running=bool(running))
            elif op == 1:
                ret = entity.update_blocked(now, runnable=runnable)
            else:
                signals = cfs_rq
                ret = cfs_rq.update(now, weight=weight, runnable=runnable, running=bool(running))
            assert [int(ret), *signals.state] == out, f"{case['id']} step {step}"
        replayed += 1
    assert replayed > 0


def test_decay_and_virtual_time_of_real_kernels_as_arrays() -> None:
    decays = [case for case in cases("pelt_halflife_unit.jsonl") if case["fn"] == "decay_load"]
    for half_life_ms in {case["hl"] for case in decays}:
        mine = [case for case in decays if case["hl"] == half_life_ms]
        vals, ns = (np.array([case["in"][i] for case in mine], np.uint64) for i in (0, 1))
        expected = [case["out"][0] for case in mine]
        assert sl.pelt.decay_load(vals, ns, half_life_ms).tolist() == expected
        assert [sl.pelt.decay_load(*case["in"], half_life_ms) for case in mine] == expected
    fair = list(cases("calc_delta_fair.jsonl"))
    delta, weight, inv = (
        np.array([case[key] for case in fair], np.uint64 if key != "inv" else np.uint32)
        for key in ("delta", "w", "inv")
    )
    assert sl.pelt.calc_delta_fair(delta, weight, inv).tolist() == [case["out"] for case in fair]


def test_tables_and_weights_are_the_kernels() -> None:
    for half_life, facts in json.loads((ARITHMETIC / "pelt_tables.json").read_text()).items():
        tables = sl.pelt.tables(int(half_life))
        assert tables.load_avg_max == facts["LOAD_AVG_MAX"]
        assert tables.load_avg_max_n == facts["LOAD_AVG_MAX_N"]
        assert tables.yn_inv.tolist() == facts["yN_inv"]
    for level in json.loads((ARITHMETIC / "nice_weights.json").read_text())["nice"]:
        assert sl.pelt.nice_weight(level["nice"]) == (level["weight"], level["wmult"])
    assert sl.pelt.scale_load(1024) == NICE_0_LOAD


def periodic(running_ns: int, period_ns: int, cycles: int, waiting_ns: int = 0) -> tuple[Any, Any]:
    starts = np.arange(cycles + 1) * period_ns
    times = starts[:, None] + np.array([0, waiting_ns, waiting_ns + running_ns])
    return times.ravel(), np.tile([RUNNABLE, RUNNING, SLEEPING], cycles + 1)


@pytest.mark.parametrize("half_life_ms", [1, 8, 16, 32, 64, 200, 1024])
@pytest.mark.parametrize(("waiting_ms", "running_ms", "period_ms"), [(0, 5, 20), (3, 10, 16), (8, 8, 64)])
def test_periodic_tasks_settle_at_the_closed_form(
    half_life_ms: int, waiting_ms: int, running_ms: int, period_ms: int
) -> None:
    cycles = 25 * half_life_ms // period_ms + 2
    times, states = periodic(running_ms * MS, period_ms * MS, cycles, waiting_ms * MS)
    ends = sl.pelt.trace(times, states, half_life_ms=half_life_ms).isel(change=slice(-3, None))
    steady = sl.pelt.steady_state(
        running_ms * MS, period_ms * MS, waiting_ns=waiting_ms * MS, half_life_ms=half_life_ms
    )
    for signal in ("load_avg", "runnable_avg", "util_avg"):
        at_wake, at_switch, at_sleep = ends[signal].values
        levels = getattr(steady, signal)
        # The kernel does not decay within a period: its integers are off by up to what one period decays.
        slack = 3 + 1024 * (1 - 0.5 ** (1 / half_life_ms))
        before = at_switch if signal == "util_avg" else at_wake
        assert before == pytest.approx(levels.minimum, abs=slack)
        assert at_sleep == pytest.approx(levels.maximum, abs=slack)
        assert levels.minimum <= levels.mean <= levels.maximum


def test_a_busy_task_reaches_1024_in_any_half_life() -> None:
    for half_life_ms in (1, 7, 32, 1024):
        times = np.array([0, 30 * half_life_ms * 2**20])
        util = sl.pelt.trace(times, [RUNNING, SLEEPING], half_life_ms=half_life_ms).util_avg.values
        assert 1022 <= util[1] <= 1024
        assert sl.pelt.steady_state(5, 5, half_life_ms=half_life_ms).util_avg == (1024, 1024, 1024)


def test_half_life_halves() -> None:
    entity = sl.pelt.Entity(half_life_ms=16)
    entity.update(400 * 2**20, running=True)
    assert entity.util_avg in (1023, 1024)
    entity.update_blocked(416 * 2**20)
    assert entity.util_avg in (511, 512)


def test_two_dimensions_ragged_and_single_histories_are_the_same() -> None:
    times = np.array([[0, 5, 9, 30], [7, 8, 20, 21]]) * MS
    states = np.array([[2, 1, 2, 0], [1, 2, 0, 2]])
    weight = np.array([NICE_0_LOAD, sl.pelt.scale_load(335)])
    both = sl.pelt.trace(times, states, weight=weight)
    assert both.util_avg.dims == ("entity", "change")
    assert both.util_avg.dtype == np.int64
    ragged = sl.pelt.trace(times.ravel(), states.ravel(), offsets=[0, 4, 8], weight=weight)
    assert ragged.entity.values.tolist() == [0] * 4 + [1] * 4
    at = np.array([0, 8, 8, 25, 60]) * MS
    sampled = sl.pelt.trace(times, states, weight=weight, at=at)
    assert sampled.load_avg.dims == ("entity", "time_ns")
    for i in range(2):
        one = sl.pelt.trace(times[i], states[i], weight=weight[i])
        for signal in ("load_avg", "runnable_avg", "util_avg"):
            assert one[signal].values.tolist() == both[signal].values[i].tolist()
            assert one[signal].values.tolist() == ragged[signal].values[4 * i : 4 * i + 4].tolist()
        alone = sl.pelt.trace(times[i], states[i], weight=weight[i], at=at)
        assert alone.load_avg.dims == ("time_ns",)
        assert alone.load_avg.values.tolist() == sampled.load_avg.values[i].tolist()


def test_samples_do_not_disturb_and_ticks_are_updates() -> None:
    times, states = periodic(7 * MS, 31 * MS, 40)
    at = np.arange(0, 1240, 3) * MS
    plain = sl.pelt.trace(times, states, at=at)
    dense = sl.pelt.trace(times, states, at=np.sort(np.concatenate([at, at + 777_777])))
    assert dense.util_avg.sel(time_ns=at).values.tolist() == plain.util_avg.values.tolist()

    ticking = sl.pelt.trace([0, 11 * MS], [RUNNING, SLEEPING], tick_ns=4 * MS).util_avg.values[1]
    entity = sl.pelt.Entity()
    for now_ms in (4, 8, 11):
        entity.update(now_ms * MS, running=True)
    assert ticking == entity.util_avg


def test_a_queue_is_the_sum_of_its_tasks() -> None:
    cfs_rq = sl.pelt.CfsRq()
    tasks = [
        sl.pelt.Entity(weight=sl.pelt.scale_load(sl.pelt.nice_weight(nice).weight)) for nice in (-5, 0, 7)
    ]
    for task in tasks:
        task.init(cfs_rq)
        cfs_rq.attach(task)
    assert [task.util_avg for task in tasks] == [512, 256, 128]
    assert [task.runnable_avg for task in tasks] == [1024] * 3
    weight = sum(task.weight for task in tasks)
    for now in range(MS, 200 * MS, MS):
        for i, task in enumerate(tasks):
            task.update(now, running=i == 0)
        cfs_rq.update(now, weight=weight, runnable=3, running=True)
    for signal in ("load_avg", "runnable_avg", "util_avg"):
        total = sum(getattr(task, signal) for task in tasks)
        assert getattr(cfs_rq, signal) == pytest.approx(total, abs=len(tasks))
    for task in tasks:
        cfs_rq.detach(task)
    assert max(cfs_rq.load_avg, cfs_rq.runnable_avg, cfs_rq.util_avg) <= len(tasks)


def test_queue_histories() -> None:
    times = [0, 10 * MS, 30 * MS]
    traced = sl.pelt.trace_cfs_rq(times, [3 * NICE_0_LOAD, NICE_0_LOAD, 0], [3, 1, 0], [True, True, False])
    cfs_rq = sl.pelt.CfsRq()
    for now, count in ((10 * MS, 3), (30 * MS, 1)):
        cfs_rq.update(now, weight=count * NICE_0_LOAD, runnable=count, running=True)
    assert traced.runnable_avg.values[-1] == cfs_rq.runnable_avg > 0
    assert traced.load_avg.values[-1] == cfs_rq.load_avg > 0


@pytest.mark.parametrize(
    ("call", "argument", "value"),
    [
        (lambda: sl.pelt.Entity(half_life_ms=0), "half_life_ms", "0"),
        (lambda: sl.pelt.CfsRq(half_life_ms=1025), "half_life_ms", "1025"),
        (lambda: sl.pelt.Entity(half_life_ms=-1), "half_life_ms", "-1"),
        (lambda: sl.pelt.Entity(half_life_ms=8.5), "half_life_ms", "8.5"),
        (lambda: sl.pelt.tables(0), "half_life_ms", "0"),
        (lambda: sl.pelt.decay_load(1, 1, 0), "half_life_ms", "0"),
        (lambda: sl.pelt.trace([0], [0], half_life_ms=0), "half_life_ms", "0"),
        (lambda: sl.pelt.steady_state(1, 2, half_life_ms=0), "half_life_ms", "0"),
        (lambda: sl.pelt.Entity(form="new"), "form", "'new'"),
        (lambda: sl.pelt.trace([0], [0], form="new"), "form", "'new'"),
        (lambda: sl.pelt.trace([2, 1], [0, 0]), "times", "2, 1"),
        (lambda: sl.pelt.trace([-1, 1], [0, 0]), "times", "-1"),
        (lambda: sl.pelt.trace([0.5, 1], [0, 0]), "times", "float64"),
        (lambda: sl.pelt.trace([[[1]]], [[[1]]]), "times", "(1, 1, 1)"),
        (lambda: sl.pelt.trace([1, 2], [0, 3]), "states", "3"),
        (lambda: sl.pelt.trace([1, 2], [0]), "states", "(1,)"),
        (lambda: sl.pelt.trace([1, 2], [0, 0], weight=[1, 2]), "weight", "(2,)"),
        (lambda: sl.pelt.trace([1, 2], [0, 0], weight=-1), "weight", "-1"),
        (lambda: sl.pelt.trace([1, 2], [0, 0], at=[2, 1]), "at", "2, 1"),
        (lambda: sl.pelt.trace([1, 2], [0, 0], tick_ns=0), "tick_ns", "0"),
        (lambda: sl.pelt.trace([1, 1 << 62], [2, 0], tick_ns=1024), "tick_ns", "1024"),
        (lambda: sl.pelt.trace([1, 2], [2, 2], at=[1 << 62], tick_ns=1024), "tick_ns", "1024"),
        (lambda: sl.pelt.trace([1, 2], [0, 0], offsets=[0, 1]), "offsets", "[0, 1]"),
        (lambda: sl.pelt.trace([1, 2], [0, 0], offsets=[]), "offsets", "[]"),
        (lambda: sl.pelt.trace([1, 2], [0, 0], offsets=[0, 2, 1, 2]), "offsets", "[0, 2, 1, 2]"),
        (lambda: sl.pelt.trace_cfs_rq([1], [1], [1], [2]), "running", "2"),
        (lambda: sl.pelt.trace_cfs_rq([1], [1], [-1], [1]), "runnable", "-1"),
        (lambda: sl.pelt.nice_weight(20), "nice", "20"),
        (lambda: sl.pelt.calc_delta_fair(-1, 1024), "delta_ns", "-1"),
        (lambda: sl.pelt.steady_state(3, 2), "running_ns", "3"),
        (lambda: sl.pelt.steady_state(1, 0), "period_ns", "0"),
        (lambda: sl.pelt.Entity(weight=-1), "weight", "-1"),
        (lambda: sl.pelt.Entity().update(-5), "now_ns", "-5"),
        (lambda: setattr(sl.pelt.Entity(), "state", (0, 1024, 0, 0, 0, 0, 0, 0)), "period_contrib", "1024"),
        (lambda: setattr(sl.pelt.Entity(), "state", (0, 0, 0, 0, 2**32, 0, 0, 0)), "util_sum", str(2**32)),
        (lambda: setattr(sl.pelt.Entity(), "state", (0, 0)), "state", "(0, 0)"),
        (lambda: sl.pelt.CfsRq().attach(sl.pelt.Entity(half_life_ms=8)), "entity", "half_life_ms=8"),
    ],
)
def test_bad_input_names_argument_value_and_rule(call: Any, argument: str, value: str) -> None:
    with pytest.raises(ValueError, match=r"must ") as raised:
        call()
    message = str(raised.value)
    assert message.startswith(f"{argument} = ")
    assert value in message.split(": must")[0]
