"""How fast whole runs are, from Python: hackbench at its full size, one seed on one core.

    python benchmarks/hackbench.py                    # prints this machine's figures
    python benchmarks/hackbench.py --output now.json  # and writes them, with what they were measured on
    python benchmarks/hackbench.py --before old.json  # and prints the ratio to older ones

Each figure is the least CPU time of some repeats: whatever else the machine does only adds to it.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import os
import platform
import time
from pathlib import Path
from typing import Any

import schedlab as sl

REPEATS = 3
FULL_SIZE = 1_024_000
"""Messages of hackbench at full size: `-g g -l 2560/g` with 20 senders and 20 receivers."""

ROWS = [
    ("arm64-dual-quad", "v5.6", 1, FULL_SIZE),
    ("arm64-dual-quad", "v5.6", 4, FULL_SIZE),
    ("arm64-dual-quad", "v5.6", 16, FULL_SIZE),
    ("arm64-dual-quad", "v5.7", 1, FULL_SIZE),
    ("arm64-dual-quad", "v5.7", 4, FULL_SIZE),
    ("arm64-dual-quad", "v5.7", 16, FULL_SIZE),
    ("arm64-224", "v5.7", 16, FULL_SIZE),
]
"""Machine, kernel, groups, messages."""


@dataclasses.dataclass(frozen=True)
class Figure:
    """What one row took.

    Attributes:
        machine: name of the simulated machine.
        kernel: its kernel.
        groups: hackbench's groups.
        messages: messages sent in the run.
        events: events that the engine handled.
        seed_s: CPU seconds of one seed on one core.
    """

    machine: str
    kernel: str
    groups: int
    messages: int
    events: int
    seed_s: float

    @property
    def row(self) -> str:
        """Name of the row."""
        return f"{self.machine} {self.kernel} g{self.groups}"

    @property
    def message_ns(self) -> float:
        """CPU nanoseconds a message."""
        return self.seed_s / self.messages * 1e9

    @property
    def events_per_s(self) -> float:
        """Events handled in a CPU second."""
        return self.events / self.seed_s


def main() -> None:
    """Measures, prints, and writes on demand."""
    parser = argparse.ArgumentParser(description="Measures the speed of whole runs.")
    parser.add_argument("--output", type=Path, help="write the figures to this JSON file")
    parser.add_argument("--before", type=Path, help="print the ratio to the figures of this JSON file")
    options = parser.parse_args()
    before = read(options.before) if options.before else {}
    print(f"{'':28}{'s a seed':>10}{'ns a message':>14}{'M events/s':>12}{'of before':>11}")
    figures = []
    for row in ROWS:
        figure = measure(*row)
        figures.append(figure)
        ratio = f"{figure.seed_s / before[figure.row]:10.0%}" if figure.row in before else ""
        print(
            f"{figure.row:28}{figure.seed_s:10.3f}{figure.message_ns:14.1f}"
            f"{figure.events_per_s / 1e6:12.2f}{ratio:>11}",
            flush=True,
        )
    if options.output:
        content = {
            **host(),
            "repeats": REPEATS,
            "figures": [dataclasses.asdict(figure) for figure in figures],
        }
        options.output.write_text(json.dumps(content, indent=2) + "\n")


def measure(machine: str, kernel: str, groups: int, messages: int) -> Figure:
    """The least of REPEATS runs of seed 1."""
    work = sl.Hackbench(groups=groups, loops=messages // (groups * 20 * 20))
    scenario = (sl.Machine.named(machine), sl.Kernel(kernel), work)
    times = []
    for _ in range(REPEATS):
        start = time.process_time()
        runs = sl.simulate(*scenario, seeds=[1], threads=1, progress=False)
        times.append(time.process_time() - start)
    events = int(runs.metrics.events.to_numpy()[0])
    return Figure(machine, kernel, groups, work.messages, events, round(min(times), 4))


def read(path: Path) -> dict[str, float]:
    """Row to seconds a seed, of a file that `--output` wrote."""
    figures = json.loads(path.read_text())["figures"]
    return {figure.row: figure.seed_s for figure in (Figure(**fields) for fields in figures)}


def host() -> dict[str, Any]:
    """What the figures were measured on."""
    model = platform.processor() or "unknown"
    cpuinfo = Path("/proc/cpuinfo")
    if cpuinfo.exists():
        names = [line for line in cpuinfo.read_text().splitlines() if line.startswith("model name")]
        model = names[0].partition(":")[2].strip() if names else model
    return {
        "cpu": model,
        "cpus": os.cpu_count(),
        "load_average": os.getloadavg()[0] if hasattr(os, "getloadavg") else None,
        "python": platform.python_version(),
        "schedlab": sl.__version__,
    }


if __name__ == "__main__":
    main()
