"""calibrate: fits a machine's free costs on one published figure of a base kernel, and writes down how.

The cost model knows no kernel. What is fitted here is how fast the machine is: one factor on the named
free costs, searched so that the simulated time of one row of a table's BASE column meets the printed one.
The patched kernel is never run. The search has no chance in it: whoever repeats it gets the same costs.
"""

from __future__ import annotations

import dataclasses
import json
import os
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from importlib import resources
from pathlib import Path
from typing import Any, Protocol

from schedlab import _core, tables
from schedlab._arguments import bad_argument, choice
from schedlab._files import write_text
from schedlab._render import text_table
from schedlab.machine import Machine
from schedlab.simulate import Progress, seed_array, simulate

DEFAULT_ROWS = {
    "arm64-dual-quad": ("hackbench-arm64-dual-quad", "8"),
    "arm64-224": ("hackbench-arm64-224", "64"),
    "power9-44c": ("hackbench-power9", "64"),
    "i7-13700-12c24t": ("hackbench-pipes-i7", "12"),
    "xeon-e7-8node-160": ("lu-quartiles-8node", "NORMAL numa_balancing=0 median"),
}
"""The row that each machine is fitted on: of the rows with the least printed spread, one in the middle."""

OWN_FREE = {"lu-quartiles-8node": ("lu_point_ns",)}
"""Costs that are scaled, where a table's times say little of the others."""

NO_SPEED = frozenset({"tick_skew_ns"})
"""Times that say nothing of how fast a machine is: how far apart the CPUs' ticks are."""

UNIT_SCALE = 1000
"""The factor is a whole number of thousandths: 1000 leaves the costs as they are."""

SMALLEST_SCALE, LARGEST_SCALE = 31, 32_000
"""Where the search gives up: a factor of about 32 either way."""

ENOUGH_PCT = 0.05
"""A residual so small ends the search, per cent of the printed time."""

MOST_EVALUATIONS = 24
"""Simulations after which the best factor so far is taken."""

SCHEMA = 1


@dataclasses.dataclass(frozen=True)
class Calibration:
    """A fit.

    Attributes:
        machine: name of the machine.
        table: the published table.
        row: its row.
        kernel: the base kernel that was simulated.
        free: names of the costs that were scaled.
        start: their values at factor 1.
        scale_permille: the factor found, in thousandths.
        target_s: the printed base time.
        simulated_s: mean simulated time with the fitted costs.
        costs: all costs that the machine now sets.
        seeds: seeds of each simulation.
        evaluations: (factor, mean simulated time in s) in the order tried.
    """

    machine: str
    table: str
    row: str
    kernel: str
    free: tuple[str, ...]
    start: dict[str, int]
    scale_permille: int
    target_s: float
    simulated_s: float
    costs: dict[str, int]
    seeds: tuple[int, ...]
    evaluations: tuple[tuple[int, float], ...]

    @property
    def residual_pct(self) -> float:
        """Simulated over printed time less one, per cent."""
        return 100.0 * (self.simulated_s / self.target_s - 1.0)

    def to_dict(self) -> dict[str, Any]:
        """The record that is written, with everything needed to fit again."""
        return {
            "schema": SCHEMA,
            "schedlab": _core.VERSION,
            **dataclasses.asdict(self),
            "residual_pct": self.residual_pct,
        }

    def __repr__(self) -> str:
        """What was fitted on what, the costs, and the residual."""
        units = {name: unit for name, unit, _ in _core.cost_table()}
        rows = [
            [name, f"{value:g}", units.get(name, ""), "fitted" if name in self.free else "kept"]
            for name, value in self.costs.items()
        ]
        return "\n".join(
            [
                f"{self.machine}: row {self.row} of {self.table}, {self.kernel}, {len(self.seeds)} seeds",
                text_table(["cost", "value", "unit", ""], rows),
                f"factor {self.scale_permille / UNIT_SCALE:.3f} on the fitted costs",
                f"printed {self.target_s:.4f} s, simulated {self.simulated_s:.4f} s, "
                f"residual {self.residual_pct:+.3f} % after {len(self.evaluations)} simulations",
            ]
        )


class Fit(Protocol):
    """What `write` writes."""

    @property
    def machine(self) -> str:
        """Name of the machine."""

    @property
    def costs(self) -> dict[str, int]:
        """All costs that the machine now sets."""

    def to_dict(self) -> dict[str, Any]:
        """The record."""


def calibrate(
    machine: str,
    table: str | None = None,
    row: str | None = None,
    free: Sequence[str] | None = None,
    seeds: int | Iterable[int] = 30,
    threads: int | None = None,
    progress: bool | Progress | None = None,
) -> Calibration:
    """Fits the machine's free costs on one base figure. Nothing is written; `write` does that.

    Args:
        machine: name of the machine; its costs that are not free keep their values.
        table: published table; None for the machine's own.
        row: its row; None for the machine's own.
        free: costs to scale, all by one factor; None for the table's own, or else every cost that is a time.
            The factor starts from the values before any earlier fit, so that fitting twice gives the same.
        seeds: seeds of each simulation.
        threads: threads of the core.
        progress: as `simulate` takes it.

    Raises:
        ValueError: machine, table, row or a cost is unknown, the row has no printed base time, or no factor
            meets it.
    """
    seeds = [int(seed) for seed in seed_array(seeds)]
    computer = Machine.named(machine)
    published, target = _target(machine, table, row)
    where = tables.named(published)
    unfitted = unfitted_costs(computer)
    known: dict[str, int] = {**json.loads(_core.default_costs()), **unfitted}
    timed = [name for name, unit, _ in _core.cost_table() if unit == "ns" and name not in NO_SPEED]
    free = tuple(OWN_FREE.get(where.name, timed) if free is None else free)
    for name in free:
        choice("free", name, known)
    if not free:
        raise bad_argument("free", free, "must name at least one cost")
    start = {name: known[name] for name in free}
    work = target.work(where.most)

    def costs_at(scale: int) -> dict[str, int]:
        return {**unfitted, **scaled(start, scale)}

    kernel = tables.kernel(where.base)
    if target.tunables:
        kernel = kernel.with_tunables(**dict(target.tunables))

    def time_at(scale: int) -> float:
        fitted = computer.with_costs(costs_at(scale))
        times = simulate(fitted, kernel, work, seeds, threads, progress).metrics["time_s"]
        typical = times.median() if target.statistic == "median" else times.mean()
        return target.stretch(where.most) * float(typical)

    assert target.base is not None
    scale, evaluations = search(time_at, target.base)
    return Calibration(
        machine=machine,
        table=where.name,
        row=target.label,
        kernel=where.base,
        free=free,
        start=start,
        scale_permille=scale,
        target_s=target.base,
        simulated_s=dict(evaluations)[scale],
        costs=costs_at(scale),
        seeds=tuple(seeds),
        evaluations=tuple(evaluations),
    )


def unfitted_costs(machine: Machine) -> dict[str, int]:
    """The costs that the machine sets, as they were before its earlier fit, if there was one."""
    record = tables.calibration(machine.name)
    costs = dict(machine.costs)
    if record is not None:
        defaults = json.loads(_core.default_costs())
        for name, value in record["start"].items():
            costs.pop(name, None)
            if value != defaults.get(name):
                costs[name] = value
    return costs


def scaled(costs: Mapping[str, int], scale: int) -> dict[str, int]:
    """The costs times scale / UNIT_SCALE; integers stay integers, rounded half up, and none falls to 0."""
    result: dict[str, int] = {}
    for name, value in costs.items():
        if isinstance(value, int):
            result[name] = max(1, (value * scale + UNIT_SCALE // 2) // UNIT_SCALE) if value else 0
        else:
            result[name] = value * scale / UNIT_SCALE
    return result


def search(time_at: Callable[[int], float], target: float) -> tuple[int, list[tuple[int, float]]]:
    """The factor, in thousandths, at which a rising function meets the target; and all that was tried.

    Starts at 1000, doubles or halves until the target lies between two factors, then takes the point where
    the chord between them crosses it (kept off the ends by a tenth), until the residual is small enough.

    Raises:
        ValueError: no factor from 31 to 32,000 thousandths meets it.
    """
    tried: dict[int, float] = {}

    def evaluate(scale: int) -> float:
        if scale not in tried:
            tried[scale] = time_at(scale)
        return tried[scale]

    low = high = UNIT_SCALE
    while evaluate(low) > target:
        high, low = low, low // 2
        if low < SMALLEST_SCALE:
            raise _unreachable(target, tried)
    while evaluate(high) < target:
        low, high = high, high * 2
        if high > LARGEST_SCALE:
            raise _unreachable(target, tried)
    while high - low > 1 and len(tried) < MOST_EVALUATIONS:
        if any(abs(time / target - 1.0) * 100.0 <= ENOUGH_PCT for time in tried.values()):
            break
        span = high - low
        part = (target - tried[low]) / (tried[high] - tried[low])
        inside = low + min(max(round(span * part), 1 + span // 10), span - 1 - span // 10)
        middle = min(max(inside, low + 1), high - 1)
        low, high = (middle, high) if evaluate(middle) < target else (low, middle)
    best = min(tried, key=lambda scale: (abs(tried[scale] - target), scale))
    return best, list(tried.items())


def write(fit: Fit, output: str | os.PathLike[str] | None = None) -> list[Path]:
    """Writes the record of a fit.

    Args:
        fit: the fit.
        output: file of the record; None for the package's data, where the machine's costs are set as well.

    Returns:
        The files written.

    Raises:
        OSError: a file cannot be written.
    """
    text = json.dumps(fit.to_dict(), indent=2) + "\n"
    if output is not None:
        write_text(output, text)
        return [Path(output)]
    data = Path(str(resources.files("schedlab"))) / "data"
    machine = data / "machines" / f"{fit.machine}.json"
    costs = json.dumps(fit.costs, indent=4).replace("\n}", "\n  }")
    before = machine.read_text(encoding="utf-8")
    after, count = re.subn(r'"costs":\s*\{[^{}]*\}', f'"costs": {costs}', before)
    if count != 1:
        raise bad_argument("machine", fit.machine, "its file must have one object `costs`")
    record = data / "calibration" / f"{fit.machine}.json"
    record.parent.mkdir(exist_ok=True)
    write_text(record, text)
    write_text(machine, after)
    tables.calibration.cache_clear()
    return [record, machine]


def _target(machine: str, table: str | None, row: str | None) -> tuple[str, tables.PublishedRow]:
    """Name of the table and its row to fit on."""
    if table is None or row is None:
        choice("machine", machine, DEFAULT_ROWS)
    own_table, own_row = DEFAULT_ROWS.get(machine, ("", ""))
    name, label = own_table if table is None else table, own_row if row is None else row
    published = tables.named(name)
    if published.machine != machine:
        raise bad_argument("table", name, f"must be a table of {machine}, not of {published.machine}")
    if published.metric != "time_s" or published.kind == "levels":
        raise bad_argument("table", name, "must print base times")
    rows = {row.label: row for row in published.rows() if row.statistic in (None, "median")}
    return name, rows[choice("row", label, rows)]


def _unreachable(target: float, tried: Mapping[int, float]) -> ValueError:
    reached = ", ".join(f"{time:.4g} s at {scale / UNIT_SCALE:g}" for scale, time in tried.items())
    return bad_argument("target", target, f"no factor on the free costs gives this time; tried {reached}")
