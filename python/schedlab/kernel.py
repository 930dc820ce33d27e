"""Kernels: a generation, with patches, tunables, features and single slots changed."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Any

import pandas as pd

from schedlab import _core
from schedlab._arguments import bad_argument, integer, mapping
from schedlab._render import html_table, text_table


@dataclasses.dataclass(frozen=True, repr=False)
class Kernel:
    """A kernel's scheduling policy, made of named decisions ("slots") that a patch or a caller can exchange.

    Attributes:
        name: the generation, such as `v5.6`; `kernels()` lists them.
        patches: patches put on it, in order.
        tunables: settings other than the default ones, such as `hz` or `pelt_half_life_ms`.
        features: scheduler features (SCHED_FEAT) switched on or off.
        slots: single decisions taken from another generation or patch.
        domains: kernel whose rules build the sched domains, such as `v5.10`; None for the generation's own.

    Raises:
        ValueError: the generation, a patch or a slot is unknown; near names are offered.
    """

    name: str
    patches: tuple[str, ...] = ()
    tunables: Mapping[str, int] = dataclasses.field(default_factory=dict)
    features: Mapping[str, bool] = dataclasses.field(default_factory=dict)
    slots: Mapping[str, str] = dataclasses.field(default_factory=dict)
    domains: str | None = None

    def __post_init__(self) -> None:
        """Checks types here and names in the core."""
        if not isinstance(self.name, str):
            raise bad_argument("kernel", self.name, "must be the name of a generation, such as 'v5.6'")
        if isinstance(self.patches, str) or not isinstance(self.patches, Iterable):
            raise bad_argument("patches", self.patches, "must be a sequence of names of patches")
        patches = tuple(self.patches)
        for patch in patches:
            if not isinstance(patch, str):
                raise bad_argument("patches", patch, "must be names of patches")
        tunables = {
            name: value if isinstance(value, bool) else integer(name, value)
            for name, value in mapping("tunables", self.tunables).items()
        }
        for name, value in mapping("features", self.features).items():
            if not isinstance(value, bool):
                raise bad_argument(name, value, "must be True or False")
        for slot, source in mapping("slots", self.slots).items():
            if not isinstance(source, str):
                raise bad_argument(slot, source, "must be the name of a generation or patch")
        if self.domains is not None and not isinstance(self.domains, str):
            raise bad_argument("domains", self.domains, "must be the name of a kernel, or None")
        set_field = object.__setattr__
        set_field(self, "patches", patches)
        set_field(self, "tunables", MappingProxyType(dict(sorted(tunables.items()))))
        set_field(self, "features", MappingProxyType(dict(sorted(self.features.items()))))
        set_field(self, "slots", MappingProxyType(dict(sorted(self.slots.items()))))
        self.functions()

    def with_patches(self, *patches: str) -> Kernel:
        """This kernel with more patches on top, in the order given.

        Raises:
            ValueError: a patch is unknown, or this kernel lacks what it needs.
        """
        return dataclasses.replace(self, patches=(*self.patches, *patches))

    def with_tunables(self, **tunables: int) -> Kernel:
        """This kernel with numbers changed: `with_tunables(hz=250, pelt_half_life_ms=16)`."""
        return dataclasses.replace(self, tunables={**self.tunables, **tunables})

    def with_features(self, **features: bool) -> Kernel:
        """This kernel with scheduler features switched: `with_features(WA_BIAS=False)`."""
        return dataclasses.replace(self, features={**self.features, **features})

    def with_slots(self, **slots: str) -> Kernel:
        """This kernel with single decisions of another: `with_slots(calculate_imbalance="v5.5")`."""
        return dataclasses.replace(self, slots={**self.slots, **slots})

    def with_domains(self, kernel: str) -> Kernel:
        """This kernel on sched domains that another one's rules build: `with_domains("v5.10")`."""
        return dataclasses.replace(self, domains=kernel)

    def functions(self) -> dict[str, str]:
        """Which function fills each slot: slot name to `module::function`."""
        return _core.kernel_slots(self.to_json())

    def notes(self) -> dict[str, str]:
        """What each slot's function decides, as against the kernel that its own builds on."""
        return _core.kernel_notes(self.to_json())

    def diff(self, other: Kernel) -> KernelDiff:
        """Every decision, tunable and feature in which the other kernel differs, with a sentence on each."""
        if not isinstance(other, Kernel):
            raise bad_argument("other", other, "must be a schedlab.Kernel")
        return KernelDiff(self, other)

    @property
    def label(self) -> str:
        """A short name for tables: generation, `+` patches, and what was changed in brackets."""
        changed = [f"{name}={value}" for name, value in {**self.tunables, **self.features}.items()]
        changed += [f"{slot} of {source}" for slot, source in self.slots.items()]
        changed += [] if self.domains is None else [f"domains of {self.domains}"]
        return "+".join([self.name, *self.patches]) + (f" ({', '.join(changed)})" if changed else "")

    def to_dict(self) -> dict[str, Any]:
        """The kernel as the scenario's JSON has it."""
        fields = {
            "name": self.name,
            "patches": list(self.patches),
            "tunables": dict(self.tunables),
            "features": dict(self.features),
            "slots": dict(self.slots),
        }
        return fields if self.domains is None else {**fields, "domains": self.domains}

    def to_json(self) -> str:
        """`to_dict` as JSON text, the same text for equal kernels."""
        return json.dumps(self.to_dict(), sort_keys=True)

    @classmethod
    def from_dict(cls, fields: object) -> Kernel:
        """The kernel that `to_dict` wrote, or the generation if `fields` is a name.

        Raises:
            ValueError: a field is unknown or of the wrong type, or a name in it is unknown.
        """
        if isinstance(fields, str):
            return cls(fields)
        if not isinstance(fields, dict) or "name" not in fields:
            raise bad_argument("kernel", fields, "must be a name or an object with a `name`")
        known = {field.name for field in dataclasses.fields(cls)}
        for name in fields:
            if name not in known:
                raise bad_argument("kernel field", name, f"must be one of {', '.join(sorted(known))}")
        for name in ("tunables", "features", "slots"):
            if not isinstance(fields.get(name, {}), dict):
                raise bad_argument(f"kernel.{name}", fields[name], "must be an object")
        if not isinstance(fields.get("patches", []), list | tuple):
            raise bad_argument("kernel.patches", fields["patches"], "must be a list of names")
        return cls(**fields)

    def __hash__(self) -> int:
        """Equal kernels have equal hashes."""
        return hash(self.to_json())

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickles by value, since the mappings' read-only views do not."""
        return (Kernel.from_dict, (self.to_dict(),))

    def __repr__(self) -> str:
        """`Kernel('v5.6+runnable-avg')`."""
        return f"Kernel({self.label!r})"


class KernelDiff:
    """The decisions, tunables and features in which two kernels differ.

    Attributes:
        a: the first kernel.
        b: the second kernel.
        rows: (kind, name, value in a, value in b, what b does), kind is `slot`, `tunable`, `feature` or
            `domains`; the sentence on a slot is that of b's function, on a feature what it is, else empty.
    """

    def __init__(self, a: Kernel, b: Kernel) -> None:
        """Compares the two slot by slot."""
        self.a, self.b = a, b
        self.rows: list[tuple[str, str, str, str, str]] = []
        features = {name: text for name, _, text in _core.feature_table()}
        for kind, of_a, of_b, notes in (
            ("slot", a.functions(), b.functions(), b.notes()),
            ("tunable", a.tunables, b.tunables, {}),
            ("feature", a.features, b.features, features),
            ("domains", _domains(a), _domains(b), {}),
        ):
            for name in sorted({*of_a, *of_b}):
                left, right = str(of_a.get(name, "default")), str(of_b.get(name, "default"))
                if left != right:
                    self.rows.append((kind, name, left, right, notes.get(name, "")))

    def to_pandas(self) -> pd.DataFrame:
        """One row a difference; columns kind, name, the labels of the kernels, and `what changes`."""
        return pd.DataFrame(self.rows, columns=pd.Index(self._header))

    @property
    def _header(self) -> list[str]:
        a, b = self.a.label, self.b.label
        return ["kind", "name", *((a, b) if a != b else (f"{a} (a)", f"{b} (b)")), "what changes"]

    def __len__(self) -> int:
        """Number of differences."""
        return len(self.rows)

    def __repr__(self) -> str:
        """The table as text."""
        if not self.rows:
            return f"{self.a.label} and {self.b.label} decide alike"
        return text_table(self._header, self.rows, left=5)

    def _repr_html_(self) -> str:
        if not self.rows:
            return f"<p>{self!r}</p>"
        return html_table(self._header, self.rows, left=5)


def _domains(kernel: Kernel) -> dict[str, str]:
    return {} if kernel.domains is None else {"rules": kernel.domains}


def kernels() -> pd.DataFrame:
    """Kernels and patches: columns name, kind (`generation` or `patch`), base, source, summary and changes.

    `base` is the kernel that a patch was made for, or the generation before. `changes` has a line for each
    decision in which the kernel differs from it: the slot, and what it does now.
    """
    columns = pd.Index(["name", "kind", "base", "source", "summary", "changes"])
    return pd.DataFrame(_core.kernels(), columns=columns)
