from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import schedlab as sl
from schedlab.statistics import gain_pct, mean, paired_gain, stddev

TIMES = st.lists(st.floats(0.5, 2.0), min_size=2, max_size=20)


def frame(values: list[float], metric: str = "time_s", label: str = "", seeds: Any = None) -> pd.DataFrame:
    result = pd.DataFrame({"seed": range(len(values)) if seeds is None else seeds, metric: values})
    result.attrs = {"label": label}
    return result


def test_the_gain_is_the_part_of_the_time_saved() -> None:
    row = sl.compare(frame([1.0, 3.0]), frame([0.9, 2.7])).to_pandas().iloc[0]
    assert row.mean_a == 2.0
    assert row.mean_b == pytest.approx(1.8)
    assert row.gain_pct == pytest.approx(10.0)
    assert row.stddev_a == pytest.approx(np.sqrt(2.0))
    assert row.coeffvar_a_pct == pytest.approx(100 * np.sqrt(2.0) / 2)
    assert (row.min_a, row.max_a, row.seeds) == (1.0, 3.0, 2)


def test_pairing_takes_out_what_the_seed_does_to_both() -> None:
    spread = np.linspace(0.5, 1.5, 30)
    row = sl.compare(frame(list(spread)), frame(list(0.95 * spread))).to_pandas().iloc[0]
    assert row.ci_low_pct == pytest.approx(5.0)
    assert row.ci_high_pct == pytest.approx(5.0)
    assert row.significant


def test_the_interval_covers_the_true_gain_about_95_times_in_100() -> None:
    draw = np.random.default_rng(7)
    hits = 0
    for _ in range(200):
        a = draw.normal(1.0, 0.05, 40)
        b = draw.normal(0.98, 0.05, 40)
        gain = paired_gain(a, b)
        hits += gain.low <= 2.0 <= gain.high
    assert 180 <= hits <= 199


def test_throughput_is_better_when_higher_and_averaged_as_a_rate() -> None:
    row = (
        sl.compare(frame([100.0, 300.0], "throughput"), frame([110.0, 330.0], "throughput"), "throughput")
        .to_pandas()
        .iloc[0]
    )
    assert row.mean_a == pytest.approx(150.0)
    assert row.gain_pct == pytest.approx(10.0)


def test_the_direction_can_be_said() -> None:
    a, b = frame([10.0, 10.0], "hits"), frame([12.0, 12.0], "hits")
    assert sl.compare(a, b, "hits").to_pandas().gain_pct[0] == pytest.approx(-20.0)
    assert sl.compare(a, b, "hits", higher_is_better=True).to_pandas().gain_pct[0] == pytest.approx(20.0)


def test_seeds_are_paired_by_number_not_by_place() -> None:
    a = frame([1.0, 2.0, 4.0], seeds=[5, 6, 7])
    b = frame([3.6, 0.9, 1.8], seeds=[7, 5, 6])
    row = sl.compare(a, b).to_pandas().iloc[0]
    assert row.ci_low_pct == pytest.approx(10.0)
    assert row.ci_high_pct == pytest.approx(10.0)


def test_the_same_data_give_the_same_interval() -> None:
    a, b = frame([1.0, 1.2, 0.9, 1.1]), frame([1.1, 1.0, 0.8, 1.2])
    assert sl.compare(a, b).to_pandas().equals(sl.compare(a, b).to_pandas())


def test_many_seeds_are_resampled_in_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    a = np.random.default_rng(1).normal(1.0, 0.1, 50)
    b = np.random.default_rng(2).normal(0.9, 0.1, 50)
    whole = paired_gain(a, b)
    monkeypatch.setattr("schedlab.statistics.BLOCK_INDICES", 50 * 37)
    parts = paired_gain(a, b)
    assert parts.pct == whole.pct
    assert (parts.low, parts.high) == pytest.approx((whole.low, whole.high), abs=0.3)


def test_one_seed_has_a_point_for_an_interval() -> None:
    row = sl.compare(frame([2.0]), frame([1.0])).to_pandas().iloc[0]
    assert (row.ci_low_pct, row.gain_pct, row.ci_high_pct, row.stddev_a) == (50.0, 50.0, 50.0, 0.0)


def test_the_text_has_the_blocks_of_mmtests_and_stars() -> None:
    a = {"1": frame([1.0, 1.1, 0.9], label="v5.6"), "4": frame([1.0, 1.1, 0.9], label="v5.6")}
    b = {"1": frame([0.9, 1.0, 0.8], label="v5.7"), "4": frame([1.1, 1.0, 0.9], label="v5.7")}
    text = repr(sl.compare(a, b))
    for name in ("Min", "Amean", "Stddev", "CoeffVar", "Max"):
        assert [line.split()[:2] for line in text.splitlines() if line.startswith(name + " ")] == [
            [name, "1"],
            [name, "4"],
        ]
    means = [line for line in text.splitlines() if line.startswith("Amean")]
    assert means[0].endswith("*  10.00%*")
    assert means[1].endswith("(   0.00%)")
    assert "v5.6" in text
    assert "v5.7" in text


def test_markdown_and_html_have_a_line_a_row() -> None:
    comparison = sl.compare([frame([1.0, 1.1], label="a|b")], [frame([0.9, 1.0], label="<new>")])
    markdown = comparison.to_markdown().splitlines()
    table = [line for line in markdown if line.startswith("|")]
    assert len(table) == 3
    assert "a\\|b" in table[0]
    assert "+9.52*" in table[2]
    html = comparison._repr_html_()
    assert "&lt;new&gt;" in html
    assert html.count("<tr>") == 2


def test_runs_are_named_by_groups_and_kernel(small_runs: Callable[[str], sl.Runs]) -> None:
    comparison = sl.compare(small_runs("v5.6"), small_runs("v5.7"))
    assert comparison.names == ("v5.6", "v5.7")
    assert [row.label for row in comparison.rows] == ["2"]
    assert len(comparison.rows[0].a) == 12


@pytest.mark.parametrize(
    ("a", "b", "metric", "rule"),
    [
        (frame([1.0]), frame([1.0, 2.0]), "time_s", "b = .*same seeds"),
        (frame([1.0]), frame([1.0]), "time_ms", "metric = 'time_ms'.*time_s"),
        (frame([1.0]), frame([1.0]), "seed", "metric = 'seed'"),
        ({"1": frame([1.0])}, {"2": frame([1.0])}, "time_s", "b = .*rows of a"),
        ([], [], "time_s", "a = .*at least one"),
        ([1.0], [1.0], "time_s", "a = .*Runs"),
        (3, 4, "time_s", "a = 3"),
        (frame([]), frame([]), "time_s", "a = .*at least one seed"),
        (frame([1.0]).drop(columns="seed"), frame([1.0]), "time_s", "a = .*`seed`"),
    ],
)
def test_what_cannot_be_compared_is_refused(a: Any, b: Any, metric: str, rule: str) -> None:
    with pytest.raises(ValueError, match=rule):
        sl.compare(a, b, metric)


@given(TIMES, st.data())
@settings(max_examples=25)
def test_properties_of_the_paired_gain(values: list[float], data: st.DataObject) -> None:
    a = np.array(values)
    b = np.array(data.draw(st.lists(st.floats(0.5, 2.0), min_size=len(a), max_size=len(a))))
    gain = paired_gain(a, b)
    assert gain.low <= gain.high
    assert (100 * (1 - (b / a).max())) - 1e-9 <= gain.low
    assert gain.high <= (100 * (1 - (b / a).min())) + 1e-9
    scaled = paired_gain(4.0 * a, 4.0 * b)
    assert (scaled.pct, scaled.low, scaled.high) == pytest.approx((gain.pct, gain.low, gain.high))
    same = paired_gain(a, a)
    assert (same.pct, same.low, same.high) == (0.0, 0.0, 0.0)
    assert not same.significant


def test_gains_of_and_from_nothing() -> None:
    zero, one = np.asarray(0.0), np.asarray(1.0)
    assert gain_pct(zero, zero) == 0.0
    assert gain_pct(zero, one) == -np.inf
    assert gain_pct(one, zero) == 100.0
    assert gain_pct(zero, one, rate=True) == np.inf


def test_means_and_spreads() -> None:
    values = np.array([1.0, 2.0, 4.0])
    assert mean(values, rate=False) == pytest.approx(7 / 3)
    assert mean(values, rate=True) == pytest.approx(3 / 1.75)
    assert stddev(values) == pytest.approx(np.sqrt(7 / 3))
