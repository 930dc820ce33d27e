from __future__ import annotations

import dataclasses
import importlib
import json
from typing import Any

import numpy as np
import pytest

import schedlab as sl
from schedlab import tables
from schedlab.reproduce import REFERENCE_ROW, Laboratory, summary
from schedlab.statistics import Gain
from schedlab.verdict import AGREES, DISAGREES, WITHIN_NOISE, ratio_verdict, verdict

ROW_FIELDS = {
    "row",
    "published_base",
    "published_patched",
    "published_gain_pct",
    "published_noise_pct",
    "simulated_base",
    "simulated_patched",
    "simulated_gain_pct",
    "ci_low_pct",
    "ci_high_pct",
    "calibrated",
    "verdict",
    "seeds",
    "wall_s",
    "version",
}


SMALL_TABLES = ("hackbench-arm64-dual-quad", "classification-octo", "hackbench-octo-v3")
"""Tables that run at the published size."""


@pytest.fixture(scope="module")
def laboratory() -> Laboratory:
    """Three seeds of every small table, each scenario run once."""
    return Laboratory(seeds=3)


@pytest.mark.parametrize(
    ("g", "s", "simulated", "expected"),
    [
        # A published gain inside its noise: the simulated interval has to meet the noise band, no more.
        (0.2, 4.0, (0.3, -1.0, 1.6), WITHIN_NOISE),
        (-3.9, 4.0, (3.0, 2.0, 5.0), WITHIN_NOISE),
        (4.0, 4.0, (8.0, 4.0, 12.0), WITHIN_NOISE),
        (0.0, 0.0, (0.0, 0.0, 0.0), WITHIN_NOISE),
        # Inside the noise, but the simulation is clearly outside it: the other rules decide.
        (3.0, 4.0, (6.0, 4.1, 8.0), AGREES),
        (-3.0, 4.0, (6.0, 4.1, 8.0), DISAGREES),
        (1.0, 1.5, (5.0, 4.0, 6.0), DISAGREES),
        # A published gain beyond its noise: sign, interval, distance.
        (6.0, 2.0, (9.9, 8.0, 12.0), AGREES),
        (6.0, 2.0, (10.1, 8.0, 12.0), DISAGREES),
        (6.0, 2.0, (2.0, -1.0, 5.0), AGREES),
        (6.0, 2.0, (-0.1, -3.0, 3.0), DISAGREES),
        (6.0, 9.0, (-20.0, -21.0, -19.0), DISAGREES),
        (-6.0, 2.0, (-4.0, -5.0, -3.0), AGREES),
        (-6.0, 2.0, (4.0, 3.0, 5.0), DISAGREES),
        # The band never falls below two points.
        (3.0, 0.1, (1.0, 0.5, 1.5), AGREES),
        (3.0, 0.1, (0.9, 0.5, 1.5), DISAGREES),
    ],
)
def test_the_rule_of_gains(g: float, s: float, simulated: tuple[float, float, float], expected: str) -> None:
    assert verdict(g, s, Gain(*simulated)) == expected


@pytest.mark.parametrize(
    ("shares", "expected"),
    [
        ([(60.0, 65.0), (32.0, 27.0)], AGREES),
        ([(60.0, 65.1), (32.0, 32.0)], DISAGREES),
        ([(60.0, 60.0), (32.0, 26.9)], DISAGREES),
        ([(0.0, 0.0), (0.0, 4.9)], AGREES),
    ],
)
def test_the_rule_of_shares(shares: list[tuple[float, float]], expected: str) -> None:
    assert verdict(0.0, 1.0, Gain(99.0, 98.0, 100.0), shares) == expected


def test_the_tables_say_what_the_mail_says() -> None:
    rows = tables.named("hackbench-arm64-dual-quad").rows()
    assert [(row.label, row.full.loops, row.full.groups) for row in rows] == [
        ("1", 2560, 1),
        ("4", 640, 4),
        ("8", 320, 8),
        ("16", 160, 16),
    ]
    assert (rows[0].base, rows[0].patched, rows[0].gain_pct) == (1.327, 1.247, 5.97)
    assert {row.work().messages for row in rows} == {1_024_000}
    assert rows[0].work().ipc == "socket"
    cells = {row.label: row for row in tables.named("classification-octo").rows()}
    assert len(cells) == 19
    assert (cells["has_spare 4+"].base, cells["has_spare 4+"].patched) == (851, 0)
    assert sum(1 for row in cells.values() if row.base or row.patched) == 13
    octo = tables.named("hackbench-octo-v3").rows()
    assert [row.patched for row in octo] == [1.191, 1.147, 1.112, 1.163]
    assert {row.base for row in octo} == {None}


def test_the_tables_are_listed() -> None:
    frame = tables.published()
    assert dict(zip(frame.name, frame["rows"], strict=True)) == {
        "hackbench-arm64-dual-quad": 4,
        "classification-octo": 19,
        "hackbench-octo-v3": 4,
        "hackbench-arm64-224": 7,
        "hackbench-power9": 9,
        "hackbench-pipes-i7": 9,
        "hackbench-sockets-i7": 9,
        "lu-quartiles-8node": 8,
        "lu-nodes-8node": 8,
        "tbench4-i7": 8,
        "kernbench-2cpu": 6,
    }


def test_lu_is_read_by_setting_and_statistic() -> None:
    times = {row.label: row for row in tables.named("lu-quartiles-8node").rows()}
    starving = times["GROUP numa_balancing=1 median"]
    assert (starving.base, starving.patched) == (519.06, 128.63)
    assert starving.tunables == (("numa_balancing", True),)
    assert starving.full == sl.LuOmp(156, hogs=2, cgroups="separate")
    assert times["NORMAL numa_balancing=0 median"].full.cgroups == "shared"
    spread = times["GROUP numa_balancing=1 spread"]
    assert spread.base == pytest.approx(1303.18 / 243.12)
    nodes = {row.label: row for row in tables.named("lu-nodes-8node").rows()}
    # The runs' fullest nodes have 36.69, 24.91, 21.80, 28.85 and 30.36 threads, their emptiest 0, 9.49,
    # 11.84, 6.53 and 6.20.
    assert nodes["GROUP numa_balancing=1 fullest"].base == 28.85
    assert nodes["GROUP numa_balancing=1 emptiest"].base == 6.53


def test_distributions_are_judged_by_ratio(monkeypatch: pytest.MonkeyPatch) -> None:
    assert ratio_verdict([(100.0, 125.0), (125.0, 100.0)]) == AGREES
    assert ratio_verdict([(100.0, 100.0), (100.0, 126.0)]) == DISAGREES
    assert ratio_verdict([(100.0, 79.0), (100.0, 100.0)]) == DISAGREES
    rows = [
        dataclasses.replace(row, full=sl.LuOmp(4, problem_class="A", steps=2, hogs=1, sample_s=0.01))
        for row in tables.named("lu-quartiles-8node").rows()[-2:] + tables.named("lu-nodes-8node").rows()[-1:]
    ]
    monkeypatch.setattr(tables.Table, "rows", lambda _table: rows)
    done = Laboratory(seeds=7).reproduce("lu-quartiles-8node")
    median, spread, emptiest = done.rows
    base, patched = (
        sl.simulate(
            sl.Machine.named("xeon-e7-8node-160"),
            tables.kernel(name).with_tunables(numa_balancing=False),
            rows[0].full,
            seeds=7,
        )
        for name in ("v5.4", "v5.4+lb-rework-v4")
    )
    times = [np.sort(runs.metrics.time_s.to_numpy()) for runs in (base, patched)]
    assert (median.simulated_base, median.simulated_patched) == (times[0][3], times[1][3])
    assert median.simulated.pct == pytest.approx(100 * (1 - times[1][3] / times[0][3]))
    # Of seven runs the first five make a lot as large as the mail's.
    first = base.metrics.time_s.to_numpy()[:5]
    assert spread.simulated_base == pytest.approx(first.max() / first.min())
    counts = [runs.node_counts().drop(columns="samples").min(axis=1).median() for runs in (base, patched)]
    assert (emptiest.simulated_base, emptiest.simulated_patched) == tuple(counts)
    assert median.calibrated and not spread.calibrated
    assert "within 1.25 times" in done.rule


def test_rows_of_large_tables_run_shorter_and_say_so() -> None:
    sockets = tables.named("hackbench-sockets-i7")
    last = sockets.rows()[-1]
    assert last.work() == sl.Hackbench(groups=96, loops=10_000, cgroup=True)
    short = last.work(tables.MOST_MESSAGES)
    assert short == sl.Hackbench(groups=96, loops=104, cgroup=True)
    assert last.stretch(tables.MOST_MESSAGES) == 10_000 / 104
    assert sockets.rows()[0].work(tables.MOST_MESSAGES).loops == 10_000, (
        "4,000,000 messages are the whole row"
    )
    assert {row.work().ipc for row in tables.named("hackbench-pipes-i7").rows()} == {"pipe"}
    power9 = tables.named("hackbench-power9").rows()[-1]
    assert (power9.base, power9.patched, power9.gain_pct, power9.full.loops) == (54.81, 55.5, None, 500)


def test_a_large_table_stretches_its_times_to_the_published_size(monkeypatch: pytest.MonkeyPatch) -> None:
    table = dataclasses.replace(tables.named("hackbench-pipes-i7"), most=8_000, seeds=2)
    monkeypatch.setitem(tables.TABLES, table.name, table)
    done = sl.reproduce(table.name)
    assert done.seeds == 2
    first, last = done.rows[0], done.rows[-1]
    assert (first.published_base, last.published_base) == (0.5837, 18.497)
    short = tables.kernel(table.base), table.rows()[-1].work(8_000)
    alone = sl.simulate(sl.Machine.named(table.machine), *short, seeds=2).metrics.time_s.mean()
    assert last.simulated_base == pytest.approx(float(alone) * 10_000)
    text = repr(done)
    assert "at most 8000 messages a row" in text and "v6.12+eligible-first" in text
    assert "stretched to the published loops" in " ".join(text.split())


def test_an_unknown_table_is_refused_with_near_names() -> None:
    with pytest.raises(ValueError, match=r"table = 'hackbench-octo'.*did you mean hackbench-octo-v3"):
        sl.reproduce("hackbench-octo")
    with pytest.raises(ValueError, match="seeds = 0"):
        sl.reproduce("classification-octo", seeds=0)


def test_times_have_the_fields_of_the_contract(laboratory: Laboratory) -> None:
    done = laboratory.reproduce("hackbench-arm64-dual-quad")
    whole = json.loads(json.dumps(done.to_dict()))
    assert {"table", "machine", "base", "patched", "metric", "unit", "rows"} <= set(whole)
    assert (whole["table"], whole["base"], whole["patched"]) == ("hackbench-arm64-dual-quad", "v5.6", "v5.7")
    assert all(set(row) >= ROW_FIELDS for row in whole["rows"])
    assert [row["row"] for row in whole["rows"]] == ["1", "4", "8", "16"]
    for row in whole["rows"]:
        gain = 100 * (1 - row["simulated_patched"] / row["simulated_base"])
        assert row["simulated_gain_pct"] == pytest.approx(gain)
        assert row["ci_low_pct"] <= row["simulated_gain_pct"] <= row["ci_high_pct"]
        simulated = Gain(row["simulated_gain_pct"], row["ci_low_pct"], row["ci_high_pct"])
        assert row["verdict"] == verdict(row["published_gain_pct"], row["published_noise_pct"], simulated)
    assert whole["rows"][0]["published_noise_pct"] == pytest.approx((10.06**2 + 5.45**2) ** 0.5)
    assert whole["seeds"] == 3


def test_calibrated_rows_are_the_ones_that_the_costs_were_fitted_on(laboratory: Laboratory) -> None:
    done = laboratory.reproduce("hackbench-arm64-dual-quad")
    record = tables.calibration("arm64-dual-quad")
    fitted = [row.row for row in done.rows if row.calibrated]
    assert fitted == ([] if record is None else [record["row"]])
    assert not any(row.calibrated for row in laboratory.reproduce("classification-octo").rows)


def test_classification_is_compared_as_shares(laboratory: Laboratory) -> None:
    done = laboratory.reproduce("classification-octo")
    rows = {row.row: row for row in done.rows}
    assert len(rows) == 19
    for row in rows.values():
        assert row.shares_pct is not None
    for side in range(4):
        states = [rows[f"{state} all"].shares_pct for state in ("has_spare", "fully_busy", "overloaded")]
        assert sum(shares[side] for shares in states if shares) == pytest.approx(100.0)
    spare = rows["has_spare all"]
    assert spare.shares_pct is not None
    assert spare.shares_pct[:2] == pytest.approx((59.94, 32.19), abs=0.01)
    assert spare.simulated.pct == pytest.approx(spare.shares_pct[3] - spare.shares_pct[2])
    assert spare.simulated.low <= spare.simulated.pct <= spare.simulated.high
    total = rows["total all"]
    assert total.published_gain_pct == pytest.approx(100 * (6008 / 6628 - 1))
    change = 100 * (total.simulated_patched / total.simulated_base - 1)
    assert total.simulated.pct == pytest.approx(change)
    assert total.simulated.low <= total.simulated.pct <= total.simulated.high


def test_runnable_avg_takes_away_spare_groups_with_tasks_waiting(laboratory: Laboratory) -> None:
    rows = {row.row: row.shares_pct for row in laboratory.reproduce("classification-octo").rows}
    crowded = [rows[f"has_spare {nr}"] for nr in ("2", "3", "4+")]
    base, patched = (sum(shares[side] for shares in crowded if shares) for side in (2, 3))
    assert base > 10.0, "v5.6 calls many crowded CPUs spare"
    assert patched < 1.0, "v5.7 calls almost none so"


def test_levels_are_taken_against_the_reference(laboratory: Laboratory) -> None:
    done = laboratory.reproduce("hackbench-octo-v3")
    times = laboratory.reproduce("hackbench-arm64-dual-quad")
    patched = {row.row: row.simulated_patched for row in times.rows}
    for row in done.rows:
        assert row.published_base == 1.112
        assert row.simulated_base == patched[REFERENCE_ROW]
        assert row.simulated_patched == patched[row.row]
        assert row.published_gain_pct == pytest.approx(100 * (1 - row.published_patched / 1.112))
        assert row.calibrated == (row.row == REFERENCE_ROW)
    assert any("prints no base" in note for note in done.notes)
    # The reference against itself is one of the verdicts, which has to be said.
    assert f"Calibrated ones among them: row {REFERENCE_ROW}, within noise." in str(done)


def test_a_scenario_that_tables_share_runs_once(monkeypatch: pytest.MonkeyPatch) -> None:
    module = importlib.import_module("schedlab.reproduce")
    seen: list[tuple[str, str, int]] = []
    simulate = module.simulate

    def counted(machine: Any, kernel: Any, work: Any, *rest: Any) -> sl.Runs:
        seen.append((machine.name, kernel.label, work.groups))
        short = sl.Hackbench(groups=work.groups, loops=2)
        result: sl.Runs = simulate(machine, kernel, short, *rest)
        return result

    monkeypatch.setattr(module, "simulate", counted)
    laboratory = Laboratory(seeds=2)
    for table in SMALL_TABLES:
        laboratory.reproduce(table)
    assert len(seen) == len(set(seen)) == 8


def test_the_table_prints_both_columns_the_rule_and_what_moved_it(laboratory: Laboratory) -> None:
    done = laboratory.reproduce("hackbench-arm64-dual-quad")
    text = " ".join(repr(done).split())
    for part in ("base pub", "base sim", "1.327", "within noise", "Rule: g, s:", "has_spare groups"):
        assert part in text
    html = done._repr_html_()
    assert html.count("<table>") == 2
    assert "1.327" in html
    assert len(done.to_pandas()) == 4


def test_the_summary_counts_verdicts(laboratory: Laboratory) -> None:
    done = [laboratory.reproduce(table) for table in SMALL_TABLES]
    counts = summary(done)
    assert counts["tables"] == 3
    assert counts["rows"] == 27 == sum(counts[name] for name in (AGREES, WITHIN_NOISE, DISAGREES))
