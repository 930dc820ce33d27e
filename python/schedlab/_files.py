"""Files that appear whole or not at all."""

from __future__ import annotations

import contextlib
import os
import secrets
import stat
from collections.abc import Iterator
from pathlib import Path

from schedlab._arguments import bad_argument


@contextlib.contextmanager
def written_beside(path: str | os.PathLike[str]) -> Iterator[Path]:
    """Gives a temporary path in the folder of `path`; renames it to `path` if the block succeeds.

    A reader sees the old file or the whole new one, whatever interrupts the writer. The file behind a
    symbolic link is replaced, not the link; the mode of an old file stays.

    Raises:
        ValueError: the path is empty, or names something that is not a regular file.
    """
    if not os.fspath(path):
        raise bad_argument("path", path, "must name a file")
    target = Path(os.path.realpath(path))
    mode = target.stat().st_mode if target.exists() else None
    if mode is not None and not stat.S_ISREG(mode):
        raise bad_argument("path", os.fspath(path), "must be a regular file, or not exist yet")
    beside = target.with_name(f".{target.name}.{os.getpid()}-{secrets.token_hex(4)}.tmp")
    try:
        yield beside
        if mode is not None:
            beside.chmod(stat.S_IMODE(mode))
        os.replace(beside, target)
    finally:
        with contextlib.suppress(FileNotFoundError):
            beside.unlink()


def write_text(path: str | os.PathLike[str], text: str) -> None:
    """Writes a text file whole: beside its place first, then renamed."""
    with written_beside(path) as beside:
        beside.write_text(text, encoding="utf-8")
