"""Task groups: what a group gets, what a balancer sees of its tasks, and hierarchies that are none."""

import numpy as np
import pytest

import schedlab as sl

FOUR = sl.Machine.synthetic("l3:1 core:4 pu:1")


def grouped_threads(grouped: bool) -> sl.Workload:
    """156 threads of a parallel program and two hogs, as in lu.C of 2019, in three groups or none."""
    names = ("lu", "hog1", "hog2") if grouped else (None, None, None)
    threads = sl.ForkStorm(n=156, run_us=60_000_000, start_us=50_000, gap_us=1000, group=names[0])
    return sl.Workload([threads, sl.CpuHog(group=names[1]), sl.CpuHog(group=names[2])], duration_ms=4000)


def test_only_v5_4_leaves_nodes_idle_for_the_sake_of_a_group_with_one_task() -> None:
    # The load of a hog alone in its group is that of all 156 threads together: by average load its node looks
    # full. From v5.5 on, a group of CPUs with idle ones is seen for what it is.
    machine = sl.Machine.named("xeon-e7-8node-160")
    waits = {
        (kernel, grouped): sl.simulate(
            machine, sl.Kernel(kernel), grouped_threads(grouped), seeds=3, progress=False
        ).metrics.idle_while_overloaded_s.values
        for kernel in ("v5.4", "v5.5", "v5.7", "v6.12")
        for grouped in (True, False)
    }
    # CPU seconds in four seconds of 160 CPUs.
    assert (waits["v5.4", True] > 100).all(), waits
    assert (waits["v5.4", False] < 10).all(), waits
    for kernel in ("v5.5", "v5.7", "v6.12"):
        assert (waits[kernel, True] < 0.1).all(), waits


@pytest.mark.parametrize("kernel", ["v5.4", "v5.7", "v6.12"])
def test_a_group_gets_its_shares_whatever_the_number_of_its_tasks(kernel: str) -> None:
    # A pair passes messages beside five hogs: what it gets shows what they leave to it.
    one_cpu = sl.Machine.synthetic("l3:1 core:1 pu:1")

    def share(groups: list[sl.TaskGroup], *names: str | None) -> float:
        hogs = [sl.CpuHog(n=4, group=names[0]), sl.CpuHog(group=names[1])]
        pair = sl.PingPong(run_us=1000)
        work = sl.Workload([*hogs, pair], duration_ms=4000, groups=tuple(groups))
        return float(sl.simulate(one_cpu, sl.Kernel(kernel), work, progress=False).metrics.messages[0])

    flat, one_group = share([], None, None), share([], "all", "all")
    heavy = share([sl.TaskGroup("all", 4096)], "all", "all")
    inside = share([sl.TaskGroup("all", 1024), sl.TaskGroup("some", 8, "all")], "some", "all")
    assert one_group > 2 * flat, "one group weighs like one task, not like five"
    assert heavy < 0.6 * one_group
    assert np.isclose(inside, one_group, rtol=0.05), "what is in a group is divided in it"


def test_groups_survive_json() -> None:
    groups = (sl.TaskGroup("b", parent="a"), sl.TaskGroup("a", shares=300))
    work = sl.Workload([sl.CpuHog(group="b"), sl.CpuHog(group="c")], duration_ms=50, groups=groups)
    scenario = sl.Scenario(FOUR, sl.Kernel("v5.7"), work)
    assert sl.Scenario.from_json(scenario.to_json()).work == work
    scenario.validate()


@pytest.mark.parametrize(
    ("groups", "message"),
    [
        ([sl.TaskGroup("a", parent="b")], "parent = 'b': must be a group of the workload"),
        (
            [sl.TaskGroup("a", parent="b"), sl.TaskGroup("b", parent="a")],
            "parent = '.': must not lead back to the group",
        ),
        ([sl.TaskGroup("a"), sl.TaskGroup("a")], "groups = 'a': must be the name of one group only"),
        (["a"], "groups = 'a': must be TaskGroup"),
    ],
)
def test_bad_hierarchies_are_told(groups: list[sl.TaskGroup], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        sl.Workload([sl.CpuHog()], groups=tuple(groups))


def test_bad_groups_are_told() -> None:
    for shares in (1, (1 << 18) + 1):
        with pytest.raises(ValueError, match=f"shares = {shares}: must be an integer from 2 to 262144"):
            sl.TaskGroup("a", shares=shares)
    with pytest.raises(ValueError, match="name = '': must be the name of a task group"):
        sl.TaskGroup("")
    with pytest.raises(ValueError, match="group = 3: must be the name of a task group"):
        sl.CpuHog(group=3)  # type: ignore[arg-type]


def test_misspelt_fields_of_groups_are_told() -> None:
    work = sl.Workload([sl.CpuHog()], groups=(sl.TaskGroup("a"),))
    scenario = sl.Scenario(FOUR, sl.Kernel("v5.7"), work).to_json()
    with pytest.raises(ValueError, match="share"):
        sl.Scenario.from_json(scenario.replace("shares", "share"))
