from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import schedlab as sl
from schedlab import _core
from schedlab.cli import main
from schedlab.recordings import (
    LINES,
    LoadLine,
    RecordedComparison,
    RecordedMeasure,
    Recording,
    compare_recordings,
    recording_files,
)

RECORDINGS = Path(__file__).parent / "recordings"


@pytest.fixture(scope="module")
def comparison() -> RecordedComparison:
    return compare_recordings(RECORDINGS)


def read(name: str) -> Recording:
    return Recording.read(RECORDINGS / f"{name}.json.gz")


def write(folder: Path, name: str, fields: dict[str, Any]) -> Path:
    path = folder / f"{name}.json.gz"
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(gzip.compress(json.dumps(fields).encode()))
    return path


def test_four_fifths_of_what_real_kernels_did_is_inside(comparison: RecordedComparison) -> None:
    for kernel in ("5.10", "6.1", "6.12"):
        inside = [measure.inside for measure in comparison.measures if measure.kernel == kernel]
        assert len(inside) > 150
        assert sum(inside) / len(inside) >= 0.8, kernel


def test_each_scenario_is_compared_or_said_not_to_be(comparison: RecordedComparison) -> None:
    there = {(path.parent.name, path.name.split("-")[0]) for path in recording_files(RECORDINGS)}
    compared = {(measure.kernel, measure.scenario) for measure in comparison.measures}
    assert compared | set(comparison.not_modelled) == there
    assert not compared & set(comparison.not_modelled)
    names = {measure.measure for measure in comparison.measures if measure.scenario == "B4"}
    assert names >= {
        "migrations_per_s",
        "idle_while_waiting_share",
        "balanced_counts_from_ms",
        "running_count_share.1",
        "fair_min",
        "cpu_share_by_class.nice-5_mean",
        "mean_running_by_group.rank0",
    }


def test_a_kernel_under_another_name_of_its_line_lies_outside() -> None:
    # The queue by deadline switches three times as often as the one that the recorded 6.1 has.
    recording = read("6.1/A1-0")
    scenario = sl.Scenario(recording.machine(), sl.Kernel("v6.12").with_tunables(hz=250), recording.work())
    (values,) = _core.simulate_derived(scenario.to_json(), np.array([0], dtype=np.uint64), 1)
    recorded = recording.fields["derived"]["switches_per_s"]
    measure = RecordedMeasure("A1", "6.1", "switches_per_s", (recorded,), (values["switches_per_s"] or 0.0,))
    assert not measure.inside


def test_ranges_meet_after_the_recorded_one_is_widened_by_a_quarter_of_its_mean() -> None:
    def inside(recorded: tuple[float, ...], simulated: tuple[float, ...]) -> bool:
        return RecordedMeasure("A1", "6.1", "fair_min", recorded, simulated).inside

    # The mean is 10, so the range reaches from 5.5 to 14.5.
    assert inside((8.0, 12.0), (14.5, 20.0))
    assert inside((8.0, 12.0), (1.0, 5.5))
    assert inside((8.0, 12.0), (1.0, 20.0))
    assert not inside((8.0, 12.0), (14.6, 20.0))
    assert not inside((8.0, 12.0), (1.0, 5.4))
    assert not inside((0.0, 0.0), (0.001, 0.002))


def test_the_domains_are_those_that_the_guest_printed() -> None:
    for name in ("5.10/B1-0", "5.10/D2-0", "6.1/E1-0", "6.1/D2-0", "6.12/B1-0", "6.12/E1-0"):
        recording = read(name)
        kernel = recording.kernel_model()
        assert isinstance(kernel, sl.Kernel)
        built = recording.machine().domains(kernel)[0]
        printed = recording.fields["guest"]["domains_cpu0"]
        levels = sum(key.endswith("/name") for key in printed)
        assert len(built) == levels, name
        for level, domain in enumerate(built):
            assert domain.name == printed[f"domain{level}/name"], name
            assert set(domain.flags) == set(printed[f"domain{level}/flags"].split()), name
            for field in ("imbalance_pct", "busy_factor", "min_interval", "max_interval", "cache_nice_tries"):
                value = getattr(domain, field, getattr(domain, f"{field}_ms", None))
                assert value == int(printed[f"domain{level}/{field}"]), (name, field)


def test_every_key_of_a_load_line_is_read() -> None:
    line = "t hog n=2 mask=0x5 jit=20000 start=7 relat=500000 relmask=0xf nice=-5"
    tasks = LoadLine.parse(line).tasks([11, 12, 99], 1)
    assert [task.start_us for task in tasks] == [11, 12]
    assert {(task.kind, task.n, task.nice, task.mask, task.release) for task in tasks} == {
        ("hog", 1, -5, (0, 2), (500000, (0, 1, 2, 3)))
    }
    (periodic,) = LoadLine.parse("t per n=1 run=2000 sleep=8000 rnd=20").tasks([3], 0)
    assert periodic == sl.Periodic(run_us=2000, sleep_us=8000, spread_pct=20, start_us=3)
    (barrier,) = LoadLine.parse("t bar n=8 run=1000 imb=10 wait=1 jit=50").tasks([0] * 8, 1)
    assert barrier == sl.Barrier(n=8, run_us=1000, imbalance_pct=10, wait="futex", jitter_us=50)
    (spinning,) = LoadLine.parse("t bar n=8 run=1000 wait=0 jit=50").tasks([0] * 8, 0)
    assert spinning == sl.Barrier(n=8, run_us=1000, wait="spin", jitter_us=0)
    pairs = LoadLine.parse("t pp n=2 run=100").tasks([1, 2, 3, 4], 0)
    assert pairs == [sl.PingPong(run_us=100, start_us=1), sl.PingPong(run_us=100, start_us=3)]
    (storm,) = LoadLine.parse("t fork n=200 run=3000 gap=50").tasks([1000], 0)
    assert storm == sl.ForkStorm(n=200, run_us=3000, gap_us=50, start_us=1000)


@pytest.mark.parametrize(
    "line", ["hog n=1", "t cow n=1", "t hog n=one", "t hog mask=15", "t hog run=5", "t per n=1 colour=3"]
)
def test_a_load_line_that_is_not_understood_is_refused(line: str) -> None:
    with pytest.raises(ValueError, match="load = "):
        LoadLine.parse(line)


def test_the_same_on_one_thread_and_on_two(tmp_path: Path) -> None:
    for name in ("A1-0", "A3-0", "A3-1", "D2-0"):
        (tmp_path / f"{name}.json.gz").write_bytes((RECORDINGS / "6.1" / f"{name}.json.gz").read_bytes())
    assert (
        compare_recordings(tmp_path, threads=1).measures == compare_recordings(tmp_path, threads=2).measures
    )


def test_a_trace_opens_with_the_tasks_asleep_and_only_the_load_is_measured() -> None:
    recording = read("6.1/A1-0")
    kernel = recording.kernel_model()
    assert isinstance(kernel, sl.Kernel)
    scenario = sl.Scenario(recording.machine(), kernel, recording.work()).to_json()
    trace = _core.simulate_trace(scenario, 0)
    assert trace["end_ns"] - trace["start_ns"] == 10_000_000_000
    before = trace["time_ns"] < trace["start_ns"]
    last = dict(zip(trace["task"][before].tolist(), trace["state"][before].tolist(), strict=True))
    assert [last[task] for task in range(1, 6)] == [0] * 5
    assert (np.diff(trace["time_ns"].astype(np.int64)) >= 0).all()
    seeds, background = np.array([0], dtype=np.uint64), len(recording.kernel_threads())
    (alone,) = _core.simulate_derived(scenario, seeds, 1, background)
    (together,) = _core.simulate_derived(scenario, seeds, 1)
    # Five hogs are measured as such; with the kernel threads among them, the load is a mixed one.
    assert alone["cpu_share_by_class.nice0_mean"] == pytest.approx(0.8, abs=0.01)
    assert "cpu_share_by_class.nice0_mean" not in together
    with pytest.raises(ValueError, match=r"background = 99: must be at most the entries"):
        _core.simulate_derived(scenario, seeds, 1, 99)
    hackbench = sl.Scenario(recording.machine(), kernel, sl.Hackbench(groups=1, loops=1)).to_json()
    with pytest.raises(ValueError, match=r"workload.kind = "):
        _core.simulate_derived(hackbench, seeds, 1)


def test_kernels_without_a_model_are_listed(tmp_path: Path) -> None:
    fields = dict(read("6.1/A3-0").fields)
    write(tmp_path, "A3-0", {**fields, "kernel": "9.9"})
    comparison = compare_recordings(tmp_path)
    assert comparison.measures == ()
    assert comparison.not_modelled == {("9.9", "A3"): "kernel 9.9 is not modelled"}
    assert "9.9 A3: not modelled" in repr(comparison)
    assert comparison.status == 0
    assert "9.9" not in LINES


def test_the_command_prints_shares_and_writes_every_measure(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "recordings"
    folder.mkdir()
    for seed in (0, 1):
        source = RECORDINGS / "6.1" / f"A3-{seed}.json.gz"
        (folder / source.name).write_bytes(source.read_bytes())
    target = tmp_path / "out.json"
    assert main(["verify", "--recordings", str(folder), "--json", str(target)]) == 0
    assert "kernel  scenario  measures  inside  share" in capsys.readouterr().out
    written = json.loads(target.read_text())
    rows = {row["measure"]: row for row in written["recordings"]}
    row = rows["balanced_counts_from_ms"]
    assert (row["scenario"], row["kernel"]) == ("A3", "6.1")
    recorded = [read(f"6.1/A3-{seed}").fields["derived"]["balanced_counts_from_ms"] for seed in (0, 1)]
    assert (row["recorded_min"], row["recorded_max"]) == (min(recorded), max(recorded))
    assert row["simulated_min"] <= row["simulated_mean"] <= row["simulated_max"]
    assert isinstance(row["inside"], bool)


def test_folders_and_files_that_are_not_recordings_are_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(ValueError, match=r"recordings = .*must be a folder"):
        compare_recordings(tmp_path / "none")
    with pytest.raises(ValueError, match=r"recordings = .*must hold recordings"):
        compare_recordings(tmp_path)
    (tmp_path / "A1-0.json.gz").write_bytes(b"no")
    with pytest.raises(ValueError, match=r"recordings = 'A1-0.json.gz': cannot be read"):
        compare_recordings(tmp_path)
    write(tmp_path, "A1-0", {"format": "other"})
    with pytest.raises(ValueError, match=r"must be an object of format"):
        compare_recordings(tmp_path)
    write(tmp_path, "A1-0", {"format": "sched-recording-1", "kernel": "6.1"})
    assert main(["verify", "--recordings", str(tmp_path)]) == 2
    assert "must have a field `scenario`" in capsys.readouterr().err
