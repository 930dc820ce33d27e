from __future__ import annotations

import gzip
import json
import re
import time
from pathlib import Path

import pytest

import sample_vectors
from common import VECTORS
from schedlab.verify import vector_files, verify


def test_the_sample_that_ships_agrees_in_every_family() -> None:
    outcome = verify()
    assert outcome.failed == 0
    assert outcome.status == 0
    families = {family.name: family for family in outcome.families}
    assert set(families) == set(sample_vectors.MODELLED)
    assert all(family.modelled and family.cases > 0 for family in families.values())


def test_every_vector_of_todays_families_agrees_within_a_minute() -> None:
    start = time.perf_counter()
    outcome = verify(VECTORS)
    took_s = time.perf_counter() - start
    assert [family for family in outcome.families if family.failed] == []
    families = {family.name: family for family in outcome.families}
    for name in sample_vectors.MODELLED:
        assert families[name].modelled, f"{name} is not replayed"
    for path in vector_files(VECTORS):
        family = families[path.name.split(".json")[0]]
        if family.modelled and ".jsonl" in path.name:
            data = path.read_bytes()
            lines = (gzip.decompress(data) if path.suffix == ".gz" else data).splitlines()
            assert family.cases >= len(lines), path.name
    assert took_s < 60


@pytest.mark.parametrize(
    ("source", "number"),
    [
        ("balance/fbg-v5.7.jsonl.gz", r'"imb":(-?\d+)'),
        ("balance/swb-v5.7.jsonl.gz", r'"balance":(\d+)'),
        ("balance/detach-v5.6.jsonl.gz", r'"imb":(-?\d+)'),
        ("balance/wakewide-all.jsonl", r'"wide":(\d+)'),
        ("arithmetic/calc_delta.jsonl", r'"out":(\d+)'),
        ("arithmetic/pelt_modern_seq.jsonl.gz", r"(\d+)"),
        ("domains/domains-6.12.jsonl.gz", r'"imbalance_pct":(\d+)'),
    ],
)
def test_a_vector_that_was_altered_is_noticed_and_named(source: str, number: str, tmp_path: Path) -> None:
    path = VECTORS / source
    data = path.read_bytes()
    lines = (gzip.decompress(data) if path.suffix == ".gz" else data).decode().splitlines()[:6]
    *_, last = re.finditer(number, lines[4])
    start, end = last.span(1)
    changed = str(int(last[1]) + 1) if last[1] not in ("0", "1") else str(1 - int(last[1]))
    lines[4] = lines[4][:start] + changed + lines[4][end:]
    (tmp_path / path.name.removesuffix(".gz")).write_text("\n".join(lines) + "\n")
    outcome = verify(tmp_path)
    assert outcome.status == 1
    (family,) = outcome.families
    assert (family.cases, family.failed, len(family.first_failures)) == (6, 1, 1)
    case = json.loads(lines[4])
    name = case.get("id", case.get("name"))
    if name is not None:
        assert re.search(rf"\b{name}\b", family.first_failures[0]), family.first_failures[0]
    assert family.first_failures[0] in repr(outcome)


def test_lines_and_files_that_cannot_be_read_are_failures(tmp_path: Path) -> None:
    good = (VECTORS / "arithmetic" / "loadavg.jsonl").read_text().splitlines()[:2]
    (tmp_path / "loadavg.jsonl").write_text("\n".join([*good, '{"load": 1', '{"exp": 3}']) + "\n")
    whole = (VECTORS / "balance" / "swb-v5.7.jsonl.gz").read_bytes()
    (tmp_path / "swb-v5.7.jsonl.gz").write_bytes(whole[: len(whole) // 2])
    outcome = verify(tmp_path)
    families = {family.name: family for family in outcome.families}
    assert (families["loadavg"].cases, families["loadavg"].failed) == (4, 2)
    assert families["swb-v5.7"].failed == 1
    assert "cannot be read" in families["swb-v5.7"].first_failures[0]
    assert outcome.status == 1


def test_families_without_a_model_are_listed_and_not_counted(tmp_path: Path) -> None:
    (tmp_path / "loadavg.jsonl").write_bytes((VECTORS / "arithmetic" / "loadavg.jsonl").read_bytes())
    for name in ("notes.json", "of_a_later_day.jsonl"):
        (tmp_path / name).write_text("{}\n")
    outcome = verify(tmp_path)
    content = outcome.to_dict()
    assert content["families"] == {"loadavg": {"cases": 442, "failed": 0, "first_failures": []}}
    assert content["not_modelled"] == ["notes", "of_a_later_day"]
    assert "not modelled" in repr(outcome)
    assert outcome.cases == 442


def test_a_folder_without_vectors_does_not_pass(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"vectors = .*must hold vectors"):
        verify(tmp_path)
    with pytest.raises(ValueError, match=r"vectors = .*must be a folder"):
        verify(tmp_path / "none")
    with pytest.raises(ValueError, match="threads = 0"):
        verify(threads=0)
    (tmp_path / "of_a_later_day.jsonl").write_text("{}\n")
    with pytest.raises(ValueError, match="modelled"):
        verify(tmp_path)


def test_the_sample_is_small_and_made_of_the_real_vectors() -> None:
    sample = {path.name: path.read_bytes() for path in vector_files(sample_vectors.SAMPLE)}
    made = sample_vectors.sample()
    assert set(sample) == set(made)
    assert sum(map(len, sample.values())) <= sample_vectors.BUDGET_BYTES
    for name, data in sample.items():
        if name.endswith(".gz"):
            # Two versions of zlib may pack the same lines into other bytes, so that a line more or less fits.
            lines, again = (gzip.decompress(packed).splitlines() for packed in (data, made[name]))
            assert len(lines) == len(set(lines)) or name.startswith(("pelt", "calc", "loadavg"))
            assert abs(len(lines) - len(again)) <= 0.02 * len(again)
            source = next(VECTORS.glob(f"*/{name.removesuffix('.gz')}*")).read_bytes()
            whole = gzip.decompress(source) if source[:2] == b"\x1f\x8b" else source
            assert set(lines) <= set(whole.splitlines())
        else:
            assert data == made[name]
