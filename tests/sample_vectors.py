"""Makes the sample of vectors that ships with the package from the whole files under tests/vectors.

Run from the repository: `python tests/sample_vectors.py`. The sample is the same each time: of each family
that this version models, the lines at equal distances through its file, as many as fit.
"""

from __future__ import annotations

import gzip
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
VECTORS = ROOT / "tests" / "vectors"
SAMPLE = ROOT / "python" / "schedlab" / "data" / "vectors"

BUDGET_BYTES = 2 * 1024 * 1024
"""What the whole sample may take."""

FILE_BYTES = 64 * 1024
"""What one file of it may take, compressed."""

MODELLED = (
    "calc_delta",
    "calc_delta_fair",
    "eevdf_deadline",
    "eevdf_place",
    "eevdf_reweight",
    "eevdf_state",
    "group_shares",
    "loadavg",
    "nice_weights",
    "pelt_halflife_seq",
    "pelt_halflife_unit",
    "pelt_modern_seq",
    "pelt_modern_unit",
    "pelt_old_seq",
    "pelt_tables",
    "smpnice_2_6",
    "detach-v5.4",
    "detach-v5.5",
    "detach-v5.6",
    "detach-v5.7",
    "detach-v6.12",
    "fbg-v5.4",
    "fbg-v5.5",
    "fbg-v5.6",
    "fbg-v5.7",
    "fbg-v6.12",
    "idlest-v5.5",
    "idlest-v5.6",
    "idlest-v5.7",
    "idlest-v6.12",
    "numa-v5.6",
    "numa-v5.7",
    "numa-v6.12",
    "o1-v2.6.15",
    "o1-v2.6.16-mm-smpnice",
    "swb-v5.7",
    "swb-v6.12",
    "wakeaffine-v5.4",
    "wakeaffine-v5.7",
    "wakeaffine-v6.12",
    "wakewide-all",
    "domains-5.10",
    "domains-6.1",
    "domains-6.1-arm64",
    "domains-6.12",
    "domains-6.12-arm64",
    "domains-7.3",
)


def main() -> None:
    """Writes the sample and says what it takes."""
    files = sample()
    SAMPLE.mkdir(parents=True, exist_ok=True)
    for old in SAMPLE.glob("*.json*"):
        old.unlink()
    for name, data in files.items():
        (SAMPLE / name).write_bytes(data)
    total = sum(map(len, files.values()))
    print(f"{len(files)} files, {total} bytes of at most {BUDGET_BYTES}")
    if total > BUDGET_BYTES:
        sys.exit("the sample is too large")


def sample() -> dict[str, bytes]:
    """File name to contents, for every modelled family."""
    sources = {path.name.split(".json")[0]: path for path in VECTORS.glob("*/*.json*")}
    return dict(_sampled(sources[family]) for family in MODELLED)


def _sampled(source: Path) -> tuple[str, bytes]:
    raw = source.read_bytes()
    text = gzip.decompress(raw) if source.suffix == ".gz" else raw
    name = source.name.removesuffix(".gz")
    if name.endswith(".json"):
        return name, text
    lines = text.splitlines(keepends=True)
    count = len(lines)
    while len(data := _compressed(lines, count)) > FILE_BYTES:
        count = min(count - 1, max(1, count * FILE_BYTES // len(data)))
    return f"{name}.gz", data


def _compressed(lines: list[bytes], count: int) -> bytes:
    """`count` of the lines, at equal distances, compressed without a time stamp."""
    chosen = (lines[i * len(lines) // count] for i in range(count))
    return gzip.compress(b"".join(chosen), compresslevel=9, mtime=0)


if __name__ == "__main__":
    main()
