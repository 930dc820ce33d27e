"""Sched domains: what each kernel generation builds on a machine, and why a level vanished.

Usable alone: `build_domains(machine, "v5.7")` needs no workload and runs nothing.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from html import escape
from typing import TYPE_CHECKING, Any

import pandas as pd

from schedlab import _core
from schedlab._arguments import bad_argument
from schedlab._render import html_table, text_table

if TYPE_CHECKING:
    from schedlab.machine import Machine

__all__ = ["Domain", "Domains", "Group", "RemovedLevel", "build_domains", "cpulist", "parse_cpulist"]

MAX_KINDS = 12
"""How many kinds of CPU a printed hierarchy spells out."""


def build_domains(machine: Machine, kernel: object) -> Domains:
    """The sched domains of every CPU of a machine.

    kernel/sched/topology.c, build_sched_domains(), of the kernel asked for.

    Args:
        machine: the machine.
        kernel: a kernel, or its label (`v2.6.15`, `v5.4` to `v5.7`, `v5.10`, `v6.1`, `v6.12`,
            `v7.3`).

    Raises:
        ValueError: the kernel is not known.
    """
    label = getattr(kernel, "domains", None) or getattr(kernel, "name", kernel)
    if not isinstance(label, str):
        raise bad_argument("kernel", kernel, "must be a kernel or its label")
    return Domains(machine, label, _core.domains_json(json.dumps(machine.spec), label))


@dataclass(frozen=True)
class Group:
    """A sched group, shared by the CPUs in whose ring it stands (`struct sched_group`).

    Attributes:
        id: CPU that owns the group's capacity object.
        span: its CPUs, ascending.
        balance_mask: CPUs that may balance on behalf of the group (`group_balance_mask`).
        capacity: sum of its CPUs' capacities, 1024 = one biggest CPU.
        min_capacity: capacity of its smallest CPU.
        max_capacity: capacity of its biggest CPU.
        flags: flags of the child domain that it stands for, as the kernel prints them.
        cores: number of cores.
    """

    id: int
    span: tuple[int, ...]
    balance_mask: tuple[int, ...]
    capacity: int
    min_capacity: int
    max_capacity: int
    flags: tuple[str, ...]
    cores: int


@dataclass(frozen=True)
class Domain:
    """One level of one CPU's hierarchy (`struct sched_domain`).

    Attributes:
        name: the kernel's name of the level (`SMT`, `MC`, `DIE`, `NUMA`, ...).
        level: level number before levels were removed.
        span: its CPUs, ascending.
        flags: its flags, as the kernel prints them.
        imbalance_pct: how much busier, in per cent, a group must be to be pulled from.
        busy_factor: multiplier of the interval while the CPU is busy.
        cache_nice_tries: failed balances to tolerate before cache-hot tasks move.
        min_interval_ms: shortest balance interval.
        max_interval_ms: longest balance interval.
        imb_numa_nr: NUMA imbalance allowed, 0 where the kernel has none.
        groups: the ring of groups, the CPU's own first.
    """

    name: str
    level: int
    span: tuple[int, ...]
    flags: tuple[str, ...]
    imbalance_pct: int
    busy_factor: int
    cache_nice_tries: int
    min_interval_ms: int
    max_interval_ms: int
    imb_numa_nr: int
    groups: tuple[Group, ...]


@dataclass(frozen=True)
class RemovedLevel:
    """A candidate level that left no domain on a CPU.

    Attributes:
        name: the kernel's name of the level.
        level: its number.
        span_weight: number of CPUs that it would span; 0 if it was never built.
        reason: why it is not there.
    """

    name: str
    level: int
    span_weight: int
    reason: str


class Domains:
    """The sched domains that one kernel builds on one machine.

    `domains[cpu]` is the tuple of that CPU's domains, lowest first, empty for an offline or isolated CPU.
    Printed, every kind of hierarchy is shown once, with the CPUs that have it and the levels that vanished.
    """

    def __init__(self, machine: Machine, kernel: str, text: str) -> None:
        """Wraps the core's description; `build_domains` and `Machine.domains` make these."""
        self.machine = machine
        self.kernel = kernel
        self._document: dict[str, Any] = json.loads(text)

    def __len__(self) -> int:
        """Number of CPU slots, offline ones included."""
        return len(self._cpus)

    def __getitem__(self, cpu: int) -> tuple[Domain, ...]:
        """The domains of a CPU, lowest first.

        Raises:
            IndexError: there is no such CPU.
        """
        return tuple(self._domain(fields) for fields in self._cpus[cpu]["domains"])

    def __iter__(self) -> Iterator[tuple[Domain, ...]]:
        """The domains of every CPU."""
        return (self[cpu] for cpu in range(len(self)))

    @cached_property
    def groups(self) -> tuple[Group, ...]:
        """All groups, each once."""
        return tuple(
            Group(
                fields["id"],
                tuple(parse_cpulist(fields["span"])),
                tuple(parse_cpulist(fields["balance_mask"])),
                fields["capacity"],
                fields["min_capacity"],
                fields["max_capacity"],
                tuple(fields["flags"]),
                fields["cores"],
            )
            for fields in self._document["groups"]
        )

    def removed(self, cpu: int) -> tuple[RemovedLevel, ...]:
        """The levels that left no domain on a CPU, lowest first, and why.

        Raises:
            IndexError: there is no such CPU.
        """
        return tuple(RemovedLevel(**fields) for fields in self._cpus[cpu]["removed"])

    def llc(self, cpu: int) -> tuple[int, int]:
        """Lowest CPU and size of the CPU's last-level cache domain (`sd_llc_id`, `sd_llc_size`).

        Raises:
            IndexError: there is no such CPU.
        """
        return self._cpus[cpu]["llc_id"], self._cpus[cpu]["llc_size"]

    def to_pandas(self) -> pd.DataFrame:
        """One row a CPU and level.

        Columns: `cpu`, `domain` (0 = lowest), `name`, `level`, `span` (as the kernel prints CPU lists),
        `span_weight`, `nr_groups`, `flags` (blank-separated), `imbalance_pct`, `busy_factor`,
        `cache_nice_tries`, `min_interval_ms`, `max_interval_ms`, `imb_numa_nr`.
        """
        columns = ["cpu", "domain", "name", "level", "span", "span_weight", "nr_groups", "flags", *_NUMBERS]
        rows = [
            [
                cpu,
                number,
                *(fields[key] for key in ("name", "level", "span", "span_weight", "nr_groups")),
                " ".join(fields["flags"]),
                *(fields[key] for key in _NUMBERS),
            ]
            for cpu, described in enumerate(self._cpus)
            for number, fields in enumerate(described["domains"])
        ]
        return pd.DataFrame(rows, columns=columns)

    def __repr__(self) -> str:
        """Every kind of hierarchy once, as text."""
        parts = [self._title()]
        for kind in self._kinds()[:MAX_KINDS]:
            parts += ["", kind.who]
            if kind.rows:
                parts.append(text_table(_HEADER, kind.rows))
            parts += kind.notes
        return "\n".join([*parts, *self._rest()])

    def _repr_html_(self) -> str:
        """Every kind of hierarchy once, as HTML for notebooks."""
        parts = [f"<p>{escape(self._title())}</p>"]
        for kind in self._kinds()[:MAX_KINDS]:
            if kind.rows:
                parts.append(html_table(_HEADER, kind.rows, caption=kind.who))
            else:
                parts.append(f"<p>{escape(kind.who)}</p>")
            parts += [f"<p>{escape(note)}</p>" for note in kind.notes]
        return "".join([*parts, *(f"<p>{escape(line)}</p>" for line in self._rest())])

    @property
    def _cpus(self) -> list[dict[str, Any]]:
        cpus: list[dict[str, Any]] = self._document["cpus"]
        return cpus

    def _domain(self, fields: dict[str, Any]) -> Domain:
        return Domain(
            name=fields["name"],
            level=fields["level"],
            span=tuple(parse_cpulist(fields["span"])),
            flags=tuple(fields["flags"]),
            groups=self._ring(fields["ring"], fields["ring_start"]),
            **{key: fields[key] for key in _NUMBERS},
        )

    def _ring(self, ring: int, start: int) -> tuple[Group, ...]:
        indices = self._document["rings"][ring]
        return tuple(self.groups[index] for index in indices[start:] + indices[:start])

    def _title(self) -> str:
        depth = max(len(described["domains"]) for described in self._cpus)
        levels = f"{depth} domain level{'' if depth == 1 else 's'}"
        return f"sched domains of {self.machine.name} under {self.kernel}: {len(self)} CPUs, {levels}"

    def _rest(self) -> list[str]:
        left = len(self._kinds()) - MAX_KINDS
        return ["", f"and {left} more kinds of CPU: see to_pandas()"] if left > 0 else []

    def _kinds(self) -> list[_Kind]:
        """Hierarchies that look alike, with the CPUs that have them, in order of their lowest CPU."""
        offline = set(self.machine.spec["offline"])
        cpus_of: dict[tuple[tuple[_Row, ...], str], list[int]] = {}
        for cpu, described in enumerate(self._cpus):
            rows = tuple(_row(fields) for fields in described["domains"])
            missing = ", ".join(f"{gone['name']} ({gone['reason']})" for gone in described["removed"])
            if missing:
                note = f"not there: {missing}"
            elif rows:
                note = ""
            else:
                note = f"no domains: {'offline' if cpu in offline else 'isolated'}"
            cpus_of.setdefault((rows, note), []).append(cpu)
        return [
            _Kind(
                self._who(cpus), [row.cells for row in rows], [*_flag_notes(rows), *([note] if note else [])]
            )
            for (rows, note), cpus in cpus_of.items()
        ]

    def _who(self, cpus: Sequence[int]) -> str:
        if len(cpus) == len(self):
            return "all CPUs"
        return f"CPU{'' if len(cpus) == 1 else 's'} {cpulist(cpus)}"


def cpulist(cpus: Sequence[int]) -> str:
    """A set of CPUs as the kernel prints it: `0-3,8`."""
    runs: list[list[int]] = []
    for cpu in sorted(cpus):
        if runs and runs[-1][1] + 1 == cpu:
            runs[-1][1] = cpu
        else:
            runs.append([cpu, cpu])
    return ",".join(str(first) if first == last else f"{first}-{last}" for first, last in runs)


def parse_cpulist(text: str) -> list[int]:
    """The CPUs of a list like `0-3,8`, in the order given.

    Raises:
        ValueError: the text is not such a list.
    """
    cpus: list[int] = []
    for run in filter(None, text.strip().split(",")):
        first, _, last = run.partition("-")
        if not first.isdecimal() or (last and not last.isdecimal()) or run.endswith("-"):
            raise bad_argument("cpus", text, "must be a list like 0-3,8")
        cpus.extend(range(int(first), int(last or first) + 1))
    return cpus


@dataclass(frozen=True)
class _Kind:
    """CPUs of like hierarchies, and how to show them."""

    who: str
    rows: list[tuple[str, ...]]
    notes: list[str]


@dataclass(frozen=True)
class _Row:
    """A domain as a row of a table, and its flags."""

    cells: tuple[str, ...]
    flags: tuple[str, ...]


_NUMBERS = (
    "imbalance_pct",
    "busy_factor",
    "cache_nice_tries",
    "min_interval_ms",
    "max_interval_ms",
    "imb_numa_nr",
)

_HEADER = ("level", "CPUs", "groups", "imbalance_pct", "busy_factor", "cache_nice_tries", "interval ms")


def _row(fields: dict[str, Any]) -> _Row:
    numbers = (fields[key] for key in ("imbalance_pct", "busy_factor", "cache_nice_tries"))
    interval = f"{fields['min_interval_ms']}-{fields['max_interval_ms']}"
    sizes = (fields["span_weight"], fields["nr_groups"])
    return _Row((fields["name"], *map(str, sizes), *map(str, numbers), interval), tuple(fields["flags"]))


def _flag_notes(rows: Sequence[_Row]) -> list[str]:
    """The flags that all levels have, then those of each level."""
    common = [flag for flag in rows[0].flags if all(flag in row.flags for row in rows)] if rows else []

    def note(who: str, flags: Sequence[str]) -> str:
        return f"flags of {who}: {' '.join(flag.removeprefix('SD_') for flag in flags)}"

    own = [(row.cells[0], [flag for flag in row.flags if flag not in common]) for row in rows]
    notes = [note("all levels", common)] if common else []
    notes += [note(name, flags) for name, flags in own if flags]
    return list(dict.fromkeys(notes))
