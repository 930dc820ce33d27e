from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

import schedlab as sl
from common import SMALL
from schedlab import provenance
from schedlab.runs import bitmap
from schedlab.simulate import simulate_scenario

Small = Callable[[str], sl.Runs]


def test_metrics_have_units_and_times_are_seconds(small_runs: Small) -> None:
    metrics = small_runs("v5.6").metrics
    assert metrics.sizes == {"seed": 12}
    assert all(variable.attrs["units"] and variable.attrs["long_name"] for variable in metrics.values())
    assert metrics.time_s.attrs["units"] == "s"
    assert metrics.time_s.dtype == np.float64
    assert ((metrics.time_s > 1e-4) & (metrics.time_s < 10)).all()
    assert not [name for name in metrics if str(name).endswith("_ns")]


def test_throughput_is_messages_over_time(small_runs: Small) -> None:
    metrics = small_runs("v5.6").metrics
    assert np.allclose(metrics.throughput * metrics.time_s, SMALL.messages)
    assert SMALL.messages == 2 * 5 * 5 * 20


def test_the_table_has_one_row_a_seed_and_seed_first(small_runs: Small) -> None:
    frame = small_runs("v5.6").to_pandas()
    assert frame.columns[0] == "seed"
    assert list(frame.seed) == list(range(12))
    assert {"time_s", "throughput"} <= set(frame.columns)


def test_parquet_gives_back_the_table_and_where_it_came_from(small_runs: Small, tmp_path: Path) -> None:
    runs = small_runs("v5.7")
    path = tmp_path / "runs.parquet"
    runs.to_parquet(path)
    frame = sl.read_parquet(path)
    assert frame.equals(runs.to_pandas())
    assert frame.attrs["provenance"] == json.loads(json.dumps(runs.provenance))
    assert frame.attrs["label"] == "v5.7"
    assert [entry.name for entry in tmp_path.iterdir()] == ["runs.parquet"]


def test_a_write_that_fails_leaves_the_old_file(
    small_runs: Small, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "runs.parquet"
    path.write_bytes(b"old")

    def fail(table: object, where: Path, **options: object) -> None:
        Path(where).write_bytes(b"half")
        raise OSError("no space left")

    monkeypatch.setattr(pq, "write_table", fail)
    with pytest.raises(OSError, match="no space"):
        small_runs("v5.6").to_parquet(path)
    assert path.read_bytes() == b"old"
    assert [entry.name for entry in tmp_path.iterdir()] == ["runs.parquet"]


def test_a_file_of_somebody_else_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "other.parquet"
    path.write_bytes(b"not parquet")
    with pytest.raises(ValueError, match=r"path = .*Parquet"):
        sl.read_parquet(path)


def test_classification_adds_up(small_runs: Small) -> None:
    runs = small_runs("v5.6")
    for level in runs.levels:
        frame = runs.classification(level)
        counts = frame["count"]
        states = [state for state in counts.index.unique("group_state") if state != "total"]
        assert {"has_spare", "fully_busy", "overloaded"} <= set(states)
        assert sum(counts[state, "all"] for state in states) == counts["total", "all"] > 0
        for state in states:
            assert counts[state].drop("all").sum() == counts[state, "all"]
        assert frame["share_pct"]["total", "all"] == 100.0
        of_seeds = sum(runs.classification(level, seed=seed)["count"]["total", "all"] for seed in range(12))
        assert of_seeds == counts["total", "all"]
    assert runs.classification().equals(runs.classification(runs.levels[0]))


def test_groups_of_one_cpu_are_never_overloaded_by_less_than_two(small_runs: Small) -> None:
    for kernel in ("v5.6", "v5.7"):
        counts = small_runs(kernel).classification("MC")["count"]
        assert counts["overloaded", "0"] == counts["overloaded", "1"] == 0
        assert all(counts["fully_busy", nr] == 0 for nr in ("0", "2", "3", "4+"))


def test_unknown_levels_and_seeds_are_refused(small_runs: Small) -> None:
    runs = small_runs("v5.6")
    with pytest.raises(ValueError, match=r"level = 'MX'.*did you mean MC"):
        runs.classification("MX")
    with pytest.raises(ValueError, match="seed = 12"):
        runs.classification(seed=12)
    with pytest.raises(ValueError, match=r"seed = 1\.0"):
        runs.schedstat(1.0)  # type: ignore[arg-type]


def test_schedstat_reads_as_version_15(small_runs: Small) -> None:
    lines = small_runs("v5.6").schedstat(seed=3).splitlines()
    assert lines[0] == "version 15"
    assert re.fullmatch(r"timestamp \d+", lines[1])
    cpus = [line.split() for line in lines if line.startswith("cpu")]
    assert [fields[0] for fields in cpus] == [f"cpu{cpu}" for cpu in range(8)]
    assert all(len(fields) == 1 + 9 for fields in cpus)
    domains = [line.split() for line in lines if line.startswith("domain")]
    assert all(len(fields) == 2 + 36 for fields in domains)
    assert [fields[:2] for fields in domains[:2]] == [["domain0", "0f"], ["domain1", "ff"]]
    assert [fields[:2] for fields in domains[-2:]] == [["domain0", "f0"], ["domain1", "ff"]]


def test_levels_of_one_name_are_numbered_and_each_domain_has_its_line() -> None:
    machine = sl.Machine.named("xeon-e7-8node-160")
    runs = sl.simulate(machine, sl.Kernel("v5.6"), sl.Hackbench(groups=4, loops=5), seeds=1)
    numa = [level for level in runs.levels if level.startswith("NUMA")]
    assert numa == ["NUMA", *(f"NUMA-{number}" for number in range(2, len(numa) + 1))]
    assert len(numa) > 1
    lines = runs.schedstat(0).splitlines()
    cpu0 = lines[3 : lines.index(next(line for line in lines if line.startswith("cpu1 ")))]
    assert [line.split()[0] for line in cpu0] == [f"domain{number}" for number in range(len(runs.levels))]
    widths = [int(line.split()[1].replace(",", ""), 16).bit_count() for line in cpu0]
    assert widths == sorted(set(widths))
    assert widths[-1] == 160


def test_schedstat_counts_what_a_scheduler_did(small_runs: Small) -> None:
    text = small_runs("v5.6").schedstat(seed=0)
    cpus = [list(map(int, line.split()[1:])) for line in text.splitlines() if line.startswith("cpu")]
    switches, wakeups = sum(cpu[2] for cpu in cpus), sum(cpu[4] for cpu in cpus)
    ran_ns, turns = sum(cpu[6] for cpu in cpus), sum(cpu[8] for cpu in cpus)
    assert switches >= turns >= SMALL.tasks
    assert wakeups > SMALL.tasks
    simulated_s = float(small_runs("v5.6").metrics.simulated_s[0])
    assert 0 < ran_ns <= 8 * simulated_s * 1e9
    for line in text.splitlines():
        if line.startswith("domain"):
            fields = list(map(int, line.split()[2:]))
            for kind in range(3):
                count, balanced, failed = fields[8 * kind : 8 * kind + 3]
                assert count >= balanced + failed


@given(st.integers(1, 300), st.data())
def test_bitmaps_hold_the_cpus_in_words_of_eight_digits(nr_cpus: int, data: st.DataObject) -> None:
    cpus = data.draw(st.sets(st.integers(0, nr_cpus - 1)))
    text = bitmap(sorted(cpus), nr_cpus)
    head, *rest = text.split(",")
    assert len(head) == -(-(nr_cpus - 32 * len(rest)) // 4)
    assert all(len(word) == 8 for word in rest)
    value = int(text.replace(",", ""), 16)
    assert {cpu for cpu in range(nr_cpus) if value >> cpu & 1} == cpus


def test_provenance_repeats_the_runs_bit_for_bit(small_runs: Small) -> None:
    runs = small_runs("v5.7")
    facts = json.loads(json.dumps(runs.provenance))
    assert facts["schema"] == 1
    assert facts["slots"] == sl.Kernel("v5.7").functions()
    assert facts["scenario"]["workload"]["kind"] == "hackbench"
    again = simulate_scenario(*provenance.scenario_of(facts))
    assert again.to_pandas().equals(runs.to_pandas())
    assert again.provenance["scenario_sha256"] == facts["scenario_sha256"]


def test_provenance_of_another_version_is_refused(small_runs: Small) -> None:
    facts = dict(small_runs("v5.7").provenance, schedlab="0.0.0")
    with pytest.raises(ValueError, match=r"schedlab = '0.0.0'"):
        provenance.scenario_of(facts)


def test_runs_show_themselves(small_runs: Small) -> None:
    runs = small_runs("v5.6")
    assert "hackbench -g 2 -l 20 on arm64-dual-quad under v5.6, 12 seeds" in repr(runs)
    assert "time_s" in repr(runs)
    assert "<table>" in runs._repr_html_()
    assert len(runs) == 12
