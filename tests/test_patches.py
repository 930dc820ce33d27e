"""One scenario a patch in which it and its base part, and the rule by which they do."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable
from typing import Any

import pytest

import schedlab as sl

HALF = [0] * 4 + [1] * 4
BIG_LITTLE = sl.Machine(
    8, name="big-little", arch="arm64", cluster=HALF, llc=HALF, capacity=[446] * 4 + [1024] * 4
)
DUAL_QUAD = sl.Machine.named("arm64-dual-quad")
TWO_NODES = sl.Machine.numa([[10, 21], [21, 10]], cpus_per_node=4, threads_per_core=1)
TWO_NODES_SMT = sl.Machine.numa([[10, 21], [21, 10]], cpus_per_node=8, threads_per_core=2)

SHARED = sl.Memory(size_mib=128, walk_us=50_000, sharing="all", first_node=0)
HACKBENCH = sl.Hackbench(groups=4, loops=40)
PERIODIC = sl.Workload([sl.Periodic(n=14, run_us=3000, sleep_us=2000, spread_pct=40)], duration_ms=1500)
HOGS = sl.Workload(
    [sl.CpuHog(n=11, jitter_us=50_000), sl.Periodic(n=6, run_us=700, sleep_us=1500, spread_pct=50)],
    duration_ms=1500,
)
REAL_TIME = sl.Workload(
    [
        sl.CpuHog(n=9),
        sl.Periodic(run_us=3000, sleep_us=2000, policy="fifo", priority=10, mask=(1,)),
        sl.Periodic(run_us=2000, sleep_us=2000, policy="fifo", priority=10, mask=(5,)),
        sl.Periodic(n=4, run_us=3000, sleep_us=2000, spread_pct=40),
    ],
    duration_ms=1500,
)
MISFITS = sl.Workload(
    [
        sl.CpuHog(n=2, mask=(0, 1, 4, 5, 6, 7)),
        sl.Periodic(n=3, run_us=300, sleep_us=400, spread_pct=30, mask=(0, 1, 4)),
        sl.Periodic(n=4, run_us=20_000, sleep_us=3000, spread_pct=40, mask=(4, 5, 6, 7)),
    ],
    duration_ms=1500,
)
FORKS = sl.Workload(
    [
        sl.ForkStorm(n=200, run_us=3000, gap_us=300),
        sl.Periodic(n=12, run_us=500, sleep_us=2000, spread_pct=40),
    ],
    duration_ms=800,
)
THREADS = sl.Workload([sl.CpuHog(n=3, memory=SHARED)], duration_ms=10_000)
THREADS_AND_SLEEPERS = sl.Workload(
    [
        sl.CpuHog(n=3, memory=SHARED),
        sl.Periodic(n=8, run_us=5000, sleep_us=5000, spread_pct=20),
    ],
    duration_ms=10_000,
)


def sums(text: str) -> dict[str, int]:
    """`2 running, 0 idle, load 9` as numbers by name."""
    found = re.findall(r"(\w+) (\w+)", text)
    return {a if b.isdigit() else b: int(b if b.isdigit() else a) for a, b in found}


def changed(found: sl.Difference, what: str) -> list[tuple[Any, Any]]:
    """What both sides say where it differs, of the rows whose name starts so."""
    return [(a, b) for name, a, b in found.rows if name.startswith(what) and a != b]


def counts_idle_cpus(found: sl.Difference) -> None:
    """update_sd_pick_busiest() and its callers: groups have classes, by what runs and what is idle."""
    classes = changed(found, "class: ")
    assert classes and all(a == "other" and b == "has_spare" for a, b in classes)


def counts_sleepers(found: sl.Difference) -> None:
    """cpu_load() is load_avg: the load of tasks that sleep counts where a new task is placed."""
    loads = [(sums(a)["load"], sums(b)["load"]) for a, b in changed(found, "read: ") if "capacity" in a and b]
    assert found.kind == "fork" and loads and all(a < b for a, b in loads)


def keeps_the_imbalance(found: sl.Difference) -> None:
    """fix_small_imbalance() is gone: an imbalance below a task's load is not raised to it."""
    ((a, b),) = changed(found, "answer: imbalance")
    assert int(a) > int(b) > 0


def counts_every_class(found: sl.Difference) -> None:
    """group_is_overloaded(): one fair task beside a real-time one is two."""
    running = [(sums(a)["running"], sums(b)["running"]) for a, b in changed(found, "read: group")]
    assert running == [(1, 2)]
    assert ("other", "overloaded") in changed(found, "class: ")


def leaves_what_fits(found: sl.Difference) -> None:
    """detach_tasks() of a misfit group: the small task that v5.4 pulls stays, the misfit is pushed."""
    assert found.a is not None and found.b is not None
    assert (found.a["answer"]["outcome"], found.b["answer"]["outcome"]) == ("pulled", "failed")
    assert found.b["answer"]["active_balance"] and changed(found, "answer: refused")


def asks_for_waiting_time(found: sl.Difference) -> None:
    """group_has_capacity(), group_is_overloaded(): too much runnable_avg is no spare capacity."""
    (name, _, _) = next(row for row in found.rows if row[0].startswith("class: ") and row[1] != row[2])
    group = sums(next(b for what, _, b in found.rows if what == name.replace("class: ", "read: ")))
    assert group["runnable"] * 100 > group["capacity"] * 117
    assert ("has_spare", "overloaded") in changed(found, "class: ")


def starts_as_the_biggest(found: sl.Difference) -> None:
    """post_init_entity_util_avg() of v3: 1024, not the capacity of the CPU that a new task is on."""
    runnable = [(sums(a)["runnable"], sums(b)["runnable"]) for a, b in changed(found, "read: group")]
    assert any(a < 600 and b >= 1024 for a, b in runnable)
    assert ("has_spare", "fully_busy") in changed(found, "class: ")


def sums_sleepers_by_node(found: sl.Difference) -> None:
    """update_numa_stats(): the load of tasks that sleep counts in a node's."""
    assert found.kind == "numa" and found.a is not None and found.b is not None
    for node in ("src", "dst"):
        assert found.a["asked"][node]["load"] < found.b["asked"][node]["load"]


def asks_what_the_balancer_tolerates(found: sl.Difference) -> None:
    """task_numa_find_cpu(): load forbids a move that the load balancer would not even notice."""
    assert found.kind == "numa" and found.a is not None and found.b is not None
    assert found.a["answer"]["cpu"] is None
    assert found.b["answer"]["cpu"] == found.b["asked"]["dst"]["idle_cpu"]


def refuses_the_ineligible(found: sl.Difference) -> None:
    """can_migrate_task(): while no pass has failed, a task that is ahead of its queue stays."""
    assert found.kind == "balance" and found.a is not None and found.b is not None
    assert found.b["asked"]["nr_balance_failed"] == 0
    assert (found.a["answer"]["refused"][5], found.b["answer"]["refused"][5] > 0) == (0, True)


def leaves_a_level_out(found: sl.Difference) -> None:
    """newidle_balance(): a level that seldom pulls is left out by chance."""
    assert found.a is not None and found.b is not None
    assert found.a["kind"] == "balance" and found.a["asked"]["idle"] == "newidle"
    level = found.b["asked"].get("level_number")
    assert level is None or level > found.a["asked"]["level_number"]


def moves_by_priority(found: sl.Difference) -> None:
    """move_tasks(): how much is moved is weighed by nice value."""
    assert found.kind == "balance"
    assert changed(found, "answer: imbalance") or changed(found, "answer: moved")


@dataclasses.dataclass(frozen=True)
class Parting:
    """Where a patch and its base part: machine, work, seed; and what shows the rule."""

    machine: sl.Machine
    work: sl.Hackbench | sl.Workload
    seed: int
    shows: Callable[[sl.Difference], None]


NICED = sl.Workload(
    [
        sl.Periodic(n=4, run_us=60_000, sleep_us=4000, spread_pct=40),
        sl.Periodic(n=4, run_us=60_000, sleep_us=4000, spread_pct=40, nice=5),
    ],
    duration_ms=5000,
)
TWO_SINGLE_NODES = sl.Machine.numa([[10, 21], [21, 10]], cpus_per_node=1, threads_per_core=1)

PARTINGS = {
    "prio-bias": Parting(TWO_SINGLE_NODES, NICED, 1, moves_by_priority),
    "smpnice-weights": Parting(TWO_SINGLE_NODES, NICED, 1, moves_by_priority),
    "lb-rework-v4": Parting(DUAL_QUAD, HACKBENCH, 1, counts_idle_cpus),
    "lb-rework-v4-balance": Parting(DUAL_QUAD, HACKBENCH, 1, counts_idle_cpus),
    "lb-rework-v4-load": Parting(DUAL_QUAD, HACKBENCH, 1, counts_sleepers),
    "lb-rework-v4-idlest": Parting(DUAL_QUAD, HACKBENCH, 1, counts_idle_cpus),
    "lb-rework-v4-no-small-imbalance": Parting(DUAL_QUAD, HACKBENCH, 1, keeps_the_imbalance),
    "lb-rework-v4-nr-running": Parting(DUAL_QUAD, REAL_TIME, 1, counts_every_class),
    "lb-rework-v4-misfit": Parting(BIG_LITTLE, MISFITS, 2, leaves_what_fits),
    "runnable-avg": Parting(TWO_NODES, PERIODIC, 1, asks_for_waiting_time),
    "runnable-avg-numa-load": Parting(TWO_NODES_SMT, THREADS_AND_SLEEPERS, 1, sums_sleepers_by_node),
    "runnable-avg-classify": Parting(TWO_NODES, PERIODIC, 1, asks_for_waiting_time),
    "runnable-avg-v3": Parting(TWO_NODES, PERIODIC, 1, asks_for_waiting_time),
    "runnable-avg-v3-init": Parting(BIG_LITTLE, FORKS, 1, starts_as_the_biggest),
    "numa-lb-reconcile": Parting(TWO_NODES, THREADS, 1, asks_what_the_balancer_tolerates),
    "eligible-first": Parting(DUAL_QUAD, HOGS, 1, refuses_the_ineligible),
    "eligible-first-described": Parting(DUAL_QUAD, HOGS, 1, refuses_the_ineligible),
    "ni-random": Parting(DUAL_QUAD, HACKBENCH, 1, leaves_a_level_out),
}

DECIDES_NOTHING_ALONE = {"runnable-avg-signal"}
"""The step that keeps a signal which only the next one reads."""


def kernels_of(patch: str) -> tuple[sl.Kernel, sl.Kernel]:
    """The kernel that a patch was made for, and that with it."""
    name, *patches = str(sl.kernels().set_index("name").base[patch]).split("+")
    base = sl.Kernel(name).with_patches(*patches)
    return base, base.with_patches(patch)


def test_every_patch_has_a_scenario() -> None:
    frame = sl.kernels()
    assert set(frame.name[frame.kind == "patch"]) == PARTINGS.keys() | DECIDES_NOTHING_ALONE


@pytest.mark.parametrize("patch", PARTINGS)
def test_a_patch_parts_from_its_base_by_its_rule(patch: str) -> None:
    parting = PARTINGS[patch]
    base, patched = kernels_of(patch)
    sides = ((parting.machine, kernel, parting.work) for kernel in (base, patched))
    found = sl.first_difference(*sides, seed=parting.seed)
    assert found, patch
    parting.shows(found)


def test_the_rule_of_eligibility_is_coded_wider_than_described() -> None:
    # The text asks for more than one queued entity at the destination, the code for any.
    coded, described = (kernels_of(patch)[1] for patch in ("eligible-first", "eligible-first-described"))
    found = sl.first_difference((DUAL_QUAD, coded, HOGS), (DUAL_QUAD, described, HOGS), seed=1)
    assert found.a is not None and found.b is not None
    assert found.a["answer"]["refused"][5] > found.b["answer"]["refused"][5]
