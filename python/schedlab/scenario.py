"""Everything that defines a run but its seed."""

from __future__ import annotations

import dataclasses
import hashlib
import json
from typing import Any, get_args

from schedlab import _core, workload
from schedlab._arguments import bad_argument, instance
from schedlab.kernel import Kernel
from schedlab.machine import Machine
from schedlab.workload import Work


@dataclasses.dataclass(frozen=True)
class Scenario:
    """A machine, the kernel on it and the work: with a seed, they fix every bit of a run.

    Raises:
        ValueError: an argument is of the wrong kind.
    """

    machine: Machine
    kernel: Kernel
    work: Work

    def __post_init__(self) -> None:
        """Checks what kinds of things the three are."""
        instance("machine", self.machine, Machine)
        instance("kernel", self.kernel, Kernel)
        instance("work", self.work, *get_args(Work))

    def validate(self) -> None:
        """Lets the core check every rule.

        Raises:
            ValueError: a rule is broken; the message names the argument, its value and the rule.
        """
        _core.validate_scenario(self.to_json())

    def to_dict(self) -> dict[str, Any]:
        """The scenario as plain data."""
        return {
            "machine": dict(self.machine.spec),
            "costs": dict(self.machine.costs),
            "kernel": self.kernel.to_dict(),
            "workload": self.work.to_dict(),
        }

    def to_json(self) -> str:
        """`to_dict` as JSON text, the same text for equal scenarios."""
        return json.dumps(self.to_dict(), sort_keys=True)

    def sha256(self) -> str:
        """Hash of the JSON text, a name for the scenario."""
        return hashlib.sha256(self.to_json().encode()).hexdigest()

    @classmethod
    def from_dict(cls, fields: object) -> Scenario:
        """The scenario that `to_dict` wrote; `machine` and `kernel` may also be names.

        Raises:
            ValueError: a part is missing, unknown or breaks a rule.
        """
        if not isinstance(fields, dict):
            raise bad_argument("scenario", fields, "must be an object")
        parts = {"machine", "costs", "kernel", "workload"}
        for name in fields:
            if name not in parts:
                raise bad_argument("scenario field", name, f"must be one of {', '.join(sorted(parts))}")
        for name in sorted(parts - {"costs"}):
            if name not in fields:
                raise bad_argument("scenario", sorted(fields), f"must have a field `{name}`")
        costs = fields.get("costs", {})
        if not isinstance(costs, dict):
            raise bad_argument("costs", costs, "must be an object of numbers")
        return cls(
            _machine(fields["machine"], costs),
            Kernel.from_dict(fields["kernel"]),
            workload.from_dict(fields["workload"]),
        )

    @classmethod
    def from_json(cls, text: str) -> Scenario:
        """The scenario of a JSON text.

        Raises:
            ValueError: the text is not JSON, or `from_dict` refuses what it says.
        """
        try:
            fields = json.loads(text)
        except json.JSONDecodeError as error:
            raise bad_argument("scenario", f"{text[:40]}...", f"must be JSON: {error}") from None
        return cls.from_dict(fields)


def _machine(machine: object, costs: dict[str, Any]) -> Machine:
    if isinstance(machine, str):
        named = Machine.named(machine)
        return named.with_costs({**named.costs, **costs})
    if not isinstance(machine, dict):
        raise bad_argument("machine", machine, "must be a name or the fields of a machine")
    return Machine.from_json(json.dumps({"spec": machine, "costs": costs}))
