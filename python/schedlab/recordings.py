"""recordings: schedules of real kernels beside simulated ones.

A folder holds one file a run, `KERNEL/SCENARIO-SEED.json.gz`, recorded in an emulated guest. Each run is
simulated anew: the same machine, the same load with the same starts, a kernel of the same line. Measures of
both then stand side by side.

The guest counts instructions, not cycles: kernel work takes a time that real hardware does not know. So
nothing below `RESOLUTION_MS` is compared, and neither is what mostly measures the speed of kernel paths.
"""

from __future__ import annotations

import dataclasses
import gzip
import json
import os
import re
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from schedlab import _core, tasks
from schedlab._arguments import bad_argument, integer
from schedlab._render import html_table, text_table
from schedlab.kernel import Kernel, kernels
from schedlab.machine import Machine
from schedlab.scenario import Scenario
from schedlab.simulate import MOST_THREADS, default_threads

FORMAT = "sched-recording-1"
"""What a recording says it is."""

RESOLUTION_MS = 0.2
"""Shorter times count as none, on both sides: they are the emulated guest's, not the scheduler's."""

WIDENED_BY = 0.25
"""The recorded range is widened by this part of its mean."""


@dataclasses.dataclass(frozen=True)
class Line:
    """What models a recorded kernel.

    Attributes:
        queue: generation whose queue it has.
        balance: generation whose balancing and placement it has.
        domains: kernel whose rules build its domains.
    """

    queue: str
    balance: str
    domains: str


LINES: Mapping[str, Line] = {
    "5.10": Line("v5.10", "v5.10", "v5.10"),
    # The last queue ordered by vruntime under the balancing of the years after.
    "6.1": Line("v5.7", "v6.12", "v6.1"),
    "6.12": Line("v6.12", "v6.12", "v6.12"),
}
"""Recorded kernels that have a model."""

QUEUE_SLOTS = (
    "queue_form",
    "place_entity",
    "pick_next_entity",
    "update_deadline",
    "check_preempt_tick",
    "check_preempt_wakeup",
    "preempts_by_policy",
    "wakeup_preempt_entity",
    "delay_dequeue",
    "group_rules",
)
"""Slots that say who runs next on a CPU, and when none may; all others belong to balancing."""

BACKPORTS: Mapping[str, str] = {"NI_RANDOM": "ni-random"}
"""Features of late stable kernels to the patches that add them."""

INSTRUCTIONS: Mapping[str, int] = {
    "context_switch_ns": 2_000,
    "wakeup_ns": 2_000,
    "scan_cpu_ns": 100,
    "ipi_ns": 3_000,
    "idle_exit_ns": 1_000,
    "tick_ns": 4_000,
    "balance_pass_ns": 1_500,
    "balance_cpu_ns": 500,
    "balance_move_ns": 1_500,
    "active_balance_ns": 5_000,
    "fork_ns": 110_000,
    "thread_create_ns": 50_000,
    "exit_ns": 70_000,
    "thread_exit_ns": 30_000,
    "reap_ns": 5_000,
    "poll_ns": 1_000,
    "pipe_write_ns": 2_000,
    "pipe_read_ns": 2_000,
    "pipe_locked_ns": 500,
}
"""Instructions of a kernel path, tracing included. With all CPUs busy, each runs one instruction in as many
ns as there are CPUs; the costs of a machine are the product."""

IDEAL: Mapping[str, int] = {
    "mm_switch_ns": 0,
    "copy_kib_ns": 0,
    "transfer_llc_ns": 0,
    "transfer_node_ns": 0,
    "transfer_remote_ns": 0,
    "refill_llc_kib_ns": 0,
    "refill_node_kib_ns": 0,
    "refill_remote_kib_ns": 0,
    "smt2_speed_permille": 1000,
    "smt3_speed_permille": 1000,
    "smt4_speed_permille": 1000,
    "work_jitter_permille": 0,
    "tick_skew_ns": 0,
}
"""What the emulated machine does not have: caches, shared cores, work that varies, ticks that are apart."""

KWORKER_RUN_US, KWORKER_WAKEUPS, KWORKER_PERIOD_US, KWORKER_SPREAD_PCT = 50, 4, 1_000_000, 75
"""All per-CPU workers together wake so often in so long, and run for so long."""

KCOMPACTD_RUN_US, KCOMPACTD_PERIOD_US = 25, 500_000
"""The compactor of a node: its run and its sleep (HPAGE_FRAG_CHECK_INTERVAL_MSEC)."""

_SYSCTLS = ("latency_ns", "min_granularity_ns", "wakeup_granularity_ns", "migration_cost_ns", "nr_migrate")
_TUNABLE_NAMES = {"latency_ns": "sched_latency_ns"}

_DIRECT = (
    "migrations_per_s",
    "migrations_wakeup_per_s",
    "migrations_balance_per_s",
    "migrations_wakeup_across_groups_per_s",
    "migrations_balance_across_groups_per_s",
    "switches_per_s",
    "idle_while_waiting_share",
    "idle_while_waiting_cpu_share",
    "longest_violation_ms",
    "balanced_counts_from_ms",
    "balanced_groups_from_ms",
)
_THROUGHPUT_KINDS = ("pp", "fork")
"""Kinds of load whose switches a second say how fast the emulator is."""

_MOST_COUNT = 3
"""Running counts from here on are one class."""

Values = dict[str, float | None]
"""Measures of one run by name; None for what never came about."""


@dataclasses.dataclass(frozen=True)
class RecordedMeasure:
    """One measure of one scenario: its range over the recorded runs and over as many simulated ones.

    Attributes:
        scenario: name of the scenario, such as `B1`.
        kernel: the recorded kernel, such as `6.12`.
        measure: name of the measure; its unit stands last in it, else it is a share or a count.
        recorded: values of the recorded runs, in the order of their seeds.
        simulated: values of the simulated runs, in the same order.
    """

    scenario: str
    kernel: str
    measure: str
    recorded: tuple[float, ...]
    simulated: tuple[float, ...]

    @property
    def inside(self) -> bool:
        """Whether the two ranges meet after the recorded one is widened by a quarter of its mean."""
        margin = WIDENED_BY * abs(float(np.mean(self.recorded)))
        low, high = min(self.recorded) - margin, max(self.recorded) + margin
        return min(self.simulated) <= high and max(self.simulated) >= low

    def to_dict(self) -> dict[str, Any]:
        """The measure as `--json` has it."""
        return {
            "scenario": self.scenario,
            "kernel": self.kernel,
            "measure": self.measure,
            "recorded_min": min(self.recorded),
            "recorded_mean": float(np.mean(self.recorded)),
            "recorded_max": max(self.recorded),
            "simulated_mean": float(np.mean(self.simulated)),
            "simulated_min": min(self.simulated),
            "simulated_max": max(self.simulated),
            "inside": self.inside,
        }


@dataclasses.dataclass(frozen=True, repr=False)
class RecordedComparison:
    """Recorded schedules beside simulated ones.

    Attributes:
        folder: where the recordings came from.
        measures: one entry a kernel, scenario and measure.
        not_modelled: kernel and scenario to the reason why it was not simulated.
    """

    folder: str
    measures: tuple[RecordedMeasure, ...]
    not_modelled: Mapping[tuple[str, str], str]

    status = 0
    """The command's exit status: a comparison is a finding, not a failure."""

    @property
    def outside(self) -> tuple[RecordedMeasure, ...]:
        """The measures that lie outside the recorded range."""
        return tuple(measure for measure in self.measures if not measure.inside)

    @property
    def share_inside(self) -> float:
        """Share of the measures that lie inside; NaN if there is none."""
        inside = [measure.inside for measure in self.measures]
        return sum(inside) / len(inside) if inside else float("nan")

    def to_dict(self) -> dict[str, Any]:
        """The comparison as `--json` has it."""
        return {
            "recordings": [measure.to_dict() for measure in self.measures],
            "not_modelled": [
                {"kernel": kernel, "scenario": scenario, "reason": reason}
                for (kernel, scenario), reason in self.not_modelled.items()
            ],
            "summary": [
                {"kernel": kernel, "scenario": scenario, "measures": measures, "inside": inside}
                for kernel, scenario, measures, inside in self._counts()
            ],
            "version": _core.VERSION,
        }

    def to_pandas(self) -> pd.DataFrame:
        """One row a measure, columns as in `--json`."""
        return pd.DataFrame([measure.to_dict() for measure in self.measures])

    def _counts(self) -> Iterator[tuple[str, str, int, int]]:
        """Kernel, scenario, measures and those inside."""
        groups: dict[tuple[str, str], list[bool]] = {}
        for measure in self.measures:
            groups.setdefault((measure.kernel, measure.scenario), []).append(measure.inside)
        for (kernel, scenario), inside in groups.items():
            yield kernel, scenario, len(inside), sum(inside)

    def _cells(self) -> tuple[list[str], list[list[str]]]:
        rows = [
            [kernel, scenario, str(measures), str(inside), f"{inside / measures:.0%}"]
            for kernel, scenario, measures, inside in self._counts()
        ]
        by_kernel: dict[str, list[bool]] = {}
        for measure in self.measures:
            by_kernel.setdefault(measure.kernel, []).append(measure.inside)
        for kernel, inside in by_kernel.items():
            share = f"{sum(inside) / len(inside):.0%}"
            rows.append([kernel, "all", str(len(inside)), str(sum(inside)), share])
        return ["kernel", "scenario", "measures", "inside", "share"], rows

    def _outside_cells(self) -> tuple[list[str], list[list[str]]]:
        rows = [
            [
                measure.kernel,
                measure.scenario,
                measure.measure,
                _range(measure.recorded),
                _range(measure.simulated),
            ]
            for measure in self.outside
        ]
        return ["kernel", "scenario", "outside", "recorded", "simulated"], rows

    def __repr__(self) -> str:
        """Shares inside by kernel and scenario, then what lies outside and what is not modelled."""
        lines = [f"recordings of {self.folder}"]
        if self.measures:
            lines.append(text_table(*self._cells(), left=2))
        if self.outside:
            lines += ["", text_table(*self._outside_cells(), left=3)]
        lines += ["" for _ in list(self.not_modelled)[:1]]
        lines += [
            f"{kernel} {scenario}: not modelled: {reason}"
            for (kernel, scenario), reason in self.not_modelled.items()
        ]
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        tables = html_table(*self._cells(), left=2, caption=f"recordings of {self.folder}")
        return tables + html_table(*self._outside_cells(), left=3) if self.outside else tables


def _range(values: Sequence[float]) -> str:
    low, high = min(values), max(values)
    return f"{low:.4g}" if low == high else f"{low:.4g} to {high:.4g}"


@dataclasses.dataclass(frozen=True)
class Recording:
    """One recorded run.

    Attributes:
        kernel: the kernel that ran, such as `6.12`.
        scenario: name of the scenario.
        seed: number of the run.
        fields: all that the file holds.
    """

    kernel: str
    scenario: str
    seed: int
    fields: Mapping[str, Any]

    @classmethod
    def read(cls, path: Path) -> Recording:
        """Reads a file.

        Raises:
            ValueError: it cannot be read, is not a recording, or lacks a field.
        """
        try:
            data = path.read_bytes()
            fields = json.loads(gzip.decompress(data) if path.suffix == ".gz" else data)
        except (OSError, EOFError, zlib.error, ValueError) as error:
            raise bad_argument("recordings", path.name, f"cannot be read: {error}") from None
        if not isinstance(fields, dict) or fields.get("format") != FORMAT:
            raise bad_argument("recordings", path.name, f"must be an object of format {FORMAT}")
        for name in (
            "kernel",
            "scenario",
            "seed",
            "machine",
            "load",
            "duration_ms",
            "guest",
            "tasks",
            "derived",
        ):
            if name not in fields:
                raise bad_argument("recordings", path.name, f"must have a field `{name}`")
        return cls(str(fields["kernel"]), str(fields["scenario"]), integer("seed", fields["seed"], 0), fields)

    def machine(self) -> Machine:
        """The emulated machine, with the costs of its emulation."""
        given = self.fields["machine"]
        n = integer("machine.n_cpus", given["n_cpus"], 1)
        packages = integer("machine.sockets", given.get("sockets", 1), 1)
        dies = packages * integer("machine.dies_per_socket", given.get("dies_per_socket", 1), 1)
        return Machine(
            n,
            name="recorded machine",
            core=given["core_groups"],
            llc=given["llc_groups"],
            die=[cpu * dies // n for cpu in range(n)],
            package=[cpu * packages // n for cpu in range(n)],
            node=given["nodes"],
            distance=given["distance"],
            costs={**IDEAL, **{name: instructions * n for name, instructions in INSTRUCTIONS.items()}},
        )

    def kernel_model(self) -> Kernel | str:
        """The kernel with the guest's settings, or why there is none."""
        known = kernels()
        if self.kernel not in LINES:
            return f"kernel {self.kernel} is not modelled"
        line = LINES[self.kernel]
        for name in (line.queue, line.balance):
            if name not in set(known["name"]):
                return f"kernel {name} is not modelled"
        guest = self.fields["guest"]
        tunables: dict[str, int] = {
            "hz": int(guest["config"].get("HZ", 250)),
            "preemption": guest["config"].get("PREEMPT") == "y",
        }
        settings = {**guest.get("sysctl", {}), **guest.get("tunables", {})}
        for setting in _SYSCTLS:
            value = settings.get(setting, settings.get(f"sched_{setting}"))
            if value is not None:
                tunables[_TUNABLE_NAMES.get(setting, setting)] = int(value)
        flags = str(settings.get("features", "")).split()
        switches = {flag.removeprefix("NO_"): not flag.startswith("NO_") for flag in flags}
        modelled = {feature for feature, *_ in _core.feature_table()}
        kernel = Kernel(
            line.queue,
            tunables=tunables,
            features={feature: on for feature, on in switches.items() if feature in modelled},
            slots=_slots(line.queue, line.balance),
            domains=line.domains,
        )
        patches = [patch for feature, patch in BACKPORTS.items() if switches.get(feature)]
        return kernel.with_patches(*(patch for patch in patches if patch in set(known["name"])))

    def work(self) -> tasks.Workload:
        """The load, every task with the start that it had."""
        entries: list[tasks.Task] = []
        starts = [int(task.get("start_us", 0)) for task in self.fields["tasks"]]
        for line in self.fields["load"]:
            load = LoadLine.parse(line)
            entries += load.tasks(starts, self.seed)
            del starts[: load.nr_listed]
        entries += self.kernel_threads()
        return tasks.Workload(tuple(entries), integer("duration_ms", self.fields["duration_ms"], 1))

    def kernel_threads(self) -> list[tasks.Task]:
        """What runs in the guest beside the load: a worker a CPU, bound to it, and a compactor a node."""
        n = integer("machine.n_cpus", self.fields["machine"]["n_cpus"], 1)
        runs = [
            ((cpu,), KWORKER_RUN_US, KWORKER_PERIOD_US * n // KWORKER_WAKEUPS, KWORKER_SPREAD_PCT)
            for cpu in range(n)
        ]
        runs += [
            (tuple(cpus), KCOMPACTD_RUN_US, KCOMPACTD_PERIOD_US, 0)
            for cpus in self.fields["machine"]["nodes"]
        ]
        return [
            tasks.Periodic(
                run_us=run_us, sleep_us=sleep_us, spread_pct=spread_pct, jitter_us=sleep_us, mask=mask
            )
            for mask, run_us, sleep_us, spread_pct in runs
        ]

    def values(self) -> Values:
        """The recorded measures under the names and in the units of the simulated ones."""
        derived = self.fields["derived"]
        flat: Values = {}
        for name in _DIRECT:
            if name in derived:
                flat[name] = derived[name]
        for cpu, shares in enumerate(derived["running_count_share_by_cpu"]):
            flat.update(
                {f"running_count_share_by_cpu.{cpu}.{count}": share for count, share in shares.items()}
            )
        for recorded, name in (
            ("max_minus_min_running_share", "count_diff_le1_share"),
            ("max_minus_min_group_share", "group_diff_le1_share"),
        ):
            if recorded in derived:
                flat[name] = sum(derived[recorded].get(spread, 0.0) for spread in ("0", "1"))
        for group, mean in enumerate(derived.get("mean_running_by_group", ())):
            flat[f"mean_running_by_group.{group}"] = mean
        for part, value in (derived.get("fairness") or {}).items():
            flat[f"fair_{part}"] = value
        for name, spread in {
            "hog_cpu_share": derived.get("hog_cpu_share"),
            **{f"cpu_share_by_class.{c}": s for c, s in (derived.get("cpu_share_by_class") or {}).items()},
        }.items():
            flat.update({f"{name}_{part}": value for part, value in (spread or {}).items() if part != "n"})
        flat["window_ms"] = derived["window_ms"]
        return flat

    @property
    def measures_throughput(self) -> bool:
        """Whether the load runs as fast as kernel paths let it."""
        return any(LoadLine.parse(line).kind in _THROUGHPUT_KINDS for line in self.fields["load"])

    @property
    def counted_ms(self) -> float:
        """Time in which spreading counts: from the release, if there is one."""
        return float(self.fields["derived"]["window_ms"]) - float(self.fields.get("released_at_ms") or 0)


def _slots(queue: str, balance: str) -> dict[str, str]:
    """The slots to fill from one generation for its balancing on the queue of another."""
    ours, theirs = Kernel(queue).functions(), Kernel(balance).functions()
    return {
        slot: balance
        for slot, function in ours.items()
        if slot not in QUEUE_SLOTS and theirs[slot] != function
    }


@dataclasses.dataclass(frozen=True)
class LoadLine:
    """One line of a recorded load: so many equal tasks.

    Attributes:
        kind: `hog`, `per`, `bar`, `pp` or `fork`.
        values: what the line sets, as text.
    """

    kind: str
    values: Mapping[str, str]

    @classmethod
    def parse(cls, line: object) -> LoadLine:
        """Reads `t KIND key=value ...`.

        Raises:
            ValueError: the kind, a key or a value is unknown.
        """
        words = str(line).split()
        if len(words) < 2 or words[0] != "t" or words[1] not in _KIND_KEYS:
            raise bad_argument("load", line, f"must be `t KIND key=value ...`, KIND {', '.join(_KIND_KEYS)}")
        values = {}
        for word in words[2:]:
            key, _, value = word.partition("=")
            if key not in (*_COMMON_KEYS, *_KIND_KEYS[words[1]]):
                raise bad_argument("load", line, f"has a key that is unknown for {words[1]}: {key}")
            number = r"0x[0-9a-fA-F]+" if key in ("mask", "relmask") else r"-?\d+"
            if key != "grp" and not re.fullmatch(number, value):
                raise bad_argument("load", line, f"has a value that is not a number: {word}")
            values[key] = value
        return cls(words[1], values)

    def number(self, key: str, default: int = 0) -> int:
        """A value as an integer."""
        return int(self.values.get(key, default))

    @property
    def nr_listed(self) -> int:
        """How many tasks of the recording's list it made."""
        n = self.number("n", 1)
        return {"pp": 2 * n, "fork": 1}.get(self.kind, n)

    def tasks(self, starts: Sequence[int], seed: int) -> list[tasks.Task]:
        """The tasks; `starts` are the recorded starts from the first of them on, us."""
        n, make = self.number("n", 1), _KIND_TASKS[self.kind]
        common: dict[str, Any] = {"nice": self.number("nice")}
        if "mask" in self.values:
            common["mask"] = _cpus(self.values["mask"])
        if "relat" in self.values:
            common["release"] = (self.number("relat"), _cpus(self.values["relmask"]))
        if "grp" in self.values:
            common["group"] = self.values["grp"]
        if self.kind == "bar":
            # They meet, so they are one entry; the first run of a machine starts all at once.
            jitter = self.number("jit") if seed > 0 else 0
            return [make(self, n=n, start_us=self.number("start"), jitter_us=jitter, **common)]
        if self.kind == "fork":
            return [make(self, n=n, start_us=starts[0], **common)]
        step = 2 if self.kind == "pp" else 1
        return [make(self, n=1, start_us=starts[index * step], **common) for index in range(n)]


def _hog(line: LoadLine, **common: Any) -> tasks.Task:
    return tasks.CpuHog(**common)


def _periodic(line: LoadLine, **common: Any) -> tasks.Task:
    run_us, sleep_us, spread_pct = (line.number(key) for key in ("run", "sleep", "rnd"))
    return tasks.Periodic(run_us=run_us, sleep_us=sleep_us, spread_pct=spread_pct, **common)


def _barrier(line: LoadLine, **common: Any) -> tasks.Task:
    wait = "futex" if line.number("wait") else "spin"
    return tasks.Barrier(run_us=line.number("run"), imbalance_pct=line.number("imb"), wait=wait, **common)


def _ping_pong(line: LoadLine, **common: Any) -> tasks.Task:
    return tasks.PingPong(run_us=line.number("run"), **common)


def _fork_storm(line: LoadLine, **common: Any) -> tasks.Task:
    return tasks.ForkStorm(run_us=line.number("run"), gap_us=line.number("gap"), **common)


_COMMON_KEYS = ("n", "jit", "start", "mask", "relat", "relmask", "nice", "grp")
_KIND_KEYS: Mapping[str, tuple[str, ...]] = {
    "hog": (),
    "per": ("run", "sleep", "rnd"),
    "bar": ("run", "imb", "wait"),
    "pp": ("run",),
    "fork": ("run", "gap"),
}
_KIND_TASKS: Mapping[str, Callable[..., tasks.Task]] = {
    "hog": _hog,
    "per": _periodic,
    "bar": _barrier,
    "pp": _ping_pong,
    "fork": _fork_storm,
}


def _cpus(mask: str) -> tuple[int, ...]:
    bits = int(mask, 16)
    return tuple(cpu for cpu in range(bits.bit_length()) if bits >> cpu & 1)


def compare_recordings(folder: str | os.PathLike[str], threads: int | None = None) -> RecordedComparison:
    """Simulates every recording under a folder and sets the measures side by side.

    A simulated run has the recorded one's machine, load, starts and settings, and its seed's number. A time
    that never came, as of a balance that was not reached, counts as the whole time in which it could have.

    Args:
        folder: folder of `KERNEL/SCENARIO-SEED.json.gz`, searched with all that is in it.
        threads: runs at a time; None for one a CPU.

    Raises:
        ValueError: it is not a folder, holds no recording, or a file in it cannot be read.
    """
    workers = default_threads() if threads is None else integer("threads", threads, 1, MOST_THREADS)
    name, folder = os.fspath(folder), Path(folder)
    if not folder.is_dir():
        raise bad_argument("recordings", name, "must be a folder")
    recordings = [Recording.read(path) for path in recording_files(folder)]
    if not recordings:
        raise bad_argument("recordings", name, "must hold recordings, KERNEL/SCENARIO-SEED.json.gz")
    recordings.sort(key=lambda run: (_version(run.kernel), run.scenario, run.seed))
    scenarios = [_scenario(recording) for recording in recordings]
    pool = ThreadPoolExecutor(workers)
    try:
        simulated = list(pool.map(_simulate, recordings, scenarios))
    finally:
        pool.shutdown(cancel_futures=True)
    pairs: dict[tuple[str, str], list[tuple[Recording, Values]]] = {}
    not_modelled: dict[tuple[str, str], str] = {}
    for recording, scenario, values in zip(recordings, scenarios, simulated, strict=True):
        key = (recording.kernel, recording.scenario)
        if isinstance(scenario, str):
            not_modelled[key] = scenario
        elif values is not None:
            pairs.setdefault(key, []).append((recording, values))
    measures = [measure for runs in pairs.values() for measure in _measures(runs)]
    return RecordedComparison(name, tuple(measures), not_modelled)


def recording_files(folder: Path) -> list[Path]:
    """The files under the folder that are named like a recording, `SCENARIO-SEED.json.gz`."""
    return sorted(
        path
        for path in folder.rglob("*")
        if re.fullmatch(r"\w+-\d+\.json(\.gz)?", path.name) and path.is_file()
    )


def _version(kernel: str) -> tuple[int, ...]:
    return tuple(int(number) for number in re.findall(r"\d+", kernel))


def _scenario(recording: Recording) -> Scenario | str:
    """What to simulate, or why it cannot be."""
    kernel, work = recording.kernel_model(), recording.work()
    if isinstance(kernel, str):
        return kernel
    scenario = Scenario(recording.machine(), kernel, work)
    scenario.validate()
    return scenario


def _simulate(recording: Recording, scenario: Scenario | str) -> Values | None:
    if isinstance(scenario, str):
        return None
    seeds, background = np.array([recording.seed], dtype=np.uint64), len(recording.kernel_threads())
    (values,) = _core.simulate_derived(scenario.to_json(), seeds, 1, background)
    return values


def _measures(runs: Sequence[tuple[Recording, Values]]) -> Iterator[RecordedMeasure]:
    """The measures of one kernel and scenario."""
    first, _ = runs[0]
    recorded = [_comparable(recording, recording.values()) for recording, _ in runs]
    simulated = [_comparable(recording, values) for recording, values in runs]
    for name in recorded[0]:
        if all(name in values for values in (*recorded, *simulated)):
            ranges = (tuple(values[name] for values in side) for side in (recorded, simulated))
            yield RecordedMeasure(first.scenario, first.kernel, name, *ranges)


def _comparable(recording: Recording, values: Values) -> dict[str, float]:
    """What of a run's measures compares, recorded or simulated."""
    window_ms = values["window_ms"] or 1.0
    result: dict[str, float] = {}
    for name in _DIRECT:
        if name in values and not (name == "switches_per_s" and recording.measures_throughput):
            result[name] = _resolved(name, values[name], recording.counted_ms)
    for name in ("count_diff_le1_share", "group_diff_le1_share"):
        if name in values:
            # What is short is the time at which they differ by more.
            result[name] = 1.0 - _resolved(name, 1.0 - (values[name] or 0.0), window_ms)
    result.update(_count_distribution(values, window_ms))
    by_group = [value or 0.0 for name, value in values.items() if name.startswith("mean_running_by_group.")]
    # Which of two equal groups has more is chance.
    for rank, mean in enumerate(sorted(by_group, reverse=True)):
        result[f"mean_running_by_group.rank{rank}"] = mean
    for name, value in values.items():
        if re.match(r"fair_(min|max|sd)$|(cpu_share_by_class\..*|hog_cpu_share)_(min|mean|max)$", name):
            result[name] = value or 0.0
    return result


def _resolved(name: str, value: float | None, window_ms: float) -> float:
    """A time, or a share of the window, that is too short to compare counts as none."""
    if value is None:
        return window_ms
    time_ms = value if name.endswith("_ms") else value * window_ms
    return 0.0 if time_ms < RESOLUTION_MS and not name.endswith("_per_s") else value


def _count_distribution(values: Values, window_ms: float) -> dict[str, float]:
    """Share of CPU time at each running count, over all CPUs: `running_count_share.0` to `.3+`."""
    shares: dict[str, float] = {}
    by_cpu: dict[str, None] = {}
    for name, share in values.items():
        if not name.startswith("running_count_share_by_cpu."):
            continue
        _, cpu, count = name.split(".")
        by_cpu[cpu] = None
        label = count if int(count) < _MOST_COUNT else f"{_MOST_COUNT}+"
        shares[label] = shares.get(label, 0.0) + (share or 0.0)
    labels: Iterable[str] = (*map(str, range(_MOST_COUNT)), f"{_MOST_COUNT}+")
    return {
        f"running_count_share.{label}": _resolved("share", shares.get(label, 0.0) / len(by_cpu), window_ms)
        for label in labels
    }
