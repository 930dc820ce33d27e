"""simulate: the one verb. A scenario and seeds in, `Runs` out."""

from __future__ import annotations

import contextlib
import os
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from schedlab import _core
from schedlab._arguments import bad_argument, integer
from schedlab.kernel import Kernel
from schedlab.machine import Machine
from schedlab.runs import Runs
from schedlab.scenario import Scenario
from schedlab.workload import Work

Progress = Callable[[int], None]

MOST_THREADS = 1024
"""Threads that a simulation may ask for."""

MOST_SEEDS = 10_000_000
"""Seeds that a number may stand for: more do not fit in memory as results."""


def simulate(
    machine: Machine,
    kernel: Kernel,
    work: Work,
    seeds: int | Iterable[int] = 1,
    threads: int | None = None,
    progress: bool | Progress | None = None,
) -> Runs:
    """Simulates the work on the machine under the kernel, once a seed.

    A seed's result is the same bits whatever other seeds run with it, on any number of threads. The GIL is
    released while the core works; Ctrl-C stops it and raises `KeyboardInterrupt`.

    Args:
        machine: the computer.
        kernel: its scheduler.
        work: what runs on it.
        seeds: n for the seeds 0 to n-1, or the seeds themselves, each from 0 to 2**64-1 and none twice.
        threads: threads of the core; None for all the CPUs that this process may use.
        progress: True for a progress bar, False for none, None for one on terminals and in notebooks if the
            work takes longer than a second; or a function that is called with the number of finished seeds.

    Raises:
        ValueError: an argument breaks a rule; nothing has run.
    """
    return simulate_scenario(Scenario(machine, kernel, work), seeds, threads, progress)


def simulate_scenario(
    scenario: Scenario,
    seeds: int | Iterable[int] = 1,
    threads: int | None = None,
    progress: bool | Progress | None = None,
) -> Runs:
    """`simulate` for the three in one."""
    numbers = seed_array(seeds)
    nr_threads = default_threads() if threads is None else integer("threads", threads, 1, MOST_THREADS)
    scenario.validate()
    start = time.perf_counter()
    name = f"{scenario.kernel.label} {scenario.work.label}"
    with progress_bar(progress, len(numbers), name, "seed") as report:
        result = _core.simulate(scenario.to_json(), numbers, nr_threads, report)
    return Runs(scenario, [int(seed) for seed in numbers], result, time.perf_counter() - start)


def seed_array(seeds: int | Iterable[int]) -> npt.NDArray[np.uint64]:
    """The seeds as an array: 0 to n-1 for a number n, else the ones given.

    Raises:
        ValueError: not integers, none at all, negative, beyond 64 bits or one of them twice.
    """
    rule = "must be a number of seeds or a list of integers"
    if isinstance(seeds, str | bytes | bool | float | dict) or seeds is None:
        raise bad_argument("seeds", seeds, rule)
    if isinstance(seeds, set | frozenset):
        seeds = sorted(seeds)
    if not isinstance(seeds, Iterable) or (isinstance(seeds, np.ndarray) and seeds.ndim == 0):
        return np.arange(integer("seeds", seeds, 1, MOST_SEEDS), dtype=np.uint64)
    numbers: list[int] = []
    for index, seed in enumerate(seeds):
        numbers.append(integer(f"seeds[{index}]", seed, minimum=0, maximum=2**64 - 1))
    if not numbers:
        raise bad_argument("seeds", numbers, "must name at least one seed")
    if len(set(numbers)) < len(numbers):
        twice = next(seed for index, seed in enumerate(numbers) if seed in numbers[:index])
        raise bad_argument("seeds", twice, "no seed may be given twice")
    return np.array(numbers, dtype=np.uint64)


def default_threads() -> int:
    """Number of CPUs that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


@contextlib.contextmanager
def progress_bar(
    progress: bool | Progress | None, total: int, name: str, unit: str
) -> Iterator[Progress | None]:
    """A function to be called with the number of finished units; None if nobody wants to see it.

    Raises:
        ValueError: `progress` is neither a boolean, None nor a function.
    """
    if callable(progress):
        yield progress
        return
    if progress is None:
        progress = sys.stderr.isatty() or _in_notebook()
    if not isinstance(progress, bool):
        raise bad_argument("progress", progress, "must be True, False, None or a function")
    if not progress:
        yield None
        return
    with _bar_class()(total=total, desc=name, unit=unit, delay=1.0, leave=False) as bar:
        yield lambda done: bar.update(done - bar.n) and None


def _in_notebook() -> bool:
    """Whether the code runs in a Jupyter kernel."""
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython is not None else None
    return type(shell).__name__ == "ZMQInteractiveShell"


def _bar_class() -> Any:
    """The notebook's own bar where its widgets are installed, else the terminal's."""
    if _in_notebook():
        with contextlib.suppress(ImportError):
            import ipywidgets  # noqa: F401
            from tqdm.notebook import tqdm as notebook_bar

            return notebook_bar
    from tqdm import tqdm

    return tqdm
