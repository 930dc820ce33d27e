"""Runs: what the simulated runs of one scenario gave, one seed a run, as xarray, pandas and text."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping
from html import escape
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
import xarray as xr

from schedlab import _core, decisions, provenance
from schedlab._arguments import bad_argument, choice, integer
from schedlab._files import written_beside
from schedlab._render import html_table, text_table
from schedlab.scenario import Scenario
from schedlab.workload import Hackbench, Kernbench, LuOmp, Tbench, measured

NR_RUNNING = ("0", "1", "2", "3", "4+")
"""The columns of a classification: how many tasks ran in the group, four and more together."""

MAIL_STATES = ("has_spare", "fully_busy", "overloaded")
"""The group states that a classification always shows, whether any group was in them or not."""

DEFAULT_HZ = 250
"""Ticks a second of a kernel whose `hz` is not set."""

PARQUET_KEY = b"schedlab"
"""Key of the provenance in a Parquet file's metadata."""


class Runs:
    """The runs of one scenario.

    Attributes:
        scenario: what ran.
        seeds: the seeds, in the order given.
        metrics: `xarray.Dataset` over `seed`; each variable has `units` and `long_name`, times are in
            seconds. Its attributes carry the provenance as JSON, so that files made from it do too.
        provenance: dictionary with everything needed to repeat the runs bit for bit.
        levels: names of the domain levels, lowest first; a name that recurs is numbered (`NUMA-2`).
        wall_s: how long the simulation took here, seconds.
    """

    def __init__(
        self, scenario: Scenario, seeds: list[int], result: Mapping[str, Any], wall_s: float = 0.0
    ) -> None:
        """Wraps what the core returned; arrays are kept, not copied."""
        self.scenario = scenario
        self.seeds = seeds
        self.wall_s = wall_s
        self.provenance = provenance.describe(scenario, seeds)
        self.levels: list[str] = list(result["levels"])
        self.metrics = _dataset(result["metrics"], scenario, seeds, self.provenance)
        self._group_types: list[str] = list(result["group_types"])
        self._classification: npt.NDArray[np.uint64] = result["classification"]
        self._groups: list[str] = list(result["groups"])
        self._cpu_stat: npt.NDArray[np.uint64] = result["cpu_stat"]
        self._cpu_stat_fields: list[str] = list(result["cpu_stat_fields"])
        self._node_tasks: npt.NDArray[np.uint64] = result["node_tasks"]
        self._node_samples: npt.NDArray[np.uint64] = result["node_samples"]
        self._schedstat = {name: value for name, value in result.items() if name.startswith("schedstat_")}

    @property
    def label(self) -> str:
        """The kernel's short name."""
        return self.scenario.kernel.label

    def to_pandas(self) -> pd.DataFrame:
        """One row a seed: column `seed`, then one column a metric."""
        frame = self.metrics.to_dataframe().reset_index()
        frame.attrs = {"label": self.label, "provenance": self.provenance}
        return frame[["seed", *(name for name in frame.columns if name != "seed")]]

    def to_parquet(self, path: str | os.PathLike[str]) -> None:
        """Writes `to_pandas()` and the provenance as metadata; the file appears whole or not at all."""
        import pyarrow as pa
        import pyarrow.parquet as pq

        frame = self.to_pandas()
        frame.attrs = {}
        table = pa.Table.from_pandas(frame, preserve_index=False)
        facts = {"label": self.label, "provenance": self.provenance}
        metadata = {**(table.schema.metadata or {}), PARQUET_KEY: json.dumps(facts, sort_keys=True).encode()}
        with written_beside(path) as beside:
            pq.write_table(table.replace_schema_metadata(metadata), beside, compression="zstd")

    def classification(self, level: str | None = None, seed: int | None = None) -> pd.DataFrame:
        """How often the balancer found a group in each state, by the number of tasks running in the group.

        Counted as in the mail of February 2020: each group of each call that looks for the busiest group,
        whether the CPU is idle, newly idle or busy.

        Args:
            level: domain level; None for the lowest, whose groups are single CPUs.
            seed: one seed; None for the sum over all.

        Returns:
            Index (`group_state`, `nr_running`) with the row `all` first in each state and (`total`, `all`)
            last; columns `count` and `share_pct` (of the total; 0 where nothing was counted).

        Raises:
            ValueError: the level or the seed is not in these runs.
        """
        if not self.levels:
            raise bad_argument("level", level, "the machine has no domains under this kernel")
        index = 0 if level is None else self.levels.index(choice("level", level, self.levels))
        counts = self._classification[:, index]
        cells = counts.sum(axis=0) if seed is None else counts[self._position(seed)]
        rows: dict[tuple[str, str], int] = {}
        for state, by_running in zip(self._group_types, cells, strict=True):
            if state in MAIL_STATES or by_running.any():
                rows[state, "all"] = int(by_running.sum())
                rows |= {(state, nr): int(n) for nr, n in zip(NR_RUNNING, by_running, strict=True)}
        rows["total", "all"] = total = int(cells.sum())
        frame = pd.DataFrame(
            {"count": list(rows.values())},
            index=pd.MultiIndex.from_tuples(list(rows), names=["group_state", "nr_running"]),
        )
        frame["share_pct"] = 100.0 * frame["count"] / total if total else 0.0
        return frame

    def classification_counts(self, level: str | None = None) -> xr.DataArray:
        """The classification of every seed: integers over (seed, group_state, nr_running) at one level.

        Raises:
            ValueError: the level is not in these runs.
        """
        index = 0 if level is None else self.levels.index(choice("level", level, self.levels))
        return xr.DataArray(
            self._classification[:, index].astype(np.int64),
            dims=("seed", "group_state", "nr_running"),
            coords={
                "seed": np.array(self.seeds, dtype=np.uint64),
                "group_state": self._group_types,
                "nr_running": list(NR_RUNNING),
            },
        )

    def node_counts(self, seed: int | None = None) -> pd.DataFrame:
        """The mean number of the benchmark's threads on each node, over the counts made while its clock ran.

        A count is a snapshot: where each thread runs, waits, or ran before it went to sleep. Only `LuOmp` has
        them, every `sample_s`; its burners are not counted.

        Args:
            seed: one seed; None for all.

        Returns:
            Index `seed`; columns `samples`, how many counts, and `node0`, `node1`, ...: their mean, NaN
            where a run was too short for a count.

        Raises:
            ValueError: the seed is not in these runs, or their work is not counted.
        """
        if not isinstance(measured(self.scenario.work), LuOmp):
            raise bad_argument("work", self.scenario.work.label, "is not counted by node: must be a LuOmp")
        at = slice(None) if seed is None else [self._position(seed)]
        samples = self._node_samples[at]
        divisors = np.where(samples > 0, samples, np.nan)
        frame = pd.DataFrame(
            self._node_tasks[at] / divisors[:, np.newaxis],
            index=pd.Index(np.array(self.seeds, dtype=np.uint64)[at], name="seed"),
            columns=[f"node{node}" for node in range(self._node_tasks.shape[1])],
        )
        frame.insert(0, "samples", samples)
        return frame

    def schedstat(self, seed: int) -> str:
        """The counters of one run at its end, as the text of /proc/schedstat, version 15.

        kernel/sched/stats.c, v5.6, show_schedstat(): one `cpu` line a CPU and one `domain` line for each of
        its domains, lowest first. The time stamp is the simulated time in ticks from 0. Where CPUs went off
        or came back, the domains are those of the start, and a rebuilt one counts for that of its name.

        Raises:
            ValueError: the seed is not among these runs.
        """
        return _schedstat_text(self, self._position(seed))

    def cpu_stat(self, seed: int) -> pd.DataFrame:
        """What the task groups of one run got and were refused, from their making to its end (`cpu.stat`).

        Index: names of the groups, those of sessions as `/autogroup-NAME`; empty without groups. Columns:
        `usage_s`, CPU time of all tasks in and below the group; of its quota `nr_periods`, `nr_throttled`,
        those at whose end it was throttled on some CPU, `throttled_s` over all CPUs, `nr_bursts` and
        `burst_s`, periods with more than a quota and how much more.

        Raises:
            ValueError: the seed is not among these runs.
        """
        counters = self._cpu_stat[self._position(seed)]
        frame = pd.DataFrame(index=pd.Index(self._groups, name="group", dtype=object))
        for position, field in enumerate(self._cpu_stat_fields):
            values = counters[:, position]
            if field.endswith("_ns"):
                frame[field.removesuffix("_ns") + "_s"] = values / 1e9
            else:
                frame[field] = values.astype(np.int64)
        return frame

    def balance_log(self, seed: int) -> pd.DataFrame:
        """Every balance pass of one run, in order; the run is made again for it.

        Columns: `time_s` since the run's start; `cpu` that balanced; domain `level`; `idle`, why the pass
        ran (`idle`, `busy`, `newidle`); `nr_balance_failed` before it; `group_types`, the classes of the
        domain's groups, the local one first, and `groups`, what was summed of each (empty where the CPU was
        not the one to balance); `busiest`, position of the group chosen, `src_cpu`, `migration_type` and
        `imbalance`, missing where none was; `nr_moved` and `moved`, the tasks; `refused_throttled`,
        `refused_affinity`, `refused_running`, `refused_hot`, `refused_size` and `refused_ineligible`, how
        many stayed and why; `active_balance`, a push was asked for; `outcome`: `not_designated`,
        `balanced`, `no_source`, `pulled`, `failed`, `all_pinned` or `one_pinned`.

        Under the O(1) scheduler groups have no classes (`other`) and no utilization, a `load` of 128 is one
        task of nice 0, and refusals are not counted. An imbalance of `task` is a number of tasks; one of
        `load` (`smpnice-weights`) is an amount of bias, 20 a task of nice 0.

        Raises:
            ValueError: the seed is not among these runs.
        """
        return decisions.balance_log(self.scenario, self.seeds[self._position(seed)])

    def wakeup_log(self, seed: int) -> pd.DataFrame:
        """Every placement of a waking or new task of one run, in order; the run is made again for it.

        Columns: `time_s` since the run's start; `kind`, `wakeup`, `fork` or `exec`; the `task`; its `waker`
        or parent, missing for timers, itself at an exec; `waker_cpu`; `prev_cpu`, where the task ran last;
        `sync`, the waker said that it was about to sleep; `cpu`, where the task went, and the `rule` that
        found it.

        Raises:
            ValueError: the seed is not among these runs.
        """
        return decisions.wakeup_log(self.scenario, self.seeds[self._position(seed)])

    def _position(self, seed: int) -> int:
        number = integer("seed", seed, minimum=0)
        if number not in self.seeds:
            raise bad_argument("seed", number, "must be one of the seeds that ran")
        return self.seeds.index(number)

    def __len__(self) -> int:
        """Number of runs."""
        return len(self.seeds)

    def _summary(self) -> tuple[list[str], list[list[str]]]:
        rows = []
        for name, values in self.metrics.data_vars.items():
            data = values.to_numpy().astype(np.float64)
            spread = data.std(ddof=1) if len(data) > 1 else float("nan")
            numbers = (data.mean(), spread, data.min(), data.max())
            rows.append([str(name), str(values.attrs["units"]), *(f"{number:.6g}" for number in numbers)])
        return ["metric", "unit", "mean", "stddev", "min", "max"], rows

    def _title(self) -> str:
        seeds = f"{len(self)} seed{'s' if len(self) != 1 else ''}"
        return f"{self.scenario.work.label} on {self.scenario.machine.name} under {self.label}, {seeds}"

    def __repr__(self) -> str:
        """What ran and a line a metric."""
        header, rows = self._summary()
        return f"{self._title()}\n{text_table(header, rows, left=2)}"

    def _repr_html_(self) -> str:
        header, rows = self._summary()
        return f"<p><b>{escape(self._title())}</b></p>{html_table(header, rows, left=2)}"


def read_parquet(path: str | os.PathLike[str]) -> pd.DataFrame:
    """The table that `Runs.to_parquet` wrote; `attrs` has its `label` and `provenance`.

    Raises:
        ValueError: the file is not one of those.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        table = pq.read_table(path)
    except (OSError, pa.ArrowInvalid) as error:
        raise bad_argument("path", os.fspath(path), f"must be a Parquet file of runs: {error}") from None
    facts = (table.schema.metadata or {}).get(PARQUET_KEY)
    if facts is None:
        raise bad_argument("path", os.fspath(path), "must be a file that Runs.to_parquet wrote")
    frame: pd.DataFrame = table.to_pandas()
    frame.attrs = json.loads(facts)
    return frame


def _dataset(
    metrics: Mapping[str, npt.NDArray[np.int64]], scenario: Scenario, seeds: list[int], facts: dict[str, Any]
) -> xr.Dataset:
    """The core's integers as a dataset, nanoseconds turned to seconds."""
    known = {name: (unit, description) for name, unit, description in _core.metric_table()}
    variables: dict[str, tuple[str, npt.NDArray[Any], dict[str, str]]] = {}
    for name, values in metrics.items():
        unit, description = known[name]
        if unit == "ns":
            variables[name.removesuffix("_ns") + "_s"] = (
                "seed",
                values / 1e9,
                {"units": "s", "long_name": description},
            )
        else:
            variables[name] = ("seed", values, {"units": unit, "long_name": description})
    work = measured(scenario.work)
    time_s = variables["time_s"][1]
    if isinstance(work, Hackbench):
        rate, unit = work.messages / time_s, "messages/s"
        text = "messages of the workload divided by time_s"
        variables["throughput"] = ("seed", rate, {"units": unit, "long_name": text})
    elif isinstance(work, Tbench):
        # A request and its reply are two messages.
        operations = metrics["messages"] / 2
        rate, unit = operations * work.PAYLOAD_BYTES_PER_OPERATION / time_s / 1e6, "MB/s"
        text = "data of reads and writes, divided by time_s"
        variables["throughput"] = ("seed", rate, {"units": unit, "long_name": text})
    elif isinstance(work, LuOmp):
        rate = work.mop / time_s
        text = "operations that NPB credits, divided by time_s"
        variables["throughput"] = ("seed", rate, {"units": "Mop/s", "long_name": text})
    elif isinstance(work, Kernbench):
        used = 100.0 * (metrics["user_ns"] + metrics["system_ns"]) / metrics["time_ns"]
        text = "user and system time, divided by time_s; 100 for each CPU at most"
        variables["percent_cpu"] = ("seed", used, {"units": "%", "long_name": text})
    return xr.Dataset(
        variables,
        coords={"seed": np.array(seeds, dtype=np.uint64)},
        attrs={"label": scenario.kernel.label, "provenance": json.dumps(facts, sort_keys=True)},
    )


def _schedstat_text(runs: Runs, position: int) -> str:
    scenario, stat = runs.scenario, runs._schedstat
    nr_cpus = len(scenario.machine.spec["core"])
    hz = scenario.kernel.tunables.get("hz", DEFAULT_HZ)
    ticks = int(float(runs.metrics["simulated_s"][position]) * hz)
    lines = ["version 15", f"timestamp {ticks}"]
    for cpu, domains in enumerate(scenario.machine.domains(scenario.kernel)):
        lines.append(" ".join([f"cpu{cpu}", *map(str, stat["schedstat_cpu"][position, cpu])]))
        for number, domain in enumerate(domains):
            fields = stat["schedstat_domain"][position, cpu, number]
            lines.append(" ".join([f"domain{number}", bitmap(domain.span, nr_cpus), *map(str, fields)]))
    return "\n".join(lines) + "\n"


def bitmap(cpus: Iterable[int], nr_cpus: int) -> str:
    """A set of CPUs as the kernel prints it with `%*pb`: hexadecimal words of 32 bits, the highest first.

    lib/vsprintf.c, v5.6, bitmap_string().
    """
    bits = sum(1 << cpu for cpu in cpus)
    words = []
    for start in reversed(range(0, nr_cpus, 32)):
        width = min(32, nr_cpus - start)
        words.append(f"{bits >> start & (1 << width) - 1:0{-(-width // 4)}x}")
    return ",".join(words)
