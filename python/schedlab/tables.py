"""The published tables: what the mails printed, and which scenario each row stands for."""

from __future__ import annotations

import csv
import dataclasses
import json
from collections.abc import Callable
from functools import cache
from importlib import resources
from typing import Any

import numpy as np
import pandas as pd

from schedlab._arguments import choice
from schedlab.kernel import Kernel
from schedlab.statistics import Floats, stddev
from schedlab.workload import Hackbench, Kernbench, LuOmp, Tbench

ASSUMED_NOISE_PCT = 1.0
"""Spread assumed of a figure that was printed without one, per cent."""


MMTESTS_LOOPS = 10_000
"""`-l` of mmtests' hackbench at the time: the means, thirds of whole ms, fit its three iterations."""

MMTESTS_TBENCH_S = 180.0
"""Seconds of each tbench run of mmtests at the time."""

LU_RUNS = 5
"""Runs of each setting of lu.C: the printed quantiles of so many are the runs themselves."""

MOST_MESSAGES = 4_000_000
"""Messages of a row of a large table: some tenths of a second of machine time."""


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
        full: the workload, as published.
        metric: what is compared, where rows differ in it; None for the table's metric.
        statistic: what is made of the runs of a distribution: `median` or `spread` of their times,
            `fullest` or `emptiest` node; None for a mean.
        tunables: what is set under both kernels.
    """

    label: str
    base: float | None
    patched: float
    base_stddev_pct: float | None
    patched_stddev_pct: float | None
    gain_pct: float | None
    full: Hackbench | Kernbench | LuOmp | Tbench
    metric: str | None = None
    statistic: str | None = None
    tunables: tuple[tuple[str, bool], ...] = ()

    def work(self, most: float | None = None) -> Hackbench | Kernbench | LuOmp | Tbench:
        """The row's workload, of so many messages or so many seconds at most."""
        full = self.full
        if most is None or isinstance(full, Kernbench | LuOmp):
            return full
        if isinstance(full, Tbench):
            return dataclasses.replace(full, duration_s=min(full.duration_s, most))
        if full.messages <= most:
            return full
        a_loop = full.messages // full.loops
        return dataclasses.replace(full, loops=max(1, int(most) // a_loop))

    def stretch(self, most: float | None = None) -> float:
        """How many times as long as `work` the published run is, where it has so much to do; else 1."""
        work = self.work(most)
        if isinstance(self.full, Hackbench) and isinstance(work, Hackbench):
            return self.full.loops / work.loops
        return 1.0


@dataclasses.dataclass(frozen=True)
class Table:
    """A published table.

    Attributes:
        name: its name for `reproduce`.
        title: the command and the machine as the mail has them.
        kind: `times` (base and patched), `rates` (likewise, more is better), `levels` (patched only),
            `classification`, `distributions` (runs that differ much: their median and spread), or `figures`
            (several of one run, a row each).
        machine: name of the machine that stands for the mail's.
        base: kernel that stands for the mail's base.
        patched: kernel with the patches.
        metric: what is compared.
        unit: its unit.
        file: the transcription in the package's data.
        source: the mail.
        notes: what a reader must know beside the numbers.
        most: a row of more messages, or seconds, runs shorter unless run in full; None: none does.
        seeds: seeds of each row, unless their number is given.
        ipc: what carries the messages of its rows.
        cgroup: whether all its tasks ran in one task group.
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
    most: float | None = None
    seeds: int = 30
    ipc: str = "socket"
    cgroup: bool = False

    def rows(self) -> list[PublishedRow]:
        """The rows in the mail's order, from the transcription."""
        if self.kind == "distributions":
            return _distribution_rows(self)
        if self.kind == "figures":
            return _figure_rows(self)
        return [_ROW_READERS[self.kind](record, self) for record in read_csv(self.file)]


def kernel(label: str) -> Kernel:
    """The kernel of a label: a generation, and patches behind plus signs."""
    name, *patches = label.split("+")
    return Kernel(name).with_patches(*patches) if patches else Kernel(name)


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


def fitted_rows(record: dict[str, Any]) -> list[str]:
    """The rows of its table that a calibration was fitted on."""
    return [record["row"]] if "row" in record else list(record["figures"])


def follows(record: dict[str, Any]) -> list[str]:
    """The rows that follow from fitted ones by arithmetic."""
    return list(record.get("follows", []))


def _times_row(record: dict[str, str], table: Table) -> PublishedRow:
    base, patched, gain, loops = (_first(record, names) for names in _TIMES_COLUMNS)
    assert base is not None and patched is not None
    return PublishedRow(
        label=record["groups"],
        base=base,
        patched=patched,
        base_stddev_pct=_first(record, ("base_stddev_pct",)),
        patched_stddev_pct=_first(record, ("patched_stddev_pct",)),
        gain_pct=gain,
        full=_hackbench(record, MMTESTS_LOOPS if loops is None else int(loops), table),
    )


_TIMES_COLUMNS = (
    ("base_time_s", "vanilla_time_s"),
    ("patched_time_s", "v4_time_s"),
    ("improvement_pct", "patched_gain_pct"),
    ("loops_arg",),
)
"""What the mails call base, patched, gain and `-l`."""


def _first(record: dict[str, str], names: tuple[str, ...]) -> float | None:
    """The figure of the first of these columns that the transcription has."""
    return next((float(record[name]) for name in names if name in record), None)


def _levels_row(record: dict[str, str], table: Table) -> PublishedRow:
    return PublishedRow(
        label=record["groups"],
        base=None,
        patched=float(record["v3_time_s"]),
        base_stddev_pct=None,
        patched_stddev_pct=float(record["v3_stddev_pct"]),
        gain_pct=None,
        full=_hackbench(record, int(record["loops_arg_assumed"]), table),
    )


def _classification_row(record: dict[str, str], _table: Table) -> PublishedRow:
    return PublishedRow(
        label=f"{record['group_state']} {record['nr_running']}",
        base=float(record["base_count"]),
        patched=float(record["patched_count"]),
        base_stddev_pct=None,
        patched_stddev_pct=None,
        gain_pct=None,
        full=Hackbench(groups=4, loops=640),
    )


def _hackbench(record: dict[str, str], loops: int, table: Table) -> Hackbench:
    return Hackbench(groups=int(record["groups"]), loops=loops, ipc=table.ipc, cgroup=table.cgroup)


def _rates_row(record: dict[str, str], table: Table) -> PublishedRow:
    return PublishedRow(
        label=record["clients"],
        base=float(record["vanilla_mb_per_s"]),
        patched=float(record["patched_mb_per_s"]),
        base_stddev_pct=None,
        patched_stddev_pct=None,
        gain_pct=float(record["patched_gain_pct"]),
        full=Tbench(int(record["clients"]), duration_s=MMTESTS_TBENCH_S, cgroup=table.cgroup),
    )


def _distribution_rows(table: Table) -> list[PublishedRow]:
    """lu.C: for each setting of NUMA balancing and cgroups, a row a statistic."""
    rows = []
    for numa_balancing in ("1", "0"):
        for config, cgroups in (("GROUP", "separate"), ("NORMAL", "shared")):
            base, patched = (_lu_runs(table, kernel, numa_balancing, config) for kernel in _LU_KERNELS)
            for statistic in base:
                rows.append(
                    PublishedRow(
                        label=f"{config} numa_balancing={numa_balancing} {statistic}",
                        base=base[statistic][0],
                        patched=patched[statistic][0],
                        base_stddev_pct=base[statistic][1],
                        patched_stddev_pct=patched[statistic][1],
                        gain_pct=None,
                        full=LuOmp(156, hogs=2, cgroups=cgroups),
                        statistic=statistic,
                        tunables=(("numa_balancing", numa_balancing == "1"),),
                    )
                )
    return rows


_LU_KERNELS = ("5.4-rc3+ base", "5.4-rc3+ lb_v4a")
_QUANTILES = ("min", "q1", "median", "q3", "max")


def _lu_runs(
    table: Table, kernel: str, numa_balancing: str, config: str
) -> dict[str, tuple[float, float | None]]:
    """The published statistics of one setting, each with the spread of its runs, per cent, if it has one."""
    setting = {"kernel": kernel, "numa_balancing": numa_balancing, "config": config}
    records = [
        record
        for record in read_csv(table.file)
        if all(record[name] == value for name, value in setting.items())
        and record.get("metric", table.metric) == table.metric
    ]
    if table.metric == "time_s":
        (record,) = records
        times = np.array([float(record[name]) for name in _QUANTILES])
        return {"median": _median(times), "spread": (float(times.max() / times.min()), None)}
    counts = np.array([[float(record[f"node{n}_avg_threads"]) for n in range(8)] for record in records])
    return {"fullest": _median(counts.max(axis=1)), "emptiest": _median(counts.min(axis=1))}


def _median(runs: Floats) -> tuple[float, float]:
    return float(np.median(runs)), 100.0 * stddev(runs) / float(runs.mean())


def _figure_rows(table: Table) -> list[PublishedRow]:
    """kernbench: a line of the transcription is a kernel, the patched one first; a row is a figure."""
    patched, base = read_csv(table.file)
    rows = []
    for label, (column, metric) in KERNBENCH_FIGURES.items():
        figures = [float(record[column]) for record in (base, patched)]
        spreads = [float(record[f"{column}_stddev"]) for record in (base, patched)]
        spreads_pct = [100.0 * spread / figure for spread, figure in zip(spreads, figures, strict=True)]
        rows.append(
            PublishedRow(
                label=label,
                base=figures[0],
                patched=figures[1],
                base_stddev_pct=spreads_pct[0],
                patched_stddev_pct=spreads_pct[1],
                gain_pct=None,
                full=Kernbench(jobs=8),
                metric=metric,
            )
        )
    return rows


KERNBENCH_FIGURES = {
    "elapsed time, s": ("elapsed_s", "time_s"),
    "user time, s": ("user_s", "user_s"),
    "system time, s": ("system_s", "system_s"),
    "percent CPU": ("percent_cpu", "percent_cpu"),
    "context switches": ("context_switches", "involuntary_switches"),
    "sleeps": ("sleeps", "voluntary_switches"),
}
"""What kernbench prints: column of the transcription, and metric of the runs."""


_ROW_READERS: dict[str, Callable[[dict[str, str], Table], PublishedRow]] = {
    "times": _times_row,
    "rates": _rates_row,
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

_ELIGIBLE = (
    "Hao Jia, 23 December 2024, [PATCH v2] sched/core: Prioritize migrating eligible tasks in "
    "sched_balance_rq()"
)

_MMTESTS = (
    f"mmtests' -l is not printed in the mail; {MMTESTS_LOOPS} is assumed, as in its configuration then",
    "the machine is modelled as printed, twelve equal cores; the retail part has eight, and eight smaller",
)

_PAULD = "Phil Auld, 31 October 2019, in reply to [PATCH v4 00/10] sched/fair: rework the CFS load balance"

_LU = (
    "GROUP is read as three task groups, the benchmark and each burner in its own; NORMAL as one for all",
    "the mail does not say in what order the programs were started: the burners come a second after the "
    "benchmark, which its counts of threads by node suggest",
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
        Table(
            name="hackbench-arm64-224",
            title="hackbench -l (256000/groups) -g groups, arm64 2 nodes 224 CPUs",
            kind="times",
            machine="arm64-224",
            base="v5.6",
            patched="v5.6+runnable-avg",
            metric="time_s",
            unit="s",
            file="hackbench_arm64_2node_224cpu.csv",
            source=_MAIL,
            # Many CPUs take longer to settle.
            most=4 * MOST_MESSAGES,
            seeds=3,
        ),
        Table(
            name="hackbench-power9",
            title="hackbench -l (256000/groups) -g groups, POWER9 2 nodes 44 cores",
            kind="times",
            machine="power9-44c",
            base="v5.6",
            patched="v5.6+runnable-avg",
            metric="time_s",
            unit="s",
            file="hackbench_power9_44core.csv",
            source="Parth Shah in reply to the same mail",
            notes=("the mail says that the deviation is below 1 %",),
            most=MOST_MESSAGES,
            seeds=3,
        ),
        Table(
            name="hackbench-pipes-i7",
            title="mmtests hackbench-process-pipes, i7-13700 12 cores 24 threads",
            kind="times",
            machine="i7-13700-12c24t",
            base="v6.12",
            patched="v6.12+eligible-first",
            metric="time_s",
            unit="s",
            file="hackbench_process_pipes_i7_13700.csv",
            source=_ELIGIBLE,
            notes=_MMTESTS,
            most=MOST_MESSAGES,
            seeds=4,
            ipc="pipe",
            cgroup=True,
        ),
        Table(
            name="hackbench-sockets-i7",
            title="mmtests hackbench-process-sockets, i7-13700 12 cores 24 threads",
            kind="times",
            machine="i7-13700-12c24t",
            base="v6.12",
            patched="v6.12+eligible-first",
            metric="time_s",
            unit="s",
            file="hackbench_process_sockets_i7_13700.csv",
            source=_ELIGIBLE,
            notes=_MMTESTS,
            most=MOST_MESSAGES,
            seeds=4,
            cgroup=True,
        ),
        Table(
            name="lu-quartiles-8node",
            title="lu.C.x, 156 threads and two burners, 8 nodes 160 CPUs: times of the runs",
            kind="distributions",
            machine="xeon-e7-8node-160",
            base="v5.4",
            patched="v5.4+lb-rework-v4",
            metric="time_s",
            unit="s",
            file="luC156_quartiles_8node.csv",
            source=_PAULD,
            notes=(
                *_LU,
                "'median' is that of the runs' times, 'spread' the longest over the shortest of five runs",
            ),
            seeds=LU_RUNS,
        ),
        Table(
            name="lu-nodes-8node",
            title="lu.C.x, 156 threads and two burners, 8 nodes 160 CPUs: threads by node",
            kind="distributions",
            machine="xeon-e7-8node-160",
            base="v5.4",
            patched="v5.4+lb-rework-v4",
            metric="threads on a node",
            unit="threads",
            file="luC156_node_averages_8node.csv",
            source=_PAULD,
            notes=(
                *_LU,
                "'fullest' and 'emptiest' are medians, over the runs, of the node with the most and with the "
                "fewest threads on average. Gains count fewer on the fullest, more on the emptiest as good; "
                "19.5 are even",
            ),
            seeds=LU_RUNS,
        ),
        Table(
            name="tbench4-i7",
            title="mmtests tbench4, i7-13700 12 cores 24 threads",
            kind="rates",
            machine="i7-13700-12c24t",
            base="v6.12",
            patched="v6.12+eligible-first",
            metric="throughput",
            unit="MB/s",
            file="tbench4_throughput_i7_13700.csv",
            source=_ELIGIBLE,
            notes=(
                f"mmtests runs {MMTESTS_TBENCH_S:g} s a row, as in its configuration then",
                _MMTESTS[1],
                "the load file is represented by its mix of operations",
            ),
            most=0.2,
            seeds=4,
            cgroup=True,
        ),
        Table(
            name="kernbench-2cpu",
            title="kernbench, make -j 8 of a kernel tree, 2 CPU Celeron 550 MHz",
            kind="figures",
            machine="celeron-2cpu",
            base="v2.6.15",
            patched="v2.6.15+prio-bias+smpnice-weights",
            metric="figures of kernbench",
            unit="as named",
            file="kernbench_2cpu_celeron.csv",
            source="Peter Williams, 13 January 2006, <43C79673.8040507@bigpond.net.au>",
            notes=(
                "gains of all rows count a smaller figure as better",
                "kernbench prints what time(1) accounts: its context switches are taken to be the "
                "involuntary ones (%c), its sleeps the voluntary ones (%w), of all processes",
                "the base is the mail's 'smp nice removed'; the patch is simulated as mailed again on "
                "7 February 2006, which corrects a constant or two of the form that the mail measured",
                "neither the tree's configuration nor HZ is printed: 1200 files and 250 are assumed",
                "percent CPU is user and system time by elapsed time: with those, it is fitted too. "
                "kernbench rounds each of its runs down",
            ),
        ),
    )
}
