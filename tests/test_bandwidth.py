"""Quotas, idleness and CPUs of task groups, SCHED_IDLE and autogroup, as a user meets them."""

import numpy as np
import pytest

import schedlab as sl
from schedlab.tasks import Task

ONE = sl.Machine.synthetic("l3:1 core:1 pu:1")
FOUR = sl.Machine.synthetic("l3:1 core:4 pu:1")
KERNELS = ("v5.4", "v5.5", "v5.6", "v5.7", "v5.10", "v6.12")


def simulate(
    kernel: str, tasks: list[Task], *groups: sl.TaskGroup, machine: sl.Machine = ONE, ms: int = 10_000
) -> sl.Runs:
    work = sl.Workload(tasks, duration_ms=ms, groups=groups)
    return sl.simulate(machine, sl.Kernel(kernel), work, progress=False)


@pytest.mark.parametrize("kernel", KERNELS)
def test_a_group_gets_its_quota_and_cpu_stat_says_so(kernel: str) -> None:
    half = sl.TaskGroup("half", quota_us=50_000)
    stat = simulate(kernel, [sl.CpuHog(group="half"), sl.CpuHog(group="rest")], half).cpu_stat(0)
    # Of 100 periods one may begin before the clock, and one end after it.
    assert stat.usage_s["half"] == pytest.approx(5.0, abs=0.06)
    assert stat.usage_s["rest"] == pytest.approx(5.0, abs=0.06)
    assert stat.nr_throttled["rest"] == stat.nr_periods["rest"] == 0
    # Beside another hog it needs all its time for its half, and may be throttled or not; alone it always is.
    alone = simulate(kernel, [sl.CpuHog(group="half")], half).cpu_stat(0)
    assert 99 <= alone.nr_throttled["half"] <= 101
    assert alone.throttled_s["half"] == pytest.approx(5.0, abs=0.06)


def test_a_quota_of_two_cpus_is_had_by_four_hogs() -> None:
    for kernel in KERNELS:
        two = sl.TaskGroup("two", quota_us=200_000)
        runs = simulate(kernel, [sl.CpuHog(n=4, group="two")], two, machine=FOUR)
        assert runs.cpu_stat(0).usage_s["two"] == pytest.approx(20.0, abs=0.25)
        assert float(runs.metrics.idle_s[0]) == pytest.approx(20.0, abs=0.25)


def test_a_shorter_period_makes_shorter_waits() -> None:
    def throttled_s(period_us: int) -> float:
        # Half a CPU both times; a task that needs 40 ms at once waits for the next period, or does not.
        group = sl.TaskGroup("g", quota_us=period_us // 2, period_us=period_us)
        task = sl.Periodic(run_us=40_000, sleep_us=200_000, group="g")
        return float(simulate("v6.12", [task], group).cpu_stat(0).throttled_s["g"])

    assert throttled_s(10_000) > throttled_s(100_000), "40 ms fit into 50 ms, and not into 5 ms"


@pytest.mark.parametrize(("kernel", "group"), [*((kernel, None) for kernel in KERNELS), ("v6.12", "idle")])
def test_a_woken_task_goes_to_a_cpu_that_runs_sched_idle_tasks_only(kernel: str, group: str | None) -> None:
    # Every CPU is busy: one with normal work, three with SCHED_IDLE tasks, or with those of an idle group.
    policy = "idle" if group is None else "normal"
    groups = [] if group is None else [sl.TaskGroup(group, idle=True)]
    tasks = [
        *(sl.CpuHog(policy=policy, group=group, mask=(cpu,)) for cpu in (1, 2, 3)),
        sl.CpuHog(mask=(0,)),
        sl.Periodic(run_us=1000, sleep_us=3000),
    ]
    log = simulate(kernel, tasks, *groups, machine=FOUR, ms=1000).wakeup_log(0)
    woken = log[(log.task == 5) & (log.kind == "wakeup") & (log.time_s > 0.4)]
    assert len(woken) > 200
    assert (woken.cpu != 0).all()
    assert set(woken.rule) <= {"target_idle", "prev_idle", "recent_used", "idle_cpu"}


def test_sched_idle_tasks_get_what_is_left_over() -> None:
    for kernel in KERNELS:
        tasks = [
            sl.CpuHog(policy="idle", n=2, group="idle"),
            sl.Periodic(run_us=3000, sleep_us=1000, group="busy"),
        ]
        stat = simulate(kernel, tasks, machine=ONE).cpu_stat(0)
        assert stat.usage_s.sum() == pytest.approx(10.0, abs=0.05)
        # Groups of equal shares: policy says nothing beyond the group before cpu.idle.
        assert stat.usage_s["idle"] > 2.3
    idle = sl.TaskGroup("idle", idle=True)
    stat = simulate("v6.12", tasks, idle).cpu_stat(0)
    assert stat.usage_s["busy"] == pytest.approx(7.5, abs=0.15), "nobody takes its CPU"


def test_sessions_share_the_machine_under_autogroup_only() -> None:
    work = sl.Workload([sl.CpuHog(n=9, session="make"), sl.CpuHog(session="player")], duration_ms=4000)
    on = sl.Kernel("v5.10").with_tunables(autogroup=True)
    stat = sl.simulate(ONE, on, work, progress=False).cpu_stat(0)
    assert list(stat.index) == ["/autogroup-make", "/autogroup-player"]
    assert stat.usage_s["/autogroup-player"] == pytest.approx(2.0, abs=0.05)
    off = sl.simulate(ONE, sl.Kernel("v5.10"), work, progress=False)
    assert off.cpu_stat(0).empty


def test_a_groups_cpus_bind_its_tasks_and_may_change() -> None:
    groups = (sl.TaskGroup("a", cpus=(0, 1), release=(500_000, (3,))), sl.TaskGroup("b", parent="a"))
    tasks = [sl.CpuHog(n=2, group="b"), sl.CpuHog(group="b", mask=(1, 2))]
    runs = simulate("v6.12", tasks, *groups, machine=FOUR, ms=1000)
    busy_ns = np.array(
        [int(line.split()[7]) for line in runs.schedstat(0).splitlines() if line.startswith("cpu")]
    )
    assert busy_ns[0] + busy_ns[1] == pytest.approx(1.0e9, rel=0.1)
    assert busy_ns[3] == pytest.approx(0.5e9, rel=0.1)
    # The controller's forks alone.
    assert busy_ns[2] < 0.1e9


def test_limits_survive_json_and_what_is_not_set_is_not_in_it() -> None:
    groups = (
        sl.TaskGroup("a", quota_us=5_000, period_us=20_000, burst_us=1000, idle=True),
        sl.TaskGroup("b", parent="a", cpus=(0, 2), release=(7, (1,))),
    )
    tasks = [sl.CpuHog(group="b", policy="idle"), sl.CpuHog(session="s")]
    scenario = sl.Scenario(FOUR, sl.Kernel("v6.12"), sl.Workload(tasks, groups=groups))
    scenario.validate()
    assert sl.Scenario.from_json(scenario.to_json()).work == scenario.work
    plain = sl.Workload([sl.CpuHog(group="a")], groups=(sl.TaskGroup("a"),)).to_dict()
    assert plain["groups"] == [{"name": "a", "shares": 1024, "parent": None}]
    assert not {"policy", "session"} & set(plain["tasks"][0])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"quota_us": 999}, "quota_us = 999: must be an integer from 1000 to 17592186044415"),
        ({"quota_us": 1.5}, "quota_us = 1.5"),
        ({"period_us": 1_000_001}, "period_us = 1000001: must be an integer from 1000 to 1000000"),
        ({"burst_us": -1}, "burst_us = -1"),
        ({"idle": 1}, "idle = 1: must be True or False"),
        ({"cpus": ()}, "cpus = .*: must hold at least one CPU"),
        ({"cpus": "01"}, "cpus = '01': must be CPU numbers"),
        ({"release": 5}, "release = 5: must be a time in us and the CPUs from then on"),
    ],
)
def test_bad_limits_are_told(arguments: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        sl.TaskGroup("a", **arguments)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("kernel", "group", "message"),
    [
        ("v5.10", sl.TaskGroup("a", idle=True), r"groups\[0\].idle = true: v5.10 has no idle groups"),
        ("v5.10", sl.TaskGroup("a", quota_us=2000, burst_us=1), r"burst_us = 1: v5.10 saves up no quota"),
        ("v6.12", sl.TaskGroup("a", quota_us=2000, burst_us=2001), "burst_us = 2001: must be at most 2000"),
        ("v6.12", sl.TaskGroup("a", cpus=(4,)), "cpus = .*: must hold an online CPU"),
        ("v6.12", sl.TaskGroup("a", idle=True, shares=5), "shares = 5: must not be set of an idle group"),
    ],
)
def test_what_kernel_and_machine_do_not_have_is_refused(
    kernel: str, group: sl.TaskGroup, message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        simulate(kernel, [sl.CpuHog(group="a")], group, machine=FOUR)


def test_bad_policies_and_sessions_are_told() -> None:
    with pytest.raises(ValueError, match="policy = 'batch'"):
        sl.CpuHog(policy="batch")
    with pytest.raises(ValueError, match="session = '': must be the name of a session"):
        sl.CpuHog(session="")
    with pytest.raises(ValueError, match=r"tunables.cfs_bandwidth_slice_us = 0: is 1 to 1000000 us"):
        kernel = sl.Kernel("v6.12").with_tunables(cfs_bandwidth_slice_us=0)
        sl.simulate(ONE, kernel, sl.Workload([sl.CpuHog()]), progress=False)
