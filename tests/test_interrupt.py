"""Ctrl-C in a program of its own, as a user presses it."""

from __future__ import annotations

import signal
import subprocess
import sys
import time

import pytest

PROGRAM = """
import schedlab as sl

def progress(done):
    print(done, flush=True)

try:
    machine, kernel = sl.Machine.named("arm64-dual-quad"), sl.Kernel("v5.6")
    sl.simulate(machine, kernel, sl.Hackbench(groups=8, loops={loops}), {seeds}, {threads}, progress)
except KeyboardInterrupt:
    print("interrupted", flush=True)
    raise
"""
"""Minutes of work; it tells of its progress, and of the interrupt that it is sent."""


@pytest.mark.parametrize(("loops", "seeds", "threads"), [(50_000, 1, 1), (500, 400, 2)])
def test_a_program_ends_soon_after_ctrl_c(loops: int, seeds: int, threads: int) -> None:
    program = subprocess.Popen(
        [sys.executable, "-c", PROGRAM.format(loops=loops, seeds=seeds, threads=threads)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert program.stdout is not None
    try:
        assert program.stdout.readline() == "0\n", "the first report of progress"
        program.send_signal(signal.SIGINT)
        start = time.monotonic()
        output, errors = program.communicate(timeout=20)
        wait_s = time.monotonic() - start
    finally:
        program.kill()
    assert output.splitlines()[-1] == "interrupted"
    assert errors.rstrip().endswith("KeyboardInterrupt")
    # What Python does to a program that leaves KeyboardInterrupt uncaught: it dies of the signal.
    assert program.returncode == -signal.SIGINT
    # Reports come every 100 ms; the rest is the machine's business.
    assert wait_s < 10, f"{wait_s} s"
