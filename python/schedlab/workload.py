"""What runs on the machine: one frozen class a workload, checked when it is made."""

from __future__ import annotations

import dataclasses
from typing import Any, ClassVar, get_args

from schedlab._arguments import bad_argument, choice, instance, integer
from schedlab.tasks import Workload

MOST = 2**32 - 1
"""What the core can count of anything in a workload; lower limits of its own it names itself."""


@dataclasses.dataclass(frozen=True)
class Hackbench:
    """hackbench of rt-tests (`perf bench sched messaging` is the same): groups of talkers and listeners.

    A group has `senders` and `receivers`; each sender writes `loops` messages to every receiver of its
    group. All tasks are made first and released at once; the clock stops when all have been reaped.

    Attributes:
        groups: number of groups, hackbench's `-g`.
        loops: messages from each sender to each receiver, `-l`.
        ipc: `socket`, the program's default, or `pipe` (`-p`).
        mode: `process`, the program's default, or `thread` (`-T`).
        senders: senders of a group.
        receivers: receivers of a group.
        bytes: size of a message, `-s`.
        cgroup: whether all tasks are in one task group (cgroup) of 1024 shares, as under a session manager.

    Raises:
        ValueError: a count is not an integer from 1 to 2**32 - 1, or `ipc` or `mode` is unknown.
    """

    groups: int = 10
    loops: int = 100
    ipc: str = "socket"
    mode: str = "process"
    senders: int = 20
    receivers: int = 20
    bytes: int = 100
    cgroup: bool = False

    kind: ClassVar[str] = "hackbench"

    def __post_init__(self) -> None:
        """Checks the arguments' types; how much is too much, the core says before it runs."""
        for name in ("groups", "loops", "senders", "receivers", "bytes"):
            object.__setattr__(self, name, integer(name, getattr(self, name), 1, MOST))
        choice("ipc", self.ipc, ("pipe", "socket"))
        choice("mode", self.mode, ("process", "thread"))
        _boolean("cgroup", self.cgroup)

    @property
    def tasks(self) -> int:
        """Number of senders and receivers in all groups."""
        return self.groups * (self.senders + self.receivers)

    @property
    def messages(self) -> int:
        """Number of messages in the whole run."""
        return self.groups * self.senders * self.receivers * self.loops

    @property
    def label(self) -> str:
        """The command line that the workload stands for."""
        return (
            f"hackbench -g {self.groups} -l {self.loops}"
            f"{' -p' if self.ipc == 'pipe' else ''}{' -T' if self.mode == 'thread' else ''}"
        )

    def to_dict(self) -> dict[str, Any]:
        """The workload as the scenario's JSON has it."""
        fields = dataclasses.asdict(self)
        if not self.cgroup:
            del fields["cgroup"]
        return {"kind": self.kind, **fields}


@dataclasses.dataclass(frozen=True)
class Tbench:
    """tbench of dbench: clients that send requests to servers of their own over loopback TCP.

    Each client waits for the reply before its next request. All go through the operations of the program's
    load file in their proportions, evenly mixed; only the data of reads and writes counts as throughput.

    Attributes:
        clients: number of clients; each has a server process.
        duration_s: time that is measured, to the millisecond.
        warmup_s: time before it.
        cgroup: whether all tasks are in one task group (cgroup) of 1024 shares.

    Raises:
        ValueError: a number is out of its range.
    """

    clients: int
    duration_s: float = 10.0
    warmup_s: float = 0.5
    cgroup: bool = False

    kind: ClassVar[str] = "tbench"

    PAYLOAD_BYTES_PER_OPERATION: ClassVar[float] = 23 / 64 * 18 * 1024
    """Mean over the operations, of which 23 in 64 move 18 KiB: measured with the program's load file."""

    def __post_init__(self) -> None:
        """Checks the arguments' types and ranges."""
        object.__setattr__(self, "clients", integer("clients", self.clients, 1, 1 << 16))
        object.__setattr__(self, "duration_s", _seconds("duration_s", self.duration_s, 0.001))
        object.__setattr__(self, "warmup_s", _seconds("warmup_s", self.warmup_s, 0.0))
        _boolean("cgroup", self.cgroup)

    @property
    def tasks(self) -> int:
        """Number of clients and servers."""
        return 2 * self.clients

    @property
    def label(self) -> str:
        """The command line that the workload stands for."""
        return f"tbench {self.clients} -t {self.duration_s:g}"

    def to_dict(self) -> dict[str, Any]:
        """The workload as the scenario's JSON has it."""
        times = {
            f"{name}_ms": round(1000 * value)
            for name, value in (("duration", self.duration_s), ("warmup", self.warmup_s))
        }
        grouped = {"cgroup": True} if self.cgroup else {}
        return {"kind": self.kind, "clients": self.clients, **times, **grouped}

    @classmethod
    def from_dict(cls, fields: dict[str, Any]) -> Tbench:
        """The workload that `to_dict` wrote.

        Raises:
            ValueError: a field is unknown or out of its range.
        """
        for name in fields:
            choice("workload field", name, ("clients", "duration_ms", "warmup_ms", "cgroup"))
        if "clients" not in fields:
            raise bad_argument("workload.clients", None, "must be given")
        times = {
            f"{name}_s": integer(f"{name}_ms", fields[f"{name}_ms"]) / 1000
            for name in ("duration", "warmup")
            if f"{name}_ms" in fields
        }
        return cls(fields["clients"], **times, cgroup=fields.get("cgroup", False))


@dataclasses.dataclass(frozen=True)
class LuOmp:
    """LU of the NAS parallel benchmarks (lu.C.x and the like), OpenMP form, with CPU burners beside it.

    In a sweep over the planes of its grid each thread spins until its left neighbour has done with the
    plane: one thread that waits for its CPU stops all behind it. The threads' memory is touched first by
    those who set it up, and NUMA balancing may move it; `Runs.node_counts` has the threads by node.

    Attributes:
        threads: number of threads, `OMP_NUM_THREADS`; the grid needs a row for each.
        problem_class: `A`, `B`, `C` or `D`: 64, 102, 162 or 408 points a side; 250 steps, D has 300.
        hogs: CPU burners (`stress -c`); they start a second after the benchmark.
        cgroups: `none`; `shared`, all in one task group; `separate`, benchmark and burners each in their
            own, of 1024 shares. The mails call the last two NORMAL and GROUP.
        steps: steps that are measured; None for the class's own. One more comes before.
        sample_s: time between two counts of the threads by node.

    Raises:
        ValueError: a number is out of its range, or a name is unknown.
    """

    threads: int
    problem_class: str = "C"
    hogs: int = 0
    cgroups: str = "none"
    steps: int | None = None
    sample_s: float = 5.0

    kind: ClassVar[str] = "luomp"

    SIDES: ClassVar[dict[str, int]] = {"A": 64, "B": 102, "C": 162, "D": 408}
    """Points a side of the grid by problem class."""

    def __post_init__(self) -> None:
        """Checks the arguments' types; how much is too much, the core says before it runs."""
        object.__setattr__(self, "threads", integer("threads", self.threads, 1, MOST))
        object.__setattr__(self, "hogs", integer("hogs", self.hogs, 0, MOST))
        if self.steps is not None:
            object.__setattr__(self, "steps", integer("steps", self.steps, 1, MOST))
        choice("problem_class", self.problem_class, self.SIDES)
        choice("cgroups", self.cgroups, ("none", "shared", "separate"))
        object.__setattr__(self, "sample_s", _seconds("sample_s", self.sample_s, 0.001))

    @property
    def tasks(self) -> int:
        """Number of threads and burners."""
        return self.threads + self.hogs

    @property
    def all_steps(self) -> int:
        """Steps that are measured."""
        return self.steps if self.steps is not None else 300 if self.problem_class == "D" else 250

    @property
    def mop(self) -> float:
        """Millions of operations that NPB credits for the steps measured: Mop/s times seconds."""
        side = self.SIDES[self.problem_class]
        per_step = 1984.77 * side**3 - 10923.3 * side**2 + 27770.9 * side - 144010.0
        return self.all_steps * per_step / 1e6

    @property
    def label(self) -> str:
        """The program and its threads, and what stands beside them."""
        hogs = f" + {self.hogs} hogs" if self.hogs else ""
        groups = f", cgroups {self.cgroups}" if self.cgroups != "none" else ""
        return f"lu.{self.problem_class}.x {self.threads} threads{hogs}{groups}"

    def to_dict(self) -> dict[str, Any]:
        """The workload as the scenario's JSON has it."""
        fields = dataclasses.asdict(self)
        fields["sample_ms"] = round(1000 * fields.pop("sample_s"))
        if self.steps is None:
            del fields["steps"]
        return {"kind": self.kind, **fields}

    @classmethod
    def from_dict(cls, fields: dict[str, Any]) -> LuOmp:
        """The workload that `to_dict` wrote.

        Raises:
            ValueError: a field is unknown or out of its range.
        """
        arguments = dict(fields)
        known = {field.name for field in dataclasses.fields(cls)} - {"sample_s"} | {"sample_ms"}
        for name in arguments:
            choice("workload field", name, sorted(known))
        if "threads" not in arguments:
            raise bad_argument("workload.threads", None, "must be given")
        if "sample_ms" in arguments:
            arguments["sample_s"] = integer("sample_ms", arguments.pop("sample_ms")) / 1000
        return cls(**arguments)


@dataclasses.dataclass(frozen=True)
class Kernbench:
    """kernbench: `make -j` of a kernel tree, thousands of short processes.

    make keeps `jobs` jobs at work. A job is a shell that starts the compiler's driver, which starts compiler
    and assembler with a pipe between them and waits for both; at the end the linker runs alone. How much
    work a file is, the machine's costs say (`kernbench_file_us` and its like). `Runs.metrics` then has what
    kernbench prints, as time(1) accounts it: `time_s`, `user_s`, `system_s`, `percent_cpu`,
    `involuntary_switches` (its context switches) and `voluntary_switches` (its sleeps).

    Attributes:
        jobs: jobs at once, make's `-j`.
        files: files to compile; the default is about a tree's of 2006 in its default configuration.
        nice: nice value of the whole build.
        cgroup: whether all tasks are in one task group (cgroup) of 1024 shares.

    Raises:
        ValueError: a number is out of its range.
    """

    jobs: int = 8
    files: int = 1200
    nice: int = 0
    cgroup: bool = False

    kind: ClassVar[str] = "kernbench"

    def __post_init__(self) -> None:
        """Checks the arguments' types; how much is too much, the core says before it runs."""
        object.__setattr__(self, "jobs", integer("jobs", self.jobs, 1, MOST))
        object.__setattr__(self, "files", integer("files", self.files, 1, MOST))
        object.__setattr__(self, "nice", integer("nice", self.nice, -20, 19))
        _boolean("cgroup", self.cgroup)

    @property
    def processes(self) -> int:
        """Number of processes that are forked: four a file, and the linker."""
        return 4 * self.files + 1

    @property
    def label(self) -> str:
        """The command line that the workload stands for."""
        nice = f"nice -n {self.nice} " if self.nice else ""
        return f"{nice}make -j {self.jobs}, {self.files} files"

    def to_dict(self) -> dict[str, Any]:
        """The workload as the scenario's JSON has it."""
        fields = {"jobs": self.jobs, "files": self.files}
        if self.nice:
            fields["nice"] = self.nice
        return {"kind": self.kind, **fields, **({"cgroup": True} if self.cgroup else {})}

    @classmethod
    def from_dict(cls, fields: dict[str, Any]) -> Kernbench:
        """The workload that `to_dict` wrote.

        Raises:
            ValueError: a field is unknown or out of its range.
        """
        for name in fields:
            choice("workload field", name, ("jobs", "files", "nice", "cgroup"))
        return cls(**fields)


@dataclasses.dataclass(frozen=True, init=False)
class Together:
    """Several workloads on one machine: the first is measured, the others run beside it.

    All start when the first one does. The clock, the counts and `Runs.metrics` are the first one's; what
    the CPUs and the balancer do is everybody's. The run ends with the first one.

        sl.Together(sl.Tbench(8), sl.Workload([sl.CpuHog(n=4)]), cgroups="separate")

    Attributes:
        works: the workloads. Only the first may have CPUs that go off and come back.
        cgroups: `none`, or `separate`: a task group of 1024 shares for each workload, named `1`, `2`, ...,
            with the workload's own inside. Without, own groups of all but the first are named `2/NAME`.

    Raises:
        ValueError: there is no workload, one is a `Together` itself, or `cgroups` is unknown.
    """

    works: tuple[Hackbench | Kernbench | LuOmp | Tbench | Workload, ...]
    cgroups: str

    kind: ClassVar[str] = "together"

    def __init__(
        self, *works: Hackbench | Kernbench | LuOmp | Tbench | Workload, cgroups: str = "none"
    ) -> None:
        """Checks the arguments; what each asks of the machine, the core checks before it runs."""
        if not works:
            raise bad_argument("works", works, "must be at least one workload")
        for position, work in enumerate(works):
            instance(f"works[{position}]", work, *get_args(Single))
        object.__setattr__(self, "works", works)
        object.__setattr__(self, "cgroups", choice("cgroups", cgroups, ("none", "separate")))

    @property
    def label(self) -> str:
        """The workloads' labels."""
        groups = ", cgroups separate" if self.cgroups != "none" else ""
        return " beside ".join(work.label for work in self.works) + groups

    def to_dict(self) -> dict[str, Any]:
        """The workload as the scenario's JSON has it."""
        return {
            "kind": self.kind,
            "parts": [work.to_dict() for work in self.works],
            "cgroups": self.cgroups,
        }

    @classmethod
    def from_dict(cls, fields: dict[str, Any]) -> Together:
        """The workload that `to_dict` wrote.

        Raises:
            ValueError: a field is unknown or out of its range.
        """
        for name in fields:
            choice("workload field", name, ("parts", "cgroups"))
        parts = fields.get("parts")
        if not isinstance(parts, list):
            raise bad_argument("workload.parts", parts, "must be a list of workloads")
        works = (from_dict(part, f"workload.parts[{at}]") for at, part in enumerate(parts))
        return cls(*works, cgroups=fields.get("cgroups", "none"))  # type: ignore[arg-type]


def _seconds(argument: str, value: object, least: float) -> float:
    """A time as a float, whole milliseconds."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not least <= value <= 3600.0:
        raise bad_argument(argument, value, f"must be a number of seconds from {least:g} to 3600")
    return round(1000 * value) / 1000


def _boolean(argument: str, value: object) -> None:
    if not isinstance(value, bool):
        raise bad_argument(argument, value, "must be true or false")


Single = Hackbench | Kernbench | LuOmp | Tbench | Workload
"""Every kind of work that runs alone."""

Work = Single | Together
"""Every kind of work that `simulate` takes."""


def measured(work: Work) -> Single:
    """The workload whose clock and counts a run has."""
    return work.works[0] if isinstance(work, Together) else work


def from_dict(fields: object, argument: str = "workload") -> Work:
    """The workload that `to_dict` wrote; errors name it by `argument`.

    Raises:
        ValueError: `kind` is unknown, or a field is unknown or out of its range.
    """
    if not isinstance(fields, dict):
        raise bad_argument(argument, fields, "must be an object with a `kind`")
    arguments = dict(fields)
    kinds: dict[str, type[Kernbench | LuOmp | Tbench | Together | Workload]] = {
        kind.kind: kind for kind in (Kernbench, LuOmp, Tbench, Together, Workload)
    }
    kind = choice(f"{argument}.kind", arguments.pop("kind", None), (Hackbench.kind, *kinds))
    if kind in kinds:
        return kinds[kind].from_dict(arguments)
    known = {field.name for field in dataclasses.fields(Hackbench)}
    for name in arguments:
        choice(f"{argument} field", name, sorted(known))
    return Hackbench(**arguments)
