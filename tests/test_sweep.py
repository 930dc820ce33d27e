from __future__ import annotations

import concurrent.futures
import json
import multiprocessing
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
import pytest
import xarray as xr

import schedlab as sl
from common import SMALL
from schedlab.cli import main

HALF_LIVES = {"pelt_half_life_ms": [8, 32]}


@pytest.fixture(scope="module")
def grid(dual_quad: sl.Machine) -> xr.Dataset:
    over = {"kernel": ["v5.6", "v5.7"], "groups": [1, 2], **HALF_LIVES}
    return sl.sweep(dual_quad, sl.Kernel("v5.6"), SMALL, over, seeds=4)


def test_every_point_is_what_simulate_gives(dual_quad: sl.Machine, grid: xr.Dataset) -> None:
    assert dict(grid.sizes) == {"kernel": 2, "groups": 2, "pelt_half_life_ms": 2, "seed": 4}
    kernel = sl.Kernel("v5.7").with_tunables(pelt_half_life_ms=8)
    work = sl.Hackbench(**{**SMALL.__dict__, "groups": 2})
    alone = sl.simulate(dual_quad, kernel, work, seeds=4).metrics
    point = grid.sel(kernel="v5.7", groups=2, pelt_half_life_ms=8)
    for name in ("time_s", "migrations_wakeup", "throughput"):
        assert (point[name].values == alone[name].values).all(), name
    assert grid.time_s.attrs == alone.time_s.attrs
    assert json.loads(grid.attrs["provenance"])["first_point"]["kernel"]["name"] == "v5.6"


def test_objects_patches_features_and_costs_are_dimensions_too(dual_quad: sl.Machine) -> None:
    over: dict[str, list[Any]] = {
        "patches": ["", "runnable-avg-signal+runnable-avg-classify"],
        "UTIL_EST": [True, False],
        "costs.context_switch_ns": [500, 5000],
        "work": [SMALL, sl.Workload([sl.CpuHog(n=3)], duration_ms=20)],
    }
    data = sl.sweep(dual_quad, sl.Kernel("v5.6"), SMALL, over, seeds=[7])
    assert data.time_s.shape == (2, 2, 2, 2, 1)
    assert list(data.work.values) == [SMALL.label, "3 hog"]
    assert "throughput" not in data, "a workload of hogs has none"
    fast, slow = (data.time_s.sel({"costs.context_switch_ns": ns, "work": SMALL.label}) for ns in (500, 5000))
    assert float(slow.mean()) > float(fast.mean())
    machines = sl.sweep(
        dual_quad, sl.Kernel("v5.7"), SMALL, {"machine": ["arm64-dual-quad", "celeron-2cpu"]}, seeds=1
    )
    assert list(machines.machine.values) == ["arm64-dual-quad", "celeron-2cpu"]


def test_a_sweep_that_was_stopped_goes_on(
    dual_quad: sl.Machine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kernel = sl.Kernel("v5.7")
    done: list[int] = []

    def stop_after_one(points: int) -> None:
        done.append(points)
        raise KeyboardInterrupt

    over = {"pelt_half_life_ms": [8, 16, 32]}
    with pytest.raises(KeyboardInterrupt):
        sl.sweep(dual_quad, kernel, SMALL, over, seeds=2, store=tmp_path, progress=stop_after_one)
    first = {path: path.stat().st_mtime_ns for path in tmp_path.iterdir()}
    assert len(first) == 1 and done == [1]
    whole = sl.sweep(dual_quad, kernel, SMALL, over, seeds=2, store=tmp_path)
    assert len(list(tmp_path.iterdir())) == 3
    assert all(path.stat().st_mtime_ns == time for path, time in first.items()), "nothing is done twice"
    assert whole.equals(sl.sweep(dual_quad, kernel, SMALL, over, seeds=2))
    more = {"pelt_half_life_ms": [32, 64]}
    sl.sweep(dual_quad, kernel, SMALL, more, seeds=2, store=tmp_path)
    assert len(list(tmp_path.iterdir())) == 4, "points of another sweep count"


def test_an_executor_gives_the_same(dual_quad: sl.Machine, tmp_path: Path) -> None:
    arguments = (dual_quad, sl.Kernel("v5.7"), SMALL, HALF_LIVES)
    spawn = multiprocessing.get_context("spawn")
    with concurrent.futures.ProcessPoolExecutor(2, mp_context=spawn) as pool:
        data = sl.sweep(*arguments, seeds=2, store=tmp_path, executor=pool)
    assert data.equals(sl.sweep(*arguments, seeds=2))
    assert len(list(tmp_path.glob("part-*.parquet"))) == 2


def test_bands_and_paired_gains_can_be_seen(grid: xr.Dataset) -> None:
    matplotlib.use("Agg")
    axes = sl.plot_band(grid.sel(groups=1), "time_s", x="pelt_half_life_ms")
    assert axes.get_xlabel() == "pelt_half_life_ms" and axes.get_ylabel() == "time_s (s)"
    assert [text.get_text() for text in axes.get_legend().get_texts()] == ["kernel v5.6", "kernel v5.7"]
    means = grid.sel(groups=1, kernel="v5.6").time_s.mean("seed").values
    assert np.allclose(axes.get_lines()[0].get_ydata(), means)
    gains = sl.plot_band(
        grid.sel(groups=2), "time_s", "pelt_half_life_ms", baseline={"pelt_half_life_ms": 32}
    )
    assert gains.get_lines()[0].get_ydata()[1] == 0.0, "a point against itself"
    assert "gain in time_s over pelt_half_life_ms 32" in gains.get_ylabel()
    with pytest.raises(ValueError, match="must be cut to two dimensions"):
        sl.plot_band(grid)
    with pytest.raises(ValueError, match=r"metric = 'time'.*did you mean time_s"):
        sl.plot_band(grid.sel(groups=1), "time")


@pytest.mark.parametrize(
    ("over", "message"),
    [
        ({}, "over = {}: must name at least one dimension"),
        ({"pelt_halflife_ms": [8]}, "over = 'pelt_halflife_ms'.*did you mean pelt_half_life_ms"),
        ({"hz": 250}, "hz = 250: must be a sequence of values"),
        ({"hz": []}, r"hz = \[\]: must have at least one value"),
        ({"hz": [250, 250]}, "hz = 250: no value may be given twice"),
        ({"hz": [250, 999]}, "tunables.hz = 999: is 100, 250, 300 or 1000"),
        ({"patches": ["runable-avg"]}, "patch = .*runable-avg"),
        ({"kernel": ["v5.66"]}, "kernel = .*v5.66"),
        ({"groups": [0]}, "groups = 0"),
    ],
)
def test_bad_grids_are_refused_before_anything_runs(
    dual_quad: sl.Machine, tmp_path: Path, over: dict[str, Any], message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        sl.sweep(dual_quad, sl.Kernel("v5.6"), SMALL, over, seeds=1, store=tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_the_command_sweeps_and_goes_on(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    definition = {
        "machine": "arm64-dual-quad",
        "kernel": "v5.6",
        "workload": SMALL.to_dict(),
        "over": {"patches": ["", "runnable-avg"], "hz": [250, 1000]},
        "seeds": 2,
    }
    file = tmp_path / "sweep.json"
    file.write_text(json.dumps(definition))
    output = tmp_path / "all.parquet"
    command = ["sweep", str(file), "--store", str(tmp_path / "out"), "--output", str(output)]
    assert main(command) == 0
    printed = capsys.readouterr().out
    assert "runnable-avg" in printed and "1000" in printed and "mean" in printed
    assert len(list((tmp_path / "out").iterdir())) == 4
    assert output.is_file()
    file.write_text("{}")
    assert main(command) == 2
    assert "must be an object with `over`" in capsys.readouterr().err


def test_parts_that_were_exchanged_are_refused(dual_quad: sl.Machine, tmp_path: Path) -> None:
    def swept() -> xr.Dataset:
        over = {"pelt_half_life_ms": [8, 16]}
        return sl.sweep(dual_quad, sl.Kernel("v5.7"), SMALL, over, seeds=2, store=tmp_path)

    first = swept()
    one, two = sorted(tmp_path.glob("part-*.parquet"))
    assert swept().identical(first)
    one.write_bytes(two.read_bytes())
    with pytest.raises(ValueError, match=f"store = .*{one.name}.*must be the part that its name says"):
        swept()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"executor": "2"}, "executor = '2': must be None or"),
        ({"store": True}, "store = True: must be None or the path"),
        ({"store": ""}, "store = '': must be None or the path"),
        ({"over": []}, r"over = \[\]: must be a mapping"),
        ({"over": {1: [2]}}, "over = .*: must be a mapping with names for keys"),
    ],
)
def test_arguments_of_the_wrong_kind(
    dual_quad: sl.Machine, arguments: dict[str, object], message: str
) -> None:
    whole: dict[str, object] = {"over": {"hz": [100]}, "seeds": 1, **arguments}
    with pytest.raises(ValueError, match=message):
        sl.sweep(dual_quad, sl.Kernel("v5.7"), SMALL, **whole)  # type: ignore[arg-type]
