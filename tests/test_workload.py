"""Loads of the user's own: what they are made of, and what the machine makes of them."""

from typing import Any

import numpy as np
import pytest

import schedlab as sl

FOUR = sl.Machine.synthetic("l3:1 core:4 pu:1")


def test_hogs_fill_the_cpus_and_share_them() -> None:
    work = sl.Workload([sl.CpuHog(n=5, jitter_us=20_000)], duration_ms=2000)
    runs = sl.simulate(FOUR, sl.Kernel("v5.7"), work, seeds=3, progress=False)
    assert np.allclose(runs.metrics.time_s, 2.0)
    # Late starts leave CPUs idle for at most the jitter; then five tasks keep four CPUs busy.
    assert (runs.metrics.idle_s < 4 * 0.020 + 0.001).all()
    assert (runs.metrics.migrations_busy > 0).all(), "the fifth task goes round"


def test_bound_hogs_spread_once_they_may() -> None:
    bound = sl.CpuHog(n=4, mask=(0,), release=(500_000, (0, 1, 2, 3)))
    runs = sl.simulate(
        FOUR, sl.Kernel("v5.7"), sl.Workload([bound], duration_ms=2000), seeds=3, progress=False
    )
    # Three CPUs idle for half a second, then until balancing, whose interval had grown, finds the tasks.
    assert (runs.metrics.idle_s > 3 * 0.5).all()
    assert (runs.metrics.idle_s < 3 * 0.5 + 3 * 0.6).all()
    still_bound = sl.CpuHog(n=4, mask=(0,))
    runs = sl.simulate(
        FOUR, sl.Kernel("v5.7"), sl.Workload([still_bound], duration_ms=2000), seeds=3, progress=False
    )
    assert np.allclose(runs.metrics.idle_s, 3 * 2.0, atol=0.01)


def test_periodic_tasks_leave_the_rest_idle() -> None:
    work = sl.Workload([sl.Periodic(n=4, run_us=2000, sleep_us=8000)], duration_ms=2000)
    runs = sl.simulate(FOUR, sl.Kernel("v5.7"), work, seeds=2, progress=False)
    assert np.allclose(runs.metrics.idle_s / (4 * 2.0), 0.8, atol=0.01)
    assert np.allclose(runs.metrics.wakeups, 4 * 200, rtol=0.02)


def test_a_barrier_goes_at_the_pace_of_its_slowest() -> None:
    for wait in ("spin", "futex"):
        work = sl.Workload([sl.Barrier(n=4, run_us=1000, imbalance_pct=50, wait=wait)], duration_ms=1000)
        rounds = sl.simulate(FOUR, sl.Kernel("v5.7"), work, seeds=2, progress=False).metrics.rounds
        # The mean of the largest of four draws from 0.5 to 1.5 ms is 1.3 ms.
        assert ((rounds > 650) & (rounds < 800)).all(), (wait, rounds.values)


def test_pairs_and_forks_run() -> None:
    work = sl.Workload([sl.PingPong(n=2, run_us=100), sl.ForkStorm(n=20, run_us=3000, gap_us=500)])
    metrics = sl.simulate(FOUR, sl.Kernel("v5.7"), work, seeds=2, progress=False).metrics
    assert (metrics.messages > 5000).all()
    assert (metrics.forks == 4 + 1 + 20).all(), "two pairs, a parent and its children"


def test_a_workload_survives_json() -> None:
    work = sl.Workload(
        [
            sl.CpuHog(n=2, nice=5, mask=(0, 1), release=(10, (2,))),
            sl.Barrier(n=3, run_us=10, wait="spin"),
            sl.ForkStorm(n=4, run_us=7),
        ],
        duration_ms=50,
    )
    scenario = sl.Scenario(FOUR, sl.Kernel("v5.7"), work)
    assert sl.Scenario.from_json(scenario.to_json()).work == work
    scenario.validate()


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: sl.Workload([]), r"tasks = \[\]: must have at least one task"),
        (lambda: sl.Workload(["hog"]), "tasks = 'hog': must be CpuHog"),  # type: ignore[list-item]
        (lambda: sl.Workload([sl.CpuHog()], duration_ms=0), "duration_ms = 0"),
        (lambda: sl.CpuHog(n=0), "n = 0: must be an integer of at least 1"),
        (lambda: sl.CpuHog(nice=20), "nice = 20: must be an integer from -20 to 19"),
        (lambda: sl.CpuHog(mask=()), r"mask = \[\]: must hold at least one CPU"),
        (lambda: sl.Periodic(run_us=0, sleep_us=1), "run_us = 0"),
        (lambda: sl.Barrier(run_us=1, wait="yield"), "wait = 'yield': must be one of spin, futex"),
    ],
)
def test_bad_tasks_are_told(make: object, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        make()  # type: ignore[operator]


def test_affinity_to_no_cpu_of_the_machine_is_told() -> None:
    work = sl.Workload([sl.CpuHog(mask=(7,))])
    with pytest.raises(ValueError, match=r"tasks\[0\]\.mask = \[7\]: must hold an online CPU"):
        sl.simulate(FOUR, sl.Kernel("v5.7"), work, progress=False)


def test_misspelt_fields_are_told() -> None:
    scenario = sl.Scenario(FOUR, sl.Kernel("v5.7"), sl.Workload([sl.CpuHog()])).to_json()
    with pytest.raises(ValueError, match="jiter_us"):
        sl.Scenario.from_json(scenario.replace("jitter_us", "jiter_us"))


def test_tbench_counts_the_data_of_requests_that_were_answered(dual_quad: sl.Machine) -> None:
    runs = sl.simulate(dual_quad, sl.Kernel("v6.12"), sl.Tbench(4, duration_s=0.2, warmup_s=0.1), seeds=2)
    metrics = runs.metrics
    assert (metrics.time_s == 0.2).all()
    # 23 operations in 64 move 18 KiB, and an operation is two messages.
    expected = metrics.messages / 2 * 23 / 64 * 18 * 1024 / 0.2 / 1e6
    assert np.allclose(metrics.throughput, expected) and metrics.throughput.attrs["units"] == "MB/s"
    alone = sl.simulate(dual_quad, sl.Kernel("v6.12"), sl.Tbench(1, duration_s=0.2), seeds=2).metrics
    assert np.allclose(metrics.throughput, 4 * alone.throughput, rtol=0.02), "eight CPUs have room for all"
    full = sl.simulate(dual_quad, sl.Kernel("v6.12"), sl.Tbench(64, duration_s=0.2), seeds=2).metrics
    assert (full.idle_s < 0.01).all() and (full.throughput > metrics.throughput).all()


def test_tbench_survives_json(dual_quad: sl.Machine) -> None:
    for work in (sl.Tbench(3), sl.Tbench(2, duration_s=0.25, warmup_s=0, cgroup=True)):
        scenario = sl.Scenario(dual_quad, sl.Kernel("v6.12"), work)
        scenario.validate()
        assert sl.Scenario.from_json(scenario.to_json()).work == work
    assert sl.Tbench(8, duration_s=2).label == "tbench 8 -t 2" and sl.Tbench(8).tasks == 16


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"clients": 0}, "clients = 0"),
        ({"clients": 1, "duration_s": 0}, "duration_s = 0: must be a number of seconds from 0.001 to 3600"),
        ({"clients": 1, "duration_s": "1"}, "duration_s = '1'"),
        ({"clients": 1, "warmup_s": -1}, "warmup_s = -1"),
        ({"clients": 1, "cgroup": 1}, "cgroup = 1: must be true or false"),
    ],
)
def test_bad_tbench_is_refused(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        sl.Tbench(**arguments)
