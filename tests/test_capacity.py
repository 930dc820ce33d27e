"""CPUs that differ, that others take a part of, or that come and go, as a user sets them up."""

from __future__ import annotations

import json

import pytest

import schedlab as sl


def big_little() -> sl.Machine:
    """Four small CPUs and four big ones, each kind with a cache of its own."""
    half = [0] * 4 + [1] * 4
    return sl.Machine(
        8, name="big-little", arch="arm64", cluster=half, llc=half, capacity=[446] * 4 + [1024] * 4
    )


def busy_ms(runs: sl.Runs, seed: int = 0) -> list[int]:
    """Time that each CPU was busy until its last switch, from /proc/schedstat, ms."""
    lines = [line.split() for line in runs.schedstat(seed).splitlines() if line.startswith("cpu")]
    return [int(fields[7]) // 1_000_000 for fields in lines]


def simulate(machine: sl.Machine, kernel: str, *tasks: sl.tasks.Task, **more: object) -> sl.Runs:
    """One run of some tasks."""
    return sl.simulate(machine, sl.Kernel(kernel), sl.Workload(tasks, **more), seeds=[0])


@pytest.mark.parametrize("kernel", ["v5.4", "v5.5", "v5.7", "v6.12"])
def test_a_hog_that_starts_on_a_little_cpu_goes_to_a_big_one(kernel: str) -> None:
    hog = sl.Periodic(run_us=20_000, sleep_us=100, mask=(0,), release=(100_000, tuple(range(8))))
    runs = simulate(big_little(), kernel, hog, duration_ms=1000)
    assert sum(busy_ms(runs)[4:]) > 800
    assert runs.metrics.migrations_active.item() == 1


def test_a_cpu_that_is_off_does_nothing_and_its_tasks_go_on_elsewhere() -> None:
    machine = sl.Machine(8, name="eight")
    off_for_two_seconds = (
        sl.Hotplug(at_us=1_000_000, cpu=3, online=False),
        sl.Hotplug(at_us=3_000_000, cpu=3, online=True),
    )
    runs = simulate(machine, "v5.7", sl.CpuHog(n=24), duration_ms=4000, hotplug=off_for_two_seconds)
    busy = busy_ms(runs)
    # It is on for 2 s of 4, and the others never rest; forking takes a few ms before the clock starts.
    assert 1_850 <= busy[3] <= 2_020
    assert all(time > 3_900 for cpu, time in enumerate(busy) if cpu != 3)
    assert runs.metrics.migrations_hotplug.item() >= 1
    again = sl.simulate(machine, sl.Kernel("v5.7"), runs.scenario.work, seeds=2, threads=2)
    assert again.schedstat(0) == runs.schedstat(0)


def test_real_time_tasks_leave_the_rest_to_fair_ones() -> None:
    machine = sl.Machine(2, name="two")
    half = sl.Periodic(run_us=5_000, sleep_us=5_000, mask=(0,), policy="fifo", priority=50)
    alone = simulate(machine, "v6.12", half, duration_ms=1000)
    assert abs(busy_ms(alone)[0] - 500) <= 25
    # Three hogs on a CPU and a half: each CPU is busy throughout, and the real-time task still has its half.
    crowded = simulate(machine, "v6.12", half, sl.CpuHog(n=3), duration_ms=1000)
    assert all(time >= 990 for time in busy_ms(crowded))


def test_a_boosted_task_is_placed_on_a_big_cpu() -> None:
    def on_big(uclamp_min: int) -> int:
        task = sl.Periodic(
            run_us=200, sleep_us=5_000, mask=(0,), release=(50_000, tuple(range(8))), uclamp_min=uclamp_min
        )
        return sum(busy_ms(simulate(big_little(), "v6.12", task))[4:])

    assert on_big(1024) > 25
    assert on_big(0) < 5


def test_threads_of_a_core_are_packed_on_the_preferred_one() -> None:
    core = sl.Machine(4, arch="powerpc", core=[0] * 4, asym_priority=[0, -1, -2, -3])
    hog = sl.Periodic(run_us=20_000, sleep_us=100, mask=(3,), release=(100_000, (0, 1, 2, 3)))
    assert busy_ms(simulate(core, "v5.7", hog))[0] > 800


def test_children_that_execute_another_program_are_placed_a_second_time() -> None:
    storm = sl.ForkStorm(n=20, run_us=5_000, execs=True)
    log = simulate(big_little(), "v5.7", storm).wakeup_log(0)
    assert (log.kind == "exec").sum() == 20
    assert (log.kind == "fork").sum() == 21


def test_kernel_threads_stay_where_they_are_bound() -> None:
    runs = simulate(sl.Machine(4), "v6.12", sl.Periodic(run_us=900, sleep_us=100, mask=(2,), kthread=True))
    busy = busy_ms(runs)
    assert busy[2] > 850
    assert busy[0] + busy[1] + busy[3] < 50


def test_a_workload_survives_json_and_says_no_more_than_it_must() -> None:
    work = sl.Workload(
        [
            sl.CpuHog(uclamp_min=3, uclamp_max=700),
            sl.Periodic(run_us=1, sleep_us=1, mask=(1,), policy="fifo", priority=9),
            sl.ForkStorm(run_us=5, execs=True),
            sl.CpuHog(mask=(1,), kthread=True),
        ],
        hotplug=[sl.Hotplug(at_us=7, cpu=2, online=False)],
    )
    assert sl.Workload.from_dict(json.loads(json.dumps(work.to_dict()))) == work
    plain = sl.Workload([sl.CpuHog(), sl.ForkStorm(run_us=5)]).to_dict()
    words = {"policy", "priority", "uclamp_min", "uclamp_max", "kthread", "execs", "hotplug"}
    assert not words & (set(plain) | set(plain["tasks"][0]) | set(plain["tasks"][1]))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"uclamp_min": 1025}, "uclamp_min = 1025: must be an integer from 0 to 1024"),
        ({"uclamp_min": 9, "uclamp_max": 8}, "uclamp_min = 9: must be at most uclamp_max (8)"),
        ({"policy": "rr"}, "policy = 'rr': must be one of normal, idle, fifo"),
        ({"policy": "fifo"}, "priority = 0: must be an integer from 1 to 99"),
        ({"priority": 5}, "priority = 5: must be an integer from 0 to 0"),
        ({"kthread": 1}, "kthread = 1: must be True or False"),
    ],
)
def test_a_bad_attribute_is_named_with_its_rule(arguments: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError) as error:
        sl.CpuHog(**arguments)
    assert str(error.value).startswith(message)


@pytest.mark.parametrize(
    ("work", "message"),
    [
        (sl.Workload([sl.CpuHog(kthread=True)]), "tasks[0].mask = None: must be one CPU"),
        (
            sl.Workload([sl.CpuHog(policy="fifo", priority=1, mask=(0, 1))]),
            "tasks[0].mask = [0, 1]: must be one CPU",
        ),
        (
            sl.Workload([sl.CpuHog()], hotplug=[sl.Hotplug(at_us=0, cpu=4, online=False)]),
            "hotplug[0].cpu = 4: custom has CPUs 0 to 3",
        ),
        (
            sl.Workload([sl.CpuHog()], hotplug=[sl.Hotplug(at_us=0, cpu=c, online=False) for c in range(4)]),
            "hotplug[3].cpu = 3: is the last one",
        ),
        (
            sl.Workload([sl.CpuHog()], hotplug=[sl.Hotplug(at_us=0, cpu=1, online=True)]),
            "hotplug[0].cpu = 1: must be off before it comes back",
        ),
    ],
)
def test_what_the_machine_cannot_do_is_refused_before_anything_runs(work: sl.Workload, message: str) -> None:
    with pytest.raises(ValueError) as error:
        sl.simulate(sl.Machine(4), sl.Kernel("v5.7"), work, seeds=1)
    assert str(error.value).startswith(message)
