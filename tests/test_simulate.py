from __future__ import annotations

import signal
import threading
import time
from collections.abc import Callable
from types import FrameType
from typing import Any

import numpy as np
import pytest

import schedlab as sl
from common import SMALL
from schedlab.simulate import seed_array


@pytest.mark.parametrize("kernel", ["v5.6", "v5.7"])
@pytest.mark.parametrize("machine", ["arm64-dual-quad", "i7-13700-12c24t", "xeon-4node-80"])
def test_a_seed_gives_the_same_bytes_alone_in_company_and_on_any_number_of_threads(
    machine: str, kernel: str
) -> None:
    def run(seeds: int | list[int], threads: int) -> sl.Runs:
        return sl.simulate(sl.Machine.named(machine), sl.Kernel(kernel), SMALL, seeds, threads)

    def facts(runs: sl.Runs, seed: int) -> tuple[bytes, bytes, str]:
        frame = runs.to_pandas().set_index("seed")
        counts = runs.classification_counts().sel(seed=seed).to_numpy()
        return frame.loc[seed].to_numpy().tobytes(), counts.tobytes(), runs.schedstat(seed)

    one, two = run(200, 1), run(200, 2)
    assert one.to_pandas().equals(two.to_pandas())
    assert (one.classification_counts().to_numpy() == two.classification_counts().to_numpy()).all()
    for seed in (0, 137, 199):
        alone = run([seed], 2)
        assert facts(alone, seed) == facts(one, seed) == facts(two, seed)
    backwards = run([137, 3], 2)
    assert list(backwards.to_pandas().seed) == [137, 3]
    assert facts(backwards, 137) == facts(one, 137)


def test_seeds_differ(small_runs: Callable[[str], sl.Runs]) -> None:
    assert len(set(small_runs("v5.6").metrics.time_s.to_numpy())) > 6


def test_more_work_takes_longer(dual_quad: sl.Machine) -> None:
    def time_s(loops: int) -> float:
        work = sl.Hackbench(groups=1, loops=loops)
        return float(sl.simulate(dual_quad, sl.Kernel("v5.6"), work, seeds=4).metrics.time_s.mean())

    assert time_s(20) < time_s(100) < time_s(400)


def test_a_number_stands_for_the_seeds_below_it() -> None:
    assert seed_array(3).tolist() == [0, 1, 2]
    assert seed_array([7, np.int64(5), np.uint8(1)]).tolist() == [7, 5, 1]
    assert seed_array(np.array([2**64 - 1], dtype=np.uint64)).tolist() == [2**64 - 1]
    assert seed_array(range(2, 5)).tolist() == [2, 3, 4]
    assert seed_array(np.int64(2)).tolist() == [0, 1]


@pytest.mark.parametrize(
    ("seeds", "rule"),
    [
        (0, "at least|from 1"),
        (-3, "from 1"),
        (2.0, "integers"),
        (True, "integers"),
        (None, "integers"),
        ("3", "integers"),
        ([], "at least one"),
        ([1, 2.0], "integer"),
        ([1, True], "integer"),
        ([1, "2"], "integer"),
        ([-1], "from 0"),
        ([2**64], "from 0"),
        ([4, 5, 4], "twice"),
        (np.array([0.0, 1.0]), "integer"),
        (np.float64(3), "integer"),
    ],
)
def test_seeds_that_are_not_integers_are_refused(seeds: Any, rule: str) -> None:
    with pytest.raises(ValueError, match=rf"seeds.* = .*({rule})"):
        seed_array(seeds)


@pytest.mark.parametrize(
    ("make", "parts"),
    [
        (lambda: sl.Hackbench(groups=0), ("groups", "0", "from 1")),
        (lambda: sl.Hackbench(loops=-5), ("loops", "-5", "from 1")),
        (lambda: sl.Hackbench(loops=10**18), ("loops", "1000000000000000000", "to 4294967295")),
        (lambda: sl.Hackbench(groups=True), ("groups", "True", "integer")),
        (lambda: sl.Hackbench(groups=4.0), ("groups", "4.0", "integer")),
        (lambda: sl.Hackbench(senders="20"), ("senders", "20", "integer")),
        (lambda: sl.Hackbench(bytes=0), ("bytes", "0", "from 1")),
        (lambda: sl.Hackbench(ipc="pipes"), ("ipc", "pipes", "did you mean pipe")),
        (lambda: sl.Hackbench(mode="fork"), ("mode", "fork", "process")),
    ],
)
def test_bad_workloads_are_refused_when_they_are_made(
    make: Callable[[], Any], parts: tuple[str, ...]
) -> None:
    with pytest.raises(ValueError) as error:
        make()
    assert all(part in str(error.value) for part in parts), str(error.value)


@pytest.mark.parametrize(
    ("change", "parts"),
    [
        ({"machine": "arm64-dual-quad"}, ("machine", "arm64-dual-quad")),
        ({"kernel": "v5.6"}, ("kernel", "v5.6")),
        ({"work": {"groups": 4}}, ("work", "groups")),
        ({"threads": 0}, ("threads", "0", "from 1")),
        ({"threads": 10**9}, ("threads", "1000000000", "to 1024")),
        ({"threads": 1.5}, ("threads", "1.5", "integer")),
        ({"progress": 3}, ("progress", "3")),
        ({"work": sl.Hackbench(groups=10**6)}, ("groups", "1000000")),
    ],
)
def test_bad_arguments_are_refused_before_anything_runs(
    dual_quad: sl.Machine, change: dict[str, Any], parts: tuple[str, ...]
) -> None:
    arguments = {"machine": dual_quad, "kernel": sl.Kernel("v5.6"), "work": SMALL, "seeds": 1, **change}
    with pytest.raises(ValueError) as error:
        sl.simulate(**arguments)
    assert all(part in str(error.value) for part in parts), str(error.value)


@pytest.mark.parametrize(
    ("tunables", "features", "parts"),
    [
        ({"pelt_half_life_ms": 0}, {}, ("pelt_half_life_ms", "0", "1 to 1024")),
        ({"pelt_half_life_ms": 1025}, {}, ("pelt_half_life_ms", "1025", "1 to 1024")),
        ({"hz": 251}, {}, ("hz", "251")),
        ({"hertz": 250}, {}, ("hertz", "hz")),
        ({}, {"START_DEBT": False}, ("START_DEBT", "START_DEBIT")),
    ],
)
def test_bad_settings_of_a_kernel_are_refused_before_anything_runs(
    dual_quad: sl.Machine, tunables: dict[str, int], features: dict[str, bool], parts: tuple[str, ...]
) -> None:
    with pytest.raises(ValueError) as error:
        kernel = sl.Kernel("v5.6").with_tunables(**tunables).with_features(**features)
        sl.simulate(dual_quad, kernel, SMALL)
    assert all(part in str(error.value) for part in parts), str(error.value)


def test_progress_reaches_the_number_of_seeds(dual_quad: sl.Machine) -> None:
    seen: list[int] = []
    sl.simulate(dual_quad, sl.Kernel("v5.6"), SMALL, seeds=40, progress=seen.append)
    assert seen == sorted(seen)
    assert seen[-1] == 40


def test_a_bar_is_drawn_when_asked_for(dual_quad: sl.Machine, capsys: pytest.CaptureFixture[str]) -> None:
    work = sl.Hackbench(groups=2, loops=200)
    sl.simulate(dual_quad, sl.Kernel("v5.6"), work, seeds=2, progress=False)
    assert capsys.readouterr().err == ""
    sl.simulate(dual_quad, sl.Kernel("v5.6"), work, seeds=2, progress=True)


def test_ctrl_c_stops_a_long_simulation(dual_quad: sl.Machine) -> None:
    def interrupt(number: int, frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGALRM, interrupt)
    signal.setitimer(signal.ITIMER_REAL, 0.5)
    start = time.perf_counter()
    try:
        with pytest.raises(KeyboardInterrupt):
            sl.simulate(dual_quad, sl.Kernel("v5.6"), sl.Hackbench(groups=8, loops=2000), seeds=500)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    assert time.perf_counter() - start < 20
    assert len(sl.simulate(dual_quad, sl.Kernel("v5.6"), SMALL, seeds=3)) == 3


def test_other_threads_run_meanwhile(dual_quad: sl.Machine) -> None:
    ticks, stop = [0], threading.Event()

    def tick() -> None:
        while not stop.wait(0.002):
            ticks[0] += 1

    thread = threading.Thread(target=tick)
    thread.start()
    try:
        before = ticks[0]
        runs = sl.simulate(dual_quad, sl.Kernel("v5.6"), sl.Hackbench(groups=4, loops=100), 20, threads=1)
        after = ticks[0]
    finally:
        stop.set()
        thread.join()
    assert after - before >= min(20, runs.wall_s / 0.05), f"{after - before} ticks in {runs.wall_s} s"


def test_seeds_of_a_set_run_in_order(dual_quad: sl.Machine) -> None:
    assert sl.simulate(dual_quad, sl.Kernel("v5.7"), SMALL, seeds={9, 2, 5}).seeds == [2, 5, 9]


@pytest.mark.parametrize("patches", [None, True, 3])
def test_patches_must_be_names(patches: object) -> None:
    with pytest.raises(ValueError, match=r"patches = .*: must be a sequence of names"):
        sl.Kernel("v5.7", patches=patches)  # type: ignore[arg-type]


@pytest.mark.parametrize("field", ["tunables", "features", "slots"])
def test_settings_must_be_mappings(field: str) -> None:
    for value in ([], None, {1: 2}):
        with pytest.raises(ValueError, match=f"{field} = .*: must be a mapping"):
            sl.Kernel("v5.7", **{field: value})  # type: ignore[arg-type]
