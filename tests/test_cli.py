from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

import schedlab as sl
from common import SMALL, VECTORS
from schedlab.cli import main


@pytest.fixture
def scenario(tmp_path: Path) -> Path:
    """A scenario file that names its machine and kernel."""
    path = tmp_path / "scenario.json"
    content = {"machine": "arm64-dual-quad", "kernel": "v5.6", "workload": SMALL.to_dict()}
    path.write_text(json.dumps(content))
    return path


def test_run_prints_the_metrics_and_writes_them(
    scenario: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ["--seeds", "3", "--output", str(tmp_path / "a.parquet"), "--json", str(tmp_path / "a.json")]
    assert main(["run", str(scenario), *arguments]) == 0
    assert "time_s" in capsys.readouterr().out
    machine = sl.Machine.named("arm64-dual-quad")
    runs = sl.simulate(machine, sl.Kernel("v5.6"), SMALL, seeds=3)
    assert sl.read_parquet(tmp_path / "a.parquet").equals(runs.to_pandas())
    content = json.loads((tmp_path / "a.json").read_text())
    assert content["metrics"]["time_s"] == list(runs.metrics.time_s.to_numpy())
    assert content["provenance"]["seeds"] == [0, 1, 2]


def test_run_takes_a_list_of_seeds_and_a_scenario_from_provenance(
    scenario: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["run", str(scenario), "--seeds", "7,5", "--json", str(tmp_path / "a.json")]) == 0
    first = json.loads((tmp_path / "a.json").read_text())
    (tmp_path / "again.json").write_text(json.dumps(first["provenance"]["scenario"]))
    again = ["run", str(tmp_path / "again.json"), "--seeds", "7,5", "--json", str(tmp_path / "b.json")]
    assert main(again) == 0
    assert json.loads((tmp_path / "b.json").read_text())["metrics"] == first["metrics"]
    assert first["metrics"]["seed"] == [7, 5]


def test_compare_reads_what_run_wrote(
    scenario: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    other = json.loads(scenario.read_text()) | {"kernel": {"name": "v5.7"}}
    (tmp_path / "other.json").write_text(json.dumps(other))
    for source, name in ((scenario, "a"), (tmp_path / "other.json", "b")):
        assert main(["run", str(source), "--seeds", "4", "--output", str(tmp_path / f"{name}.parquet")]) == 0
    capsys.readouterr()
    files = [str(tmp_path / "a.parquet"), str(tmp_path / "b.parquet")]
    assert main(["compare", *files]) == 0
    out = capsys.readouterr().out
    assert "Amean" in out
    assert "v5.7" in out
    assert main(["compare", *files, "--metric", "throughput", "--format", "markdown"]) == 0
    assert capsys.readouterr().out.startswith("**throughput**")
    assert main(["compare", *files, "--format", "html"]) == 0
    assert "<table>" in capsys.readouterr().out


def test_reproduce_writes_tables_and_summary(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "out.json"
    assert main(["reproduce", "classification-octo", "--seeds", "2", "--json", str(path)]) == 0
    out = " ".join(capsys.readouterr().out.split())
    assert "has_spare 4+" in out
    assert "5 points" in out
    assert "In all: 1 tables, 19 rows: " in out
    content = json.loads(path.read_text())
    (table,) = content["tables"]
    assert table["table"] == "classification-octo"
    assert len(table["rows"]) == 19 == content["summary"]["rows"]
    assert table["rows"][0]["seeds"] == 2


@pytest.mark.parametrize(
    ("command", "words"),
    [
        (["machines"], ("arm64-dual-quad", "celeron-2cpu")),
        (["kernels"], ("v5.5", "v5.7")),
        (["tables"], ("hackbench-arm64-dual-quad", "classification-octo", "hackbench-octo-v3")),
        (["domains", "arm64-dual-quad", "--kernel", "v5.7"], ("MC", "DIE")),
    ],
)
def test_lists_name_what_there_is(
    command: list[str], words: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(command) == 0
    out = capsys.readouterr().out
    assert all(word in out for word in words)


def test_verify_ends_with_1_and_names_the_case(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    line = (VECTORS / "balance" / "wakewide-all.jsonl").read_text().splitlines()[0]
    path = tmp_path / "wakewide-all.jsonl"
    path.write_text(line + "\n")
    report = tmp_path / "report.json"
    assert main(["verify", "--vectors", str(tmp_path), "--json", str(report)]) == 0
    report.unlink()
    path.write_text(line.replace('"wide":0', '"wide":1') + "\n")
    capsys.readouterr()
    assert main(["verify", "--vectors", str(tmp_path), "--json", str(report)]) == 1
    assert "wakewide" in capsys.readouterr().out
    family = json.loads(report.read_text())["families"]["wakewide-all"]
    assert (family["cases"], family["failed"], len(family["first_failures"])) == (1, 1, 1)


@pytest.mark.parametrize(
    ("command", "words"),
    [
        (["reproduce", "hackbench-arm64-dual-quads"], ("table", "did you mean hackbench-arm64-dual-quad")),
        (["reproduce", "--seeds", "0"], ("seeds", "0")),
        (["reproduce", "--seeds", "two"], ("--seeds", "two")),
        (["run", "no-such-file.json"], ("no-such-file.json",)),
        (["compare", "no-a.parquet", "no-b.parquet"], ("no-a.parquet",)),
        (["domains", "arm64-dual-quat", "--kernel", "v5.7"], ("arm64-dual-quat", "arm64-dual-quad")),
        (["domains", "arm64-dual-quad", "--kernel", "v1.0"], ("v1.0",)),
        (["verify", "--vectors", "no-such-folder"], ("vectors", "no-such-folder")),
        (["calibrate", "vm-2cpu"], ("vm-2cpu",)),
    ],
)
def test_bad_input_is_one_line_and_status_2(
    command: list[str], words: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(command) == 2
    captured = capsys.readouterr()
    assert captured.err.count("\n") == 1
    assert captured.err.startswith("schedlab: ")
    assert all(word in captured.err for word in words), captured.err


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("{", ("scenario", "JSON")),
        ("[]", ("scenario", "object")),
        ('{"machine": "arm64-dual-quad", "kernel": "v5.6"}', ("scenario", "workload")),
        ('{"machine": "arm64-dual-quad", "kernel": "v5.6", "work": {}}', ("work", "workload")),
        ('{"machine": 3, "kernel": "v5.6", "workload": {"kind": "hackbench"}}', ("machine", "3")),
        (
            '{"machine": "arm64-dual-quad", "kernel": "v5.6", "workload": {"kind": "hackbnch"}}',
            ("workload.kind", "hackbench"),
        ),
        (
            '{"machine": "arm64-dual-quad", "kernel": "v5.6", "workload": {"kind": "hackbench", "group": 4}}',
            ("group", "did you mean groups"),
        ),
        (
            '{"machine": "arm64-dual-quad", "costs": {"ipi": 3}, "kernel": "v5.6",'
            ' "workload": {"kind": "hackbench"}}',
            ("ipi",),
        ),
    ],
)
def test_bad_scenarios_are_one_line_and_status_2(
    content: str, words: tuple[str, ...], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "scenario.json"
    path.write_text(content)
    assert main(["run", str(path)]) == 2
    err = capsys.readouterr().err
    assert err.count("\n") == 1
    assert all(word in err for word in words), err


def test_the_command_is_installed() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "schedlab.cli", "--version"], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == f"schedlab {sl.__version__}"
