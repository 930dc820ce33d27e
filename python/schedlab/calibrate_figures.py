"""calibrate, where a benchmark prints several figures of one run: a few named costs, each on one figure.

As in `calibrate.py` only the base kernel runs, and the search has no chance in it: Newton's method, with
slopes from one simulation for each cost.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from schedlab import _core, tables
from schedlab._arguments import choice
from schedlab._render import text_table
from schedlab.calibrate import unfitted_costs
from schedlab.machine import Machine
from schedlab.simulate import Progress, seed_array, simulate

FIGURES: dict[str, tuple[str, dict[str, tuple[str, int, int]]]] = {
    "celeron-2cpu": (
        "kernbench-2cpu",
        {
            "user time, s": ("kernbench_file_us", 1_500_000, 1),
            "system time, s": ("kernbench_process_us", 30_000, 1),
            "elapsed time, s": ("kernbench_link_us", 20_000, 1),
            "sleeps": ("kernbench_asm_kib", 96, 4),
        },
    ),
}
"""By machine: the table, and for each row to fit on the cost, its start and the least step."""

FOLLOWS = {"celeron-2cpu": ("percent CPU",)}
"""By machine: rows that follow from fitted ones by arithmetic."""

SLOPE_STEP = 0.1
"""Part of a cost by which it is changed to find a slope."""

MOST_ROUNDS = 6
"""Newton steps after which the best costs so far are taken."""

ENOUGH_PCT = 0.02
"""Residuals so small end the search, per cent of the printed figures."""

SCHEMA = 1

Floats = npt.NDArray[np.float64]


@dataclasses.dataclass(frozen=True)
class FiguresCalibration:
    """A fit of several costs on as many figures.

    Attributes:
        machine: name of the machine.
        table: the published table.
        kernel: the base kernel that was simulated.
        figures: row to cost.
        start: the costs' values at the start.
        targets: row to printed base figure.
        simulated: row to mean simulated figure with the fitted costs.
        costs: all costs that the machine now sets.
        seeds: seeds of each simulation.
        evaluations: the costs tried, in order, each with the figures that they gave.
        follows: rows that follow from the fitted ones by arithmetic.
    """

    machine: str
    table: str
    kernel: str
    figures: dict[str, str]
    start: dict[str, int]
    targets: dict[str, float]
    simulated: dict[str, float]
    costs: dict[str, int]
    seeds: tuple[int, ...]
    evaluations: tuple[tuple[tuple[int, ...], tuple[float, ...]], ...]
    follows: tuple[str, ...] = ()

    @property
    def residuals_pct(self) -> dict[str, float]:
        """Row to simulated over printed figure less one, per cent."""
        return {row: 100.0 * (self.simulated[row] / target - 1.0) for row, target in self.targets.items()}

    def to_dict(self) -> dict[str, Any]:
        """The record that is written, with everything needed to fit again."""
        return {
            "schema": SCHEMA,
            "schedlab": _core.VERSION,
            **dataclasses.asdict(self),
            "residuals_pct": self.residuals_pct,
        }

    def __repr__(self) -> str:
        """What was fitted on what, and the residuals."""
        rows = [
            [
                row,
                cost,
                f"{self.costs[cost]:g}",
                f"{self.targets[row]:g}",
                f"{self.simulated[row]:.6g}",
                f"{self.residuals_pct[row]:+.3f}",
            ]
            for row, cost in self.figures.items()
        ]
        return "\n".join(
            [
                f"{self.machine}: {self.table}, {self.kernel}, {len(self.seeds)} seeds",
                text_table(["row", "cost", "value", "printed", "simulated", "residual, %"], rows, left=2),
                f"after {len(self.evaluations)} simulations",
            ]
        )


def calibrate_figures(
    machine: str,
    seeds: int | Iterable[int] = 30,
    threads: int | None = None,
    progress: bool | Progress | None = None,
) -> FiguresCalibration:
    """Fits named costs of a machine on base figures, one on each; `calibrate.write` writes them.

    Args:
        machine: name of a machine in `FIGURES`; its other costs keep their values.
        seeds: seeds of each simulation.
        threads: threads of the core.
        progress: as `simulate` takes it.

    Raises:
        ValueError: the machine has no such fit.
    """
    name, fitted = FIGURES[choice("machine", machine, FIGURES)]
    seeds = [int(seed) for seed in seed_array(seeds)]
    table = tables.named(name)
    rows = {row.label: row for row in table.rows()}
    targets = [rows[label].base for label in fitted]
    work = next(iter(rows.values())).work()
    computer = Machine.named(machine)
    unfitted = unfitted_costs(computer)
    names = [cost for cost, _, _ in fitted.values()]

    def costs_of(values: Sequence[int]) -> dict[str, int]:
        return {**unfitted, **dict(zip(names, values, strict=True))}

    def figures_at(values: Sequence[int]) -> list[float]:
        runs = simulate(
            computer.with_costs(costs_of(values)), tables.kernel(table.base), work, seeds, threads, progress
        )
        return [float(runs.metrics[rows[label].metric or table.metric].mean()) for label in fitted]

    start = [value for _, value, _ in fitted.values()]
    grains = [grain for _, _, grain in fitted.values()]
    assert all(target is not None for target in targets)
    printed = [float(target) for target in targets if target is not None]
    best, evaluations = newton(figures_at, printed, start, grains)
    return FiguresCalibration(
        machine=machine,
        table=table.name,
        kernel=table.base,
        figures={label: cost for label, (cost, _, _) in fitted.items()},
        start=dict(zip(names, start, strict=True)),
        targets=dict(zip(fitted, printed, strict=True)),
        simulated=dict(zip(fitted, dict(evaluations)[best], strict=True)),
        costs=costs_of(best),
        seeds=tuple(seeds),
        evaluations=tuple(evaluations),
        follows=FOLLOWS.get(machine, ()),
    )


Tried = list[tuple[tuple[int, ...], tuple[float, ...]]]


def newton(
    figures_at: Callable[[Sequence[int]], Sequence[float]],
    targets: Sequence[float],
    start: Sequence[int],
    grains: Sequence[int],
) -> tuple[tuple[int, ...], Tried]:
    """The whole numbers at which as many functions meet their targets; and all that was tried.

    Each step solves for the targets with slopes found by changing one number at a time, and rounds to the
    grains. No number falls below its grain or changes by more than a factor of four in a step.

    Returns:
        Of all that was tried, the numbers whose largest residual is the least.
    """
    tried: dict[tuple[int, ...], tuple[float, ...]] = {}
    printed = np.asarray(targets, dtype=np.float64)
    grain = np.asarray(grains, dtype=np.int64)

    def evaluate(values: npt.NDArray[np.int64]) -> Floats:
        key = tuple(int(value) for value in values)
        if key not in tried:
            tried[key] = tuple(figures_at(key))
        return np.asarray(tried[key])

    def residual_pct(figures: Sequence[float] | Floats) -> float:
        return float(np.abs(100.0 * (np.asarray(figures) / printed - 1.0)).max())

    at = np.asarray(start, dtype=np.int64)
    for _ in range(MOST_ROUNDS):
        figures = evaluate(at)
        if residual_pct(figures) <= ENOUGH_PCT:
            break
        slopes = np.empty((len(at), len(at)))
        for i in range(len(at)):
            other = at.copy()
            other[i] += max(round(SLOPE_STEP * int(at[i]) / int(grain[i])), 1) * int(grain[i])
            slopes[:, i] = (evaluate(other) - figures) / (other[i] - at[i])
        # Where two slopes cannot be told apart, the smallest step that serves.
        change = np.linalg.lstsq(slopes / printed[:, None], (printed - figures) / printed, rcond=None)[0]
        wanted = np.clip(at + change, at / 4.0, at * 4.0)
        step_to = np.maximum(np.round(wanted / grain).astype(np.int64), 1) * grain
        if (step_to == at).all():
            break
        at = step_to
    evaluate(at)
    best = min(tried, key=lambda values: (residual_pct(tried[values]), values))
    return best, list(tried.items())
