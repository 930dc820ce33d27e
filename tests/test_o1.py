"""The O(1) scheduler and its smp nice patches, as their users run them."""

from __future__ import annotations

from collections.abc import Callable

import pytest

import schedlab as sl

PLAIN = sl.Kernel("v2.6.15")
PRIO_BIAS = PLAIN.with_patches("prio-bias")
SMPNICE = PRIO_BIAS.with_patches("smpnice-weights")


@pytest.fixture(scope="module")
def two_nodes() -> sl.Machine:
    """A node a CPU: between nodes no newidle balance helps a CPU that was left without work."""
    return sl.Machine.numa([[10, 20], [20, 10]], cpus_per_node=1, threads_per_core=1)


@pytest.fixture(scope="module")
def make_j8() -> sl.Workload:
    """Eight jobs that compile for 50 to 150 ms and then wait a little, half of them nice."""
    job = {"run_us": 100_000, "sleep_us": 10_000, "spread_pct": 50}
    return sl.Workload([sl.Periodic(n=4, **job), sl.Periodic(n=4, nice=5, **job)], duration_ms=10_000)


def test_prio_bias_idles_cpus_that_have_work_waiting_and_smpnice_weights_repairs_it(
    two_nodes: sl.Machine, make_j8: sl.Workload
) -> None:
    idle = {
        kernel.label: sl.simulate(two_nodes, kernel, make_j8, seeds=8).metrics.idle_while_overloaded_s
        for kernel in (PLAIN, PRIO_BIAS, SMPNICE)
    }
    plain, prio_bias, smpnice = idle.values()
    assert (prio_bias > 10 * smpnice).sum() >= 6 and prio_bias.mean() > 10 * smpnice.mean()
    # Where most tasks are of nice 0 the repair is as good as no smp nice.
    assert smpnice.mean() < 2 * plain.mean() < 0.02


def test_the_kernels_part_where_prio_bias_takes_a_task_for_twenty(
    two_nodes: sl.Machine, make_j8: sl.Workload
) -> None:
    # find_busiest_group(): loads are multiplied by the mean bias, 15 to 20 here, and SCHED_LOAD_SCALE, what
    # one task is compared with, is not. So an imbalance of some tasks is moved as some dozens: all that wait.
    found = sl.first_difference((two_nodes, PRIO_BIAS, make_j8), (two_nodes, SMPNICE, make_j8), seed=1)
    assert found.kind == "balance" and found.a is not None and found.b is not None
    ours, theirs = found.a["answer"], found.b["answer"]
    waiting = found.a["asked"]["groups"][1]["nr_running"] - 1
    assert ours["migration_type"] == "task" and ours["imbalance"] > 10 * waiting / 2
    assert len(ours["moved"]) == waiting
    # smpnice moves an amount of bias: tasks of nice 0 and 5 weigh 20 and 15.
    assert theirs["migration_type"] == "load"
    assert 15 * len(theirs["moved"]) <= theirs["imbalance"] and 0 < len(theirs["moved"]) < waiting


def test_hackbench_runs_to_its_end_on_eight_cpus() -> None:
    work = sl.Hackbench(groups=4, loops=40)
    for kernel in (PLAIN, PRIO_BIAS, SMPNICE):
        runs = sl.simulate(sl.Machine.named("arm64-dual-quad"), kernel, work, seeds=3)
        assert (runs.metrics.messages == 4 * 40 * 20 * 20).all()
        assert runs.schedstat(seed=0).startswith("version 15")


def test_same_seeds_give_the_same_bits_on_any_number_of_threads(
    two_nodes: sl.Machine, make_j8: sl.Workload
) -> None:
    one = sl.simulate(two_nodes, SMPNICE, make_j8, seeds=6, threads=1)
    two = sl.simulate(two_nodes, SMPNICE, make_j8, seeds=6, threads=2)
    assert one.metrics.equals(two.metrics)
    alone = sl.simulate(two_nodes, SMPNICE, make_j8, seeds=[4]).metrics
    assert alone.equals(one.metrics.sel(seed=[4]))


def test_logs_say_what_the_era_has(two_nodes: sl.Machine, make_j8: sl.Workload) -> None:
    runs = sl.simulate(two_nodes, PRIO_BIAS, make_j8, seeds=[1])
    passes = runs.balance_log(seed=1)
    assert set(passes.level) == {"NODE"} and set(passes.idle) == {"idle", "busy"}
    assert int(passes.nr_moved.sum()) == int(
        runs.metrics.migrations_idle.sum() + runs.metrics.migrations_busy.sum()
    )
    assert (passes[passes.outcome == "pulled"].migration_type == "task").all()
    placed = runs.wakeup_log(seed=1)
    assert (placed.kind == "fork").sum() == 8 and (placed.kind == "wakeup").any()


def test_a_patch_is_a_diff_with_a_sentence_on_each_slot() -> None:
    prio_bias = PLAIN.diff(PRIO_BIAS).to_pandas()
    assert list(prio_bias.name) == ["source_load", "target_load", "task_bias"]
    assert "20 times" in prio_bias["what changes"][0]
    repair = PRIO_BIAS.diff(SMPNICE).to_pandas()
    assert {"load_now", "imbalance_to_move", "move_limit", "source_load"} <= set(repair.name)
    listed = sl.kernels().set_index("name")
    assert listed.source["v2.6.15"] == "kernel/sched.c of Linux 2.6.15, without smp nice"
    assert listed.base["prio-bias"] == "v2.6.15" and listed.base["smpnice-weights"] == "v2.6.15+prio-bias"
    assert listed.base["v5.4"] == ""
    with pytest.raises(ValueError, match="as after prio-bias"):
        PLAIN.with_patches("smpnice-weights")


def test_domains_are_those_of_the_era() -> None:
    machine = sl.Machine.synthetic("node:2 core:2 pu:2")
    levels = machine.domains(PLAIN)[0]
    assert [(level.name, len(level.span)) for level in levels] == [("SMT", 2), ("CPU", 4), ("NODE", 8)]
    assert [level.busy_factor for level in levels] == [8, 64, 32]
    assert "SD_WAKE_IDLE" in levels[0].flags and "SD_WAKE_BALANCE" in levels[2].flags


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: PLAIN.with_features(PLACE_LAG=False), r'features = "PLACE_LAG": is a feature of the fair'),
        (lambda: PLAIN.with_tunables(base_slice_ns=3_000_000), r"tunables.base_slice_ns = 3000000: is a tun"),
        (lambda: PLAIN.with_domains("v5.7"), r'domains = "v5.7": must be a kernel of the same scheduler'),
        (
            lambda: sl.Kernel("v5.7").with_domains("v2.6.15"),
            r'domains = "v2.6.15": must be a kernel of the s',
        ),
        (lambda: PLAIN.with_slots(calculate_imbalance="v5.5"), "ordered by priority"),
        (lambda: PLAIN.with_patches("runnable-avg"), 'patch = "runnable-avg"'),
        (
            lambda: sl.simulate(sl.Machine(2), PLAIN, sl.Workload([sl.CpuHog(group="a")]), seeds=1),
            r'group = "a": must not be given: v2.6.15 has no task groups',
        ),
        (
            lambda: sl.balance.wake_wide(PLAIN, waker_flips=1, wakee_flips=1, llc_size=4),
            r'kernel = "v2.6.15": must have the fair scheduler',
        ),
    ],
)
def test_what_the_scheduler_does_not_have_is_refused(make: Callable[[], object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        make()
