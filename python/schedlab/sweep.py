"""sweep: a scenario over a grid of settings, the same seeds at every point."""

from __future__ import annotations

import concurrent.futures
import dataclasses
import hashlib
import itertools
import json
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import xarray as xr

from schedlab import _core
from schedlab._arguments import bad_argument, choice, mapping
from schedlab.kernel import Kernel
from schedlab.machine import Machine
from schedlab.runs import read_parquet
from schedlab.scenario import Scenario
from schedlab.simulate import Progress, progress_bar, seed_array, simulate_scenario
from schedlab.statistics import RATE_METRICS, bootstrap_interval, mean, paired_gain
from schedlab.workload import Work

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Over = Mapping[str, Sequence[Any]]

COST_PREFIX = "costs."
"""What the name of a dimension starts with whose values are a cost of the machine."""


def sweep(
    machine: Machine,
    kernel: Kernel,
    work: Work,
    over: Over,
    seeds: int | Iterable[int] = 10,
    *,
    store: str | os.PathLike[str] | None = None,
    executor: concurrent.futures.Executor | None = None,
    threads: int | None = None,
    progress: bool | Progress | None = None,
) -> xr.Dataset:
    """Simulates every combination of the settings, with the same seeds: the same work arrives at every point.

    Args:
        machine: the computer, where `over` does not name others.
        kernel: its scheduler, likewise.
        work: what runs, likewise.
        over: dimension to its values: `machine`, `kernel` and `work` take objects or names; `patches` takes
            names of patches put on the kernel, `a+b` for several and an empty name for none; a tunable or
            a scheduler feature takes numbers or booleans; `costs.NAME` sets a cost of the machine; a field
            of the workload, such as `groups`, replaces it.
        seeds: as `simulate` takes them.
        store: folder in which each finished point is kept; a later call goes on where one was stopped, and
            points that other sweeps have left there count too.
        executor: runs the points, for instance a process pool or that of a cluster; None runs them here, one
            after another, each on all threads.
        threads: threads of each point; None for all CPUs, or for one with an executor.
        progress: as `simulate` takes it; it counts points.

    Returns:
        The metrics over the dimensions, in the order of `over`, and `seed`. Objects are their labels along
        their dimension; `attrs` tell what ran.

    Raises:
        ValueError: a dimension or a value is unknown, or breaks a rule; nothing has run.
    """
    if executor is not None and not hasattr(executor, "submit"):
        raise bad_argument("executor", executor, "must be None or a concurrent.futures.Executor")
    dimensions = {name: _values(name, values) for name, values in mapping("over", over).items()}
    if not dimensions:
        raise bad_argument("over", dict(over), "must name at least one dimension with its values")
    points = [
        _point(machine, kernel, work, dict(zip(dimensions, values, strict=True)))
        for values in itertools.product(*dimensions.values())
    ]
    numbers = [int(seed) for seed in seed_array(seeds)]
    for point in points:
        point.validate()
    parts = _Parts(store, numbers)
    frames: list[pd.DataFrame] = []
    with progress_bar(progress, len(points), "sweep", "point") as advance:
        for frame in _frames(points, parts, executor, threads):
            frames.append(frame)
            if advance is not None:
                advance(len(frames))
    return _dataset(dimensions, frames, numbers, points[0])


def _values(name: str, values: object) -> tuple[Any, ...]:
    if isinstance(values, str | Mapping) or not isinstance(values, Iterable):
        raise bad_argument(name, values, "must be a sequence of values")
    listed = tuple(values)
    if not listed:
        raise bad_argument(name, [], "must have at least one value")
    labels = [_label(value) for value in listed]
    for index, label in enumerate(labels):
        if label in labels[:index]:
            raise bad_argument(name, label, "no value may be given twice")
    return listed


def _label(value: Any) -> Any:
    """What a value is called along its dimension."""
    if isinstance(value, Machine):
        return value.name
    return value.label if hasattr(value, "label") else value


def _point(machine: Machine, kernel: Kernel, work: Work, settings: Mapping[str, Any]) -> Scenario:
    """The scenario of one combination; whole objects are exchanged before anything is set on them."""
    for name in sorted(settings, key=lambda name: name not in ("machine", "kernel", "work")):
        value = settings[name]
        if name == "machine":
            machine = Machine.named(value) if isinstance(value, str) else value
        elif name == "kernel":
            kernel = Kernel(value) if isinstance(value, str) else value
        elif name == "work":
            work = value
        elif name == "patches":
            if not isinstance(value, str):
                raise bad_argument("patches", value, "must be names of patches, `a+b` for several, or empty")
            kernel = kernel.with_patches(*filter(None, value.split("+")))
        elif name.startswith(COST_PREFIX):
            machine = machine.with_costs({**machine.costs, name.removeprefix(COST_PREFIX): value})
        elif name in _tunables():
            kernel = kernel.with_tunables(**{name: value})
        elif name in _features():
            kernel = kernel.with_features(**{name: value})
        else:
            fields = [field.name for field in dataclasses.fields(work)]
            known = ["machine", "kernel", "work", "patches", *_tunables(), *_features(), *fields]
            choice("over", name, known)
            work = dataclasses.replace(work, **{name: value})
    return Scenario(machine, kernel, work)


def _tunables() -> list[str]:
    return [name for name, _ in _core.tunable_table()]


def _features() -> list[str]:
    return [name for name, _, _ in _core.feature_table()]


def read_definition(text: str) -> tuple[Scenario, dict[str, list[Any]], int | list[int]]:
    """A sweep's JSON: the fields of a scenario, `over` (dimension to values) and `seeds` (10 if not given).

    Raises:
        ValueError: it is not JSON, or a field is missing or of the wrong kind.
    """
    try:
        fields = json.loads(text)
    except json.JSONDecodeError as error:
        raise bad_argument("sweep", f"{text[:40]}...", f"must be JSON: {error}") from None
    if not isinstance(fields, dict) or not isinstance(fields.get("over"), dict):
        raise bad_argument("sweep", f"{text[:40]}...", "must be an object with `over`, an object of lists")
    over, seeds = fields.pop("over"), fields.pop("seeds", 10)
    return Scenario.from_dict(fields), over, seeds


class _Parts:
    """The finished points of a store: a Parquet file each, named by what ran."""

    def __init__(self, store: str | os.PathLike[str] | None, seeds: list[int]) -> None:
        if store is not None and (not isinstance(store, str | os.PathLike) or not os.fspath(store)):
            raise bad_argument("store", store, "must be None or the path of a folder")
        self.folder = None if store is None else Path(store)
        self.seeds = seeds
        if self.folder is not None:
            self.folder.mkdir(parents=True, exist_ok=True)

    def path(self, point: Scenario) -> Path | None:
        if self.folder is None:
            return None
        what = json.dumps([_core.VERSION, point.to_json(), self.seeds])
        return self.folder / f"part-{hashlib.sha256(what.encode()).hexdigest()[:32]}.parquet"

    def read(self, point: Scenario) -> pd.DataFrame | None:
        path = self.path(point)
        if path is None or not path.is_file():
            return None
        frame = read_parquet(path)
        facts = frame.attrs.get("provenance", {})
        whole = facts.get("scenario_sha256") == point.sha256() and facts.get("schedlab") == _core.VERSION
        if not whole or "seed" not in frame or list(frame["seed"]) != self.seeds:
            raise bad_argument("store", str(path), "must be the part that its name says; remove it")
        return frame


def _frames(
    points: Sequence[Scenario],
    parts: _Parts,
    executor: concurrent.futures.Executor | None,
    threads: int | None,
) -> Iterator[pd.DataFrame]:
    """The points' tables in order, one row a seed."""
    if executor is None:
        for point in points:
            done = parts.read(point)
            yield _run(point.to_json(), parts.seeds, threads, parts.path(point)) if done is None else done
        return
    waiting: list[pd.DataFrame | concurrent.futures.Future[pd.DataFrame]] = []
    for point in points:
        done = parts.read(point)
        arguments = (point.to_json(), parts.seeds, threads or 1, parts.path(point))
        waiting.append(executor.submit(_run, *arguments) if done is None else done)
    try:
        for point_done in waiting:
            yield point_done if isinstance(point_done, pd.DataFrame) else point_done.result()
    finally:
        for left in waiting:
            if not isinstance(left, pd.DataFrame):
                left.cancel()


def _run(scenario: str, seeds: list[int], threads: int | None, path: Path | None) -> pd.DataFrame:
    """One point, wherever the executor runs it; kept in the store when it is whole."""
    runs = simulate_scenario(Scenario.from_json(scenario), seeds, threads, progress=False)
    if path is not None:
        runs.to_parquet(path)
    frame = runs.to_pandas()
    frame.attrs = {}
    return frame


def _dataset(
    dimensions: Mapping[str, tuple[Any, ...]],
    frames: Sequence[pd.DataFrame],
    seeds: list[int],
    first: Scenario,
) -> xr.Dataset:
    """The tables as one dataset over the dimensions and `seed`."""
    shape = (*(len(values) for values in dimensions.values()), len(seeds))
    dims = (*dimensions, "seed")
    described = {name: (unit, text) for name, unit, text in _core.metric_table()}
    variables = {}
    # Rates are there only where every point has them.
    names = [name for name in frames[0].columns if all(name in frame.columns for frame in frames)]
    for name in names:
        if name == "seed":
            continue
        values = np.stack([frame[name].to_numpy() for frame in frames]).reshape(shape)
        unit, text = described.get(name, described.get(f"{name.removesuffix('_s')}_ns", ("", "")))
        attributes = {"units": "s" if unit == "ns" else unit, "long_name": text}
        variables[name] = (dims, values, {key: value for key, value in attributes.items() if value})
    coords: dict[str, Any] = {name: [_label(v) for v in values] for name, values in dimensions.items()}
    coords["seed"] = np.array(seeds, dtype=np.uint64)
    facts = {"schedlab": _core.VERSION, "first_point": first.to_dict()}
    return xr.Dataset(variables, coords, attrs={"provenance": json.dumps(facts, sort_keys=True)})


def plot_band(
    data: xr.Dataset,
    metric: str = "time_s",
    x: str | None = None,
    hue: str | None = None,
    baseline: Mapping[str, Any] | None = None,
    ax: Axes | None = None,
) -> Axes:
    """Draws a metric of a sweep along one dimension: the mean over seeds in a band of its 95 % interval.

    Args:
        data: what `sweep` returned, cut to at most two dimensions beside `seed`.
        metric: name of the metric.
        x: dimension of the axis; None for the first.
        hue: dimension with a line each value; None for the other one, if there is one.
        baseline: point of `x` and `hue` against which gains are drawn instead, in per cent and by paired
            seeds; a dimension that it leaves out is compared value by value.
        ax: axes to draw on; None for new ones.

    Raises:
        ValueError: the metric or a dimension is unknown, or there are more dimensions than can be drawn.
    """
    import matplotlib.pyplot as plt

    values = data[choice("metric", metric, [str(name) for name in data.data_vars])]
    dims = [str(dim) for dim in values.dims if dim != "seed"]
    x = choice("x", dims[0] if x is None else x, dims)
    others = [dim for dim in dims if dim != x]
    if len(others) > 1:
        raise bad_argument("data", dims, "must be cut to two dimensions beside seed: data.sel(...)")
    if hue is not None:
        choice("hue", hue, others or ["no other dimension"])
    for dim in baseline or {}:
        choice("baseline", dim, dims)
    axes = plt.subplots(layout="constrained")[1] if ax is None else ax
    rate = metric in RATE_METRICS
    places = np.arange(values.sizes[x])
    for line in values[others[0]].to_numpy() if others else [None]:
        along = values if line is None else values.sel({others[0]: line})
        bands = []
        for place in places:
            point = along.isel({x: place})
            sample = point.to_numpy().astype(np.float64)
            if baseline is None:
                middle = float(mean(sample, rate))
                low, high = bootstrap_interval(len(sample), _mean_of(sample, rate))
            else:
                at = {**{dim: point[dim].item() for dim in dims}, **baseline}
                gain = paired_gain(values.sel(at).to_numpy().astype(np.float64), sample, rate)
                middle, low, high = gain.pct, gain.low, gain.high
            bands.append((middle, low, high))
        middle_line, lows, highs = np.array(bands).T
        label = None if line is None else f"{others[0]} {line}"
        (drawn,) = axes.plot(places, middle_line, marker="o", label=label)
        axes.fill_between(places, lows, highs, alpha=0.2, color=drawn.get_color())
    axes.set_xticks(places, [str(value) for value in values[x].to_numpy()])
    axes.set_xlabel(x)
    if baseline is None:
        axes.set_ylabel(f"{metric} ({values.attrs.get('units', '')})")
    else:
        axes.axhline(0.0, color="black", linewidth=0.8)
        axes.set_ylabel(f"gain in {metric} over {', '.join(f'{d} {v}' for d, v in baseline.items())} (%)")
    if others:
        axes.legend()
    return axes


def _mean_of(sample: np.ndarray[Any, Any], rate: bool) -> Callable[[Any], Any]:
    return lambda rows: mean(sample[rows], rate)
