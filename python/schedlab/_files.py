"""Files that appear whole or not at all."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path


@contextlib.contextmanager
def written_beside(path: str | os.PathLike[str]) -> Iterator[Path]:
    """Gives a temporary path in the folder of `path`; renames it to `path` if the block succeeds.

    A reader sees the old file or the whole new one, whatever interrupts the writer.
    """
    target = Path(path)
    beside = target.with_name(f".{target.name}.{os.getpid()}.tmp")
    try:
        yield beside
        os.replace(beside, target)
    finally:
        with contextlib.suppress(FileNotFoundError):
            beside.unlink()


def write_text(path: str | os.PathLike[str], text: str) -> None:
    """Writes a text file whole: beside its place first, then renamed."""
    with written_beside(path) as beside:
        beside.write_text(text, encoding="utf-8")
