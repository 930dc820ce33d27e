"""Loads of the user's own: what they are made of, and what the machine makes of them."""

from typing import Any

import numpy as np
import pandas as pd
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


def test_lu_reports_what_npb_credits_and_its_threads_by_node() -> None:
    machine = sl.Machine.named("xeon-4node-80")
    work = sl.LuOmp(threads=12, problem_class="A", steps=2, hogs=1, cgroups="separate", sample_s=0.02)
    runs = sl.simulate(machine, sl.Kernel("v5.5"), work, seeds=2)
    # The arithmetic of NPB for class A, 64 points a side, two of its steps.
    mop = 2 * (1984.77 * 64**3 - 10923.3 * 64**2 + 27770.9 * 64 - 144010) / 1e6
    assert np.allclose(runs.metrics.throughput * runs.metrics.time_s, mop)
    assert runs.metrics.throughput.attrs["units"] == "Mop/s"
    counts = runs.node_counts()
    assert list(counts.columns) == ["samples", "node0", "node1", "node2", "node3"]
    assert (counts["samples"] >= 2).all()
    assert np.allclose(counts.drop(columns="samples").sum(axis=1), 12)
    pd.testing.assert_frame_equal(runs.node_counts(seed=1), counts.loc[[1]])
    alone = sl.simulate(machine, sl.Kernel("v5.5"), work, seeds=[1])
    pd.testing.assert_frame_equal(alone.node_counts(), counts.loc[[1]])


def test_lu_of_class_c_has_the_operations_of_the_mails() -> None:
    # 1564.63 Mop/s and 1303.18 s, 34036 Mop/s and 59.91 s: printed for lu.C.x in October 2019.
    assert sl.LuOmp(156).mop == pytest.approx(1564.63 * 1303.18, rel=1e-5)
    assert sl.LuOmp(156).mop == pytest.approx(34036 * 59.91, rel=1e-4)
    assert sl.LuOmp(156, steps=25).mop == pytest.approx(sl.LuOmp(156).mop / 10)


def test_a_run_too_short_for_a_count_has_no_means_by_node() -> None:
    work = sl.LuOmp(threads=2, problem_class="A", steps=1)
    counts = sl.simulate(FOUR, sl.Kernel("v5.5"), work, seeds=1).node_counts()
    assert counts["samples"].tolist() == [0] and counts["node0"].isna().all()


def test_only_lu_is_counted_by_node() -> None:
    runs = sl.simulate(FOUR, sl.Kernel("v5.5"), sl.Hackbench(groups=1, loops=1), seeds=1)
    with pytest.raises(ValueError, match="is not counted by node: must be a LuOmp"):
        runs.node_counts()


def test_burners_in_groups_of_their_own_push_the_old_balancer_to_leave_their_nodes() -> None:
    # By load a burner weighs as much as all threads together; the patch of October 2019 counts idle CPUs.
    machine = sl.Machine.named("xeon-4node-80")
    work = sl.LuOmp(threads=76, problem_class="B", steps=10, hogs=2, cgroups="separate", sample_s=0.1)
    base = sl.Kernel("v5.4").with_tunables(numa_balancing=False)
    means = [
        float(sl.simulate(machine, kernel, work, seeds=4).metrics.time_s.mean())
        for kernel in (base, base.with_patches("lb-rework-v4"))
    ]
    assert means[0] > 1.1 * means[1], means


def test_lu_survives_json() -> None:
    full = sl.LuOmp(threads=8, problem_class="B", hogs=2, cgroups="shared", steps=3, sample_s=0.25)
    for work in (sl.LuOmp(8), full):
        scenario = sl.Scenario(FOUR, sl.Kernel("v5.5"), work)
        scenario.validate()
        assert sl.Scenario.from_json(scenario.to_json()).work == work
    assert full.label == "lu.B.x 8 threads + 2 hogs, cgroups shared" and full.tasks == 10


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"threads": 0}, "threads = 0"),
        ({"threads": 4, "problem_class": "E"}, "problem_class = 'E': must be one of A, B, C, D"),
        ({"threads": 4, "cgroups": "seperate"}, "did you mean separate"),
        ({"threads": 4, "hogs": -1}, "hogs = -1"),
        ({"threads": 4, "steps": 0}, "steps = 0"),
        ({"threads": 4, "sample_s": 0}, "sample_s = 0: must be a number of seconds from 0.001 to 3600"),
    ],
)
def test_bad_lu_is_refused(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        sl.LuOmp(**arguments)


def test_lu_needs_a_row_for_each_thread() -> None:
    with pytest.raises(ValueError, match="threads = 161: must be 1 to 160, a row for each"):
        sl.simulate(FOUR, sl.Kernel("v5.5"), sl.LuOmp(161), seeds=1)


CELERON = sl.Machine.named("celeron-2cpu")


def test_kernbench_accounts_as_time_does() -> None:
    work = sl.Kernbench(jobs=8, files=20)
    runs = sl.simulate(CELERON, sl.Kernel("v2.6.15"), work, seeds=3)
    used_s = runs.metrics.user_s + runs.metrics.system_s
    assert np.allclose(runs.metrics.percent_cpu, 100 * used_s / runs.metrics.time_s)
    # A job is a shell, a driver, a compiler and an assembler; then the linker. Each CPU has a kernel thread.
    assert (runs.metrics.forks == 4 * 20 + 1 + CELERON.nr_cpus).all()
    # Nobody's CPU time is lost: what is not idle is somebody's, but for the CPUs' kernel threads.
    busy_s = CELERON.nr_cpus * runs.metrics.time_s - runs.metrics.idle_s
    assert (used_s <= busy_s + 1e-9).all() and (used_s > 0.98 * busy_s).all()
    assert (runs.metrics.voluntary_switches > 0).all() and (runs.metrics.involuntary_switches > 0).all()


def test_kernbench_runs_under_every_kernel_and_survives_json() -> None:
    work = sl.Kernbench(jobs=3, files=5, nice=10)
    for name in ("v2.6.15", "v5.4", "v5.7", "v6.12"):
        scenario = sl.Scenario(FOUR, sl.Kernel(name), work)
        assert sl.Scenario.from_json(scenario.to_json()).work == work
        runs = sl.simulate(FOUR, sl.Kernel(name), work, seeds=1)
        assert float(runs.metrics.time_s[0]) > 0.0, name


def test_the_repaired_smp_nice_takes_as_long_as_none() -> None:
    # January 2006: 1056.16 s with the repair and 1059.95 s without smp nice, 0.4 % apart.
    work = sl.Kernbench(jobs=8, files=100)
    base = sl.Kernel("v2.6.15")
    times = [
        float(sl.simulate(CELERON, kernel, work, seeds=4).metrics.time_s.mean())
        for kernel in (base, base.with_patches("prio-bias", "smpnice-weights"))
    ]
    assert times[1] == pytest.approx(times[0], rel=0.01)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"jobs": 0}, "jobs = 0"),
        ({"jobs": 2.5}, "jobs = 2.5"),
        ({"files": 0}, "files = 0"),
        ({"nice": 20}, "nice = 20"),
    ],
)
def test_bad_kernbench_is_refused(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        sl.simulate(CELERON, sl.Kernel("v2.6.15"), sl.Kernbench(**{"jobs": 2, "files": 3, **arguments}))
