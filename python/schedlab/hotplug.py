"""CPUs that go off and come back during a run."""

from __future__ import annotations

import dataclasses

from schedlab._arguments import bad_argument, choice, integer

MOST_US = 3_600_000_000
"""The latest time of a change, us: an hour."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Hotplug:
    """A CPU goes off, or comes back (`echo 0 > /sys/devices/system/cpu/cpu3/online`).

    The tasks of a CPU that goes off are pushed to others; those that may use no other lose their affinity for
    good. The domains are rebuilt, and balancing forgets what it knew of the old ones.

    Attributes:
        at_us: when, us after the clock.
        cpu: the CPU.
        online: True: it comes back; False: it goes off.

    Raises:
        ValueError: a number is not an integer in its range, or `online` is not a bool.
    """

    at_us: int
    cpu: int
    online: bool

    def __post_init__(self) -> None:
        """Checks types and ranges; whether the change is possible, the machine will say."""
        object.__setattr__(self, "at_us", integer("at_us", self.at_us, 0, MOST_US))
        object.__setattr__(self, "cpu", integer("cpu", self.cpu, 0, 4095))
        if not isinstance(self.online, bool):
            raise bad_argument("online", self.online, "must be True or False")

    @classmethod
    def from_dict(cls, name: str, fields: object) -> Hotplug:
        """The change of a scenario's JSON; `name` is what errors call it.

        Raises:
            ValueError: it is not an object, or a field is unknown, missing or out of its range.
        """
        if not isinstance(fields, dict):
            raise bad_argument(name, fields, "must be an object")
        known = [field.name for field in dataclasses.fields(cls)]
        for field in fields:
            choice(f"field of {name}", field, known)
        for field in known:
            if field not in fields:
                raise bad_argument(f"{name}.{field}", None, "must be given")
        return cls(**fields)
