from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pandas as pd
import pytest

import schedlab as sl
from common import SMALL
from schedlab.decisions import BALANCE_COLUMNS, WAKEUP_COLUMNS

Small = Callable[[str], sl.Runs]


def test_v5_6_and_v5_7_part_at_a_balance_pass_that_classes_groups_differently(small_runs: Small) -> None:
    found = sl.first_difference(small_runs("v5.6"), small_runs("v5.7"), seed=3)
    assert found
    assert found.kind == "balance"
    assert found.a is not None and found.b is not None
    types = [side["answer"]["group_types"] for side in (found.a, found.b)]
    assert types[0] != types[1]
    assert found.a["time_ns"] == found.b["time_ns"] and found.a["cpu"] == found.b["cpu"] == found.cpu
    text = repr(found)
    assert "v5.6 and v5.7 part after" in text and "balance pass over" in text and "(seed 3)" in text
    different = [line for line in text.splitlines() if line.endswith("<-")]
    assert any(line.startswith("class: group of CPU") for line in different)
    html = found._repr_html_()
    assert html.count("<tr>") == len(found.rows) + 1
    frame = found.to_pandas()
    assert list(frame.columns) == ["what", "a", "b", "differs"]
    assert len(different) == frame.differs.sum() > 0


@pytest.mark.parametrize("kernel", ["v5.4", "v5.7", "v6.12"])
def test_a_kernel_never_parts_from_itself(dual_quad: sl.Machine, kernel: str) -> None:
    side = (dual_quad, sl.Kernel(kernel), SMALL)
    found = sl.first_difference(side, side)
    assert not found
    assert (found.kind, found.cpu, found.time_s, found.rows) == (None, None, None, [])
    assert found.alike > 100
    assert repr(found) == f"{kernel} and {kernel} decide alike in all {found.alike} decisions of seed 0."
    assert "<table" not in found._repr_html_()


def test_the_series_is_its_steps(dual_quad: sl.Machine) -> None:
    base = sl.Kernel("v5.6")
    whole = sl.Scenario(dual_quad, base.with_patches("runnable-avg"), SMALL)
    steps = base.with_patches("runnable-avg-signal", "runnable-avg-classify")
    assert not sl.first_difference(whole, sl.Scenario(dual_quad, steps, SMALL), seed=2)


def test_the_signal_alone_decides_nothing(dual_quad: sl.Machine) -> None:
    base = sl.Kernel("v5.6")
    signal = base.with_patches("runnable-avg-signal")
    found = sl.first_difference((dual_quad, base, SMALL), (dual_quad, signal, SMALL), seed=2)
    assert not found and found.alike > 100


def test_a_new_task_goes_elsewhere_where_sleepers_count(dual_quad: sl.Machine) -> None:
    base = sl.Kernel("v5.4")
    load = base.with_patches("lb-rework-v4-load")
    work = sl.Hackbench(groups=4, loops=40)
    found = sl.first_difference((dual_quad, base, work), (dual_quad, load, work), seed=1)
    assert found.kind == "fork"
    assert any(what.startswith("idlest group: ") and a != b for what, a, b in found.rows)


def test_the_queue_of_v6_12_parts_from_that_of_v5_7(dual_quad: sl.Machine) -> None:
    found = sl.first_difference(
        (dual_quad, sl.Kernel("v5.7"), SMALL), (dual_quad, sl.Kernel("v6.12"), SMALL), seed=1
    )
    assert found and found.time_s is not None and 0 <= found.time_s < 1
    assert found.kind in {"wakeup", "fork", "balance", "push", "preemption", "tick", "pick"}


def test_the_seed_is_the_runs_first_unless_given(dual_quad: sl.Machine) -> None:
    a, b = (sl.simulate(dual_quad, sl.Kernel(kernel), SMALL, seeds=[7, 1]) for kernel in ("v5.6", "v5.7"))
    assert sl.first_difference(a, b).seed == 7
    assert sl.first_difference(a, b, seed=5).seed == 5


@pytest.mark.parametrize(
    ("make", "parts"),
    [
        (lambda a, b: sl.first_difference("v5.6", b), ("a = 'v5.6'", "Runs")),
        (lambda a, b: sl.first_difference(a, b, seed=-1), ("seed = -1",)),
        (lambda a, b: sl.first_difference(a, b, seed=0.5), ("seed = 0.5", "integer")),
        (
            lambda a, b: sl.first_difference(a, (sl.Machine(2), sl.Kernel("v5.7"), SMALL)),
            ("b = 'v5.7'", "same machine and the same work"),
        ),
        (lambda a, b: sl.first_difference(a, (sl.Machine(2), "v5.7", SMALL)), ("kernel", "v5.7")),
    ],
)
def test_bad_arguments_are_refused(
    small_runs: Small, make: Callable[[sl.Runs, sl.Runs], Any], parts: tuple[str, ...]
) -> None:
    with pytest.raises(ValueError) as error:
        make(small_runs("v5.6"), small_runs("v5.7"))
    assert all(part in str(error.value) for part in parts), str(error.value)


def test_the_balance_log_has_every_pass_and_every_move(small_runs: Small) -> None:
    runs = small_runs("v5.7")
    log = runs.balance_log(seed=4)
    assert tuple(log.columns) == BALANCE_COLUMNS
    metrics = runs.metrics.sel(seed=4)
    passes = log.groupby("idle").size()
    for idle in ("idle", "busy", "newidle"):
        assert passes.get(idle, 0) == int(metrics[f"balance_{idle}"])
        moved = log.loc[log.idle == idle, "nr_moved"].sum()
        assert moved == int(metrics[f"migrations_{idle}"])
    assert set(log.outcome) <= {
        *("not_designated", "balanced", "no_source", "pulled", "failed", "all_pinned", "one_pinned")
    }
    pulled = log[log.outcome == "pulled"]
    assert len(pulled) > 0
    assert (pulled.nr_moved > 0).all() and pulled.src_cpu.notna().all()
    assert (log.nr_moved > 0).equals(log.outcome == "pulled")
    assert (log.group_types.map(len) == log.groups.map(len)).all()
    assert log.time_s.is_monotonic_increasing
    assert pd.api.types.is_integer_dtype(log.src_cpu)


def test_the_wakeup_log_has_every_placement(small_runs: Small) -> None:
    runs = small_runs("v5.7")
    log = runs.wakeup_log(seed=4)
    assert tuple(log.columns) == WAKEUP_COLUMNS
    metrics = runs.metrics.sel(seed=4)
    wakeups = log[log.kind == "wakeup"]
    assert (log.kind == "fork").sum() == int(metrics.forks)
    assert (wakeups.cpu == wakeups.prev_cpu).sum() == int(metrics.wakeups_prev)
    assert (wakeups.cpu == wakeups.waker_cpu).sum() == int(metrics.wakeups_local)
    assert len(wakeups) == int(metrics.wakeups)
    assert set(log[log.kind == "fork"].rule) == {"idlest"}


def test_logs_are_of_seeds_that_ran(small_runs: Small) -> None:
    runs = small_runs("v5.7")
    for log in (runs.balance_log, runs.wakeup_log):
        with pytest.raises(ValueError, match="seed = 99: must be one of the seeds that ran"):
            log(seed=99)


def test_a_log_is_empty_where_nothing_is_decided() -> None:
    runs = sl.simulate(sl.Machine(1), sl.Kernel("v5.7"), SMALL)
    log = runs.balance_log(seed=0)
    assert len(log) == 0
    assert tuple(log.columns) == BALANCE_COLUMNS


def test_a_difference_survives_as_plain_data(small_runs: Small) -> None:
    found = sl.first_difference(small_runs("v5.6"), small_runs("v5.7"), seed=3)
    assert json.loads(json.dumps(found.a)) == found.a
