"""verify: replays vectors of real kernels through the parts and counts what differs."""

from __future__ import annotations

import dataclasses
import gzip
import os
import zlib
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from importlib import resources
from pathlib import Path
from typing import Any

import pandas as pd

from schedlab import _core
from schedlab._arguments import bad_argument, integer
from schedlab._render import html_table, text_table
from schedlab.simulate import MOST_THREADS, default_threads

SUFFIXES = (".jsonl", ".jsonl.gz", ".json", ".json.gz")
"""Files that may hold vectors; what they hold, the core knows by their names."""

FIRST_FAILURES = 5
"""Failures of a family that are shown in full."""


@dataclasses.dataclass(frozen=True)
class Family:
    """The cases of one family.

    Attributes:
        name: the family, such as `fbg-v5.7`.
        modelled: whether this version models it; if not, or if no family has that name, nothing is replayed.
        cases: cases replayed.
        failed: cases in which ours differs from the real kernel.
        first_failures: what differed in the first of them: id, expected, got.
    """

    name: str
    modelled: bool
    cases: int
    failed: int
    first_failures: tuple[str, ...]


@dataclasses.dataclass(frozen=True, repr=False)
class Verification:
    """The outcome of a replay.

    Attributes:
        folder: where the vectors came from.
        families: one entry a family, by name.
    """

    folder: str
    families: tuple[Family, ...]

    @property
    def failed(self) -> int:
        """Number of cases that differ."""
        return sum(family.failed for family in self.families)

    @property
    def cases(self) -> int:
        """Number of cases replayed."""
        return sum(family.cases for family in self.families)

    @property
    def status(self) -> int:
        """The command's exit status: 0 if every case replayed is equal, else 1."""
        return 1 if self.failed else 0

    def to_dict(self) -> dict[str, Any]:
        """The outcome as `--json` has it; families without a model stand apart."""
        return {
            "families": {
                family.name: {
                    "cases": family.cases,
                    "failed": family.failed,
                    "first_failures": list(family.first_failures),
                }
                for family in self.families
                if family.modelled
            },
            "not_modelled": [family.name for family in self.families if not family.modelled],
            "version": _core.VERSION,
        }

    def to_pandas(self) -> pd.DataFrame:
        """One row a family: name, modelled, cases, failed, first_failures."""
        return pd.DataFrame([dataclasses.asdict(family) for family in self.families])

    def _cells(self) -> tuple[list[str], list[list[str]]]:
        rows = [
            [family.name, str(family.cases), str(family.failed)]
            if family.modelled
            else [family.name, "not modelled", ""]
            for family in self.families
        ]
        return ["family", "cases", "failed"], [*rows, ["all", str(self.cases), str(self.failed)]]

    def __repr__(self) -> str:
        """Cases and failures by family, then the first failures."""
        lines = [f"vectors of {self.folder}", text_table(*self._cells())]
        for family in self.families:
            lines += [f"{family.name}: {failure}" for failure in family.first_failures]
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        return html_table(*self._cells(), caption=f"vectors of {self.folder}")


def verify(vectors: str | os.PathLike[str] | None = None, threads: int | None = None) -> Verification:
    """Replays every vector file under a folder.

    Args:
        vectors: folder, searched with all that is in it; None for the sample that comes with the package.
        threads: files read and replayed at a time; None for one a CPU.

    Raises:
        ValueError: it is not a folder, or no file in it belongs to a family that is modelled.
    """
    workers = default_threads() if threads is None else integer("threads", threads, 1, MOST_THREADS)
    if vectors is None:
        with resources.as_file(resources.files("schedlab") / "data" / "vectors") as folder:
            return _verify_folder(folder, "the package's sample", workers)
    return _verify_folder(Path(vectors), os.fspath(vectors), workers)


def _verify_folder(folder: Path, name: str, workers: int) -> Verification:
    if not folder.is_dir():
        raise bad_argument("vectors", name, "must be a folder")
    files = sorted(vector_files(folder))
    with ThreadPoolExecutor(workers) as pool:
        replays = list(pool.map(_replay, files))
    families: dict[str, Family] = {}
    for replay in replays:
        families[replay.name] = _sum(families.get(replay.name), replay)
    if not any(family.modelled and family.cases for family in families.values()):
        raise bad_argument("vectors", name, "must hold vectors of a family that is modelled")
    return Verification(name, tuple(families[family] for family in sorted(families)))


def vector_files(folder: Path) -> Iterator[Path]:
    """The files under the folder that may hold vectors."""
    for path in folder.rglob("*"):
        if path.name.endswith(SUFFIXES) and path.is_file():
            yield path


def _replay(path: Path) -> Family:
    """One file's cases; a file that cannot be read is a failed case."""
    name = path.name.removesuffix(".gz")
    read: Callable[[bytes], bytes] = gzip.decompress if path.name.endswith(".gz") else bytes
    try:
        data = read(path.read_bytes())
    except (OSError, EOFError, zlib.error) as error:
        failure = f"{path.name}: cannot be read: {error}"
        return Family(name.split(".json")[0], True, 1, 1, (failure,))
    replayed = _core.verify_text(name, data)
    return Family(
        str(replayed["family"]),
        bool(replayed["modelled"]),
        int(replayed["cases"]),
        int(replayed["failed"]),
        tuple(replayed["first_failures"]),
    )


def _sum(a: Family | None, b: Family) -> Family:
    """Two files of one family together."""
    if a is None:
        return b
    return Family(
        a.name,
        a.modelled or b.modelled,
        a.cases + b.cases,
        a.failed + b.failed,
        (a.first_failures + b.first_failures)[:FIRST_FAILURES],
    )
