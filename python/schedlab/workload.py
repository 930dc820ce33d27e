"""What runs on the machine: one frozen class a workload, checked when it is made."""

from __future__ import annotations

import dataclasses
from typing import Any, ClassVar

from schedlab._arguments import bad_argument, choice, integer
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
        if not isinstance(self.cgroup, bool):
            raise bad_argument("cgroup", self.cgroup, "must be true or false")

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


Work = Hackbench | Workload
"""Every kind of work that `simulate` takes."""


def from_dict(fields: object) -> Work:
    """The workload that `to_dict` wrote.

    Raises:
        ValueError: `kind` is unknown, or a field is unknown or out of its range.
    """
    if not isinstance(fields, dict):
        raise bad_argument("workload", fields, "must be an object with a `kind`")
    arguments = dict(fields)
    if choice("workload.kind", arguments.pop("kind", None), (Hackbench.kind, Workload.kind)) == Workload.kind:
        return Workload.from_dict(arguments)
    known = {field.name for field in dataclasses.fields(Hackbench)}
    for name in arguments:
        choice("workload field", name, sorted(known))
    return Hackbench(**arguments)
