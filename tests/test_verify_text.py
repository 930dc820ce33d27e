"""Vector files through the binding: what `schedlab verify` stands on."""

import gzip
from pathlib import Path

import pytest

from schedlab import _core

VECTORS = Path(__file__).parent / "vectors"
ARITHMETIC = [
    "calc_delta.jsonl",
    "calc_delta_fair.jsonl",
    "loadavg.jsonl",
    "nice_weights.json",
    "pelt_halflife_seq.jsonl.gz",
    "pelt_halflife_unit.jsonl",
    "pelt_modern_seq.jsonl.gz",
    "pelt_modern_unit.jsonl",
    "pelt_old_seq.jsonl.gz",
    "pelt_tables.json",
]


def content(path: Path) -> bytes:
    data = path.read_bytes()
    return gzip.decompress(data) if path.suffix == ".gz" else data


@pytest.mark.parametrize("name", ARITHMETIC)
def test_the_kernels_vectors_pass(name: str) -> None:
    report = _core.verify_text(name, content(VECTORS / "arithmetic" / name))
    assert report["family"] == name.split(".")[0]
    assert report["modelled"] is True
    assert report["cases"] > 0
    assert (report["failed"], report["first_failures"]) == (0, [])


def test_an_altered_vector_fails_and_is_named() -> None:
    name = "pelt_old_seq.jsonl.gz"
    lines = content(VECTORS / "arithmetic" / name).splitlines()
    assert lines[7].endswith(b"]]}")
    digit = lines[7][-4:-3]
    lines[7] = lines[7][:-4] + (b"1" if digit == b"0" else b"0") + b"]]}"
    report = _core.verify_text(name, b"\n".join(lines))
    assert report["failed"] == 1
    (failure,) = report["first_failures"]
    assert "line 8" in failure
    assert "po-" in failure


def test_bytes_that_are_no_case_fail_without_an_exception() -> None:
    report = _core.verify_text("loadavg.jsonl", b"\xff\xfe\x00\n{}\nnull")
    assert (report["cases"], report["failed"]) == (3, 3)
