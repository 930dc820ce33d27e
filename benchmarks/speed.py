"""How fast the simulator is: seconds a seed on one core, and a replay of all vectors.

    python benchmarks/speed.py             # prints this machine's figures beside baseline.json
    python benchmarks/speed.py --write     # makes them the baseline

Each figure is the median of some repeats. Times on other machines, or with other work going on, differ.
"""

from __future__ import annotations

import argparse
import json
import platform
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import schedlab as sl
from schedlab.verify import verify

HERE = Path(__file__).resolve().parent
BASELINE = HERE / "baseline.json"
VECTORS = HERE.parent / "tests" / "vectors"

REPEATS = 5
SEEDS = 4


def main() -> None:
    """Measures, prints, and on demand writes the baseline."""
    parser = argparse.ArgumentParser(description="Measures the simulator's speed.")
    parser.add_argument("--write", action="store_true", help="make the figures the baseline")
    options = parser.parse_args()
    figures = measure()
    before = json.loads(BASELINE.read_text())["figures"] if BASELINE.exists() else {}
    print(f"{'':44}{'seconds':>9}{'baseline':>10}")
    for name, seconds in figures.items():
        baseline = f"{before[name]:10.3f}" if name in before else ""
        print(f"{name:44}{seconds:9.3f}{baseline}")
    if options.write:
        BASELINE.write_text(json.dumps({**host(), "repeats": REPEATS, "figures": figures}, indent=2) + "\n")


def measure() -> dict[str, float]:
    """Name of a figure to seconds."""
    machine = sl.Machine.named("arm64-dual-quad")
    figures = {}
    for kernel in ("v5.6", "v5.7"):
        for groups in (1, 4, 8, 16):
            work = sl.Hackbench(groups=groups, loops=2560 // groups)
            name = f"{work.label}, {kernel}, one seed, one core"
            figures[name] = median(run_seeds(machine, sl.Kernel(kernel), work)) / SEEDS
    if VECTORS.is_dir():
        figures["verify --vectors, all cores"] = median(lambda: verify(VECTORS))
    return {name: round(seconds, 4) for name, seconds in figures.items()}


def run_seeds(machine: sl.Machine, kernel: sl.Kernel, work: sl.Hackbench) -> Callable[[], Any]:
    """A function that simulates SEEDS seeds on one thread."""
    return lambda: sl.simulate(machine, kernel, work, SEEDS, threads=1, progress=False)


def median(run: Callable[[], Any]) -> float:
    """Median seconds of REPEATS calls, after one that warms the caches."""
    run()
    times = []
    for _ in range(REPEATS):
        start = time.perf_counter()
        run()
        times.append(time.perf_counter() - start)
    return statistics.median(times)


def host() -> dict[str, str]:
    """What the figures were measured on."""
    model = "unknown"
    cpuinfo = Path("/proc/cpuinfo")
    if cpuinfo.exists():
        names = [line for line in cpuinfo.read_text().splitlines() if line.startswith("model name")]
        model = names[0].partition(":")[2].strip() if names else model
    return {"cpu": model, "python": platform.python_version(), "schedlab": sl.__version__}


if __name__ == "__main__":
    main()
