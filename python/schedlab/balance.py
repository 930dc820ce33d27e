"""Balance decisions of each kernel as pure functions, alone or over arrays of cases.

`classify`, `calculate_imbalance`, `wake_affine` and `wake_wide` take integers or integer arrays that
broadcast against each other, and decide every case in the core. `find_busiest_group`, `find_idlest_group`,
`detach_tasks`, `should_we_balance` and `task_numa_find_cpu` take one situation, described by the small
classes below. All call the functions that a simulated run calls. Every function takes a kernel: the name of a
generation, or a `schedlab.Kernel`.

Units, as in the kernel: load 1024 = one task of nice 0 that always runs; utilization, runnable_avg and
capacity 1024 = one whole CPU of the biggest kind; times in nanoseconds.
"""

from __future__ import annotations

import dataclasses
import enum
import json
from collections.abc import Mapping, Sequence
from typing import Any, Protocol, TypeAlias

import numpy as np
import numpy.typing as npt
import pandas as pd

from schedlab import _core
from schedlab._arguments import bad_argument, choice, integer

Ints: TypeAlias = npt.ArrayLike
"""An integer, a boolean, or an array of either."""


class KernelLike(Protocol):
    """What can say which decisions it is made of: a `schedlab.Kernel`."""

    def to_json(self) -> str:
        """The kernel as JSON text."""
        ...


class GroupType(enum.IntEnum):
    """State of a group of CPUs, in rising order of how much it asks to be pulled from (`enum group_type`)."""

    OTHER = 0
    """None of the others: v5.4, which does not ask whether a group has capacity to spare."""
    HAS_SPARE = 1
    FULLY_BUSY = 2
    MISFIT_TASK = 3
    SMT_BALANCE = 4
    ASYM_PACKING = 5
    IMBALANCED = 6
    OVERLOADED = 7


class MigrationType(enum.IntEnum):
    """What an imbalance counts (`enum migration_type`)."""

    LOAD = 0
    UTIL = 1
    TASK = 2
    MISFIT = 3


class WakeTarget(enum.IntEnum):
    """CPU from which the search for an idle one starts."""

    THIS = 0
    PREV = 1


IDLE_TYPES = ("idle", "busy", "newidle")
"""Why a CPU balances: it is idle, busy, or about to go idle (`enum cpu_idle_type`)."""


# Over arrays ----------------------------------------------------------------------------------------------


def classify(
    kernel: str | KernelLike,
    *,
    sum_nr_running: Ints,
    group_weight: Ints,
    group_util: Ints,
    group_runnable: Ints = 0,
    group_capacity: Ints | None = None,
    imbalance_pct: Ints = 117,
    imbalanced: Ints = False,
    asym_packing: Ints = False,
    misfit_task_load: Ints = 0,
    smt_balance: Ints = False,
) -> GroupType | npt.NDArray[np.int8]:
    """The state of groups of CPUs: models group_classify() of kernel/sched/fair.c.

    Args:
        kernel: whose decision.
        sum_nr_running: runnable tasks.
        group_weight: CPUs.
        group_util: sum of the CPUs' utilization.
        group_runnable: sum of their runnable_avg; kernels before v5.7 do not read it.
        group_capacity: sum of their capacity; 1024 a CPU unless given.
        imbalance_pct: the domain's threshold in per cent, 100 = none.
        imbalanced: affinity stopped an earlier pull.
        asym_packing: the balancing CPU is preferred to the group's.
        misfit_task_load: load of a task too big for its CPU, 0 = none.
        smt_balance: the group is a core of several busy threads, against an idle CPU; read from v6.12 on.

    Returns:
        A `GroupType` if all arguments are scalars, otherwise their codes as int8 in the broadcast shape.

    Raises:
        ValueError: a value is no integer or out of range, shapes do not broadcast, or the kernel is unknown.
    """
    capacity = _capacity_of(group_weight) if group_capacity is None else group_capacity
    columns = _Columns(
        sum_nr_running=sum_nr_running,
        group_weight=group_weight,
        group_util=group_util,
        group_runnable=group_runnable,
        group_capacity=capacity,
        imbalance_pct=imbalance_pct,
        imbalanced=imbalanced,
        asym_packing=asym_packing,
        misfit_task_load=misfit_task_load,
        smt_balance=smt_balance,
    )
    codes = _core.balance_classify(_kernel_json(kernel), columns.size, columns.arrays)
    return GroupType(int(codes[0])) if columns.is_scalar else codes.reshape(columns.shape)


def group_type_names(codes: npt.ArrayLike) -> npt.NDArray[np.str_]:
    """The kernel's names of group type codes: `has_spare`, `overloaded`, ..., in the shape of the codes."""
    names = np.array([member.name.lower() for member in GroupType])
    array = _int_array("codes", codes)
    if array.size and (array.min() < 0 or array.max() >= len(names)):
        raise bad_argument("codes", codes, f"must be from 0 to {len(names) - 1}")
    return np.asarray(names[array])


@dataclasses.dataclass(frozen=True, kw_only=True)
class GroupStats:
    """Statistics of a group, or of as many groups as its arrays have values (`struct sg_lb_stats`).

    Attributes:
        sum_nr_running: runnable tasks.
        group_weight: CPUs.
        group_util: sum of utilization.
        group_load: sum of load.
        group_runnable: sum of runnable_avg.
        sum_h_nr_running: runnable fair tasks; as many as `sum_nr_running` unless given.
        idle_cpus: CPUs without a task; as many as the tasks can leave idle unless given.
        group_capacity: sum of capacity; 1024 a CPU unless given.
        group_type: the class; as the kernel classifies the other numbers unless given.
        group_cores: cores, which v6.12 spreads tasks over; as many as CPUs unless given.
        misfit_task_load: largest load of a misfit task; what v5.4 moves, and v6.12 where CPUs are alike.
    """

    sum_nr_running: Ints
    group_weight: Ints
    group_util: Ints
    group_load: Ints
    group_runnable: Ints = 0
    sum_h_nr_running: Ints | None = None
    idle_cpus: Ints | None = None
    group_capacity: Ints | None = None
    group_type: Ints | None = None
    group_cores: Ints | None = None
    misfit_task_load: Ints = 0

    def _columns(self, kernel: str | KernelLike, prefix: str, imbalance_pct: Ints) -> dict[str, Ints]:
        """The columns that the core reads, with everything that was left out filled in."""
        nr_running = _int_array(f"{prefix}sum_nr_running", self.sum_nr_running)
        weight = _int_array(f"{prefix}group_weight", self.group_weight)
        capacity = _capacity_of(weight) if self.group_capacity is None else self.group_capacity
        group_type = self.group_type
        if group_type is None:
            group_type = classify(
                kernel,
                sum_nr_running=nr_running,
                group_weight=weight,
                group_util=self.group_util,
                group_runnable=self.group_runnable,
                group_capacity=capacity,
                imbalance_pct=imbalance_pct,
                misfit_task_load=self.misfit_task_load,
            )
        idle_cpus = self.idle_cpus
        if idle_cpus is None:
            _broadcast({f"{prefix}group_weight": weight, f"{prefix}sum_nr_running": nr_running})
            idle_cpus = np.maximum(weight - nr_running, 0)
        fields = {
            "group_type": group_type,
            "group_load": self.group_load,
            "group_capacity": capacity,
            "group_util": self.group_util,
            "group_weight": weight,
            "sum_nr_running": nr_running,
            "sum_h_nr_running": nr_running if self.sum_h_nr_running is None else self.sum_h_nr_running,
            "idle_cpus": idle_cpus,
            "group_cores": weight if self.group_cores is None else self.group_cores,
            "misfit_task_load": self.misfit_task_load,
        }
        return {f"{prefix}{name}": value for name, value in fields.items()}


@dataclasses.dataclass(frozen=True)
class Imbalance:
    """How much to move between two groups.

    Attributes:
        imbalance: the amount; int, or int64 array.
        migration_type: what it counts; `MigrationType`, or int8 array of its codes.
    """

    imbalance: int | npt.NDArray[np.int64]
    migration_type: MigrationType | npt.NDArray[np.int8]


def calculate_imbalance(
    kernel: str | KernelLike,
    local: GroupStats,
    busiest: GroupStats,
    *,
    idle: str | Sequence[str] | npt.NDArray[np.str_] = "idle",
    imbalance_pct: Ints = 117,
    prefer_sibling: Ints = False,
    numa: Ints = False,
    share_llc: Ints = False,
    asym_cpucapacity: Ints = False,
    imb_numa_nr: Ints = 0,
    total_load: Ints | None = None,
    total_capacity: Ints | None = None,
) -> Imbalance:
    """What should move from the busiest group to the local one: models calculate_imbalance() of fair.c.

    The caller vouches that the pass came that far: `find_busiest_group` holds the tests before.

    Args:
        kernel: whose decision.
        local: the group that pulls.
        busiest: the group to pull from.
        idle: why the local CPU balances: `idle`, `busy`, `newidle`, or an array of these.
        imbalance_pct: the domain's threshold in per cent; it only serves to classify groups without a type.
        prefer_sibling: tasks should spread over the groups.
        numa: the domain spans NUMA nodes.
        share_llc: the domain shares its last-level cache; read from v6.12 on.
        asym_cpucapacity: its CPUs have different capacities; read from v6.12 on.
        imb_numa_nr: tasks up to which a node may keep an imbalance; read from v6.12 on.
        total_load: load of the whole domain; of the two groups unless given.
        total_capacity: capacity of the whole domain; of the two groups unless given.

    Returns:
        The imbalance and its unit, in the broadcast shape of all numbers.

    Raises:
        ValueError: a value is no integer or out of range, shapes do not broadcast, or the kernel is unknown.
    """
    numbers = {
        **local._columns(kernel, "local.", imbalance_pct),
        **busiest._columns(kernel, "busiest.", imbalance_pct),
    }
    totals = {"group_load": total_load, "group_capacity": total_capacity}
    for field, total in totals.items():
        name = field.replace("group", "total")
        numbers[name] = _sum(numbers, f"local.{field}", f"busiest.{field}") if total is None else total
    columns = _Columns(
        **numbers,
        prefer_sibling=prefer_sibling,
        numa=numa,
        share_llc=share_llc,
        asym_cpucapacity=asym_cpucapacity,
        imb_numa_nr=imb_numa_nr,
        idle=_idle_codes(idle),
    )
    imbalances, codes = _core.balance_calculate_imbalance(_kernel_json(kernel), columns.size, columns.arrays)
    if columns.is_scalar:
        return Imbalance(int(imbalances[0]), MigrationType(int(codes[0])))
    return Imbalance(imbalances.reshape(columns.shape), codes.reshape(columns.shape))


def wake_affine(
    kernel: str | KernelLike,
    *,
    this_load: Ints,
    prev_load: Ints,
    wakee_load: Ints,
    waker_load: Ints = 0,
    this_idle: Ints = False,
    prev_idle: Ints = False,
    this_nr_running: Ints = 1,
    this_capacity: Ints = 1024,
    prev_capacity: Ints = 1024,
    sync: Ints = False,
    share_cache: Ints = True,
    imbalance_pct: Ints = 117,
) -> WakeTarget | npt.NDArray[np.int8]:
    """The waker's CPU or the wakee's previous one: models wake_affine() of kernel/sched/fair.c.

    Args:
        kernel: whose decision.
        this_load: load of the waker's CPU.
        prev_load: load of the CPU where the wakee ran last.
        wakee_load: load of the task that wakes up (`task_h_load`).
        waker_load: load of the task that wakes it.
        this_idle: the waker's CPU idles (an interrupt wakes).
        prev_idle: the previous CPU idles.
        this_nr_running: runnable tasks on the waker's CPU.
        this_capacity: capacity of the waker's CPU.
        prev_capacity: capacity of the previous CPU.
        sync: the waker is about to sleep.
        share_cache: the two CPUs share their last-level cache.
        imbalance_pct: the domain's threshold in per cent.

    Returns:
        A `WakeTarget` if all arguments are scalars, otherwise codes as int8 in the broadcast shape.

    Raises:
        ValueError: a value is no integer or out of range, shapes do not broadcast, or the kernel is unknown.
    """
    columns = _Columns(
        this_load=this_load,
        prev_load=prev_load,
        wakee_load=wakee_load,
        waker_load=waker_load,
        this_idle=this_idle,
        prev_idle=prev_idle,
        this_nr_running=this_nr_running,
        this_capacity=this_capacity,
        prev_capacity=prev_capacity,
        sync=sync,
        share_cache=share_cache,
        imbalance_pct=imbalance_pct,
    )
    codes = _core.balance_wake_affine(_kernel_json(kernel), columns.size, columns.arrays)
    return WakeTarget(int(codes[0])) if columns.is_scalar else codes.reshape(columns.shape)


def wake_wide(
    kernel: str | KernelLike, *, waker_flips: Ints, wakee_flips: Ints, llc_size: Ints
) -> bool | npt.NDArray[np.bool_]:
    """Whether waker and wakee have too many partners to share a cache: models wake_wide() of fair.c.

    Args:
        kernel: whose decision.
        waker_flips: how often the waker changed its wakee lately.
        wakee_flips: the same of the wakee.
        llc_size: CPUs that share the last-level cache.

    Returns:
        A bool if all arguments are scalars, otherwise a boolean array in the broadcast shape.

    Raises:
        ValueError: a value is no integer or out of range, shapes do not broadcast, or the kernel is unknown.
    """
    columns = _Columns(waker_flips=waker_flips, wakee_flips=wakee_flips, llc_size=llc_size)
    wide = _core.balance_wake_wide(_kernel_json(kernel), columns.size, columns.arrays)
    return bool(wide[0]) if columns.is_scalar else wide.reshape(columns.shape)


# One situation --------------------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True, kw_only=True)
class Domain:
    """What a decision reads of a sched domain, and of the switches of the machine.

    Attributes:
        imbalance_pct: how much busier, in per cent, a group must be to be pulled from.
        numa: the domain spans NUMA nodes (SD_NUMA).
        asym_cpucapacity: its CPUs have different capacities (SD_ASYM_CPUCAPACITY).
        asym_packing: tasks are packed on preferred CPUs (SD_ASYM_PACKING).
        share_cpucapacity: its CPUs are threads of one core (SD_SHARE_CPUCAPACITY).
        share_llc: its CPUs share their last-level cache.
        prefer_sibling: the child domain has SD_PREFER_SIBLING: tasks spread over the groups.
        root: the domain has no parent.
        nr_balance_failed: balance passes that failed since the last success.
        cache_nice_tries: failures to tolerate before cache-hot tasks move.
        imb_numa_nr: NUMA imbalance allowed by kernels from 5.18 on.
        smt_active: hardware threads are in use somewhere in the machine.
        energy_aware: energy-aware scheduling is on.
        perf_domains: the root domain has performance domains.
        overutilized: the root domain was over-utilised before the pass.
    """

    imbalance_pct: int = 117
    numa: bool = False
    asym_cpucapacity: bool = False
    asym_packing: bool = False
    share_cpucapacity: bool = False
    share_llc: bool = False
    prefer_sibling: bool = False
    root: bool = True
    nr_balance_failed: int = 0
    cache_nice_tries: int = 1
    imb_numa_nr: int = 0
    smt_active: bool = False
    energy_aware: bool = False
    perf_domains: bool = False
    overutilized: bool = False


@dataclasses.dataclass(frozen=True)
class Group:
    """A sched group of a domain.

    Attributes:
        cpus: its CPU numbers.
        imbalanced: affinity stopped an earlier pull from it.
        capacity: capacity; the sum of its CPUs' unless given.
        min_capacity: the smallest of its CPUs' unless given.
        max_capacity: the largest of its CPUs' unless given.
        asym_prefer_cpu: its CPU of highest asym-packing priority; its lowest CPU unless given.
        share_cpucapacity: it is the threads of one core; read from v6.12 on.
        prefer_sibling: tasks should spread from it to its siblings; read from v6.12 on.
        cores: its cores, read from v6.12 on; those of its CPUs unless given.
    """

    cpus: Sequence[int]
    imbalanced: bool = False
    capacity: int | None = None
    min_capacity: int | None = None
    max_capacity: int | None = None
    asym_prefer_cpu: int | None = None
    share_cpucapacity: bool = False
    prefer_sibling: bool = False
    cores: int | None = None


@dataclasses.dataclass(frozen=True)
class Cpus:
    """What a decision reads of the runqueues: integer sequences over CPU numbers, all equally long.

    Attributes:
        nr_running: runnable tasks of every class.
        load: load_avg of the root cfs_rq, blocked tasks included; v5.4: runnable_load_avg, without them.
        load_avg: load_avg, where v5.4 reads it beside `load`; as `load` unless given.
        util: utilization.
        runnable: runnable_avg of the root cfs_rq; read from v5.7 on.
        h_nr_running: runnable fair tasks; as `nr_running` unless given.
        idle: which CPUs idle; those without a task unless given.
        capacity: capacity left for fair tasks; 1024 unless given.
        capacity_orig: capacity without other classes and interrupts; as `capacity` unless given.
        misfit_task_load: load of a task too big for the CPU, 0 = none.
        nr_numa_running: tasks with a preferred node.
        nr_preferred_running: tasks on their preferred node.
        asym_prio: asym-packing priority, higher is preferred.
        core: core numbers; CPUs with the same are threads of one core.
    """

    nr_running: npt.ArrayLike
    load: npt.ArrayLike | None = None
    load_avg: npt.ArrayLike | None = None
    util: npt.ArrayLike | None = None
    runnable: npt.ArrayLike | None = None
    h_nr_running: npt.ArrayLike | None = None
    idle: npt.ArrayLike | None = None
    capacity: npt.ArrayLike | None = None
    capacity_orig: npt.ArrayLike | None = None
    misfit_task_load: npt.ArrayLike | None = None
    nr_numa_running: npt.ArrayLike | None = None
    nr_preferred_running: npt.ArrayLike | None = None
    asym_prio: npt.ArrayLike | None = None
    core: npt.ArrayLike | None = None

    def _to_case(self) -> dict[str, list[int]]:
        case: dict[str, list[int]] = {}
        for field in dataclasses.fields(self):
            value = getattr(self, field.name)
            if value is not None:
                array = _int_array(f"cpus.{field.name}", value)
                if array.ndim != 1 or array.size == 0:
                    rule = "must be a sequence with one value a CPU"
                    raise bad_argument(f"cpus.{field.name}", value, rule)
                minimum = -(2**31) if field.name == "asym_prio" else 0
                bad = np.flatnonzero((array < minimum) | (array >= 2**31))
                if bad.size:
                    name = f"cpus.{field.name}[{bad[0]}]"
                    raise bad_argument(name, int(array[bad[0]]), f"must be from {minimum} to {2**31 - 1}")
                case[field.name] = array.tolist()
        case.setdefault("h_nr_running", case["nr_running"])
        case.setdefault("idle", [int(nr == 0) for nr in case["nr_running"]])
        if "capacity" in case:
            case.setdefault("capacity_orig", case["capacity"])
        return case


@dataclasses.dataclass(frozen=True)
class GroupResult:
    """Statistics of a group as the kernel saw them (`struct sg_lb_stats`).

    Attributes:
        group_type: the class.
        group_load: sum of load.
        group_util: sum of utilization.
        group_runnable: sum of runnable_avg; 0 where the kernel does not read it.
        sum_nr_running: runnable tasks.
        sum_h_nr_running: runnable fair tasks.
        idle_cpus: idle CPUs.
        avg_load: load over capacity; 0 unless the kernel computed it.
        group_misfit_task_load: largest load of a misfit task.
        load_per_task: load of an average task; 0 except in v5.4.
    """

    group_type: GroupType
    group_load: int
    group_util: int
    group_runnable: int
    sum_nr_running: int
    sum_h_nr_running: int
    idle_cpus: int
    avg_load: int
    group_misfit_task_load: int
    load_per_task: int

    @classmethod
    def _from_case(cls, fields: Mapping[str, Any]) -> GroupResult:
        return cls(**{**fields, "group_type": GroupType[fields["group_type"].upper()]})


def _frame(groups: Sequence[GroupResult | None]) -> pd.DataFrame:
    """One row a group that has statistics, the position in the ring as index."""
    rows = {index: dataclasses.asdict(group) for index, group in enumerate(groups) if group is not None}
    frame = pd.DataFrame.from_dict(rows, orient="index")
    frame["group_type"] = [GroupType(code).name.lower() for code in frame["group_type"]]
    frame.index.name = "group"
    return frame


@dataclasses.dataclass(frozen=True)
class BusiestGroup:
    """What a balance pass decides before it looks at tasks.

    Attributes:
        groups: statistics of the groups in the order given, the local one first.
        busiest: position of the group to pull from; None if the domain is balanced.
        imbalance: how much to move, 0 if balanced.
        migration_type: what the imbalance counts; None if balanced.
        fbq_type: which queues may be pulled from in a NUMA domain: 0 those with tasks without a preferred
            node, 1 also those with tasks off it, 2 all.
        src_cpu: CPU to pull from; None if balanced or no CPU qualifies.
        active_balance: whether the running task of `src_cpu` would be pushed if no other could be moved.
        nr_idle_scan: CPUs that wake-ups may look at in the last-level cache from now on; None where the pass
            does not set it, as before v6.12.
    """

    groups: tuple[GroupResult, ...]
    busiest: int | None
    imbalance: int
    migration_type: MigrationType | None
    fbq_type: int
    src_cpu: int | None
    active_balance: bool
    nr_idle_scan: int | None

    def to_pandas(self) -> pd.DataFrame:
        """One row a group, its position as index; the type by name."""
        return _frame(self.groups)


def find_busiest_group(
    kernel: str | KernelLike,
    *,
    groups: Sequence[Group],
    cpus: Cpus,
    domain: Domain | None = None,
    dst_cpu: int = 0,
    idle: str = "idle",
    excluded: Sequence[int] = (),
) -> BusiestGroup:
    """Which group to pull from, how much, and from which CPU.

    Models find_busiest_group(), find_busiest_queue() and need_active_balance() of kernel/sched/fair.c.

    Args:
        kernel: whose decisions.
        groups: the domain's groups, the one of `dst_cpu` first.
        cpus: the runqueues.
        domain: the domain; without flags unless given.
        dst_cpu: CPU that pulls.
        idle: why it balances: `idle`, `busy` or `newidle`.
        excluded: CPUs that are left out of the pass (taken from `env->cpus`).

    Raises:
        ValueError: a number is out of range, a CPU does not exist, or the kernel is unknown.
    """
    case = {
        "idle": choice("idle", idle, IDLE_TYPES),
        "dst_cpu": integer("dst_cpu", dst_cpu, 0),
        "excluded": _cpu_list("excluded", excluded),
        **_domain_case(domain, groups, cpus),
    }
    answer = _decide(kernel, "find_busiest_group", case)
    migration = answer["migration_type"]
    return BusiestGroup(
        groups=tuple(GroupResult._from_case(group) for group in answer["groups"]),
        busiest=answer["busiest"],
        imbalance=answer["imbalance"],
        migration_type=None if migration is None else MigrationType[migration.upper()],
        fbq_type=answer["fbq_type"],
        src_cpu=answer["src_cpu"],
        active_balance=bool(answer["active_balance"]),
        nr_idle_scan=answer["nr_idle_scan"],
    )


@dataclasses.dataclass(frozen=True, kw_only=True)
class PlacedTask:
    """A task that forks, execs or wakes up, as the slow path of its placement sees it.

    Attributes:
        cpu: its present or previous CPU.
        load: `task_h_load()`.
        util: `task_util_est()`.
        runnable: its runnable_avg; as `util` unless given.
        new: it is being forked, and contributes nowhere yet.
        queued: it execs, and runs on `cpu` just now.
        allowed: CPUs where it may run; everywhere unless given.
        preferred_node: its preferred NUMA node: in a NUMA domain the position of a group.
        unrestricted: nobody ever restricted it, even to the CPUs that there are; v6.12 then lets it add to
            the imbalance of a node as far as the domain allows. Without `allowed` only.
    """

    cpu: int
    load: int
    util: int
    runnable: int | None = None
    new: bool = False
    queued: bool = False
    allowed: Sequence[int] | None = None
    preferred_node: int | None = None
    unrestricted: bool = False

    def _to_case(self) -> dict[str, Any]:
        return {
            "cpu": integer("task.cpu", self.cpu, 0),
            "load": integer("task.load", self.load, 0),
            "util": integer("task.util", self.util, 0),
            "runnable": integer("task.runnable", self.util if self.runnable is None else self.runnable, 0),
            "new": _flag("task.new", self.new),
            "queued": _flag("task.queued", self.queued),
            "allowed": None if self.allowed is None else _cpu_list("task.allowed", self.allowed),
            "preferred_node": _node("task.preferred_node", self.preferred_node),
            "unrestricted": _flag("task.unrestricted", self.unrestricted),
        }


@dataclasses.dataclass(frozen=True)
class IdlestGroup:
    """Where a task goes on the slow path of its placement.

    Attributes:
        groups: statistics of the groups without the task; None where it may not run.
        idlest: position of the group to go to; None = it stays in the local group.
    """

    groups: tuple[GroupResult | None, ...]
    idlest: int | None

    def to_pandas(self) -> pd.DataFrame:
        """One row a group where the task may run, its position as index; the type by name."""
        return _frame(self.groups)


def find_idlest_group(
    kernel: str | KernelLike,
    task: PlacedTask,
    *,
    groups: Sequence[Group],
    cpus: Cpus,
    domain: Domain | None = None,
    this_cpu: int = 0,
) -> IdlestGroup:
    """Which group a task that forks, execs or wakes slowly goes to: models find_idlest_group() of fair.c.

    Args:
        kernel: whose decision.
        task: the task.
        groups: the domain's groups, the one of `this_cpu` first.
        cpus: the runqueues, with the task where it still contributes.
        domain: the domain; without flags unless given.
        this_cpu: CPU of the caller.

    Raises:
        ValueError: a number is out of range, a CPU does not exist, or the kernel is unknown.
    """
    case = {
        "this_cpu": integer("this_cpu", this_cpu, 0),
        "task": task._to_case(),
        **_domain_case(domain, groups, cpus),
    }
    answer = _decide(kernel, "find_idlest_group", case)
    stats = [None if group is None else GroupResult._from_case(group) for group in answer["groups"]]
    return IdlestGroup(groups=tuple(stats), idlest=answer["idlest"])


@dataclasses.dataclass(frozen=True, kw_only=True)
class QueuedTask:
    """A task on the list that a pull scans.

    Attributes:
        load: `task_h_load()`.
        util: `task_util_est()`.
        age_ns: time since it last started to run.
        running: it runs just now.
        idle_policy: its policy is SCHED_IDLE.
        next_buddy: the queue would run it next.
        last_buddy: the queue would return to it.
        throttled: its group used up its quota.
        per_cpu_kthread: it is a kernel thread bound to one CPU; read from v6.12 on.
        eligible: it is not ahead of the average of its queue; the patch eligible-first reads it.
        allowed: CPUs where it may run; everywhere unless given.
        preferred_node: its preferred NUMA node.
        numa_weights: NUMA fault weights on the nodes of source and destination; None without fault records.
    """

    load: int
    util: int
    age_ns: int = 10**9
    running: bool = False
    idle_policy: bool = False
    next_buddy: bool = False
    last_buddy: bool = False
    throttled: bool = False
    per_cpu_kthread: bool = False
    eligible: bool = True
    allowed: Sequence[int] | None = None
    preferred_node: int | None = None
    numa_weights: tuple[int, int] | None = None

    def _to_case(self, name: str) -> dict[str, Any]:
        flags = (
            "running",
            "idle_policy",
            "next_buddy",
            "last_buddy",
            "throttled",
            "per_cpu_kthread",
            "eligible",
        )
        weights = (0, 0) if self.numa_weights is None else tuple(self.numa_weights)
        if len(weights) != 2:
            raise bad_argument(f"{name}.numa_weights", self.numa_weights, "must be two weights")
        return {
            "load": integer(f"{name}.load", self.load, 0),
            "util": integer(f"{name}.util", self.util, 0),
            "age_ns": integer(f"{name}.age_ns", self.age_ns, -(2**62), 2**62),
            **{flag: _flag(f"{name}.{flag}", getattr(self, flag)) for flag in flags},
            "allowed": None if self.allowed is None else _cpu_list(f"{name}.allowed", self.allowed),
            "preferred_node": _node(f"{name}.preferred_node", self.preferred_node),
            "faults": self.numa_weights is not None,
            "weights": [integer(f"{name}.numa_weights", weight, 0, 2**32) for weight in weights],
        }


@dataclasses.dataclass(frozen=True)
class DetachedTasks:
    """What a pull took.

    Attributes:
        detached: the tasks taken, as positions in the list given, in order.
        left: the tasks left, in the order in which the next pull would look at them.
        imbalance: what is left to move.
        nr_looked_at: tasks looked at, the one that ended the scan included.
        all_pinned: no task that was looked at may run on the destination.
        some_pinned: some task may not.
        need_break: the scan took a break after 32 tasks and would go on.
        new_dst_cpu: another CPU of the destination's group where a pinned task may run; None = none found.
    """

    detached: tuple[int, ...]
    left: tuple[int, ...]
    imbalance: int
    nr_looked_at: int
    all_pinned: bool
    some_pinned: bool
    need_break: bool
    new_dst_cpu: int | None


def detach_tasks(
    kernel: str | KernelLike,
    tasks: Sequence[QueuedTask],
    *,
    migration_type: MigrationType | str,
    imbalance: int,
    idle: str = "idle",
    src_cpu: int = 1,
    src_node: int = 0,
    src_nr_running: int | None = None,
    src_nr_preferred_running: int = 0,
    src_capacity: int = 1024,
    dst_cpu: int = 0,
    dst_node: int = 0,
    dst_nr_running: int = 0,
    dst_group_weight: int = 1,
    dst_in_cpus: bool = True,
    numa: bool = False,
    share_cpucapacity: bool = False,
    active_lb: bool = False,
    numa_balancing: bool = False,
    nr_balance_failed: int = 0,
    cache_nice_tries: int = 1,
    loop_max: int | None = None,
    migration_cost_ns: int = 500_000,
    preemption: bool = True,
) -> DetachedTasks:
    """Which tasks a pull takes: models detach_tasks() and can_migrate_task() of kernel/sched/fair.c.

    Args:
        kernel: whose decisions.
        tasks: the source's tasks in the order in which they are looked at: the tail of the kernel's list
            first.
        migration_type: what the imbalance counts: `load`, `util`, `task` or `misfit`.
        imbalance: how much to move.
        idle: why the destination balances: `idle`, `busy` or `newidle`.
        src_cpu: CPU to pull from, not below `dst_group_weight`.
        src_node: its NUMA node.
        src_nr_running: its runnable tasks of every class; as many as `tasks` unless given.
        src_nr_preferred_running: tasks on it that prefer its node.
        src_capacity: its capacity.
        dst_cpu: CPU that pulls, one of the group of CPUs from 0 up to `dst_group_weight`.
        dst_node: its NUMA node.
        dst_nr_running: its runnable tasks.
        dst_group_weight: CPUs of its group.
        dst_in_cpus: it still takes part in the pass.
        numa: the domain spans NUMA nodes.
        share_cpucapacity: the domain is the threads of one core; read from v6.12 on.
        active_lb: the pass is an active balance; read from v6.12 on.
        numa_balancing: NUMA balancing is on.
        nr_balance_failed: balance passes that failed since the last success.
        cache_nice_tries: failures to tolerate before cache-hot tasks move.
        loop_max: most tasks to look at; 32 or `src_nr_running`, whichever is less, unless given.
        migration_cost_ns: a task that ran less long ago is cache-hot; 0 = none is, -1 = all are.
        preemption: the kernel is preemptible: a newly idle CPU takes one task only.

    Raises:
        ValueError: a number is out of range, a CPU is in the wrong place, or the kernel is unknown.
    """
    if isinstance(migration_type, MigrationType):
        migration_type = migration_type.name.lower()
    names = [member.name.lower() for member in MigrationType]
    nr_running = integer("src_nr_running", len(tasks) if src_nr_running is None else src_nr_running, 0)
    case = {
        "preemption": _flag("preemption", preemption),
        "idle": choice("idle", idle, IDLE_TYPES),
        "migration_type": choice("migration_type", migration_type, names),
        "imbalance": integer("imbalance", imbalance, 0),
        "sd": {
            "numa": _flag("numa", numa),
            "share_cpucapacity": _flag("share_cpucapacity", share_cpucapacity),
            "nr_balance_failed": integer("nr_balance_failed", nr_balance_failed, 0, 2**32 - 1),
            "cache_nice_tries": integer("cache_nice_tries", cache_nice_tries, 0, 2**32 - 1),
        },
        "src": {
            "cpu": integer("src_cpu", src_cpu, 0),
            "node": integer("src_node", src_node, 0, 2**31 - 1),
            "nr_running": nr_running,
            "nr_preferred_running": integer(
                "src_nr_preferred_running", src_nr_preferred_running, 0, nr_running
            ),
            "capacity": integer("src_capacity", src_capacity, 1),
        },
        "dst": {
            "cpu": integer("dst_cpu", dst_cpu, 0),
            "node": integer("dst_node", dst_node, 0, 2**31 - 1),
            "nr_running": integer("dst_nr_running", dst_nr_running, 0, 2**31 - 1),
            "group_weight": integer("dst_group_weight", dst_group_weight, 1),
            "in_cpus": _flag("dst_in_cpus", dst_in_cpus),
        },
        "loop_max": integer("loop_max", min(32, nr_running) if loop_max is None else loop_max, 0, 2**32 - 2),
        "migration_cost_ns": integer("migration_cost_ns", migration_cost_ns, -1, 2**62),
        "numa_balancing": _flag("numa_balancing", numa_balancing),
        "active_lb": _flag("active_lb", active_lb),
        "tasks": [task._to_case(f"tasks[{index}]") for index, task in enumerate(tasks)],
    }
    answer = _decide(kernel, "detach_tasks", case)
    return DetachedTasks(
        detached=tuple(answer["detached"]),
        left=tuple(answer["left"]),
        imbalance=answer["imbalance"],
        nr_looked_at=answer["nr_looked_at"],
        all_pinned=answer["all_pinned"],
        some_pinned=answer["some_pinned"],
        need_break=answer["need_break"],
        new_dst_cpu=answer["new_dst_cpu"],
    )


def should_we_balance(
    kernel: str | KernelLike,
    *,
    idle_cpus: Sequence[bool] | npt.NDArray[np.bool_],
    dst_cpu: int = 0,
    idle: str = "idle",
    mask: Sequence[int] | None = None,
    cpus: Sequence[int] | None = None,
    group_weight: int | None = None,
    core: npt.ArrayLike | None = None,
    share_cpucapacity: bool = False,
    nr_running: npt.ArrayLike | None = None,
    ttwu_pending: bool = False,
) -> bool:
    """Whether a CPU is the one to balance for its group: models should_we_balance() of kernel/sched/fair.c.

    Args:
        kernel: whose decision.
        idle_cpus: which CPUs idle: those of the local group, 0 and up, and their siblings beyond it.
        dst_cpu: CPU that asks.
        idle: why: `idle`, `busy` or `newidle`.
        mask: CPUs that may balance for the group (its balance mask); all of them unless given.
        cpus: CPUs of the group that take part in the pass (`env->cpus`); all of them unless given.
        group_weight: CPUs of the local group; as many as `idle_cpus` has unless given.
        core: core number of each CPU, read from v6.12 on; each its own core unless given.
        share_cpucapacity: the domain is the threads of one core; read from v6.12 on.
        nr_running: runnable tasks of each CPU, read from v6.12 on; none unless given.
        ttwu_pending: woken tasks are on their way to `dst_cpu`; read from v6.12 on.

    Raises:
        ValueError: a CPU is outside the group, or the kernel is unknown.
    """
    flags = _int_array("idle_cpus", idle_cpus)
    if flags.ndim != 1 or flags.size == 0 or not np.isin(flags, (0, 1)).all():
        raise bad_argument("idle_cpus", idle_cpus, "must be a sequence with one flag a CPU")
    weight = integer("group_weight", flags.size if group_weight is None else group_weight, 1, flags.size)
    everything = range(weight)
    case: dict[str, Any] = {
        "idle": choice("idle", idle, IDLE_TYPES),
        "dst_cpu": integer("dst_cpu", dst_cpu, 0),
        "weight": weight,
        "idle_cpus": flags.tolist(),
        "mask": _cpu_list("mask", everything if mask is None else mask),
        "cpus": _cpu_list("cpus", everything if cpus is None else cpus),
        "share_cpucapacity": _flag("share_cpucapacity", share_cpucapacity),
        "ttwu_pending": _flag("ttwu_pending", ttwu_pending),
    }
    for name, column in (("core", core), ("nr_running", nr_running)):
        if column is not None:
            case[name] = [integer(name, int(value), 0, 2**31 - 1) for value in _int_array(name, column).flat]
    answer = _decide(kernel, "should_we_balance", case)
    return bool(answer)


@dataclasses.dataclass(frozen=True, kw_only=True)
class NumaTask:
    """What NUMA balancing knows of a task.

    Attributes:
        load: `task_h_load()`.
        task_weights: thousandths of its own NUMA faults on node 0 and node 1.
        group_weights: thousandths of its group's faults on node 0 and node 1.
        numa_group: number of its NUMA group; None = none.
        preferred_node: its preferred node, 0 or 1; None = none.
        allowed: CPUs where it may run; everywhere unless given.
        exiting: it is about to exit.
    """

    load: int
    task_weights: tuple[int, int]
    group_weights: tuple[int, int] = (0, 0)
    numa_group: int | None = None
    preferred_node: int | None = None
    allowed: Sequence[int] | None = None
    exiting: bool = False

    def _to_case(self, name: str) -> dict[str, Any]:
        case: dict[str, Any] = {
            "load": integer(f"{name}.load", self.load, 0),
            "numa_group": _node(f"{name}.numa_group", self.numa_group),
            "preferred_node": None,
            "allowed": None if self.allowed is None else _cpu_list(f"{name}.allowed", self.allowed),
            "exiting": _flag(f"{name}.exiting", self.exiting),
        }
        if self.preferred_node is not None:
            case["preferred_node"] = integer(f"{name}.preferred_node", self.preferred_node, 0, 1)
        for field in ("task_weights", "group_weights"):
            weights = tuple(getattr(self, field))
            if len(weights) != 2:
                raise bad_argument(f"{name}.{field}", weights, "must be two weights")
            case[field] = [integer(f"{name}.{field}", weight, 0, 2**20) for weight in weights]
        return case


@dataclasses.dataclass(frozen=True)
class NumaStats:
    """Statistics of a NUMA node (`struct numa_stats`).

    Attributes:
        node_type: `has_spare`, `fully_busy` or `overloaded`; None before v5.7, which does not class nodes.
        load: sum of load.
        util: sum of utilization; 0 before v5.7.
        runnable: sum of runnable_avg; 0 where the kernel does not read it.
        compute_capacity: sum of capacity.
        nr_running: runnable fair tasks; 0 before v5.7.
        idle_cpu: idle CPU that the task could take, on an idle core if there is one; looked for on node 1
            only, from v5.7.
    """

    node_type: str | None
    load: int
    util: int
    runnable: int
    compute_capacity: int
    nr_running: int
    idle_cpu: int | None


@dataclasses.dataclass(frozen=True)
class NumaPlacement:
    """Where a task would go on another node.

    Attributes:
        src: statistics of node 0, where the task runs.
        dst: statistics of node 1.
        load_too_imbalanced: the nodes' loads would be further apart than now if the task just moved.
        adjusted_imbalance: tasks of imbalance after a move that the load balancer would not tolerate; None
            before v5.7, which does not ask.
        best_cpu: the place; None = none was found.
        swap_with: CPU whose running task goes the other way, that is `best_cpu`; None = a plain move.
        best_imp: what is gained, in thousandths of faults; 0 if an idle CPU was taken at once.
    """

    src: NumaStats
    dst: NumaStats
    load_too_imbalanced: bool
    adjusted_imbalance: int | None
    best_cpu: int | None
    swap_with: int | None
    best_imp: int


def task_numa_find_cpu(
    kernel: str | KernelLike,
    task: NumaTask,
    *,
    cpu: int,
    curr: Sequence[NumaTask | None],
    cpus: Cpus,
    imbalance_pct: int = 112,
    imb_numa_nr: int = 1,
    threads_per_core: int = 1,
    numa_migrate_on: Sequence[int] = (),
    claimed_later: int | None = None,
) -> NumaPlacement:
    """Where a task that wants to run near its memory would go: models task_numa_find_cpu() of fair.c.

    There are two nodes with as many CPUs each: node 0 is the first half of `cpus` and has the task, node 1
    the second half.

    Args:
        kernel: whose decisions.
        task: the task.
        cpu: CPU of node 0 where it runs.
        curr: the tasks that run on node 1, one entry a CPU; None = the idle task.
        cpus: the runqueues; `nr_running`, `h_nr_running`, `load`, `util`, `runnable` and `capacity` are read.
            CPUs without a task are idle. Up to v5.6 `load` is that of queued tasks only.
        imbalance_pct: half of what the NUMA domain tolerates, in per cent: 112 up to v5.7, 108 in v6.12.
        imb_numa_nr: tasks up to which v6.12 tolerates an imbalance; earlier kernels do not read it.
        threads_per_core: hardware threads of a core, whose CPUs are consecutive.
        numa_migrate_on: CPUs that take part in another move or swap.
        claimed_later: CPU that another move claims after the statistics were taken; None = none.

    Raises:
        ValueError: a number is out of range, a CPU is in the wrong place, or the kernel is unknown.
    """
    columns = ("nr_running", "h_nr_running", "load", "util", "runnable", "capacity")
    for field in dataclasses.fields(cpus):
        value = getattr(cpus, field.name)
        if field.name not in columns and value is not None:
            raise bad_argument(
                f"cpus.{field.name}", value, "must not be given: NUMA placement does not read it"
            )
    stats = cpus._to_case()
    nr_cpus = len(stats["nr_running"])
    if nr_cpus % 2:
        raise bad_argument("cpus.nr_running", f"{nr_cpus} values", "must be two nodes of as many CPUs each")
    claimed = _cpu_list("numa_migrate_on", numa_migrate_on)
    if claimed and max(claimed) >= nr_cpus:
        raise bad_argument("numa_migrate_on", max(claimed), f"must be a CPU, that is below {nr_cpus}")
    case = {
        "node_weight": nr_cpus // 2,
        "threads_per_core": integer("threads_per_core", threads_per_core, 1),
        "imbalance_pct": integer("imbalance_pct", imbalance_pct, 0, 2**32 - 1),
        "imb_numa_nr": integer("imb_numa_nr", imb_numa_nr, 0, 2**32 - 1),
        **{name: stats[name] for name in columns if name in stats},
        "numa_migrate_on": [int(index in claimed) for index in range(nr_cpus)],
        "claimed_later": None if claimed_later is None else integer("claimed_later", claimed_later, 0),
        "task": {**task._to_case("task"), "cpu": integer("cpu", cpu, 0)},
        "curr": [
            None if running is None else running._to_case(f"curr[{index}]")
            for index, running in enumerate(curr)
        ],
    }
    answer = _decide(kernel, "task_numa_find_cpu", case)
    return NumaPlacement(**{**answer, "src": NumaStats(**answer["src"]), "dst": NumaStats(**answer["dst"])})


# Conversions ----------------------------------------------------------------------------------------------


class _Columns:
    """Integer arrays that broadcast against each other, as the core takes them: flat, or one value."""

    def __init__(self, **values: Ints) -> None:
        arrays = {name: _int_array(name, value) for name, value in values.items()}
        self.shape = _broadcast(arrays)
        self.is_scalar = self.shape == () and all(array.ndim == 0 for array in arrays.values())
        self.size = int(np.prod(self.shape, dtype=np.int64))
        self.arrays = {
            name: array.reshape(1)
            if array.size == 1
            else np.ascontiguousarray(np.broadcast_to(array, self.shape)).reshape(-1)
            for name, array in arrays.items()
        }


def _int_array(name: str, value: npt.ArrayLike) -> npt.NDArray[np.int64]:
    """The value as an int64 array; floats, whole ones too, are refused."""
    try:
        array = np.asarray(value)
    except ValueError:
        raise bad_argument(name, value, "must be a regular array of integers") from None
    if array.size == 0 and array.dtype == np.float64:
        array = array.astype(np.int64)
    if array.dtype.kind not in "bui":
        raise bad_argument(name, value, "must be integers")
    if array.dtype.kind == "u" and array.size and array.max() > np.iinfo(np.int64).max:
        raise bad_argument(name, int(array.max()), f"must be at most {np.iinfo(np.int64).max}")
    return array.astype(np.int64, copy=False)


def _broadcast(arrays: Mapping[str, npt.NDArray[np.int64]]) -> tuple[int, ...]:
    try:
        return np.broadcast_shapes(*(array.shape for array in arrays.values()))
    except ValueError:
        shapes = {name: array.shape for name, array in arrays.items() if array.ndim}
        given = ", ".join(f"{name} {shape}" for name, shape in shapes.items())
        raise bad_argument(", ".join(shapes), given, "shapes must broadcast against each other") from None


def _sum(numbers: Mapping[str, Ints], *names: str) -> npt.NDArray[np.int64]:
    arrays = {name: _int_array(name, numbers[name]) for name in names}
    _broadcast(arrays)
    return np.asarray(sum(arrays.values()))


def _capacity_of(group_weight: Ints) -> npt.NDArray[np.int64]:
    return np.asarray(_int_array("group_weight", group_weight) * 1024)


def _idle_codes(idle: str | Sequence[str] | npt.NDArray[np.str_]) -> npt.NDArray[np.int64]:
    names = np.asarray(idle)
    for name in np.unique(names):
        choice("idle", str(name), IDLE_TYPES)
    codes = np.zeros(names.shape, dtype=np.int64)
    for code, name in enumerate(IDLE_TYPES):
        codes[names == name] = code
    return codes


def _cpu_list(name: str, cpus: Sequence[int]) -> list[int]:
    return [integer(name, cpu, 0, 2**31 - 1) for cpu in cpus]


def _flag(name: str, value: object) -> bool:
    if not isinstance(value, bool | np.bool_):
        raise bad_argument(name, value, "must be True or False")
    return bool(value)


def _node(name: str, node: int | None) -> int | None:
    return None if node is None else integer(name, node, 0, 2**31 - 1)


def _domain_case(domain: Domain | None, groups: Sequence[Group], cpus: Cpus) -> dict[str, Any]:
    fields: dict[str, Any] = {}
    domain = domain or Domain()
    for field in dataclasses.fields(domain):
        name, value = f"domain.{field.name}", getattr(domain, field.name)
        is_flag = isinstance(field.default, bool)
        fields[field.name] = _flag(name, value) if is_flag else integer(name, value, 0, 2**32 - 1)
    return {
        "sd": fields,
        "groups": [_group_case(index, group) for index, group in enumerate(groups)],
        "cpus": cpus._to_case(),
    }


def _group_case(index: int, group: Group) -> dict[str, Any]:
    name = f"groups[{index}]"
    case: dict[str, Any] = {
        "cpus": _cpu_list(f"{name}.cpus", group.cpus),
        "imbalanced": _flag(f"{name}.imbalanced", group.imbalanced),
        "share_cpucapacity": _flag(f"{name}.share_cpucapacity", group.share_cpucapacity),
        "prefer_sibling": _flag(f"{name}.prefer_sibling", group.prefer_sibling),
    }
    if not case["cpus"]:
        raise bad_argument(f"{name}.cpus", group.cpus, "must hold at least one CPU")
    for field in ("capacity", "min_capacity", "max_capacity", "asym_prefer_cpu", "cores"):
        value = getattr(group, field)
        case[field] = None if value is None else integer(f"{name}.{field}", value, 0)
    return case


def _decide(kernel: str | KernelLike, decision: str, case: Mapping[str, Any]) -> Any:
    return json.loads(_core.balance_decide(_kernel_json(kernel), decision, json.dumps(case)))


def _kernel_json(kernel: str | KernelLike) -> str:
    if isinstance(kernel, str):
        return json.dumps({"name": kernel})
    to_json = getattr(kernel, "to_json", None)
    if to_json is None:
        raise bad_argument("kernel", kernel, "must be the name of a generation or a schedlab.Kernel")
    return str(to_json())
