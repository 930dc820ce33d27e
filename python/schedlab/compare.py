"""compare: two kernels' runs side by side, as mmtests prints them."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from schedlab._arguments import bad_argument
from schedlab._render import html_table, markdown_table, paragraphs, text_table
from schedlab.runs import Runs
from schedlab.statistics import RATE_METRICS, Floats, Gain, gain_pct, mean, paired_gain, stddev

Results = Runs | pd.DataFrame
"""Runs, or their table as `to_pandas` and `read_parquet` give it."""


@dataclasses.dataclass(frozen=True)
class ComparedRow:
    """One row: the values of both sides for the same seeds, and the gain."""

    label: str
    a: Floats
    b: Floats
    gain: Gain


def compare(
    a: Results | Sequence[Results] | Mapping[str, Results],
    b: Results | Sequence[Results] | Mapping[str, Results],
    metric: str = "time_s",
    higher_is_better: bool | None = None,
) -> Comparison:
    """Compares two kernels over the same seeds.

    Args:
        a: runs of the base: one scenario's, or a sequence or mapping of several (rows of the table, such as
            1, 4, 8 and 16 groups). In a sequence the rows are named by the number of groups.
        b: runs of the other kernel, of the same shape.
        metric: which metric of the runs.
        higher_is_better: None for what the metric's name says: more throughput is better, and less of
            everything else.

    Raises:
        ValueError: the sides have different rows or seeds, or do not know the metric.
    """
    of_a, of_b = _rows(a, "a"), _rows(b, "b")
    if list(of_a) != list(of_b):
        raise bad_argument("b", list(of_b), f"must have the rows of a, {list(of_a)}")
    rate = metric in RATE_METRICS if higher_is_better is None else higher_is_better
    rows = []
    for label, side_a in of_a.items():
        values_a = _values(side_a, metric, "a")
        values_b = _values(of_b[label], metric, "b")
        if not values_a.index.equals(values_b.index):
            if set(values_a.index) != set(values_b.index):
                raise bad_argument("b", list(values_b.index)[:10], "must have run the same seeds as a")
            values_b = values_b.loc[values_a.index]
        x, y = values_a.to_numpy(np.float64), values_b.to_numpy(np.float64)
        rows.append(ComparedRow(label, x, y, paired_gain(x, y, rate)))
    names = (_side_name(of_a), _side_name(of_b))
    if names[0] == names[1]:
        names = (f"{names[0]} (a)", f"{names[1]} (b)")
    return Comparison(metric, rate, names, rows)


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class Comparison:
    """A table of two sides.

    Attributes:
        metric: what is compared.
        rate: whether more is better; rates are averaged by the harmonic mean.
        names: the labels of the two sides.
        rows: the compared rows.
    """

    metric: str
    rate: bool
    names: tuple[str, str]
    rows: list[ComparedRow]

    def to_pandas(self) -> pd.DataFrame:
        """One row a compared row, all numbers unrounded; stddev is of the sample, CoeffVar in per cent."""
        return pd.DataFrame([self._numbers(row) for row in self.rows])

    def _numbers(self, row: ComparedRow) -> dict[str, Any]:
        numbers: dict[str, Any] = {"row": row.label, "seeds": len(row.a)}
        for side, values in (("a", row.a), ("b", row.b)):
            centre = float(mean(values, self.rate))
            numbers |= {
                f"mean_{side}": centre,
                f"stddev_{side}": stddev(values),
                f"coeffvar_{side}_pct": _coeffvar(values, self.rate),
                f"min_{side}": float(values.min()),
                f"max_{side}": float(values.max()),
            }
        gain = row.gain
        return numbers | {
            "gain_pct": gain.pct,
            "ci_low_pct": gain.low,
            "ci_high_pct": gain.high,
            "significant": gain.significant,
        }

    def __repr__(self) -> str:
        """The layout of mmtests: a block a statistic, the gain in brackets, stars where it is significant."""
        centre = "Hmean" if self.rate else "Amean"
        statistics: list[tuple[str, Callable[[Floats], float], bool]] = [
            ("Min", lambda values: float(values.min()), self.rate),
            (centre, lambda values: float(mean(values, self.rate)), self.rate),
            ("Stddev", stddev, False),
            ("CoeffVar", lambda values: _coeffvar(values, self.rate), False),
            ("Max", lambda values: float(values.max()), self.rate),
        ]
        lines = []
        for name, statistic, more_is_better in statistics:
            for row in self.rows:
                a, b = statistic(row.a), statistic(row.b)
                change = f"{float(gain_pct(np.asarray(a), np.asarray(b), more_is_better)):.2f}%"
                starred = name == centre and row.gain.significant
                mark = f"*{change:>8}*" if starred else f"({change:>8})"
                lines.append(
                    [f"{name:<9}{row.label}".rstrip(), f"{_figure(a)} ({'0.00%':>8})", f"{_figure(b)} {mark}"]
                )
        for row in self.rows:
            low, high = row.gain.low, row.gain.high
            lines.append([f"{'95% int.':<9}{row.label}".rstrip(), "", f"[{low:+.2f}%, {high:+.2f}%]"])
        return "\n".join([self.metric, text_table(["", *self.names], lines), *self._notes()])

    def _compact(self) -> tuple[list[str], list[list[str]]]:
        header = ["row"]
        for name in self.names:
            header += [name, "stddev", "CoeffVar %", "min", "max"]
        rows = []
        for row in self.rows:
            cells = [row.label]
            for values in (row.a, row.b):
                cells += [
                    _figure(float(mean(values, self.rate))),
                    _figure(stddev(values)),
                    f"{_coeffvar(values, self.rate):.2f}",
                    _figure(float(values.min())),
                    _figure(float(values.max())),
                ]
            star = "*" if row.gain.significant else ""
            cells += [f"{row.gain.pct:+.2f}{star}", f"[{row.gain.low:+.2f}, {row.gain.high:+.2f}]"]
            rows.append(cells)
        return [*header, "gain %", "95 % interval"], rows

    def to_markdown(self) -> str:
        """The table in Markdown, one line a row."""
        header, rows = self._compact()
        return "\n\n".join([f"**{self.metric}**", markdown_table(header, rows), *self._notes()])

    def _repr_html_(self) -> str:
        header, rows = self._compact()
        return html_table(header, rows, caption=self.metric) + paragraphs(self._notes())

    def _notes(self) -> list[str]:
        seeds = sorted({len(row.a) for row in self.rows})
        better = "more" if self.rate else "less"
        count = "-".join(str(n) for n in ([seeds[0], seeds[-1]] if len(seeds) > 1 else seeds))
        return [
            f"{count} paired seed{'s' if seeds != [1] else ''}; {better} is better; "
            "* = the 95 % interval (paired bootstrap over seeds) leaves out zero"
        ]


def _rows(side: object, argument: str) -> dict[str, Results]:
    """The side as labelled results."""
    if isinstance(side, Runs | pd.DataFrame):
        return {_row_label(side, ""): side}
    if isinstance(side, Mapping):
        labelled = {str(label): results for label, results in side.items()}
    elif isinstance(side, Sequence) and not isinstance(side, str):
        labelled = {_row_label(results, str(i)): results for i, results in enumerate(side)}
        if len(labelled) < len(side):
            raise bad_argument(argument, list(labelled), "rows must have different labels: give a mapping")
    else:
        raise bad_argument(argument, side, "must be Runs or a table of runs, or several of them")
    if not labelled:
        raise bad_argument(argument, side, "must have at least one row")
    for results in labelled.values():
        if not isinstance(results, Runs | pd.DataFrame):
            raise bad_argument(argument, results, "must be Runs or a table of runs")
    return labelled


def _row_label(results: object, fallback: str) -> str:
    """The number of groups of a workload that has them."""
    if isinstance(results, Runs):
        return str(results.scenario.work.to_dict().get("groups", fallback))
    if isinstance(results, pd.DataFrame):
        facts = results.attrs.get("provenance") or {}
        return str(facts.get("scenario", {}).get("workload", {}).get("groups", fallback))
    return fallback


def _side_name(rows: Mapping[str, Results]) -> str:
    labels = {
        results.label if isinstance(results, Runs) else results.attrs.get("label", "")
        for results in rows.values()
    }
    return next(iter(labels)) if len(labels) == 1 else "several kernels"


def _values(results: Results, metric: str, argument: str) -> pd.Series[Any]:
    frame = results.to_pandas() if isinstance(results, Runs) else results
    if "seed" not in frame.columns:
        raise bad_argument(argument, list(frame.columns), "must have a column `seed`")
    if metric not in frame.columns or metric == "seed":
        known = ", ".join(str(name) for name in frame.columns if name != "seed")
        raise bad_argument("metric", metric, f"must be one of {known}")
    if frame.empty:
        raise bad_argument(argument, "no rows", "must have run at least one seed")
    return frame.set_index("seed")[metric]


def _coeffvar(values: Floats, rate: bool) -> float:
    centre = float(mean(values, rate))
    return 100.0 * stddev(values) / centre if centre else 0.0


def _figure(value: float) -> str:
    """Four decimals for small figures, fewer for large ones, as benchmark tables have them."""
    return f"{value:.4f}" if abs(value) < 1000 else f"{value:.2f}"
