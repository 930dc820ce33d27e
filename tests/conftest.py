"""The fixtures of several test files."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

import pytest

import schedlab as sl
from common import SMALL


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
