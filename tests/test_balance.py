"""The balance decisions through Python: vectors of real kernels, arrays against single cases, bad input."""

from __future__ import annotations

import gzip
import itertools
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from schedlab import _core, balance
from schedlab.balance import (
    Cpus,
    Domain,
    Group,
    GroupStats,
    GroupType,
    MigrationType,
    NumaTask,
    PlacedTask,
    QueuedTask,
    WakeTarget,
)

VECTORS = Path(__file__).parent / "vectors" / "balance"
KERNELS = ("v5.5", "v5.6", "v5.7")
CASES = 300


def vectors(family: str, count: int = CASES) -> list[dict[str, Any]]:
    path = VECTORS / f"{family}.jsonl"
    with path.open() if path.exists() else gzip.open(f"{path}.gz", "rt") as lines:
        return [json.loads(line) for line in itertools.islice(lines, count)]


def domain_of(sd: dict[str, Any]) -> Domain:
    flags = {
        "numa": "numa",
        "asym_cpucapacity": "asymcap",
        "asym_packing": "asympack",
        "share_cpucapacity": "smt",
        "share_llc": "llc",
        "prefer_sibling": "child_prefer",
        "root": "root",
        "energy_aware": "eas",
        "perf_domains": "pd",
        "overutilized": "overutil",
    }
    return Domain(
        imbalance_pct=sd["pct"],
        nr_balance_failed=sd["nbf"],
        cache_nice_tries=sd["cnt"],
        **{name: bool(sd.get(short, 0)) for name, short in flags.items()},
    )


def groups_of(case: dict[str, Any]) -> list[Group]:
    return [
        Group(
            cpus=range(group["c0"], group["c0"] + group["w"]),
            imbalanced=bool(group.get("imb", 0)),
            capacity=group["cap"],
            min_capacity=group["min"],
            max_capacity=group["max"],
            asym_prefer_cpu=group.get("apc"),
        )
        for group in case["g"]
    ]


def cpus_of(case: dict[str, Any]) -> Cpus:
    cpu = case["cpu"]
    zeros = [0] * cpu["n"]
    names = {
        "nr_running": "nr",
        "h_nr_running": "h",
        "load": "load",
        "util": "util",
        "runnable": "run",
        "idle": "idle",
        "capacity": "cap",
        "capacity_orig": "capo",
        "misfit_task_load": "misfit",
        "nr_numa_running": "nn",
        "nr_preferred_running": "np",
        "asym_prio": "prio",
    }
    return Cpus(**{name: cpu.get(short, zeros) for name, short in names.items()})


def assert_groups(got: tuple[balance.GroupResult | None, ...], expected: list[dict[str, Any] | None]) -> None:
    names = {
        "group_load": "load",
        "group_util": "util",
        "group_runnable": "run",
        "sum_nr_running": "nr",
        "sum_h_nr_running": "h",
        "idle_cpus": "idle",
        "avg_load": "avg",
        "group_misfit_task_load": "misfit",
    }
    assert len(got) == len(expected)
    for stats, group in zip(got, expected, strict=True):
        if group is None:
            assert stats is None
            continue
        assert stats is not None
        assert stats.group_type.name.lower() == group["t"]
        assert {name: getattr(stats, name) for name in names} == {
            name: group.get(short, 0) for name, short in names.items()
        }


@pytest.mark.parametrize("kernel", KERNELS)
def test_find_busiest_group_answers_as_the_kernel(kernel: str) -> None:
    for case in vectors(f"fbg-{kernel}"):
        got = balance.find_busiest_group(
            kernel,
            groups=groups_of(case),
            cpus=cpus_of(case),
            domain=domain_of(case["sd"]),
            dst_cpu=case["dst"],
            idle=case["idle"],
            excluded=case.get("excl", ()),
        )
        out = case["out"]
        assert_groups(got.groups, out["g"])
        assert (-1 if got.busiest is None else got.busiest) == out["busiest"], case["id"]
        assert got.imbalance == out["imb"], case["id"]
        assert (got.migration_type and got.migration_type.name.lower()) == out.get("mig") or (
            got.migration_type == MigrationType.LOAD and out["mig"] == "load"
        )
        assert (-1 if got.src_cpu is None else got.src_cpu) == out.get("rq", -1), case["id"]
        assert got.active_balance == bool(out.get("active", 0)), case["id"]
        if case["sd"].get("numa"):
            assert got.fbq_type == out["fbq"], case["id"]


@pytest.mark.parametrize("kernel", KERNELS)
def test_classify_and_calculate_imbalance_over_arrays_answer_as_the_kernel(kernel: str) -> None:
    cases = [case for case in vectors(f"fbg-{kernel}", 2000) if not case["sd"].get("asympack")]
    pairs = [
        (case, group, stats)
        for case in cases
        for group, stats in zip(case["g"], case["out"]["g"], strict=True)
    ]
    types = balance.classify(
        kernel,
        sum_nr_running=[stats["nr"] for _, _, stats in pairs],
        group_weight=[group["w"] for _, group, _ in pairs],
        group_capacity=[group["cap"] for _, group, _ in pairs],
        group_util=[stats["util"] for _, _, stats in pairs],
        group_runnable=[stats.get("run", 0) for _, _, stats in pairs],
        imbalance_pct=[case["sd"]["pct"] for case, _, _ in pairs],
        imbalanced=[group.get("imb", 0) for _, group, _ in pairs],
        misfit_task_load=[stats.get("misfit", 0) for _, _, stats in pairs],
    )
    assert balance.group_type_names(types).tolist() == [stats["t"] for _, _, stats in pairs]

    pulls = [case for case in cases if case["out"]["busiest"] >= 0]
    assert len(pulls) > 300

    def stats_of(position: list[int]) -> GroupStats:
        stats = [case["out"]["g"][index] for case, index in zip(pulls, position, strict=True)]
        group = [case["g"][index] for case, index in zip(pulls, position, strict=True)]
        return GroupStats(
            sum_nr_running=[s["nr"] for s in stats],
            sum_h_nr_running=[s["h"] for s in stats],
            group_weight=[g["w"] for g in group],
            group_capacity=[g["cap"] for g in group],
            group_util=[s["util"] for s in stats],
            group_load=[s["load"] for s in stats],
            idle_cpus=[s["idle"] for s in stats],
            group_type=[GroupType[s["t"].upper()] for s in stats],
        )

    got = balance.calculate_imbalance(
        kernel,
        stats_of([0] * len(pulls)),
        stats_of([case["out"]["busiest"] for case in pulls]),
        idle=[case["idle"] for case in pulls],
        prefer_sibling=[case["sd"].get("child_prefer", 0) for case in pulls],
        numa=[case["sd"].get("numa", 0) for case in pulls],
        total_load=[sum(stats["load"] for stats in case["out"]["g"]) for case in pulls],
        total_capacity=[sum(group["cap"] for group in case["g"]) for case in pulls],
    )
    assert np.asarray(got.imbalance).tolist() == [case["out"]["imb"] for case in pulls]
    names = [MigrationType(code).name.lower() for code in np.asarray(got.migration_type)]
    assert names == [case["out"]["mig"] for case in pulls]


@pytest.mark.parametrize("kernel", KERNELS)
def test_find_idlest_group_answers_as_the_kernel(kernel: str) -> None:
    for case in vectors(f"idlest-{kernel}"):
        p = case["p"]
        task = PlacedTask(
            cpu=p["cpu"],
            load=p["load"],
            util=p["util"],
            runnable=p["run"],
            new=bool(p["new"]),
            queued=bool(p["queued"]),
            allowed=p.get("allowed"),
            preferred_node=None if p["pref"] < 0 else p["pref"],
        )
        got = balance.find_idlest_group(
            kernel,
            task,
            groups=groups_of(case),
            cpus=cpus_of(case),
            domain=domain_of(case["sd"]),
            this_cpu=case["this"],
        )
        assert_groups(got.groups, case["out"]["g"])
        assert (-1 if got.idlest is None else got.idlest) == case["out"]["idlest"], case["id"]


@pytest.mark.parametrize("kernel", KERNELS)
def test_detach_tasks_answers_as_the_kernel(kernel: str) -> None:
    flags = {"running": "running", "idle_policy": "idlepol", "next_buddy": "next", "last_buddy": "last"}
    for case in vectors(f"detach-{kernel}"):
        tasks = [
            QueuedTask(
                load=task["load"],
                util=task["util"],
                age_ns=task["age"],
                throttled=bool(task.get("throttled", 0)),
                allowed=task.get("allowed"),
                preferred_node=task["pref"] if task.get("pref", -1) >= 0 else None,
                numa_weights=tuple(task["w"]) if task.get("faults") else None,
                **{name: bool(task.get(short, 0)) for name, short in flags.items()},
            )
            for task in case["tasks"]
        ]
        src, dst, out = case["src"], case["dst"], case["out"]
        got = balance.detach_tasks(
            kernel,
            tasks,
            migration_type=case["mig"],
            imbalance=case["imb"],
            idle=case["idle"],
            src_cpu=src["cpu"],
            src_node=src["node"],
            src_nr_running=src["nr"],
            src_nr_preferred_running=src["npref"],
            src_capacity=src["cap"],
            dst_cpu=dst["cpu"],
            dst_node=dst["node"],
            dst_nr_running=dst["nr"],
            dst_group_weight=dst["grp_w"],
            dst_in_cpus=bool(dst["in_cpus"]),
            numa=bool(case["sd"]["numa"]),
            numa_balancing=bool(case["numa_bal"]),
            nr_balance_failed=case["sd"]["nbf"],
            cache_nice_tries=case["sd"]["cnt"],
            loop_max=case["loop_max"],
            migration_cost_ns=case["mig_cost"],
            preemption=bool(case["preempt"]),
        )
        assert list(got.detached) == out["ids"], case["id"]
        assert list(got.left) == out["left"], case["id"]
        assert (got.imbalance, got.nr_looked_at) == (out["imb"], out["loop"]), case["id"]
        pinned = (got.all_pinned, got.some_pinned, got.need_break)
        assert pinned == tuple(bool(out[name]) for name in ("all_pinned", "some_pinned", "need_break"))
        assert got.new_dst_cpu == out.get("new_dst"), case["id"]


def test_wake_affine_and_wake_wide_over_arrays_answer_as_the_kernel() -> None:
    cases = vectors("wakeaffine-v5.7", 3000)

    def column(name: str, index: int | None = None) -> list[int]:
        return [case[name] if index is None else case[name][index] for case in cases]

    targets = balance.wake_affine(
        "v5.7",
        this_load=column("load", 0),
        prev_load=column("load", 1),
        wakee_load=column("pload"),
        waker_load=column("wload"),
        this_idle=column("idle", 0),
        prev_idle=column("idle", 1),
        this_nr_running=column("nr", 0),
        this_capacity=column("cap", 0),
        prev_capacity=column("cap", 1),
        sync=column("sync"),
        share_cache=column("share"),
        imbalance_pct=column("pct"),
    )
    names = [WakeTarget(code).name.lower() for code in np.asarray(targets)]
    assert names == [case["out"]["target"] for case in cases]

    cases = vectors("wakewide-all", 1000)
    wide = balance.wake_wide(
        "v5.7",
        waker_flips=column("waker_flips"),
        wakee_flips=column("wakee_flips"),
        llc_size=column("llc"),
    )
    assert np.asarray(wide).tolist() == [bool(case["out"]["wide"]) for case in cases]


def test_should_we_balance_answers_as_the_kernel() -> None:
    for case in vectors("swb-v5.7", 2000):
        got = balance.should_we_balance(
            "v5.7",
            idle_cpus=case["idle_cpu"][: case["w"]],
            dst_cpu=case["dst"],
            idle=case["idle"],
            mask=case["mask"],
            cpus=case["cpus"],
        )
        assert got == bool(case["out"]["balance"]), case["id"]


def numa_task_of(task: dict[str, Any], allowed: list[int] | None = None) -> NumaTask:
    return NumaTask(
        load=task["load"],
        task_weights=tuple(task["tw"]),
        group_weights=tuple(task["gw"]),
        numa_group=None if task["grp"] < 0 else task["grp"],
        preferred_node=None if task.get("pref", -1) < 0 else task["pref"],
        allowed=task.get("allowed", allowed),
        exiting=bool(task.get("exiting", 0)),
    )


@pytest.mark.parametrize("kernel", ("v5.6", "v5.7", "v6.12"))
def test_task_numa_find_cpu_answers_as_the_kernel(kernel: str) -> None:
    for case in vectors(f"numa-{kernel}"):
        p, out = case["p"], case["out"]
        elsewhere = [cpu for cpu in range(2 * case["w"]) if cpu != p["cpu"]]
        got = balance.task_numa_find_cpu(
            kernel,
            numa_task_of(p),
            cpu=p["cpu"],
            curr=[
                task and numa_task_of(task, elsewhere if task.get("noaff") else None) for task in case["curr"]
            ],
            cpus=Cpus(
                nr_running=case["nr"],
                h_nr_running=case["h"],
                load=case["load"],
                util=case.get("util"),
                runnable=case.get("run"),
                capacity=case["cap"],
            ),
            imbalance_pct=case["pct"],
            imb_numa_nr=case.get("imb_numa_nr", 1),
            threads_per_core=case["tpc"],
            numa_migrate_on=np.flatnonzero(case["on"]).tolist(),
            claimed_later=out.get("race_on"),
        )
        place = (got.best_cpu, got.swap_with)
        assert place == tuple(None if out[name] < 0 else out[name] for name in ("best_cpu", "swap_with"))
        assert got.best_imp == out["best_imp"], case["id"]
        assert got.load_too_imbalanced == bool(out["too_imbalanced"]), case["id"]
        assert got.adjusted_imbalance == out.get("adj_imb"), case["id"]
        names = {
            "node_type": "t",
            "load": "load",
            "util": "util",
            "runnable": "run",
            "compute_capacity": "cap",
            "nr_running": "nr",
        }
        for node, expected in ((got.src, out["src"]), (got.dst, out["dst"])):
            shown = {short: getattr(node, name) for name, short in names.items()}
            assert {**dict.fromkeys(shown, 0), "t": None, **expected} == {**expected, **shown}, case["id"]


def test_v5_7_takes_an_idle_cpu_that_v5_6_refuses_for_load() -> None:
    def placement(kernel: str) -> balance.NumaPlacement:
        # Node 0 has one task, so that its load would fall to nothing; CPU 3 of node 1 idles.
        return balance.task_numa_find_cpu(
            kernel,
            NumaTask(load=1024, task_weights=(200, 800)),
            cpu=0,
            curr=[NumaTask(load=1024, task_weights=(0, 1000), preferred_node=1), None],
            cpus=Cpus(nr_running=[1, 0, 1, 0], load=[1024, 0, 1024, 0]),
        )

    assert placement("v5.6").load_too_imbalanced
    assert placement("v5.6").best_cpu is None
    assert placement("v5.7").best_cpu == 3
    assert placement("v5.7").dst.node_type == "has_spare"


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"cpu": 2}, ("task.cpu", "2")),
        ({"curr": [None]}, ("curr", "1 entries")),
        ({"cpus": Cpus(nr_running=[1, 0, 0])}, ("cpus.nr_running", "3 values")),
        ({"cpus": Cpus(nr_running=[0, 0, 0, 0])}, ("nr_running[0]", "0")),
        ({"cpus": Cpus(nr_running=[1, 0, 0, 0], idle=[0, 0, 1, 1])}, ("cpus.idle", "not read")),
        ({"numa_migrate_on": [4]}, ("numa_migrate_on", "below 4")),
        ({"claimed_later": 4}, ("claimed_later", "4")),
        ({"imbalance_pct": 99}, ("imbalance_pct", "99")),
        ({"threads_per_core": 3}, ("threads_per_core", "3")),
        ({"task": NumaTask(load=1, task_weights=(1, 2, 3))}, ("task.task_weights", "two weights")),
        ({"task": NumaTask(load=-1, task_weights=(1, 2))}, ("task.load", "-1")),
        ({"task": NumaTask(load=1, task_weights=(1, 2), preferred_node=2)}, ("task.preferred_node", "2")),
        ({"task": NumaTask(load=1, task_weights=(1, 2), allowed=[9])}, ("task.allowed", "9")),
    ],
)
def test_bad_numa_placements_are_errors_that_name_what_is_wrong(
    change: dict[str, Any], words: tuple[str, ...]
) -> None:
    arguments: dict[str, Any] = {
        "task": NumaTask(load=1024, task_weights=(200, 800)),
        "cpu": 0,
        "curr": [None, None],
        "cpus": Cpus(nr_running=[1, 0, 0, 0]),
    }
    assert balance.task_numa_find_cpu("v5.7", **arguments).best_cpu == 2
    with pytest.raises(ValueError) as error:
        balance.task_numa_find_cpu("v5.7", **{**arguments, **change})
    for word in words:
        assert word in str(error.value)


def test_codes_are_those_of_the_core() -> None:
    group_types, migration_types, idle_types = _core.balance_codes()
    assert [member.name.lower() for member in GroupType] == group_types
    assert [member.name.lower() for member in MigrationType] == migration_types
    assert list(balance.IDLE_TYPES) == idle_types


def test_runnable_avg_is_what_tells_v5_7_from_v5_6() -> None:
    # One of four tasks was just migrated away: utilization is low, but those left wait for each other.
    group = {"sum_nr_running": 3, "group_weight": 2, "group_util": 1200, "group_runnable": 2900}
    assert balance.classify("v5.6", **group) is GroupType.HAS_SPARE
    assert balance.classify("v5.7", **group) is GroupType.OVERLOADED


def test_a_kernel_object_may_carry_patches_and_slots() -> None:
    class Patched:
        def to_json(self) -> str:
            return json.dumps({"name": "v5.6", "patches": ["runnable-avg"], "tunables": {"hz": 250}})

    group = {"sum_nr_running": 3, "group_weight": 2, "group_util": 1200, "group_runnable": 2900}
    assert balance.classify(Patched(), **group) is GroupType.OVERLOADED


counts = st.integers(0, 200)
amounts = st.integers(0, 200 * 1024)


@given(
    nr_running=st.lists(counts, min_size=1, max_size=8),
    group_util=amounts,
    group_runnable=amounts,
    kernel=st.sampled_from(KERNELS),
)
def test_an_array_is_decided_as_its_elements(
    nr_running: list[int], group_util: int, group_runnable: int, kernel: str
) -> None:
    rest: dict[str, Any] = {"group_weight": 4, "group_util": group_util, "group_runnable": group_runnable}
    together = balance.classify(kernel, sum_nr_running=np.array(nr_running).reshape(1, -1), **rest)
    assert isinstance(together, np.ndarray)
    assert together.shape == (1, len(nr_running))
    assert together.dtype == np.int8
    alone = [balance.classify(kernel, sum_nr_running=nr, **rest) for nr in nr_running]
    assert together[0].tolist() == alone


@given(nr_running=counts, group_util=amounts, group_runnable=amounts, more=amounts)
def test_more_waiting_never_makes_a_group_look_freer(
    nr_running: int, group_util: int, group_runnable: int, more: int
) -> None:
    less_then_more = balance.classify(
        "v5.7",
        sum_nr_running=nr_running,
        group_weight=4,
        group_util=group_util,
        group_runnable=[group_runnable, group_runnable + more],
    )
    assert isinstance(less_then_more, np.ndarray)
    assert less_then_more[0] <= less_then_more[1]


def test_two_tasks_on_one_of_two_idle_groups_are_spread() -> None:
    stats = {"group_weight": 1, "group_util": 1000}
    got = balance.calculate_imbalance(
        "v5.7",
        GroupStats(sum_nr_running=0, group_load=0, **{**stats, "group_util": 0}),
        GroupStats(sum_nr_running=2, group_load=2048, **stats, group_type=GroupType.FULLY_BUSY),
    )
    assert got == balance.Imbalance(1, MigrationType.TASK)


def test_arrays_of_every_shape_come_back_in_that_shape() -> None:
    types = balance.classify(
        "v5.7", sum_nr_running=np.arange(3)[:, None], group_weight=2, group_util=np.arange(4) * 600
    )
    assert isinstance(types, np.ndarray)
    assert types.shape == (3, 4)
    empty = balance.classify("v5.7", sum_nr_running=[], group_weight=2, group_util=0)
    assert isinstance(empty, np.ndarray)
    assert empty.shape == (0,)


GROUP: dict[str, Any] = {"sum_nr_running": 1, "group_weight": 1, "group_util": 100}


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"sum_nr_running": 1.0}, r"sum_nr_running = 1.0: must be integers"),
        ({"sum_nr_running": -1}, r"sum_nr_running = -1: must be between 0 and"),
        ({"sum_nr_running": [1, -2]}, r"sum_nr_running\[1\] = -2: must be between 0 and"),
        ({"sum_nr_running": [[1], [1, 2]]}, r"sum_nr_running = .*: must be a regular array"),
        ({"sum_nr_running": "3"}, r"sum_nr_running = '3': must be integers"),
        ({"group_util": np.uint64(2**63)}, r"group_util = 9223372036854775808: must be at most"),
        ({"group_weight": [1, 2, 3], "group_util": [1, 2]}, r"group_weight .3,., group_util .2,.*broadcast"),
        ({"group_capacity": 0}, r"group_capacity = 0: must be between 1 and"),
        ({"imbalance_pct": 99}, r"imbalance_pct = 99: must be between 100 and"),
        ({"imbalanced": 2}, r"imbalanced = 2: must be between 0 and 1"),
    ],
)
def test_bad_numbers_are_named(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        balance.classify("v5.7", **{**GROUP, **changes})


def test_bad_kernels_are_named() -> None:
    with pytest.raises(ValueError, match=r'kernel = "v5.8": .*near names: v5.[4567]'):
        balance.classify("v5.8", **GROUP)
    with pytest.raises(ValueError, match=r"kernel = 5.7: must be the name of a generation"):
        balance.classify(5.7, **GROUP)  # type: ignore[arg-type]


TWO_GROUPS = [Group([0, 1]), Group([2, 3])]
FOUR_CPUS = Cpus(nr_running=[0, 1, 3, 2], load=[0, 900, 3000, 2000], util=[0, 900, 1024, 1024])


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"dst_cpu": 2}, r"dst_cpu = 2: must be a CPU of the local group, \{0, 1\}"),
        ({"dst_cpu": True}, r"dst_cpu = True: must be an integer"),
        ({"idle": "sleepy"}, r"idle = 'sleepy': must be one of idle, busy, newidle"),
        ({"excluded": [4]}, r"excluded = 4: must be a CPU, that is below 4"),
        ({"groups": []}, r"number of groups = 0: must be between 1 and 1024"),
        ({"groups": [Group([0, 9])]}, r"groups\[0\].cpus = 9: must be a CPU, that is below 4"),
        ({"groups": [Group([])]}, r"groups\[0\].cpus = \[\]: must hold at least one CPU"),
        ({"groups": [Group([0], capacity=0)]}, r"groups\[0\].capacity = 0: must be between 1 and"),
        ({"cpus": Cpus(nr_running=[])}, r"cpus.nr_running = \[\]: must be a sequence"),
        ({"cpus": Cpus(nr_running=[1, 2], load=[1])}, r"cpus.load = 1 values: must have one value for each"),
        ({"cpus": Cpus(nr_running=[-1, 2])}, r"cpus.nr_running\[0\] = -1: must be from 0"),
        ({"cpus": Cpus(nr_running=[1, 2], capacity=[0, 5])}, r"cpus.capacity\[0\] = 0: must be between 1"),
        ({"domain": Domain(imbalance_pct=5)}, r"domain.imbalance_pct = 5: must be between 100"),
        ({"domain": Domain(numa=1)}, r"domain.numa = 1: must be True or False"),  # type: ignore[arg-type]
    ],
)
def test_bad_situations_are_named(changes: dict[str, Any], message: str) -> None:
    arguments = {"groups": TWO_GROUPS, "cpus": FOUR_CPUS, **changes}
    with pytest.raises(ValueError, match=message):
        balance.find_busiest_group("v5.7", **arguments)


def test_a_result_shows_the_groups_as_a_table() -> None:
    result = balance.find_busiest_group("v5.7", groups=TWO_GROUPS, cpus=FOUR_CPUS)
    table = result.to_pandas()
    assert table.index.name == "group"
    assert table["group_type"].tolist() == ["has_spare", "overloaded"]
    assert table["sum_nr_running"].tolist() == [1, 5]
    assert result.busiest == 1
    assert result.migration_type is MigrationType.UTIL
    assert result.src_cpu == 2


def test_a_pull_says_what_it_took() -> None:
    tasks = [QueuedTask(load=1024, util=300, running=True), QueuedTask(load=1024, util=200)]
    got = balance.detach_tasks("v5.7", tasks, migration_type="task", imbalance=1)
    assert (got.detached, got.left, got.imbalance) == ((1,), (0,), 0)
    with pytest.raises(ValueError, match=r"src_cpu = 0: must be between 1 and"):
        balance.detach_tasks("v5.7", tasks, migration_type="task", imbalance=1, src_cpu=0)
    with pytest.raises(ValueError, match=r"migration_type = 'tusk': must be one of .* did you mean task"):
        balance.detach_tasks("v5.7", tasks, migration_type="tusk", imbalance=1)
    with pytest.raises(ValueError, match=r"tasks\[1\].load = -5: must be an integer of at least 0"):
        balance.detach_tasks(
            "v5.7", [tasks[0], QueuedTask(load=-5, util=0)], migration_type="task", imbalance=1
        )
