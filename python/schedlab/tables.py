"""The published tables: what the mails printed, and which scenario each row stands for."""

from __future__ import annotations

import csv
import dataclasses
import json
from collections.abc import Callable
from functools import cache
from importlib import resources
from typing import Any

import pandas as pd

from schedlab._arguments import choice
from schedlab.workload import Hackbench

ASSUMED_NOISE_PCT = 1.0
"""Spread assumed of a figure that was printed without one, per cent."""


@dataclasses.dataclass(frozen=True)
class PublishedRow:
    """One row as the mail has it.

    Attributes:
        label: its name in the table.
        base: figure of the base kernel, None where the mail prints none.
        patched: figure of the patched kernel.
        base_stddev_pct: printed spread of the base's figure, None where there is none.
        patched_stddev_pct: printed spread of the patched figure.
        gain_pct: the printed gain, None where the mail prints none.
        loops: `-l` of the row.
        groups: `-g` of the row.
    """

    label: str
    base: float | None
    patched: float
    base_stddev_pct: float | None
    patched_stddev_pct: float | None
    gain_pct: float | None
    loops: int
    groups: int

    def work(self, loops_divisor: int = 1) -> Hackbench:
        """The row's workload, shortened by the divisor."""
        return Hackbench(groups=self.groups, loops=max(1, self.loops // loops_divisor))


@dataclasses.dataclass(frozen=True)
class Table:
    """A published table.

    Attributes:
        name: its name for `reproduce`.
        title: the command and the machine as the mail has them.
        kind: `times` (base and patched), `levels` (patched only) or `classification`.
        machine: name of the machine that stands for the mail's.
        base: kernel that stands for the mail's base.
        patched: kernel with the patches.
        metric: what is compared.
        unit: its unit.
        file: the transcription in the package's data.
        source: the mail.
        notes: what a reader must know beside the numbers.
        loops_divisor: how much shorter than published a row runs unless it is run in full.
    """

    name: str
    title: str
    kind: str
    machine: str
    base: str
    patched: str
    metric: str
    unit: str
    file: str
    source: str
    notes: tuple[str, ...] = ()
    loops_divisor: int = 1

    def rows(self) -> list[PublishedRow]:
        """The rows in the mail's order, from the transcription."""
        return [_ROW_READERS[self.kind](record) for record in read_csv(self.file)]


def published() -> pd.DataFrame:
    """The tables there are: name, title, machine, base, patched, metric, unit, rows (a number), source."""
    fields = ["name", "title", "machine", "base", "patched", "metric", "unit"]
    return pd.DataFrame(
        [
            {
                **{field: getattr(table, field) for field in fields},
                "rows": len(table.rows()),
                "source": table.source,
            }
            for table in TABLES.values()
        ]
    )


def named(name: str) -> Table:
    """The table of that name.

    Raises:
        ValueError: there is none; near names are offered.
    """
    return TABLES[choice("table", name, TABLES)]


@cache
def read_csv(file: str) -> tuple[dict[str, str], ...]:
    """The records of a transcription."""
    text = (resources.files("schedlab") / "data" / "published" / file).read_text(encoding="utf-8")
    return tuple(csv.DictReader(text.splitlines()))


@cache
def calibration(machine: str) -> dict[str, Any] | None:
    """How the machine's costs were fitted (`calibrate.py` writes it), None if they were not."""
    path = resources.files("schedlab") / "data" / "calibration" / f"{machine}.json"
    if not path.is_file():
        return None
    record: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return record


def _times_row(record: dict[str, str]) -> PublishedRow:
    return PublishedRow(
        label=record["groups"],
        base=float(record["base_time_s"]),
        patched=float(record["patched_time_s"]),
        base_stddev_pct=float(record["base_stddev_pct"]),
        patched_stddev_pct=float(record["patched_stddev_pct"]),
        gain_pct=float(record["improvement_pct"]),
        loops=int(record["loops_arg"]),
        groups=int(record["groups"]),
    )


def _levels_row(record: dict[str, str]) -> PublishedRow:
    return PublishedRow(
        label=record["groups"],
        base=None,
        patched=float(record["v3_time_s"]),
        base_stddev_pct=None,
        patched_stddev_pct=float(record["v3_stddev_pct"]),
        gain_pct=None,
        loops=int(record["loops_arg_assumed"]),
        groups=int(record["groups"]),
    )


def _classification_row(record: dict[str, str]) -> PublishedRow:
    return PublishedRow(
        label=f"{record['group_state']} {record['nr_running']}",
        base=float(record["base_count"]),
        patched=float(record["patched_count"]),
        base_stddev_pct=None,
        patched_stddev_pct=None,
        gain_pct=None,
        loops=640,
        groups=4,
    )


_ROW_READERS: dict[str, Callable[[dict[str, str]], PublishedRow]] = {
    "times": _times_row,
    "levels": _levels_row,
    "classification": _classification_row,
}

_MAIL = (
    "Vincent Guittot, 21 February 2020, [PATCH v4 0/5] remove runnable_load_avg and improve group_classify"
)

_OCTO = (
    "the mail's 'octo cores' are taken to be the dual quad machine of the same mail: both have 8 CPUs, and "
    "the two descriptions stand for one board"
)

TABLES: dict[str, Table] = {
    table.name: table
    for table in (
        Table(
            name="hackbench-arm64-dual-quad",
            title="hackbench -l (2560/groups) -g groups, small arm64 dual quad cores",
            kind="times",
            machine="arm64-dual-quad",
            base="v5.6",
            patched="v5.7",
            metric="time_s",
            unit="s",
            file="hackbench_arm64_dual_quad.csv",
            source=_MAIL,
        ),
        Table(
            name="classification-octo",
            title="states of groups during load balance, hackbench -l 640 -g 4, octo cores",
            kind="classification",
            machine="arm64-dual-quad",
            base="v5.6",
            patched="v5.7",
            metric="groups classified",
            unit="count",
            file="group_classification_octo.csv",
            source=_MAIL,
            notes=(
                _OCTO,
                "the mail counts fully_busy only with 1 running and overloaded only from 2 on: groups of one "
                "CPU, so the lowest domain level is counted, over idle, newly idle and busy calls",
                "simulated counts are means over the seeds; the mail is taken to show one run",
            ),
        ),
        Table(
            name="hackbench-octo-v3",
            title="hackbench on octo cores, patches v3 on a later base",
            kind="levels",
            machine="arm64-dual-quad",
            base="v5.6",
            patched="v5.7",
            metric="time_s",
            unit="s",
            file="hackbench_octo_cores_v3_subset.csv",
            source=_MAIL,
            notes=(
                _OCTO,
                "the mail prints no base for this rerun, so its gain is not known. What is compared is how "
                "the patched time follows the load: each row against row 8 of the same column, printed on "
                "printed and simulated on simulated. The rerun's base is some weeks younger than the other "
                "table's: what else changed between them moves every row alike and drops out",
                "the rerun's -l is not printed; 2560/groups is assumed",
            ),
        ),
    )
}
