"""A load of the user's own: tasks of several kinds under one clock."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Sequence
from typing import Any, ClassVar

from schedlab._arguments import bad_argument, choice, integer
from schedlab.hotplug import Hotplug
from schedlab.memory import Memory

MOST_US = 3_600_000_000
"""The longest time that a task may be given, us: an hour."""

MOST_QUOTA_US = (1 << 44) - 1
"""The largest quota of a group, us, the kernel's."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Task:
    """What all kinds of task have: how many, when, how heavy, where.

    Attributes:
        n: how many equal tasks; pairs of a `PingPong`, children of a `ForkStorm`.
        start_us: when they start, us after the clock.
        jitter_us: each starts up to so much later, evenly drawn by the seed.
        nice: nice level, -20 to 19.
        mask: CPUs that they may use; None for all.
        release: (time in us, CPUs): from then on they may use these CPUs.
        group: name of the task group (cgroup) that they are in; None for the root.
        session: name of their session (setsid()). Under the tunable `autogroup` the tasks of a session are a
            group of 1024 shares, unless they are in a group already; otherwise it means nothing.
        memory: what they keep in memory, of hogs, periodic tasks and barriers; None: it is not looked at.
        policy: `normal`; `idle` (SCHED_IDLE): they run when nothing else wants to, with a weight of 3,
            whatever their nice level; or `fifo`, the real-time class: hogs and periodic tasks, bound to one
            CPU by `mask`, run there before every fair task, and what they use is lost to these. Nothing
            throttles them.
        priority: of a `fifo` task, 1 to 99, the higher goes first; 0 for the fair class.
        uclamp_min: placed as if they needed at least so much, 0 to 1024 = the biggest CPU; read from v5.7 on.
        uclamp_max: placed as if they needed at most so much. Neither changes the speed of a CPU.
        kthread: kernel threads, bound to one CPU by `mask`.

    Raises:
        ValueError: a number is not an integer in its range, a mask is empty, or a group is not a name; once
            there is a machine, the mask of a real-time task or kernel thread is not one CPU.
    """

    n: int = 1
    start_us: int = 0
    jitter_us: int = 0
    nice: int = 0
    mask: tuple[int, ...] | None = None
    release: tuple[int, tuple[int, ...]] | None = None
    group: str | None = None
    session: str | None = None
    memory: Memory | None = None
    policy: str = "normal"
    priority: int = 0
    uclamp_min: int = 0
    uclamp_max: int = 1024
    kthread: bool = False

    kind: ClassVar[str]

    def __post_init__(self) -> None:
        """Checks types and ranges; whether a CPU exists, the machine will say."""
        put = object.__setattr__
        put(self, "n", integer("n", self.n, 1))
        for field in dataclasses.fields(self):
            if field.name.endswith("_us"):
                least = 1 if field.name in ("run_us", "sleep_us") else 0
                put(self, field.name, integer(field.name, getattr(self, field.name), least, MOST_US))
            elif field.name.endswith("_pct"):
                put(self, field.name, integer(field.name, getattr(self, field.name), 0, 100))
        put(self, "nice", integer("nice", self.nice, -20, 19))
        if self.group is not None:
            _group_name("group", self.group)
        self._check_attributes()
        if self.session is not None and (not isinstance(self.session, str) or not self.session):
            raise bad_argument("session", self.session, "must be the name of a session")
        if self.memory is not None and not isinstance(self.memory, Memory):
            raise bad_argument("memory", self.memory, "must be Memory")
        if self.mask is not None:
            put(self, "mask", _cpus("mask", self.mask))
        if self.release is not None:
            put(self, "release", _release(self.release))

    def _check_attributes(self) -> None:
        put = object.__setattr__
        choice("policy", self.policy, ("normal", "idle", "fifo"))
        least, most = (1, 99) if self.policy == "fifo" else (0, 0)
        put(self, "priority", integer("priority", self.priority, least, most))
        for name in ("uclamp_min", "uclamp_max"):
            put(self, name, integer(name, getattr(self, name), 0, 1024))
        if self.uclamp_min > self.uclamp_max:
            raise bad_argument(
                "uclamp_min", self.uclamp_min, f"must be at most uclamp_max ({self.uclamp_max})"
            )
        if not isinstance(self.kthread, bool):
            raise bad_argument("kthread", self.kthread, "must be True or False")

    @property
    def tasks(self) -> int:
        """Number of tasks that it makes, forked children included."""
        return self.n

    def to_dict(self) -> dict[str, Any]:
        """The entry as the scenario's JSON has it."""
        fields = dataclasses.asdict(self)
        mask, release = fields.pop("mask"), fields.pop("release")
        del fields["memory"]
        for name, default in UNSAID.items():
            if fields.get(name) == default:
                del fields[name]
        if self.memory is not None:
            fields["memory"] = self.memory.to_dict()
        return {
            "kind": self.kind,
            **fields,
            "mask": None if mask is None else list(mask),
            "release": None if release is None else {"at_us": release[0], "mask": list(release[1])},
        }


UNSAID = {
    "policy": "normal",
    "session": None,
    "priority": 0,
    "uclamp_min": 0,
    "uclamp_max": 1024,
    "kthread": False,
    "execs": False,
}
"""What a scenario's JSON does not say of an ordinary task."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class CpuHog(Task):
    """Runs without end."""

    kind: ClassVar[str] = "hog"


@dataclasses.dataclass(frozen=True, kw_only=True)
class Periodic(Task):
    """Runs for `run_us` of CPU time, sleeps for `sleep_us`, again; both spread evenly by `spread_pct`."""

    run_us: int
    sleep_us: int
    spread_pct: int = 0

    kind: ClassVar[str] = "periodic"


@dataclasses.dataclass(frozen=True, kw_only=True)
class Barrier(Task):
    """All `n` run for `run_us`, spread evenly by `imbalance_pct`, then meet, again.

    `wait` is how they wait for the last: `spin` in user space, or asleep on a `futex`.
    """

    run_us: int
    imbalance_pct: int = 0
    wait: str = "futex"

    kind: ClassVar[str] = "barrier"

    def __post_init__(self) -> None:
        """Checks the arguments."""
        super().__post_init__()
        choice("wait", self.wait, ("spin", "futex"))


@dataclasses.dataclass(frozen=True, kw_only=True)
class PingPong(Task):
    """`n` pairs pass one byte to and fro over two pipes; each side runs for `run_us` before it writes."""

    run_us: int

    kind: ClassVar[str] = "pingpong"

    @property
    def tasks(self) -> int:
        """Two a pair."""
        return 2 * self.n


@dataclasses.dataclass(frozen=True, kw_only=True)
class ForkStorm(Task):
    """A parent forks `n` children, one each `gap_us`; each runs for `run_us` and exits.

    With `execs` each child executes another program first, and may go to another CPU for it (sched_exec()).
    """

    run_us: int
    gap_us: int = 0
    execs: bool = False

    kind: ClassVar[str] = "fork"

    def __post_init__(self) -> None:
        """Checks the arguments."""
        super().__post_init__()
        if not isinstance(self.execs, bool):
            raise bad_argument("execs", self.execs, "must be True or False")

    @property
    def tasks(self) -> int:
        """The parent and its children."""
        return 1 + self.n


KINDS: dict[str, type[Task]] = {kind.kind: kind for kind in (CpuHog, Periodic, Barrier, PingPong, ForkStorm)}
"""Every kind of task by the name it has in a scenario's JSON."""


@dataclasses.dataclass(frozen=True)
class TaskGroup:
    """A task group: its tasks share what the group gets, whatever their number (`struct task_group`).

    Attributes:
        name: what tasks and groups call it by.
        shares: its weight against the tasks and groups beside it, 2 to 262,144; 1024 as a nice-0 task, or a
            `cpu.weight` of 100.
        parent: name of the group that it is in; None for the root.
        quota_us: CPU time that it may have in each period, us (`cpu.max`), at least 1000; None for no limit.
            More than the period is more than one CPU. Where quotas are nested, each holds.
        period_us: the period, us, 1000 to 1,000,000.
        burst_us: what it may save up of unused quota beyond one, us (`cpu.max.burst`), at most the quota;
            kernels from 5.14 on.
        idle: it runs when nothing beside it wants to, with a weight of 3 (`cpu.idle`); kernels from 5.15 on.
        cpus: CPUs that its tasks may use (`cpuset.cpus`), within those of the group that it is in; None for
            all of those. A task whose own mask leaves none of them may use them all.
        release: (time in us, CPUs): from then on these are its `cpus`.

    Raises:
        ValueError: the name is empty, or a number is out of its range.
    """

    name: str
    shares: int = 1024
    parent: str | None = None
    quota_us: int | None = None
    period_us: int = 100_000
    burst_us: int = 0
    idle: bool = False
    cpus: tuple[int, ...] | None = None
    release: tuple[int, tuple[int, ...]] | None = None

    def __post_init__(self) -> None:
        """Checks the arguments; whether the parent exists, the workload will say."""
        put = object.__setattr__
        _group_name("name", self.name)
        put(self, "shares", integer("shares", self.shares, 2, 1 << 18))
        if self.parent is not None:
            _group_name("parent", self.parent)
        if self.quota_us is not None:
            put(self, "quota_us", integer("quota_us", self.quota_us, 1000, MOST_QUOTA_US))
        put(self, "period_us", integer("period_us", self.period_us, 1000, 1_000_000))
        put(self, "burst_us", integer("burst_us", self.burst_us, 0, MOST_QUOTA_US))
        if not isinstance(self.idle, bool):
            raise bad_argument("idle", self.idle, "must be True or False")
        if self.cpus is not None:
            put(self, "cpus", _cpus("cpus", self.cpus))
        if self.release is not None:
            put(self, "release", _release(self.release))

    def to_dict(self) -> dict[str, Any]:
        """The group as the scenario's JSON has it; what is as by default is left out."""
        fields = {"name": self.name, "shares": self.shares, "parent": self.parent}
        for field in dataclasses.fields(self):
            value = getattr(self, field.name)
            if field.name not in fields and value != field.default:
                fields[field.name] = value
        if self.cpus is not None:
            fields["cpus"] = list(self.cpus)
        if self.release is not None:
            fields["release"] = {"at_us": self.release[0], "mask": list(self.release[1])}
        return fields


@dataclasses.dataclass(frozen=True)
class Workload:
    """Tasks of several kinds under one clock, for `duration_ms` after their start signal.

    All tasks are forked beforehand and sleep; the clock starts when the first may wake, and the run ends with
    it. A controller, which sleeps throughout, is a task of its own.

    Attributes:
        tasks: the kinds of task.
        duration_ms: how long.
        groups: task groups; one that only tasks name has 1024 shares and is in the root.
        hotplug: CPUs that go off and come back.

    Raises:
        ValueError: there is no task, or something else than a task, a group or a `Hotplug`; two groups have
            one name, a parent is unknown, or a group is within itself.
    """

    tasks: tuple[Task, ...]
    duration_ms: int = 1000
    groups: tuple[TaskGroup, ...] = ()
    hotplug: tuple[Hotplug, ...] = ()

    kind: ClassVar[str] = "tasks"

    def __post_init__(self) -> None:
        """Checks types; the core checks what depends on the machine."""
        given = self.tasks if isinstance(self.tasks, Iterable) else (self.tasks,)
        tasks = tuple(given)
        for task in tasks:
            if not isinstance(task, Task):
                raise bad_argument("tasks", task, f"must be {', '.join(k.__name__ for k in KINDS.values())}")
        if not tasks:
            raise bad_argument("tasks", [], "must have at least one task")
        object.__setattr__(self, "tasks", tasks)
        object.__setattr__(self, "duration_ms", integer("duration_ms", self.duration_ms, 1, 3_600_000))
        groups = tuple(self.groups) if isinstance(self.groups, Iterable) else (self.groups,)
        for group in groups:
            if not isinstance(group, TaskGroup):
                raise bad_argument("groups", group, "must be TaskGroup")
        _check_tree(groups)
        object.__setattr__(self, "groups", groups)
        hotplug = tuple(self.hotplug) if isinstance(self.hotplug, Iterable) else (self.hotplug,)
        for change in hotplug:
            if not isinstance(change, Hotplug):
                raise bad_argument("hotplug", change, "must be Hotplug")
        object.__setattr__(self, "hotplug", hotplug)

    @property
    def label(self) -> str:
        """What runs, in short."""
        return " + ".join(f"{task.tasks} {task.kind}" for task in self.tasks)

    def to_dict(self) -> dict[str, Any]:
        """The workload as the scenario's JSON has it."""
        entries = [task.to_dict() for task in self.tasks]
        fields = {"kind": self.kind, "duration_ms": self.duration_ms, "tasks": entries}
        if self.groups:
            fields["groups"] = [group.to_dict() for group in self.groups]
        if self.hotplug:
            fields["hotplug"] = [dataclasses.asdict(change) for change in self.hotplug]
        return fields

    @classmethod
    def from_dict(cls, fields: dict[str, Any]) -> Workload:
        """The workload that `to_dict` wrote.

        Raises:
            ValueError: a field is unknown or out of its range.
        """
        for name in fields:
            choice("workload field", name, ("kind", "duration_ms", "tasks", "groups", "hotplug"))
        entries = fields.get("tasks")
        if not isinstance(entries, list):
            raise bad_argument("workload.tasks", entries, "must be a list of objects with a `kind`")
        tasks = tuple(_task(index, entry) for index, entry in enumerate(entries))
        groups = fields.get("groups", [])
        if not isinstance(groups, list):
            raise bad_argument("workload.groups", groups, "must be a list of objects with a `name`")
        groups = [_task_group(index, entry) for index, entry in enumerate(groups)]
        hotplug = fields.get("hotplug", [])
        if not isinstance(hotplug, list):
            raise bad_argument("workload.hotplug", hotplug, "must be a list of objects with a `cpu`")
        changes = (Hotplug.from_dict(f"workload.hotplug[{at}]", change) for at, change in enumerate(hotplug))
        return cls(tasks, fields.get("duration_ms", 1000), tuple(groups), tuple(changes))


def _task_group(index: int, entry: object) -> TaskGroup:
    if not isinstance(entry, dict) or "name" not in entry:
        raise bad_argument(f"workload.groups[{index}]", entry, "must be an object with a `name`")
    for name in entry:
        choice(f"field of workload.groups[{index}]", name, [f.name for f in dataclasses.fields(TaskGroup)])
    arguments = dict(entry)
    _unpack_release(arguments)
    return TaskGroup(**arguments)


def _check_tree(groups: Sequence[TaskGroup]) -> None:
    """Raises ValueError unless names are unique, parents known and no group is within itself."""
    parents: dict[str, str | None] = {}
    for group in groups:
        if group.name in parents:
            raise bad_argument("groups", group.name, "must be the name of one group only")
        parents[group.name] = group.parent
    for group in groups:
        above, passed = group.parent, {group.name}
        while above is not None:
            if above not in parents:
                raise bad_argument("parent", above, "must be a group of the workload")
            if above in passed:
                raise bad_argument("parent", above, "must not lead back to the group")
            passed.add(above)
            above = parents[above]


def _group_name(argument: str, name: object) -> None:
    if not isinstance(name, str) or not name:
        raise bad_argument(argument, name, "must be the name of a task group")


def _task(index: int, entry: object) -> Task:
    if not isinstance(entry, dict):
        raise bad_argument(f"workload.tasks[{index}]", entry, "must be an object with a `kind`")
    arguments = dict(entry)
    kind = KINDS[choice(f"workload.tasks[{index}].kind", arguments.pop("kind", None), KINDS)]
    known = sorted(field.name for field in dataclasses.fields(kind))
    for name in arguments:
        choice(f"field of workload.tasks[{index}]", name, known)
    _unpack_release(arguments)
    if arguments.get("memory") is not None:
        arguments["memory"] = Memory.from_dict(f"workload.tasks[{index}].memory", arguments["memory"])
    missing = [
        field.name
        for field in dataclasses.fields(kind)
        if field.default is dataclasses.MISSING and field.name not in arguments
    ]
    if missing:
        raise bad_argument(f"workload.tasks[{index}].{missing[0]}", None, "must be given")
    return kind(**arguments)


def _unpack_release(arguments: dict[str, Any]) -> None:
    release = arguments.get("release")
    if isinstance(release, dict):
        arguments["release"] = (release.get("at_us"), release.get("mask"))


def _release(release: object) -> tuple[int, tuple[int, ...]]:
    if not isinstance(release, Sequence) or len(release) != 2:
        raise bad_argument("release", release, "must be a time in us and the CPUs from then on")
    at_us, cpus = release
    return integer("release", at_us, 0, MOST_US), _cpus("release", cpus)


def _cpus(argument: str, cpus: object) -> tuple[int, ...]:
    if isinstance(cpus, str) or not isinstance(cpus, Iterable):
        raise bad_argument(argument, cpus, "must be CPU numbers")
    numbers = tuple(integer(argument, cpu, 0, 4095) for cpu in cpus)
    if not numbers:
        raise bad_argument(argument, [], "must hold at least one CPU")
    return numbers
