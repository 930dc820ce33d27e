"""Machines: CPUs, SMT, clusters, caches, packages, NUMA nodes, distances and capacities."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from html import escape
from importlib import resources
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from schedlab import _core
from schedlab._arguments import bad_argument, choice, integer
from schedlab.topology import Domains, build_domains, cpulist

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["Machine", "machines"]

Siblings: TypeAlias = Literal["adjacent", "apart"]
"""How CPUs are numbered: the threads of a core in a row, or all first threads before all second ones."""

Sets: TypeAlias = Sequence[int] | Sequence[Sequence[int]]
"""Which set each CPU is in: a number a CPU, or the CPUs of each set."""

MAX_CPUS = 4096
MAX_NODES = 1024
LOCAL_DISTANCE = 10
REMOTE_DISTANCE = 20


def machines() -> list[str]:
    """The names that `Machine.named` knows, in alphabetical order."""
    return sorted(_named())


@dataclass(frozen=True, init=False, repr=False)
class Machine:
    """A machine: which CPUs there are and how they hang together.

    Immutable; the `with_...` methods make new ones.
    Every set argument takes either a number a CPU (equal numbers share) or a list of the sets themselves:
    `node=[0, 0, 1, 1]` and `node=[[0, 1], [2, 3]]` are the same.

    Attributes:
        source: where the numbers come from; empty for machines of the user's own.
        assumed: what the source does not say and was assumed.
    """

    _spec: str
    _costs: str
    source: str
    assumed: tuple[str, ...]

    def __init__(
        self,
        cpus: int | None = None,
        *,
        name: str = "custom",
        arch: str = "x86_64",
        core: Sets | None = None,
        cluster: Sets | None = None,
        llc: Sets | None = None,
        die: Sets | None = None,
        package: Sets | None = None,
        node: Sets | None = None,
        capacity: Sequence[int] | None = None,
        distance: Sequence[Sequence[int]] | None = None,
        memoryless_nodes: Iterable[int] = (),
        offline: Iterable[int] = (),
        isolated: Iterable[int] = (),
        asym_priority: Sequence[int] = (),
        costs: Mapping[str, int] | None = None,
    ) -> None:
        """A machine from explicit arrays.

        Args:
            cpus: number of CPUs; None if one of the arrays tells it.
            name: name for messages and provenance.
            arch: `x86_64`, `arm64` or `powerpc`; decides which levels a kernel builds.
            core: hardware threads of a core; each CPU is a core of its own if left out.
            cluster: sharers of an L2; the cores if left out.
            llc: sharers of the last-level cache; the CPUs of a node if left out.
            die: dies; the packages if left out.
            package: physical packages; the nodes if left out.
            node: NUMA nodes; one if left out.
            capacity: capacity of each CPU, 1024 = the biggest, which all are if left out.
            distance: NUMA distances, row = from, 10 on the diagonal; 20 between nodes if left out.
            memoryless_nodes: nodes without memory. A node that no CPU names has memory only.
            offline: CPUs that are present but offline.
            isolated: CPUs outside every domain (`isolcpus=`).
            asym_priority: asym-packing priority of each CPU, the higher is preferred (x86 ITMT; on POWER
                0, -1, -2 ... packs the threads of a core); none if left out.
            costs: numbers of the cost model that differ from its defaults.

        Raises:
            ValueError: an argument breaks a rule; the message names argument, value and rule.
        """
        given = {"core": core, "cluster": cluster, "llc": llc, "die": die, "package": package, "node": node}
        nr_cpus = _number_of_cpus(cpus, {**given, "capacity": capacity})
        sets = {key: _set_of_each(key, value, nr_cpus) for key, value in given.items() if value is not None}
        sets.setdefault("core", list(range(nr_cpus)))
        sets.setdefault("cluster", sets["core"])
        sets.setdefault("node", [0] * nr_cpus)
        sets.setdefault("package", sets["node"])
        sets.setdefault("die", sets["package"])
        sets.setdefault("llc", sets["node"])
        spec: dict[str, Any] = {
            "name": name,
            "arch": arch,
            **{key: sets[key] for key in given},
            "capacity": [1024] * nr_cpus if capacity is None else _integers("capacity", capacity),
            "distance": _distance(distance, max(sets["node"]) + 1),
            "memoryless_nodes": sorted(_integers("memoryless_nodes", memoryless_nodes)),
            "offline": sorted(_integers("offline", offline)),
            "isolated": sorted(_integers("isolated", isolated)),
        }
        if len(asym_priority) > 0:
            spec["asym_priority"] = [_priority(value) for value in asym_priority]
        self._set(spec, {} if costs is None else costs, "", ())

    @classmethod
    def named(cls, name: str) -> Machine:
        """A machine of the published tables; `machines()` lists them.

        Raises:
            ValueError: there is no such machine; near names are offered.
        """
        return cls.from_json(_named()[choice("machine", name, machines())])

    @classmethod
    def synthetic(
        cls,
        description: str,
        *,
        name: str | None = None,
        arch: str = "x86_64",
        distance: Sequence[Sequence[int]] | None = None,
        siblings: Siblings = "adjacent",
    ) -> Machine:
        """A symmetric machine from hwloc's synthetic string, from the whole machine down to the thread.

        `"package:2 node:2 l3:1 core:12 pu:2"` has 2 packages of 2 nodes, each with one L3 over 12 cores of
        2 threads. Levels: package (socket), node (numanode), die, l3, l2 (cluster), core, pu. Attributes in
        brackets or parentheses are ignored, but `[numa]` after a level puts a node there. Without `l3`, `l2`
        is the last-level cache; without both, the CPUs of the smallest die, package or node share one.

        Args:
            description: the string.
            name: name of the machine; the string if None.
            arch: architecture, as in `Machine`.
            distance: NUMA distances; 20 between nodes if left out.
            siblings: `adjacent` numbers CPUs as hwloc does; `apart` numbers the first threads of all cores
                before the second ones, as most x86 firmware does.

        Raises:
            ValueError: a level is unknown, comes twice or has no count, or the machine is too large.
        """
        levels = _parse_synthetic(description)
        nr_cpus = math.prod(count for _, count in levels)
        if nr_cpus > MAX_CPUS:
            raise bad_argument(
                "description", description, f"a machine has at most {MAX_CPUS} CPUs, not {nr_cpus}"
            )
        sets: dict[str, list[int]] = {}
        size = nr_cpus
        for level, count in levels:
            size //= count
            sets[level] = [thread // size for thread in range(nr_cpus)]
        names = [level for level, _ in levels]
        one = [0] * nr_cpus
        core = sets.get("core", sets["pu"])
        node = sets.get("node", one)
        package = sets.get("package", node if _above(names, "node", "l3", "l2", "die", "core") else one)
        die = sets.get("die", package)
        cluster = sets.get("l2", core)
        smallest = max(
            (sets[level] for level in ("die", "package", "node") if level in sets), key=max, default=one
        )
        llc = sets.get("l3", sets.get("l2", smallest))
        order = _numbering(core, siblings)

        def numbered(sets: Sequence[int]) -> list[int]:
            return [sets[thread] for thread in order]

        return cls(
            name=description if name is None else name,
            arch=arch,
            core=numbered(core),
            cluster=numbered(cluster),
            llc=numbered(llc),
            die=numbered(die),
            package=numbered(package),
            node=numbered(node),
            distance=distance,
        )

    @classmethod
    def numa(
        cls,
        distance: Sequence[Sequence[int]],
        cpus_per_node: int | Sequence[int],
        *,
        threads_per_core: int = 1,
        llcs_per_node: int = 1,
        nodes_per_package: int = 1,
        memoryless_nodes: Iterable[int] = (),
        name: str = "numa",
        arch: str = "x86_64",
        siblings: Siblings = "adjacent",
    ) -> Machine:
        """A NUMA machine from its distance matrix.

        Args:
            distance: distances, row = from, 10 on the diagonal.
            cpus_per_node: CPUs of every node, or a number for each; 0 makes a node of memory only.
            threads_per_core: hardware threads of a core.
            llcs_per_node: last-level caches of a node, of as equal a number of cores as can be.
            nodes_per_package: nodes of a physical package, in order.
            memoryless_nodes: nodes without memory.
            name: name of the machine.
            arch: architecture, as in `Machine`.
            siblings: how CPUs are numbered, as in `synthetic`.

        Raises:
            ValueError: the matrix is not one, or a node's CPUs do not make whole cores and caches.
        """
        rows = _rows(distance)
        threads = integer("threads_per_core", threads_per_core, 1)
        llcs = integer("llcs_per_node", llcs_per_node, 1)
        together = integer("nodes_per_package", nodes_per_package, 1)
        sizes = _cpus_per_node(cpus_per_node, len(rows))
        core: list[int] = []
        llc: list[int] = []
        node: list[int] = []
        for number, size in enumerate(sizes):
            if size % threads:
                rule = f"must be whole cores, a multiple of threads_per_core ({threads})"
                raise bad_argument(f"cpus_per_node[{number}]", size, rule)
            cores = size // threads
            if 0 < cores < llcs:
                raise bad_argument(
                    "llcs_per_node", llcs, f"must be at most the cores of node {number} ({cores})"
                )
            first = core[-1] + 1 if core else 0
            for thread in range(size):
                core.append(first + thread // threads)
                llc.append(number * llcs + thread // threads * llcs // cores)
                node.append(number)
        order = _numbering(core, siblings)
        return cls(
            name=name,
            arch=arch,
            core=[core[thread] for thread in order],
            llc=[llc[thread] for thread in order],
            package=[node[thread] // together for thread in order],
            node=[node[thread] for thread in order],
            distance=rows,
            memoryless_nodes=memoryless_nodes,
        )

    @classmethod
    def from_json(cls, text: str) -> Machine:
        """The machine that `to_json` wrote.

        Raises:
            ValueError: the text is not JSON, lacks `spec`, or the machine breaks a rule.
        """
        start = text if len(text) <= 40 else f"{text[:40]}..."
        try:
            fields = json.loads(text)
        except json.JSONDecodeError as error:
            raise bad_argument("machine", start, f"must be JSON: {error}") from None
        if not isinstance(fields, dict) or not isinstance(fields.get("spec"), dict):
            raise bad_argument("machine", start, "must be an object with an object `spec`")
        known = {"spec", "costs", "source", "assumed"}
        for key in fields:
            choice("machine field", key, sorted(known))
        assumed = fields.get("assumed", [])
        if not isinstance(assumed, list) or not all(isinstance(line, str) for line in assumed):
            raise bad_argument("machine.assumed", assumed, "must be a list of sentences")
        source = fields.get("source", "")
        if not isinstance(source, str):
            raise bad_argument("machine.source", source, "must be a string")
        machine = cls.__new__(cls)
        machine._set(fields["spec"], fields.get("costs", {}), source, tuple(assumed))
        return machine

    def to_json(self) -> str:
        """The machine as a JSON object with `spec`, `source`, `assumed` and `costs`."""
        fields = {
            "spec": self.spec,
            "source": self.source,
            "assumed": list(self.assumed),
            "costs": self.costs,
        }
        return json.dumps(fields)

    @property
    def name(self) -> str:
        """The machine's name."""
        return str(self.spec["name"])

    @property
    def arch(self) -> str:
        """`x86_64`, `arm64` or `powerpc`."""
        return str(self.spec["arch"])

    @property
    def nr_cpus(self) -> int:
        """Number of CPUs, offline ones included."""
        return len(self.spec["core"])

    @property
    def nr_nodes(self) -> int:
        """Number of NUMA nodes, those without CPUs included."""
        return len(self.spec["distance"])

    @property
    def spec(self) -> dict[str, Any]:
        """The machine as plain data: what the core reads. A copy; changing it changes nothing."""
        spec: dict[str, Any] = json.loads(self._spec)
        return spec

    @property
    def costs(self) -> dict[str, int]:
        """Numbers of the cost model that differ from its defaults. A copy."""
        costs: dict[str, int] = json.loads(self._costs)
        return costs

    def with_offline(self, cpus: Iterable[int]) -> Machine:
        """The machine with exactly these CPUs offline.

        Raises:
            ValueError: a CPU does not exist or comes twice, or none is left.
        """
        return self._with(offline=sorted(_integers("offline", cpus)))

    def with_isolated(self, cpus: Iterable[int]) -> Machine:
        """The machine with exactly these CPUs outside every domain (`isolcpus=`).

        Raises:
            ValueError: a CPU does not exist or comes twice, or none is left.
        """
        return self._with(isolated=sorted(_integers("isolated", cpus)))

    def with_capacity(self, capacity: Sequence[int] | Mapping[int, int]) -> Machine:
        """The machine with other capacities.

        Args:
            capacity: one for each CPU, or new ones by CPU number; 1024 = the biggest.

        Raises:
            ValueError: a CPU does not exist, a capacity lies outside 1 to 1024, or threads of a core differ.
        """
        if not isinstance(capacity, Mapping):
            return self._with(capacity=_integers("capacity", capacity))
        new = list(self.spec["capacity"])
        for cpu, value in capacity.items():
            new[integer("capacity CPU", cpu, 0, self.nr_cpus - 1)] = integer(f"capacity[{cpu}]", value)
        return self._with(capacity=new)

    def with_costs(self, costs: Mapping[str, int]) -> Machine:
        """The machine with exactly these numbers in place of the cost model's defaults.

        Raises:
            ValueError: a cost is unknown, not an integer or out of its range.
        """
        machine = Machine.__new__(Machine)
        machine._set(self.spec, costs, self.source, self.assumed)
        return machine

    def domains(self, kernel: object) -> Domains:
        """The sched domains that a kernel builds on this machine, and why a level vanished.

        Args:
            kernel: a kernel, or its label.

        Raises:
            ValueError: the kernel is not known.
        """
        return build_domains(self, kernel)

    def plot(self, ax: Axes | None = None) -> Axes:
        """Draws nodes, last-level caches, cores and their CPUs as nested boxes.

        Args:
            ax: where to draw; a new figure of fitting size if None.

        Returns:
            The axes.
        """
        from schedlab._machine_plot import draw

        return draw(self.spec, ax)

    def __repr__(self) -> str:
        """One line: name and what there is how often."""
        return f"Machine({self.name!r}: {self._summary()})"

    def _repr_html_(self) -> str:
        """Name, contents, source and assumptions as HTML for notebooks."""
        parts = [f"<b>{escape(self.name)}</b>: {escape(self._summary())}"]
        if self.source:
            parts.append(f"Source: {escape(self.source)}")
        parts += [f"Assumed: {escape(line)}" for line in self.assumed]
        return "<br>".join(parts)

    def _summary(self) -> str:
        spec = self.spec
        what = [
            _count(self.nr_cpus, "CPU"),
            _count(len(set(spec["core"])), "core"),
            _count(len(set(zip(spec["llc"], spec["node"], strict=True))), "LLC"),
            _count(len(set(spec["package"])), "package"),
            _count(self.nr_nodes, "node"),
            self.arch,
        ]
        for key in ("offline", "isolated"):
            if spec[key]:
                what.append(f"{key} {cpulist(spec[key])}")
        return ", ".join(what)

    def _with(self, **changes: object) -> Machine:
        machine = Machine.__new__(Machine)
        machine._set({**self.spec, **changes}, self.costs, self.source, self.assumed)
        return machine

    def _set(
        self,
        spec: Mapping[str, Any],
        costs: Mapping[str, int],
        source: str,
        assumed: tuple[str, ...],
    ) -> None:
        """Checks and stores all there is; the instance is frozen afterwards."""
        whole = {"memoryless_nodes": [], "offline": [], "isolated": [], **spec}
        text = json.dumps(whole, sort_keys=True)
        _core.validate_machine(text)
        if not isinstance(costs, Mapping):
            raise bad_argument("costs", costs, "must be a mapping of names to numbers")
        known = [name for name, _, _ in _core.cost_table()]
        whole_costs: dict[str, int] = {}
        for key, value in costs.items():
            if not isinstance(key, str):
                raise bad_argument(f"costs[{key!r}]", value, "must have a name for key")
            choice("cost", key, known)
            whole_costs[key] = integer(f"costs.{key}", value, 0)
        costs_text = json.dumps(whole_costs, sort_keys=True)
        _core.validate_costs(costs_text)
        stored = {
            "_spec": text,
            "_costs": costs_text,
            "source": source,
            "assumed": assumed,
        }
        for field, content in stored.items():
            object.__setattr__(self, field, content)


@cache
def _named() -> dict[str, str]:
    """The JSON of every machine in the package's data, by name."""
    folder = resources.files("schedlab") / "data" / "machines"
    return {
        file.name.removesuffix(".json"): file.read_text(encoding="utf-8")
        for file in folder.iterdir()
        if file.name.endswith(".json")
    }


def _count(number: int, what: str) -> str:
    return f"{number} {what}{'' if number == 1 else 's'}"


def _integers(argument: str, values: Iterable[object]) -> list[int]:
    if isinstance(values, str | bytes) or not isinstance(values, Iterable):
        raise bad_argument(argument, values, "must be a sequence of integers")
    return [integer(f"{argument}[{index}]", value, 0) for index, value in enumerate(values)]


def _priority(value: object) -> int:
    return integer("asym_priority", value, -(2**31), 2**31 - 1)


def _is_sets(values: Sequence[object]) -> bool:
    return any(isinstance(value, Iterable) for value in values)


def _number_of_cpus(cpus: int | None, arrays: Mapping[str, Sequence[Any] | None]) -> int:
    if cpus is not None:
        return integer("cpus", cpus, 1, MAX_CPUS)
    for values in arrays.values():
        if values is not None:
            nr_cpus = sum(len(cpus) for cpus in values) if _is_sets(values) else len(values)
            if nr_cpus > MAX_CPUS:
                raise bad_argument("cpus", nr_cpus, f"a machine has at most {MAX_CPUS} CPUs")
            if nr_cpus > 0:
                return nr_cpus
    raise bad_argument(
        "cpus", cpus, "a machine has at least one CPU: give their number or an array over them"
    )


def _set_of_each(argument: str, values: Sets, nr_cpus: int) -> list[int]:
    """The number of the set that each CPU is in."""
    if not _is_sets(values):
        return _integers(argument, values)
    sets: list[int | None] = [None] * nr_cpus
    for number, cpus in enumerate(values):
        for cpu in _integers(f"{argument}[{number}]", cpus):  # type: ignore[arg-type]
            if cpu >= nr_cpus:
                raise bad_argument(f"{argument}[{number}]", cpu, f"must be a CPU, below {nr_cpus}")
            if sets[cpu] is not None:
                rule = f"CPU {cpu} is in one {argument} only, not in {sets[cpu]} and {number}"
                raise bad_argument(f"{argument}[{number}]", cpus, rule)
            sets[cpu] = number
    whole = [number for number in sets if number is not None]
    if len(whole) < nr_cpus:
        raise bad_argument(argument, values, f"CPU {sets.index(None)} is in no {argument}")
    return whole


def _rows(distance: Sequence[Sequence[int]]) -> list[list[int]]:
    if isinstance(distance, str | bytes) or not isinstance(distance, Iterable):
        raise bad_argument("distance", distance, "must be a square matrix of integers")
    return [_integers(f"distance[{index}]", row) for index, row in enumerate(distance)]


def _distance(distance: Sequence[Sequence[int]] | None, nr_nodes: int) -> list[list[int]]:
    if distance is not None:
        return _rows(distance)
    if nr_nodes > MAX_NODES:
        raise bad_argument("node", nr_nodes - 1, f"a machine has at most {MAX_NODES} nodes, numbered from 0")
    return [
        [LOCAL_DISTANCE if to == start else REMOTE_DISTANCE for to in range(nr_nodes)]
        for start in range(nr_nodes)
    ]


def _cpus_per_node(cpus_per_node: int | Sequence[int], nr_nodes: int) -> list[int]:
    if not isinstance(cpus_per_node, Iterable):
        return [integer("cpus_per_node", cpus_per_node, 1, MAX_CPUS)] * nr_nodes
    sizes = [integer(f"cpus_per_node[{node}]", size, 0, MAX_CPUS) for node, size in enumerate(cpus_per_node)]
    if len(sizes) != nr_nodes:
        raise bad_argument("cpus_per_node", sizes, f"must have one entry a node ({nr_nodes})")
    return sizes


def _numbering(core: Sequence[int], siblings: Siblings) -> list[int]:
    """The threads, listed core by core, in the order of their CPU numbers."""
    if choice("siblings", siblings, ["adjacent", "apart"]) == "adjacent":
        return list(range(len(core)))
    rank: list[int] = []
    seen: dict[int, int] = {}
    for number in core:
        rank.append(seen.get(number, 0))
        seen[number] = rank[-1] + 1
    return sorted(range(len(core)), key=lambda thread: (rank[thread], core[thread], thread))


_LEVELS = {
    "package": "package",
    "pack": "package",
    "socket": "package",
    "node": "node",
    "numa": "node",
    "numanode": "node",
    "die": "die",
    "l3": "l3",
    "l3cache": "l3",
    "l2": "l2",
    "l2cache": "l2",
    "cluster": "l2",
    "core": "core",
    "pu": "pu",
    "thread": "pu",
    "machine": "",
    "group": "",
    "l1": "",
    "l1cache": "",
    "l1d": "",
    "l1dcache": "",
    "l1i": "",
    "l1icache": "",
}
"""hwloc's names of levels, lower case; those that mean nothing to the scheduler only count."""


def _parse_synthetic(description: str) -> list[tuple[str, int]]:
    """The levels of a synthetic string with their counts, from the top down; the last is `pu`."""
    if not isinstance(description, str):
        raise bad_argument("description", description, "must be a string like 'node:2 l3:1 core:12 pu:2'")
    text = re.sub(r"\[\s*numa[^\]]*\]", " node:1 ", description.lower())
    text = re.sub(r"\[[^\]]*\]|\([^)]*\)", " ", text)
    levels: list[tuple[str, int]] = []
    skipped = 1
    for part in text.split():
        name, colon, count = part.partition(":")
        level = _LEVELS.get(name)
        if level is None:
            known = ", ".join(dict.fromkeys(filter(None, _LEVELS.values())))
            raise bad_argument(
                "description", description, f"{part!r} is no level: must be one of {known}, with a count"
            )
        if not colon or not count.isdecimal() or int(count) == 0:
            raise bad_argument("description", description, f"{part!r} must have a count of at least 1")
        if not level:
            skipped *= int(count)
            continue
        if level in (known for known, _ in levels):
            raise bad_argument("description", description, f"level {level} comes twice")
        if levels and levels[-1][0] == "pu":
            raise bad_argument("description", description, "pu is the lowest level")
        if levels and levels[-1][0] == "core" and level != "pu":
            raise bad_argument("description", description, f"{level} cannot be inside a core")
        levels.append((level, int(count) * skipped))
        skipped = 1
    if not levels:
        raise bad_argument("description", description, "must have a level, such as core:4")
    if levels[-1][0] != "pu":
        levels.append(("pu", skipped))
    return levels


def _above(names: Sequence[str], level: str, *others: str) -> bool:
    """Whether `level` is named before all the `others` that are named."""
    return level in names and all(
        names.index(level) < names.index(other) for other in others if other in names
    )
