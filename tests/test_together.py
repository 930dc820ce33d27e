"""Several workloads on one machine: the first is measured, the others run beside it."""

from __future__ import annotations

import pytest

import schedlab as sl
from common import SMALL

HOGS = sl.Workload([sl.CpuHog(n=4)])


def metrics(machine: sl.Machine, work: sl.Hackbench | sl.Together | sl.Kernbench, seeds: int = 3) -> bytes:
    """The bytes of all metrics."""
    return sl.simulate(machine, sl.Kernel("v5.7"), work, seeds=seeds).to_pandas().to_csv().encode()


def test_alone_it_is_the_workload_itself(dual_quad: sl.Machine) -> None:
    assert metrics(dual_quad, sl.Together(SMALL)) == metrics(dual_quad, SMALL)


def test_groups_share_the_cpu(dual_quad: sl.Machine) -> None:
    """One hog beside three on one CPU has half of it in a group of its own."""
    one, three = (sl.Workload([sl.CpuHog(n=n, mask=(3,))], duration_ms=2000) for n in (1, 3))
    work = sl.Together(one, three, cgroups="separate")
    runs = sl.simulate(dual_quad, sl.Kernel("v5.7"), work, seeds=2)
    for seed in (0, 1):
        usage_s = runs.cpu_stat(seed)["usage_s"]
        assert list(usage_s.index) == ["1", "2"]
        assert usage_s.to_numpy() == pytest.approx(1.0, abs=0.02)


def test_only_the_first_is_measured(dual_quad: sl.Machine) -> None:
    runs = sl.simulate(dual_quad, sl.Kernel("v5.7"), sl.Together(SMALL, sl.Hackbench(loops=200)), seeds=2)
    assert (runs.metrics.messages == SMALL.messages).all()
    assert (runs.metrics.throughput == SMALL.messages / runs.metrics.time_s).all()


def test_the_first_runs_slower_beside_another(dual_quad: sl.Machine) -> None:
    """The groups of four hackbenches at once wake their herds on different CPUs at the same time."""
    kernel, long = sl.Kernel("v5.7"), sl.Hackbench(groups=2, loops=200)
    alone = sl.simulate(dual_quad, kernel, long, seeds=2).metrics.time_s.mean()
    beside = sl.simulate(
        dual_quad, kernel, sl.Together(long, long, long, long), seeds=2
    ).metrics.time_s.mean()
    assert beside > 2 * alone


def test_accounts_are_of_the_first_alone(dual_quad: sl.Machine) -> None:
    """Hogs that started before the clock and run on behind it are in neither user nor system time."""
    kernel, build = sl.Kernel("v5.7"), sl.Kernbench(jobs=4, files=10)
    alone = sl.simulate(dual_quad, kernel, build, seeds=2).metrics
    beside = sl.simulate(dual_quad, kernel, sl.Together(build, HOGS), seeds=2).metrics
    assert (beside.user_s == alone.user_s).all()
    assert beside.system_s.to_numpy() == pytest.approx(alone.system_s.to_numpy(), rel=0.03)


def test_lu_is_counted_by_node_beside_hackbench(dual_quad: sl.Machine) -> None:
    lu = sl.LuOmp(4, "A", steps=2, sample_s=0.01)
    work = sl.Together(lu, sl.Hackbench(groups=4, loops=1000), cgroups="separate")
    counts = sl.simulate(dual_quad, sl.Kernel("v6.12"), work, seeds=1).node_counts()
    assert counts["samples"].item() > 5
    assert counts["node0"].item() == 4


@pytest.mark.parametrize("kernel", ["v2.6.15", "v5.4", "v6.12"])
def test_same_bytes_whatever_the_threads(dual_quad: sl.Machine, kernel: str) -> None:
    work = sl.Together(SMALL, HOGS, sl.Tbench(2), sl.Kernbench(jobs=2, files=5))
    one, two = (
        sl.simulate(dual_quad, sl.Kernel(kernel), work, seeds=3, threads=threads).to_pandas()
        for threads in (1, 2)
    )
    assert one.equals(two)


def test_json_round_trip(dual_quad: sl.Machine) -> None:
    work = sl.Together(sl.Tbench(2), sl.LuOmp(2, hogs=1), HOGS, sl.Kernbench(nice=5), cgroups="separate")
    scenario = sl.Scenario(dual_quad, sl.Kernel("v5.7"), work)
    assert sl.Scenario.from_json(scenario.to_json()).work == work


@pytest.mark.parametrize(
    ("kernel", "work", "message"),
    [
        ("v2.6.15", sl.Together(SMALL, cgroups="separate"), r"cgroups = .* has no task groups"),
        ("v2.6.15", sl.Together(SMALL, sl.Tbench(1, cgroup=True)), r"parts\[1\]\.cgroup = .* no task groups"),
        ("v5.7", sl.Together(SMALL, sl.Hackbench(groups=10**8)), r"parts\[1\]\.groups = 100000000"),
        (
            "v5.7",
            sl.Together(
                SMALL, sl.Workload([sl.CpuHog()], hotplug=[sl.Hotplug(at_us=1, cpu=1, online=False)])
            ),
            r"parts\[1\]\.hotplug .* in the first one",
        ),
    ],
)
def test_the_error_names_the_workload(
    dual_quad: sl.Machine, kernel: str, work: sl.Together, message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        sl.simulate(dual_quad, sl.Kernel(kernel), work)


def test_bad_arguments_are_refused() -> None:
    with pytest.raises(ValueError, match=r"works = \(\): must be at least one"):
        sl.Together()
    with pytest.raises(ValueError, match=r"works\[1\] = .*must be a schedlab.Hackbench"):
        sl.Together(SMALL, sl.Together(SMALL))  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="cgroups = 'shared'"):
        sl.Together(SMALL, cgroups="shared")
