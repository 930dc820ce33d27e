"""What tasks keep in memory, how they go through it, and where its pages may be."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from typing import Any

from schedlab._arguments import bad_argument, choice, integer

SHARING = ("private", "slices", "all")
POLICIES = ("local", "interleave", "bind")
PAGE_KIB = (4, 16, 64, 2048)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Memory:
    """Memory that tasks walk through, page by page, round and round, as their work gets on.

    A page goes to a node when it is first touched. Far pages make work slower; NUMA balancing, where it is
    on, brings tasks and pages together.

    Attributes:
        size_mib: size of a mapping: one for each task if private, else one for all of them.
        walk_us: CPU time of one walk over a task's part while all of it is local.
        sharing: `private`: each task is a process of its own; `slices`: the tasks are threads, each walks
            its own slice of one mapping; `all`: the tasks are threads, each walks all of it.
        overlap_pct: how far a slice reaches into its neighbours', in per cent of its length.
        bound_pct: part of the walk's time that waits for local memory, in per cent: on another node this part
            takes distance / 10 as long.
        policy: `local`: pages go where they are first touched, and NUMA balancing may move them;
            `interleave`: in turn over `nodes`; `bind`: to the nearest of `nodes`.
        nodes: the nodes of `interleave` and `bind`.
        first_node: node where somebody else has touched everything before; None: the tasks do.
        page_kib: size of a page.

    Raises:
        ValueError: a number or a name is out of its range, or nodes are given that the policy has no use for.
    """

    size_mib: int
    walk_us: int
    sharing: str = "private"
    overlap_pct: int = 0
    bound_pct: int = 50
    policy: str = "local"
    nodes: tuple[int, ...] = ()
    first_node: int | None = None
    page_kib: int = 4

    def __post_init__(self) -> None:
        """Checks types and ranges; whether a node exists, the machine will say."""
        put = object.__setattr__
        put(self, "size_mib", integer("size_mib", self.size_mib, 1, 1 << 26))
        put(self, "walk_us", integer("walk_us", self.walk_us, 1, 3_600_000_000))
        for name in ("overlap_pct", "bound_pct"):
            put(self, name, integer(name, getattr(self, name), 0, 100))
        choice("sharing", self.sharing, SHARING)
        choice("policy", self.policy, POLICIES)
        if self.page_kib not in PAGE_KIB:
            raise bad_argument("page_kib", self.page_kib, f"must be one of {', '.join(map(str, PAGE_KIB))}")
        if isinstance(self.nodes, str) or not isinstance(self.nodes, Iterable):
            raise bad_argument("nodes", self.nodes, "must be node numbers")
        put(self, "nodes", tuple(integer("nodes", node, 0, 1023) for node in self.nodes))
        if self.first_node is not None:
            put(self, "first_node", integer("first_node", self.first_node, 0, 1023))
        if self.overlap_pct and self.sharing != "slices":
            raise bad_argument("overlap_pct", self.overlap_pct, "is for sharing 'slices' only")
        if (self.policy == "local") != (not self.nodes):
            rule = "must name nodes for 'interleave' and 'bind', and none for 'local'"
            raise bad_argument("nodes", list(self.nodes), rule)
        if self.first_node is not None and self.policy != "local":
            raise bad_argument("first_node", self.first_node, "is for policy 'local' only")

    def to_dict(self) -> dict[str, Any]:
        """The memory as the scenario's JSON has it."""
        fields = dataclasses.asdict(self)
        fields["nodes"] = list(self.nodes)
        return {name: value for name, value in fields.items() if value is not None}

    @classmethod
    def from_dict(cls, name: str, fields: object) -> Memory:
        """The memory that `to_dict` wrote; `name` is what errors call it.

        Raises:
            ValueError: it is not an object, or a field is unknown, missing or out of its range.
        """
        if not isinstance(fields, dict):
            raise bad_argument(name, fields, "must be an object")
        known = [field.name for field in dataclasses.fields(cls)]
        for field in fields:
            choice(f"field of {name}", field, known)
        for field in ("size_mib", "walk_us"):
            if field not in fields:
                raise bad_argument(f"{name}.{field}", None, "must be given")
        return cls(**fields)
