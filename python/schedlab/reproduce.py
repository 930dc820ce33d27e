"""reproduce: a published table, its simulated twin and a verdict a row."""

from __future__ import annotations

import dataclasses
import math
import textwrap
import time
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np
import pandas as pd

from schedlab import _core, tables
from schedlab._render import html_table, paragraphs, text_table
from schedlab.machine import Machine
from schedlab.runs import NR_RUNNING, Runs
from schedlab.simulate import Progress, seed_array, simulate
from schedlab.statistics import Floats, Gain, bootstrap_interval, gain_pct, mean, median, paired_gain
from schedlab.tables import ASSUMED_NOISE_PCT, LU_RUNS, PublishedRow, Table
from schedlab.verdict import GAIN_RULE, RATIO_RULE, SHARE_RULE, VERDICTS, ratio_verdict, verdict
from schedlab.workload import Work

REFERENCE_ROW = "8"
"""Row that tables which print one column only take the others against: the load of the fit."""


def reproduce(
    table: str,
    seeds: int | Iterable[int] | None = None,
    full: bool = False,
    threads: int | None = None,
    progress: bool | Progress | None = None,
) -> Reproduction:
    """Simulates a published table and judges each row.

    Args:
        table: its name; `schedlab.tables.published()` lists them.
        seeds: seeds of each row, as `simulate` takes them; None for the table's own number.
        full: run the published size where the table would run shorter.
        threads: threads of the core, None for all CPUs.
        progress: as `simulate` takes it.

    Raises:
        ValueError: there is no such table, or `seeds` or `threads` breaks a rule.
    """
    return Laboratory(seeds, full, threads, progress).reproduce(table)


@dataclasses.dataclass(frozen=True)
class ReproducedRow:
    """A published row beside the simulated one. Figures in the table's unit, gains in per cent.

    In a classification the gains are changes of the share, in points (in per cent for the total).

    Attributes:
        row: its name.
        published_base: figure printed for the base; the reference row's in a table that prints one column.
        published_patched: figure printed for the patched kernel.
        published_gain_pct: the printed gain, or that of the printed figures where none is printed.
        published_noise_pct: its noise, from the printed spreads.
        noise_assumed: a spread was not printed and is assumed to be 1 %.
        simulated_base: simulated mean under the base kernel, stretched to the published size; the reference
            row's likewise.
        simulated_patched: simulated mean under the patched kernel.
        simulated: simulated gain with its 95 % interval.
        calibrated: the machine's costs were fitted on this row's base figure.
        verdict: `agrees`, `within noise` or `disagrees`.
        shares_pct: in a classification, the shares of the total: published base, published patched,
            simulated base, simulated patched.
        wall_s: time that its simulation took here.
    """

    row: str
    published_base: float
    published_patched: float
    published_gain_pct: float
    published_noise_pct: float
    noise_assumed: bool
    simulated_base: float
    simulated_patched: float
    simulated: Gain
    calibrated: bool
    verdict: str
    shares_pct: tuple[float, float, float, float] | None
    wall_s: float

    def to_dict(self, seeds: int) -> dict[str, Any]:
        """The row as `--json` has it."""
        fields = {
            "row": self.row,
            "published_base": self.published_base,
            "published_patched": self.published_patched,
            "published_gain_pct": self.published_gain_pct,
            "published_noise_pct": self.published_noise_pct,
            "noise_assumed": self.noise_assumed,
            "simulated_base": self.simulated_base,
            "simulated_patched": self.simulated_patched,
            "simulated_gain_pct": self.simulated.pct,
            "ci_low_pct": self.simulated.low,
            "ci_high_pct": self.simulated.high,
            "calibrated": self.calibrated,
            "verdict": self.verdict,
            "seeds": seeds,
            "wall_s": self.wall_s,
            "version": _core.VERSION,
        }
        if self.shares_pct is not None:
            names = ("published_base", "published_patched", "simulated_base", "simulated_patched")
            shares = zip(names, self.shares_pct, strict=True)
            fields |= {f"{name}_share_pct": share for name, share in shares}
        return fields


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class Reproduction:
    """A reproduced table.

    Attributes:
        table: the published one.
        rows: its rows, judged.
        seeds: number of seeds of each row.
        wall_s: time that the simulation took here, seconds.
        full: whether the rows ran at the published size.
        notes: what a reader must know beside the numbers.
        explanation: what moved the rows: one line a row and counter, base and patched (columns row, counter,
            unit, base, patched).
    """

    table: Table
    rows: list[ReproducedRow]
    seeds: int
    wall_s: float
    full: bool
    notes: list[str]
    explanation: pd.DataFrame

    @property
    def rule(self) -> str:
        """The rule of the verdicts, in words."""
        return {"classification": SHARE_RULE, "distributions": RATIO_RULE}.get(self.table.kind, GAIN_RULE)

    def to_dict(self) -> dict[str, Any]:
        """The table as `--json` has it."""
        table = self.table
        return {
            "table": table.name,
            "title": table.title,
            "machine": table.machine,
            "base": table.base,
            "patched": table.patched,
            "metric": table.metric,
            "unit": table.unit,
            "rows": [row.to_dict(self.seeds) for row in self.rows],
            "seeds": self.seeds,
            "full": self.full,
            "wall_s": self.wall_s,
            "version": _core.VERSION,
            "rule": self.rule,
            "source": table.source,
            "notes": self.notes,
            "explanation": self.explanation.to_dict(orient="records"),
        }

    def to_pandas(self) -> pd.DataFrame:
        """One row a row, the fields of `--json`."""
        return pd.DataFrame([row.to_dict(self.seeds) for row in self.rows])

    def _cells(self) -> tuple[list[str], list[list[str]]]:
        change = "change" if self.table.kind == "classification" else "gain"
        header = ["row", "base pub", "base sim", "patched pub", "patched sim"]
        header += [f"{change} pub", "noise", f"{change} sim", "95 % interval", "verdict", ""]
        rows = []
        for row in self.rows:
            figures = (row.published_base, row.simulated_base, row.published_patched, row.simulated_patched)
            if row.shares_pct is None:
                cells = [f"{figure:.3f}" for figure in figures]
            else:
                base, patched, simulated_base, simulated_patched = row.shares_pct
                shares = (base, simulated_base, patched, simulated_patched)
                cells = [f"{f:.0f} ({s:5.1f} %)" for f, s in zip(figures, shares, strict=True)]
            rows.append(
                [
                    row.row,
                    *cells,
                    f"{row.published_gain_pct:+.2f}",
                    "" if row.shares_pct is not None else f"{row.published_noise_pct:.2f}",
                    f"{row.simulated.pct:+.2f}",
                    f"[{row.simulated.low:+.2f}, {row.simulated.high:+.2f}]",
                    row.verdict,
                    "calibrated" if row.calibrated else "",
                ]
            )
        return header, rows

    def _lines(self) -> list[str]:
        """What stands below the table."""
        counts = Counter(row.verdict for row in self.rows)
        lines = ["Verdicts: " + ", ".join(f"{counts[name]} {name}" for name in VERDICTS) + "."]
        fitted = [f"row {row.row}, {row.verdict}" for row in self.rows if row.calibrated]
        if fitted:
            lines[0] += f" Calibrated ones among them: {'; '.join(fitted)}."
        empty = sum(row.published_base == row.published_patched == 0.0 for row in self.rows)
        if empty:
            lines[0] += f" {empty} rows are zero in the mail under both kernels."
        lines.append(f"Rule: {self.rule}")
        lines += [f"Note: {note}." for note in self.notes]
        return lines

    def _moved(self) -> tuple[list[str], list[list[str]]]:
        """A line a counter, a column a row of the table: base -> patched."""
        labels = list(dict.fromkeys(self.explanation["row"]))
        cells = {
            (row, counter): f"{base:.4g} -> {patched:.4g}"
            for row, counter, _, base, patched in self.explanation.itertuples(index=False)
        }
        # A counter that stayed at zero moved nothing.
        counted = self.explanation[self.explanation[["base", "patched"]].any(axis=1)]
        counters = dict(zip(counted["counter"], counted["unit"], strict=True))
        header = [f"what moved it ({self.table.base} -> {self.table.patched})", "unit", *labels]
        rows = [
            [counter, unit, *(cells[label, counter] for label in labels)]
            for counter, unit in counters.items()
        ]
        return header, rows

    def _caption(self) -> str:
        table = self.table
        scaled = not self.full and table.most is not None
        size = f"at most {_amount(table)} a row" if scaled else "published size"
        return (
            f"{table.name}: {table.title} ({table.metric}, {table.unit}); {table.base} and {table.patched} "
            f"on {table.machine}, {self.seeds} seeds, {size}, {self.wall_s:.1f} s"
        )

    def __repr__(self) -> str:
        """The table, the rule and what moved it, as text."""
        header, rows = self._cells()
        parts = [self._caption(), "", text_table(header, rows)]
        parts += [textwrap.fill(line, 110, subsequent_indent="  ") for line in self._lines()]
        if len(self.explanation):
            moved_header, moved = self._moved()
            parts += ["", text_table(moved_header, moved, left=2)]
        return "\n".join(parts)

    def _repr_html_(self) -> str:
        header, rows = self._cells()
        html = html_table(header, rows, caption=self._caption()) + paragraphs(self._lines())
        if len(self.explanation):
            moved_header, moved = self._moved()
            html += html_table(moved_header, moved, left=2)
        return html


def summary(reproductions: Sequence[Reproduction]) -> dict[str, Any]:
    """How many rows got which verdict, over tables: the `summary` of `--json`."""
    counts = Counter(row.verdict for done in reproductions for row in done.rows)
    return {
        "tables": len(reproductions),
        "rows": sum(counts.values()),
        **{name: counts[name] for name in VERDICTS},
        "wall_s": sum(done.wall_s for done in reproductions),
        "version": _core.VERSION,
    }


Settings = tuple[tuple[str, bool], ...]
"""Tunables that are set under both kernels."""


class Laboratory:
    """Reproduces tables with the same seeds, running a scenario that several tables share only once.

    Raises:
        ValueError: `seeds` breaks a rule of `simulate`.
    """

    def __init__(
        self,
        seeds: int | Iterable[int] | None = None,
        full: bool = False,
        threads: int | None = None,
        progress: bool | Progress | None = None,
    ) -> None:
        """The settings of every table, as `reproduce` takes them."""
        self.seeds = None if seeds is None else _numbers(seeds)
        self.full, self.threads, self.progress = full, threads, progress
        self._done: dict[tuple[str, str, Settings, Work, int], Runs] = {}

    def reproduce(self, table: str) -> Reproduction:
        """The named table's reproduction.

        Raises:
            ValueError: there is no such table.
        """
        published = tables.named(table)
        start = time.perf_counter()
        rows, explanation = _KINDS[published.kind](self, published)
        seeds = self.seeds_of(published)
        notes = [*published.notes, *_scaling_notes(published, self.full), *_calibration_notes(published)]
        if any(row.noise_assumed for row in rows) and published.kind != "classification":
            notes.append(f"where the mail prints no spread, {ASSUMED_NOISE_PCT:g} % is assumed")
        if len(seeds) == 1:
            notes.append("one seed: the interval is a point and says nothing about the noise")
        wall_s = time.perf_counter() - start
        frame = pd.DataFrame(explanation, columns=pd.Index(["row", "counter", "unit", "base", "patched"]))
        return Reproduction(published, rows, len(seeds), wall_s, self.full, notes, frame)

    def seeds_of(self, table: Table) -> list[int]:
        """The seeds of each row of a table."""
        return _numbers(table.seeds) if self.seeds is None else self.seeds

    def runs(self, table: Table, kernel: str, work: Work, tunables: Settings = ()) -> Runs:
        """The runs of one scenario, from memory if they were made before."""
        seeds = self.seeds_of(table)
        key = (table.machine, kernel, tunables, work, len(seeds))
        if key not in self._done:
            machine, policy = Machine.named(table.machine), tables.kernel(kernel)
            if tunables:
                policy = policy.with_tunables(**dict(tunables))
            self._done[key] = simulate(machine, policy, work, seeds, self.threads, self.progress)
        return self._done[key]

    def pair(self, table: Table, row: PublishedRow) -> tuple[Runs, Runs]:
        """The runs of a row under both kernels of the table."""
        work = row.work(self.most(table))
        base, patched = (
            self.runs(table, kernel, work, row.tunables) for kernel in (table.base, table.patched)
        )
        return base, patched

    def most(self, table: Table) -> float | None:
        """What a row of the table is cut to."""
        return None if self.full else table.most


def _numbers(seeds: int | Iterable[int]) -> list[int]:
    return [int(seed) for seed in seed_array(seeds)]


Explanation = list[tuple[str, str, str, float, float]]


def _times(laboratory: Laboratory, table: Table) -> tuple[list[ReproducedRow], Explanation]:
    """Base and patched times of each row."""
    rows, explanation = [], []
    for published in table.rows():
        base, patched = laboratory.pair(table, published)
        assert published.base is not None
        printed = (published.base, published.base_stddev_pct)
        stretch = published.stretch(laboratory.most(table))
        rows.append(_timed_row(table, published, *printed, base, patched, stretch))
        explanation += _moved(published.label, base, patched)
    return rows, explanation


def _figures(laboratory: Laboratory, table: Table) -> tuple[list[ReproducedRow], Explanation]:
    """Several figures of the same runs, a row each."""
    rows = []
    for published in table.rows():
        base, patched = laboratory.pair(table, published)
        assert published.base is not None
        rows.append(_timed_row(table, published, published.base, published.base_stddev_pct, base, patched))
    movers = (*MOVERS, "preemptions", "wakeups", "balance")
    return rows, _moved(base.scenario.work.label, base, patched, shares=False, movers=movers)


def _levels(laboratory: Laboratory, table: Table) -> tuple[list[ReproducedRow], Explanation]:
    """Patched times of each row against the patched time of the reference row: how time follows the load."""
    reference = next(row for row in table.rows() if row.label == REFERENCE_ROW)
    _, level = laboratory.pair(table, reference)
    rows, explanation = [], []
    for published in table.rows():
        same_work, patched = laboratory.pair(table, published)
        row = _timed_row(table, published, reference.patched, reference.patched_stddev_pct, level, patched)
        # The reference against itself predicts nothing.
        rows.append(dataclasses.replace(row, calibrated=published.label == REFERENCE_ROW))
        explanation += _moved(published.label, same_work, patched)
    return rows, explanation


def _distributions(laboratory: Laboratory, table: Table) -> tuple[list[ReproducedRow], Explanation]:
    """Medians and spreads of runs that differ much."""
    rows: list[ReproducedRow] = []
    explanation: Explanation = []
    for published in table.rows():
        base, patched = laboratory.pair(table, published)
        assert published.base is not None and published.statistic is not None
        value = _STATISTICS[published.statistic]
        # The emptiest node is what a patch should fill.
        more_is_better = published.statistic == "emptiest"
        x, y = (_by_seed(runs, published.statistic) for runs in (base, patched))
        simulated_base, simulated_patched = float(value(x)), float(value(y))

        def gain(rows: Any) -> Floats:
            return gain_pct(value(x[rows]), value(y[rows]), more_is_better)  # noqa: B023 - called at once

        simulated = Gain(float(gain(slice(None))), *bootstrap_interval(len(x), gain))
        noise = math.hypot(published.base_stddev_pct or 0.0, published.patched_stddev_pct or 0.0)
        pairs = [(published.base, simulated_base), (published.patched, simulated_patched)]
        printed = (np.asarray(published.base), np.asarray(published.patched))
        rows.append(
            ReproducedRow(
                row=published.label,
                published_base=published.base,
                published_patched=published.patched,
                published_gain_pct=float(gain_pct(*printed, more_is_better)),
                published_noise_pct=noise,
                noise_assumed=False,
                simulated_base=simulated_base,
                simulated_patched=simulated_patched,
                simulated=simulated,
                calibrated=_is_calibrated(table, published.label),
                verdict=ratio_verdict(pairs),
                shares_pct=None,
                wall_s=base.wall_s + patched.wall_s,
            )
        )
        setting = published.label.removesuffix(f" {published.statistic}")
        if not any(line[0] == setting for line in explanation):
            explanation += _moved(setting, base, patched)
    return rows, explanation


def _by_seed(runs: Runs, statistic: str) -> Floats:
    """What the statistic is taken over: a run's time, or its average of one node's threads."""
    if statistic in ("median", "spread"):
        return _values(runs, "time_s")
    counts = runs.node_counts().drop(columns="samples")
    nodes = counts.max(axis=1) if statistic == "fullest" else counts.min(axis=1)
    return nodes.to_numpy().astype(np.float64)


def _spread(runs: Floats) -> Floats:
    """The longest over the shortest of as many runs as were published; the mean over lots of so many."""
    n = runs.shape[-1]
    lots = runs[..., : max(n - n % LU_RUNS, min(n, LU_RUNS))]
    lots = lots.reshape(*runs.shape[:-1], -1, min(n, LU_RUNS))
    return np.asarray((lots.max(axis=-1) / lots.min(axis=-1)).mean(axis=-1))


_STATISTICS: dict[str, Callable[[Floats], Floats]] = {
    "median": median,
    "spread": _spread,
    "fullest": median,
    "emptiest": median,
}


def _timed_row(
    table: Table,
    published: PublishedRow,
    published_base: float,
    base_stddev_pct: float | None,
    base: Runs,
    patched: Runs,
    stretch: float = 1.0,
) -> ReproducedRow:
    spreads = (base_stddev_pct, published.patched_stddev_pct)
    noise = math.hypot(*(ASSUMED_NOISE_PCT if spread is None else spread for spread in spreads))
    published_gain = published.gain_pct
    if published_gain is None:
        published_gain = float(gain_pct(np.asarray(published_base), np.asarray(published.patched)))
    metric = published.metric or table.metric
    x, y = _values(base, metric), _values(patched, metric)
    rate = table.kind == "rates"
    gain = paired_gain(x, y, rate)
    return ReproducedRow(
        row=published.label,
        published_base=published_base,
        published_patched=published.patched,
        published_gain_pct=published_gain,
        published_noise_pct=noise,
        noise_assumed=None in spreads,
        simulated_base=stretch * float(mean(x, rate)),
        simulated_patched=stretch * float(mean(y, rate)),
        simulated=gain,
        calibrated=_is_calibrated(table, published.label),
        verdict=verdict(published_gain, noise, gain),
        shares_pct=None,
        wall_s=base.wall_s + patched.wall_s,
    )


def _classification(laboratory: Laboratory, table: Table) -> tuple[list[ReproducedRow], Explanation]:
    """How often groups were in each state, both kernels, as shares of all."""
    published = table.rows()
    base, patched = laboratory.pair(table, published[0])
    counts = [_cells_by_seed(runs) for runs in (base, patched)]
    total = next(row for row in published if row.label == "total all")
    assert total.base is not None
    rows = []
    for row in published:
        assert row.base is not None
        cells = [cells[row.label] for cells in counts]
        totals = [cells["total all"] for cells in counts]
        of_base, of_patched = (_ratio(c.sum(), t.sum()) for c, t in zip(cells, totals, strict=True))
        shares = (
            100.0 * row.base / total.base,
            100.0 * row.patched / total.patched,
            100.0 * float(of_base),
            100.0 * float(of_patched),
        )
        if row is total:
            change = -float(gain_pct(np.asarray(row.base), np.asarray(row.patched)))
            of_times = paired_gain(cells[0], cells[1])
            simulated = Gain(-of_times.pct, -of_times.high, -of_times.low)
            pairs = [(change, simulated.pct)]
        else:
            change = shares[1] - shares[0]
            simulated = _share_change(cells, totals)
            pairs = [(shares[0], shares[2]), (shares[1], shares[3])]
        rows.append(
            ReproducedRow(
                row=row.label,
                published_base=row.base,
                published_patched=row.patched,
                published_gain_pct=change,
                published_noise_pct=ASSUMED_NOISE_PCT,
                noise_assumed=True,
                simulated_base=float(cells[0].mean()),
                simulated_patched=float(cells[1].mean()),
                simulated=simulated,
                calibrated=False,
                verdict=verdict(change, ASSUMED_NOISE_PCT, simulated, pairs),
                shares_pct=shares,
                wall_s=base.wall_s + patched.wall_s,
            )
        )
    return rows, _moved(base.scenario.work.label, base, patched, shares=False)


_KINDS: dict[str, Callable[[Laboratory, Table], tuple[list[ReproducedRow], Explanation]]] = {
    "times": _times,
    "rates": _times,
    "levels": _levels,
    "distributions": _distributions,
    "figures": _figures,
    "classification": _classification,
}


def _cells_by_seed(runs: Runs) -> dict[str, Floats]:
    """Counts of the lowest level by seed: `STATE NR` for every cell, `STATE all`, and `total all`."""
    counts = runs.classification_counts()
    cells: dict[str, Floats] = {}
    for state in counts.coords["group_state"].to_numpy():
        of_state = counts.sel(group_state=state).to_numpy().astype(np.float64)
        cells |= {f"{state} {nr}": of_state[:, i] for i, nr in enumerate(NR_RUNNING)}
        cells[f"{state} all"] = of_state.sum(axis=1)
    cells["total all"] = counts.to_numpy().astype(np.float64).sum(axis=(1, 2))
    return cells


def _share_change(cells: list[Floats], totals: list[Floats]) -> Gain:
    """Change of a share from base to patched in points; seeds are resampled in pairs."""

    def change(rows: Any) -> Floats:
        base, patched = (
            100.0 * _ratio(cell[rows].sum(axis=-1), whole[rows].sum(axis=-1))
            for cell, whole in zip(cells, totals, strict=True)
        )
        return patched - base

    low, high = bootstrap_interval(len(cells[0]), change)
    return Gain(float(change(slice(None))), low, high)


def _ratio(part: Any, whole: Any) -> Floats:
    """part / whole, 0 where the whole is 0."""
    parts, wholes = np.asarray(part, dtype=np.float64), np.asarray(whole, dtype=np.float64)
    result: Floats = np.divide(parts, wholes, out=np.zeros_like(parts), where=wholes != 0.0)
    return result


MOVERS = ("migrations", "idle_while_overloaded")
"""How the counters that say what moved a row begin."""


def _moved(
    label: str, base: Runs, patched: Runs, shares: bool = True, movers: tuple[str, ...] = MOVERS
) -> Explanation:
    """The counters that say what moved a row: migrations by kind, waste, and the states of groups."""
    lines: Explanation = []
    for name, values in base.metrics.data_vars.items():
        if str(name).startswith(movers):
            pair = (float(values.mean()), float(patched.metrics[name].mean()))
            lines.append((label, str(name), str(values.attrs["units"]), *pair))
    if shares:
        of_base, of_patched = (runs.classification()["share_pct"] for runs in (base, patched))
        for state in ("has_spare", "fully_busy", "overloaded"):
            key = (state, "all")
            pair = (float(of_base[key]), float(of_patched[key]))
            lines.append((label, f"{state} groups, lowest level", "% of states", *pair))
    return lines


def _values(runs: Runs, metric: str) -> Floats:
    return runs.metrics[metric].to_numpy().astype(np.float64)


def _is_calibrated(table: Table, label: str) -> bool:
    record = tables.calibration(table.machine)
    if record is None or record["table"] != table.name:
        return False
    return label in tables.fitted_rows(record) + tables.follows(record)


def _amount(table: Table) -> str:
    return f"{table.most:g} s" if table.kind == "rates" else f"{table.most} messages"


def _scaling_notes(table: Table, full: bool) -> list[str]:
    if full or table.most is None:
        return []
    return [
        f"rows run for {_amount(table)} at most; simulated times are stretched to the published loops, "
        "gains and rates are not"
    ]


def _calibration_notes(table: Table) -> list[str]:
    record = tables.calibration(table.machine)
    if record is None:
        return [f"the costs of {table.machine} are the model's defaults, fitted on nothing"]
    rows = tables.fitted_rows(record)
    figures = "one figure, the base of row" if len(rows) == 1 else f"{len(rows)} figures, the base of rows"
    return [
        f"the costs of {table.machine} were fitted on {figures} {', '.join(rows)} of {record['table']} under "
        f"{record['kernel']}; everything else is prediction"
    ]
