"""first_difference: the first decision in which two kernels part, on the same machine, work and seed."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd

from schedlab import _core
from schedlab._arguments import bad_argument, integer
from schedlab._render import html_table, paragraphs, text_table
from schedlab.decisions import REFUSALS
from schedlab.kernel import Kernel
from schedlab.machine import Machine
from schedlab.runs import Runs
from schedlab.scenario import Scenario
from schedlab.workload import Work

Side = Runs | Scenario | tuple[Machine, Kernel, Work]

KINDS = {
    "wakeup": "placement of a waking task",
    "fork": "placement of a new task",
    "exec": "placement of a task that executes another program",
    "balance": "balance pass",
    "push": "push of a running task",
    "preemption": "preemption by a wakee",
    "tick": "end of the slice at a tick",
    "pick": "pick of the next task",
    "numa": "search for a place near a task's memory",
}
"""What the kinds of decisions are called."""


def first_difference(a: Side, b: Side, seed: int | None = None) -> Difference:
    """Runs both sides under one seed up to the first decision in which they part.

    Decisions are compared in the order in which they are made: where a waking or new task goes; each
    balance pass with the classes of its groups, its choice, its imbalance and the tasks that it moves;
    pushes, preemptions by wakees and ticks, and picks. Two decisions part if one side is asked something
    else, or at another time or on another CPU, or answers otherwise. What they read, such as loads, may
    differ before: the table shows it.

    Args:
        a: runs, a scenario, or a machine, a kernel and a workload.
        b: the same with another kernel, on the same machine and work.
        seed: the seed; None for the first of the runs, or 0.

    Raises:
        ValueError: machine or work differ, or an argument breaks a rule.
    """
    first, second = _scenario("a", a), _scenario("b", b)
    if {**first.to_dict(), "kernel": None} != {**second.to_dict(), "kernel": None}:
        raise bad_argument("b", second.kernel.label, "must be of the same machine and the same work as a")
    if seed is None:
        seed = next((side.seeds[0] for side in (a, b) if isinstance(side, Runs)), 0)
    number = integer("seed", seed, minimum=0, maximum=2**64 - 1)
    for scenario in (first, second):
        scenario.validate()
    found = json.loads(_core.parting(first.to_json(), second.to_json(), number))
    return Difference(first.kernel, second.kernel, number, found["alike"], found["a"], found["b"])


class Difference:
    """The first decision in which two runs part; false if they never do.

    Attributes:
        kernels: the two kernels.
        seed: the seed.
        alike: number of decisions that both made alike before.
        a: the first kernel's decision: `time_ns`, `cpu`, `kind`, `asked` (the question and what was read)
            and `answer`; None if its run had ended.
        b: the second kernel's.
        rows: (what, a, b) of everything that both read and answered; empty if the runs never part.
    """

    def __init__(
        self,
        a_kernel: Kernel,
        b_kernel: Kernel,
        seed: int,
        alike: int,
        a: dict[str, Any] | None,
        b: dict[str, Any] | None,
    ) -> None:
        """Lays the two decisions side by side."""
        self.kernels = (a_kernel, b_kernel)
        self.seed, self.alike, self.a, self.b = seed, alike, a, b
        left, right = _facts(a), _facts(b)
        names = [*left, *(name for name in right if name not in left)]
        names.sort(key=lambda name: name.startswith("answer: "))
        rows = [(name, left.get(name, ""), right.get(name, "")) for name in names]
        self.rows = rows if self else []

    def __bool__(self) -> bool:
        """Whether the runs part at all."""
        return self.a is not None or self.b is not None

    @property
    def time_s(self) -> float | None:
        """Time of the decision since the run's start, the earlier of the two; None if the runs never part."""
        times = [side["time_ns"] for side in (self.a, self.b) if side is not None]
        return min(times) / 1e9 if times else None

    @property
    def kind(self) -> str | None:
        """The kind of the first side's decision, or the second's if the first run had ended."""
        side = self.a or self.b
        return None if side is None else str(side["kind"])

    @property
    def cpu(self) -> int | None:
        """The CPU that decided, on the side that `kind` is of."""
        side = self.a or self.b
        return None if side is None else int(side["cpu"])

    @property
    def summary(self) -> str:
        """One sentence: who parts, when, where and in what kind of decision."""
        a, b = (kernel.label for kernel in self.kernels)
        side = self.a or self.b
        if side is None:
            return f"{a} and {b} decide alike in all {self.alike} decisions of seed {self.seed}."
        where = f"at {side['time_ns'] / 1e6:.6f} ms on CPU {side['cpu']}: {KINDS[side['kind']]}"
        if side["kind"] == "balance":
            where += f" over {side['asked']['level']} ({side['asked']['idle']})"
        return f"{a} and {b} part after {self.alike} decisions alike, {where} (seed {self.seed})."

    def to_pandas(self) -> pd.DataFrame:
        """One row a thing read or answered: columns `what`, `a`, `b` and `differs`."""
        rows = [(*row, row[1] != row[2]) for row in self.rows]
        return pd.DataFrame(rows, columns=pd.Index(["what", "a", "b", "differs"]))

    @property
    def _table(self) -> tuple[list[str], list[list[str]]]:
        labels = [kernel.label for kernel in self.kernels]
        rows = [[what, a, b, "" if a == b else "<-"] for what, a, b in self.rows]
        return ["", *labels, ""], rows

    def __repr__(self) -> str:
        """The sentence and, side by side, what was read and answered; `<-` marks what differs."""
        return f"{self.summary}\n\n{text_table(*self._table, left=4)}" if self else self.summary

    def _repr_html_(self) -> str:
        return paragraphs([self.summary]) + (html_table(*self._table, left=4) if self else "")


def _scenario(argument: str, side: object) -> Scenario:
    if isinstance(side, Runs):
        return side.scenario
    if isinstance(side, Scenario):
        return side
    if isinstance(side, Sequence) and not isinstance(side, str) and len(side) == 3:
        return Scenario(*side)
    raise bad_argument(argument, side, "must be Runs, a Scenario, or a machine, a kernel and a workload")


def _facts(decision: Mapping[str, Any] | None) -> dict[str, str]:
    """A decision as name to text, what was read first."""
    if decision is None:
        return {"the run": "had ended"}
    facts = {
        "kind": KINDS[decision["kind"]],
        "time, ms": f"{decision['time_ns'] / 1e6:.6f}",
        "CPU": str(decision["cpu"]),
    }
    asked, answer = dict(decision["asked"]), dict(decision["answer"])
    groups = asked.pop("groups", [])
    asked.pop("level_number", None)
    slow_path = asked.pop("slow_path", [])
    types = answer.pop("group_types", [])
    facts |= {f"read: {name}": _text(value) for name, value in asked.items()}
    facts |= _groups(groups, types)
    for choice in slow_path:
        facts |= _groups(choice["groups"], choice["group_types"], f"{choice['level']}: ")
        chosen = "-" if choice["idlest"] is None else f"that of CPU {choice['idlest']}"
        facts[f"idlest group: {choice['level']}"] = chosen
    if decision["kind"] == "balance":
        refused = zip(REFUSALS, answer.pop("refused"), strict=True)
        answer["refused"] = ", ".join(f"{n} {why}" for why, n in refused if n) or None
        if answer["busiest"] is not None:
            answer["busiest"] = _group_name(groups[answer["busiest"]])
    return facts | {f"answer: {name}": _text(value) for name, value in answer.items()}


def _groups(groups: list[dict[str, Any]], types: list[str], level: str = "") -> dict[str, str]:
    facts = {}
    for group, group_type in zip(groups, types, strict=True):
        facts[f"read: {level}{_group_name(group)}"] = _sums(group)
        facts[f"class: {level}{_group_name(group)}"] = group_type
    return facts


def _group_name(group: Mapping[str, Any]) -> str:
    runs = (str(first) if first == last else f"{first}-{last}" for first, last in group["cpus"])
    return f"group of CPU {','.join(runs)}"


def _sums(group: Mapping[str, Any]) -> str:
    return (
        f"{group['nr_running']} running, {group['idle_cpus']} idle, load {group['load']}, "
        f"util {group['util']}, runnable {group['runnable']}, capacity {group['capacity']}"
    )


def _text(value: object) -> str:
    """A value in words: nothing is `-`, a state of a CPU its fields."""
    if value is None or value == []:
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, Mapping):
        return ", ".join(f"{name} {_text(field)}" for name, field in value.items())
    if isinstance(value, list):
        return ", ".join(map(_text, value))
    return str(value)
