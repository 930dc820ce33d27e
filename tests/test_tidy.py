"""What a search through the sources can hold; what concerns the core alone, the core's own tests hold."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

import schedlab as sl

ROOT = Path(__file__).resolve().parent.parent
CORE = ROOT / "rust" / "core" / "src"


def code(path: Path) -> Iterator[tuple[int, str]]:
    """The numbered lines of a Rust file without its comments and the tests at its end."""
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        if line == "mod tests {":
            return
        yield number, line.partition("//")[0]


def found(folder: Path, pattern: str) -> list[str]:
    """Where the code under a folder matches."""
    return [
        f"{path.relative_to(ROOT)}:{number}: {line.strip()}"
        for path in sorted(folder.rglob("*.rs"))
        for number, line in code(path)
        if re.search(pattern, line)
    ]


@pytest.mark.parametrize(
    ("folder", "pattern"),
    [
        pytest.param(ROOT / "rust", r"\b(todo|unimplemented|dbg)!", id="nothing is left to do"),
        pytest.param(ROOT / "rust", r"\bunsafe\b(?!_code)", id="nothing is unsafe"),
    ],
)
def test_the_sources_never_say(folder: Path, pattern: str) -> None:
    assert list(folder.rglob("*.rs"))
    assert found(folder, pattern) == []


def test_the_core_depends_on_little() -> None:
    manifest = tomllib.loads((ROOT / "rust" / "core" / "Cargo.toml").read_text(encoding="utf-8"))
    assert set(manifest["dependencies"]) <= {"rayon", "serde", "serde_json"}


def test_every_patch_is_registered() -> None:
    patches = CORE / "kernels" / "patches"
    modules = {path.stem for path in patches.glob("*.rs")} - {"mod"}
    assert modules
    kernels = sl.kernels()
    names = {name.replace("-", "_") for name in kernels[kernels.kind == "patch"].name}
    assert modules <= names


def test_decisions_name_the_kernel_source_that_they_model() -> None:
    missing = []
    for path in sorted((CORE / "kernels").glob("v*.rs")):
        lines = path.read_text(encoding="utf-8").partition("#[cfg(test)]")[0].splitlines()
        for number, line in enumerate(lines):
            if not re.match(r"pub fn \w+", line):
                continue
            first = number
            while first > 0 and re.match(r"///|#\[", lines[first - 1]):
                first -= 1
            if not re.match(r"/// kernel/sched/\w+\.[ch], v\d", lines[first]):
                missing.append(f"{path.name}:{number + 1}: {line}")
    assert missing == []


def test_the_public_names_are_there_and_the_version_is_the_cores() -> None:
    assert all(hasattr(sl, name) for name in sl.__all__)
    manifest = tomllib.loads((ROOT / "Cargo.toml").read_text(encoding="utf-8"))
    assert sl.__version__ == manifest["workspace"]["package"]["version"]


def test_the_documents_name_files_that_exist() -> None:
    for document in ("README.md", "ARCHITECTURE.md"):
        text = (ROOT / document).read_text(encoding="utf-8")
        for name in re.findall(r"`((?:rust|python|tests|notebooks)/[\w./-]+)`", text):
            assert (ROOT / name).exists(), f"{document} names {name}"
