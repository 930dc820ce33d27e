"""What several test files share."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from pathlib import Path

import pytest

import schedlab as sl

VECTORS = Path(__file__).parent / "vectors"

SMALL = sl.Hackbench(groups=2, loops=20, senders=5, receivers=5)
"""Twenty tasks and 1,000 messages: milliseconds to simulate, and every CPU of a small machine is busy."""


@pytest.fixture(scope="session")
def dual_quad() -> sl.Machine:
    """The machine of the February 2020 tables."""
    return sl.Machine.named("arm64-dual-quad")


@pytest.fixture(scope="session")
def small_runs(dual_quad: sl.Machine) -> Callable[[str], sl.Runs]:
    """Twelve runs of SMALL under a kernel, made once."""

    @cache
    def runs(kernel: str) -> sl.Runs:
        return sl.simulate(dual_quad, sl.Kernel(kernel), SMALL, seeds=12)

    return runs
