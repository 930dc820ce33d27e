from __future__ import annotations

import importlib
import json
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import schedlab as sl
from schedlab import calibrate, tables


@pytest.mark.parametrize(
    ("time_at", "target"),
    [
        (lambda scale: 0.2 + 1e-3 * scale, 1.189),
        (lambda scale: 0.2 + 1e-3 * scale, 0.5),
        (lambda scale: 1e-6 * scale**2, 7.3),
        (lambda scale: (scale / 1000) ** 0.3, 2.0),
        (lambda scale: 1.189, 1.189),
        (lambda scale: 0.9 if scale < 1500 else 1.3, 1.25),
    ],
)
def test_the_search_meets_a_rising_function(time_at: Callable[[int], float], target: float) -> None:
    scale, tried = calibrate.search(time_at, target)
    assert len(tried) <= calibrate.MOST_EVALUATIONS
    assert dict(tried)[scale] == time_at(scale)
    best = min(abs(time - target) for _, time in tried)
    assert abs(time_at(scale) - target) == best
    if time_at(1499) != 0.9:
        assert abs(time_at(scale) / target - 1) < 2e-3
    assert calibrate.search(time_at, target) == (scale, tried)


@pytest.mark.parametrize("target", [1e-3, 1e3])
def test_a_target_out_of_reach_is_said(target: float) -> None:
    with pytest.raises(ValueError, match=r"target = .*no factor"):
        calibrate.search(lambda scale: 1.0 + 1e-6 * scale, target)


def test_scaled_costs_stay_whole_and_above_zero() -> None:
    costs = {"a_ns": 1000, "b_ns": 1, "none_ns": 0, "part": 0.5}
    assert calibrate.scaled(costs, 1000) == costs
    assert calibrate.scaled(costs, 1234) == {"a_ns": 1234, "b_ns": 1, "none_ns": 0, "part": 0.617}
    assert calibrate.scaled(costs, 100)["b_ns"] == 1


def simulated(
    monkeypatch: pytest.MonkeyPatch, seen: list[tuple[sl.Machine, sl.Kernel, sl.Hackbench]]
) -> None:
    """Puts a machine that needs its socket reads' cost a message in the place of the simulator."""

    def simulate(machine: sl.Machine, kernel: sl.Kernel, work: sl.Hackbench, seeds: Any, *rest: Any) -> Any:
        seen.append((machine, kernel, work))
        time_s = np.full(len(seeds), machine.costs["socket_read_ns"] * work.messages / 1e9)
        return SimpleNamespace(metrics={"time_s": time_s})

    monkeypatch.setattr(importlib.import_module("schedlab.calibrate"), "simulate", simulate)


def test_only_the_base_kernel_runs_and_only_the_stated_row(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[tuple[sl.Machine, sl.Kernel, sl.Hackbench]] = []
    simulated(monkeypatch, seen)
    fit = calibrate.calibrate("arm64-dual-quad", free=["socket_read_ns"], seeds=2)
    assert {kernel.label for _, kernel, _ in seen} == {"v5.6"}
    assert {(work.groups, work.loops) for _, _, work in seen} == {(8, 320)}
    assert (fit.table, fit.row, fit.target_s) == ("hackbench-arm64-dual-quad", "8", 1.189)
    assert fit.costs["socket_read_ns"] == pytest.approx(1161, abs=2)
    assert abs(fit.residual_pct) < 0.2
    assert "socket_read_ns" in repr(fit)


def test_a_fit_can_be_written_elsewhere(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    simulated(monkeypatch, [])
    fit = calibrate.calibrate("arm64-dual-quad", free=["socket_read_ns"], seeds=2)
    assert calibrate.write(fit, tmp_path / "fit.json") == [tmp_path / "fit.json"]
    record = json.loads((tmp_path / "fit.json").read_text())
    assert record["costs"] == fit.costs
    assert record["kernel"] == "v5.6"
    assert record["seeds"] == [0, 1]
    assert [tuple(pair) for pair in record["evaluations"]] == list(fit.evaluations)


@pytest.mark.parametrize(
    ("arguments", "rule"),
    [
        ({"machine": "celeron-2cpu"}, "machine = 'celeron-2cpu'"),
        ({"machine": "nowhere"}, "nowhere"),
        ({"machine": "arm64-dual-quad", "row": "5"}, "row = '5'"),
        ({"machine": "arm64-dual-quad", "table": "classification-octo", "row": "total all"}, "base times"),
        ({"machine": "arm64-dual-quad", "table": "hackbench"}, "table = 'hackbench'"),
        ({"machine": "arm64-dual-quad", "free": ["socket_red_ns"]}, "free = 'socket_red_ns'.*socket_read_ns"),
        ({"machine": "arm64-dual-quad", "free": []}, "free = .*at least one"),
        ({"machine": "arm64-dual-quad", "seeds": 0}, "seeds = 0"),
    ],
)
def test_what_cannot_be_fitted_is_refused(arguments: dict[str, Any], rule: str) -> None:
    with pytest.raises(ValueError, match=rule):
        calibrate.calibrate(**arguments)


@pytest.mark.parametrize("machine", calibrate.DEFAULT_ROWS)
def test_the_machines_own_fit_is_the_one_on_record(machine: str) -> None:
    record = tables.calibration(machine)
    assert record is not None, f"{machine} has been calibrated"
    assert (record["table"], record["row"]) == calibrate.DEFAULT_ROWS[machine]
    assert record["kernel"] == tables.named(record["table"]).base
    assert sl.Machine.named(machine).costs == record["costs"]
    assert abs(record["residual_pct"]) < 2.0
    assert set(record["free"]) == set(record["start"])


def test_the_machines_own_fit_still_gives_its_time() -> None:
    record = tables.calibration("arm64-dual-quad")
    assert record is not None
    row = next(row for row in tables.named(record["table"]).rows() if row.label == record["row"])
    machine = sl.Machine.named("arm64-dual-quad")
    runs = sl.simulate(machine, sl.Kernel(record["kernel"]), row.work(), record["seeds"])
    assert float(runs.metrics.time_s.mean()) == pytest.approx(record["simulated_s"], rel=1e-12)
