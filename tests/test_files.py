"""Files appear whole or not at all, where the caller said."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from schedlab._files import write_text


def test_a_link_stays_and_its_file_is_replaced(tmp_path: Path) -> None:
    (tmp_path / "kept").mkdir()
    target, link = tmp_path / "kept" / "file", tmp_path / "link"
    target.write_text("old")
    link.symlink_to(target)
    write_text(link, "new")
    assert link.is_symlink()
    assert target.read_text() == "new"
    assert [path.name for path in (tmp_path / "kept").iterdir()] == ["file"]


def test_the_mode_of_an_old_file_stays(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_text("old")
    path.chmod(0o640)
    write_text(path, "new")
    assert path.stat().st_mode & 0o777 == 0o640


def test_what_is_no_file_is_refused(tmp_path: Path) -> None:
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    for path in (fifo, tmp_path):
        with pytest.raises(ValueError, match=r"path = .*: must be a regular file"):
            write_text(path, "text")
    assert fifo.is_fifo()
    with pytest.raises(ValueError, match="path = '': must name a file"):
        write_text("", "text")
