from __future__ import annotations

from typing import Any

import pytest

import schedlab as sl

SHARED = sl.Memory(size_mib=128, walk_us=50_000, sharing="all", first_node=0)


@pytest.fixture(scope="module")
def two_nodes() -> sl.Machine:
    return sl.Machine.numa([[10, 21], [21, 10]], cpus_per_node=4, threads_per_core=1)


def test_memory_comes_to_a_task_that_may_not_go_to_it(two_nodes: sl.Machine) -> None:
    memory = sl.Memory(size_mib=64, walk_us=20_000, first_node=1)
    work = sl.Workload([sl.CpuHog(mask=(0, 1, 2, 3), memory=memory)], duration_ms=5000)
    on = sl.simulate(two_nodes, sl.Kernel("v6.12"), work, seeds=2).metrics
    off = sl.simulate(
        two_nodes, sl.Kernel("v6.12").with_tunables(numa_balancing=False), work, seeds=2
    ).metrics
    assert (on.numa_pages_migrated == 64 * 256).all()
    assert (off.numa_pages_migrated == 0).all() and (off.memory_touches == off.memory_touches_remote).all()
    assert (on.memory_touches > 1.2 * off.memory_touches).all()


def test_a_thread_joins_two_others_on_a_node_with_idle_cpus_from_numa_lb_reconcile_on(
    two_nodes: sl.Machine,
) -> None:
    # Alone on its node, the third thread would bring the nodes' loads further apart: v5.6 lets it stay. The
    # load balancer would tolerate the move, and that is what the patch asks.
    work = sl.Workload([sl.CpuHog(n=3, memory=SHARED)], duration_ms=10_000)
    base = sl.Kernel("v5.6")
    patched = base.with_patches("numa-lb-reconcile")
    found = sl.first_difference((two_nodes, base, work), (two_nodes, patched, work), seed=1)
    assert found.kind == "numa" and found.a is not None and found.b is not None
    assert found.a["answer"] == {"cpu": None, "swap_with": None}
    assert found.b["answer"]["cpu"] == found.b["asked"]["dst"]["idle_cpu"]
    assert found.b["asked"]["dst"]["node_type"] == "has_spare"
    assert found.b["asked"]["src"]["nr_running"] == 1 and found.b["asked"]["dst"]["nr_running"] == 2
    assert "search for a place near a task's memory" in repr(found)


def test_memory_travels_with_the_scenario(two_nodes: sl.Machine) -> None:
    memory = sl.Memory(size_mib=8, walk_us=100, sharing="slices", overlap_pct=10, page_kib=2048)
    bound = sl.Memory(size_mib=8, walk_us=100, policy="bind", nodes=[1])
    work = sl.Workload([sl.Barrier(n=4, run_us=50, memory=memory), sl.CpuHog(memory=bound)], duration_ms=20)
    assert sl.Workload.from_dict(work.to_dict()) == work
    kernel = sl.Kernel("v5.7")
    runs = sl.simulate(two_nodes, kernel, work, seeds=[3])
    again = sl.Scenario.from_dict(runs.scenario.to_dict())
    assert sl.simulate(again.machine, again.kernel, again.work, seeds=[3]).metrics.equals(runs.metrics)


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"size_mib": 0}, "size_mib = 0"),
        ({"walk_us": 0}, "walk_us = 0"),
        ({"bound_pct": 101}, "bound_pct = 101"),
        ({"sharing": "some"}, "sharing = 'some'"),
        ({"page_kib": 8}, "page_kib = 8: must be one of 4, 16, 64, 2048"),
        ({"nodes": [0]}, r"nodes = \[0\]: must name nodes for 'interleave' and 'bind'"),
        ({"policy": "bind"}, r"nodes = \[\]: must name nodes"),
        ({"policy": "bind", "nodes": [0], "first_node": 0}, "first_node = 0: is for policy 'local' only"),
        ({"overlap_pct": 3}, "overlap_pct = 3: is for sharing 'slices' only"),
    ],
)
def test_bad_memory_is_refused(changed: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        sl.Memory(**{"size_mib": 1, "walk_us": 1, **changed})


def test_a_node_that_the_machine_does_not_have_is_refused(two_nodes: sl.Machine) -> None:
    memory = sl.Memory(size_mib=1, walk_us=1, first_node=2)
    with pytest.raises(ValueError, match=r"tasks\[0\].memory.first_node = 2: must be a node of"):
        sl.simulate(two_nodes, sl.Kernel("v5.7"), sl.Workload([sl.CpuHog(memory=memory)]), seeds=1)
    with pytest.raises(ValueError, match=r"tasks\[0\].memory = 1 MiB: is for hogs"):
        pair = sl.PingPong(run_us=5, memory=sl.Memory(size_mib=1, walk_us=1))
        sl.simulate(two_nodes, sl.Kernel("v5.7"), sl.Workload([pair]), seeds=1)
