"""PELT in plain Python integers: kernel/sched/pelt.c as one would explain it.

Every function takes and returns plain numbers. `form` is ``"modern"`` (v5.7 and later) or ``"old"`` (v5.4 to
v5.6); in the old form the runnable slots are runnable_load_sum and runnable_load_avg.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cache

U32 = 0xFFFF_FFFF
U64 = 0xFFFF_FFFF_FFFF_FFFF
PERIOD = 1024
"""Length of a period in units of 1024 ns."""


@dataclass(frozen=True)
class Tables:
    """The constants of a half-life."""

    half_life: int
    """Periods until a contribution counts half."""
    load_avg_max: int
    """The sum of 1024 * y^n over all n, as the kernel's rounding leaves it."""
    yn_inv: tuple[int, ...]
    """y^n as a 32-bit fraction, n below the half-life."""


@dataclass
class SchedAvg:
    """The signals of one entity or cfs_rq (struct sched_avg)."""

    last_update_time: int = 0
    period_contrib: int = 0
    load_sum: int = 0
    runnable_sum: int = 0
    util_sum: int = 0
    load_avg: int = 0
    runnable_avg: int = 0
    util_avg: int = 0


def trace(
    times: Iterable[int], states: Iterable[int], weight: int, half_life: int = 32, form: str = "modern"
) -> Iterator[SchedAvg]:
    """The signals of one task at each change of its state (0 sleeping, 1 runnable, 2 running), ns."""
    table = tables(half_life)
    avg: SchedAvg | None = None
    before = 0
    for now, state in zip(times, states, strict=True):
        if avg is None:
            avg = SchedAvg(last_update_time=now)
        on_rq = int(before > 0)
        update_se(avg, table, form, now, weight, on_rq, weight if form == "old" else on_rq, before == 2)
        yield SchedAvg(**vars(avg))
        before = state


def update_se(
    avg: SchedAvg, table: Tables, form: str, now: int, weight: int, on_rq: int, runnable: int, running: bool
) -> bool:
    """kernel/sched/pelt.c, __update_load_avg_se()."""
    if not update_load_sum(avg, table, form, now, on_rq, on_rq if form == "old" else runnable, running):
        return False
    runnable_weight = scale_load_down(runnable, form) if form == "old" else 1
    update_load_avg(avg, table, scale_load_down(weight, form), runnable_weight)
    return True


def update_blocked_se(
    avg: SchedAvg, table: Tables, form: str, now: int, weight: int, runnable_weight: int
) -> bool:
    """kernel/sched/pelt.c, __update_load_avg_blocked_se()."""
    return update_se(avg, table, form, now, weight, 0, runnable_weight if form == "old" else 0, False)


def update_cfs_rq(
    avg: SchedAvg, table: Tables, form: str, now: int, weight: int, runnable: int, running: bool
) -> bool:
    """kernel/sched/pelt.c, __update_load_avg_cfs_rq()."""
    runnable = scale_load_down(runnable, form) if form == "old" else runnable
    if not update_load_sum(avg, table, form, now, scale_load_down(weight, form), runnable, running):
        return False
    update_load_avg(avg, table, 1, 1)
    return True


def update_load_sum(
    avg: SchedAvg, table: Tables, form: str, now: int, load: int, runnable: int, running: bool
) -> bool:
    """kernel/sched/pelt.c, ___update_load_sum(): age the sums; True if a period ended."""
    elapsed = (now - avg.last_update_time) & U64
    if elapsed >= 1 << 63:  # The clock went back.
        avg.last_update_time = now
        return False
    delta = elapsed // 1024
    if delta == 0:
        return False
    avg.last_update_time = (avg.last_update_time + delta * 1024) & U64
    if load == 0:
        runnable, running = 0, False

    periods, rest = divmod(avg.period_contrib + delta, PERIOD)
    contrib = delta
    if periods:
        avg.load_sum = decay_load(table, avg.load_sum, periods)
        avg.runnable_sum = decay_load(table, avg.runnable_sum, periods)
        avg.util_sum = decay_load(table, avg.util_sum, periods)
        contrib = accumulate_pelt_segments(table, periods, PERIOD - avg.period_contrib, rest)
    avg.period_contrib = rest
    if load:
        avg.load_sum = (avg.load_sum + load * contrib) & U64
        avg.runnable_sum = (avg.runnable_sum + runnable * contrib * (1 if form == "old" else 1024)) & U64
    if running:
        avg.util_sum = (avg.util_sum + contrib * 1024) & U32
    return periods & U32 != 0


def update_load_avg(avg: SchedAvg, table: Tables, load: int, runnable: int) -> None:
    """kernel/sched/pelt.c, ___update_load_avg(): the sums over the largest sum possible now."""
    divider = table.load_avg_max - PERIOD + avg.period_contrib
    avg.load_avg = (load * avg.load_sum & U64) // divider
    avg.runnable_avg = (runnable * avg.runnable_sum & U64) // divider
    avg.util_avg = avg.util_sum // divider


def accumulate_pelt_segments(table: Tables, periods: int, d1: int, d3: int) -> int:
    """kernel/sched/pelt.c, __accumulate_pelt_segments(): the parts of an interval that crosses periods."""
    whole = table.load_avg_max - decay_load(table, table.load_avg_max, periods) - PERIOD
    return decay_load(table, d1, periods) + whole + d3


def decay_load(table: Tables, val: int, n: int) -> int:
    """kernel/sched/pelt.c, decay_load(): val * y^n."""
    if n > table.half_life * 63:
        return 0
    halvings, n = divmod(n, table.half_life)
    return (val >> halvings) * table.yn_inv[n] >> 32


def scale_load_down(weight: int, form: str) -> int:
    """kernel/sched/sched.h, scale_load_down(): at least 2 from v5.7 on, for a weight that is not 0."""
    return weight >> 10 if form == "old" or weight == 0 else max(2, weight >> 10)


@cache
def tables(half_life: int) -> Tables:
    """Documentation/scheduler/sched-pelt.c: y with y^half_life = 1/2, its powers, the sum's limit."""
    y = 0.5 ** (1 / half_life)
    last, load_avg_max = 0, PERIOD
    while last != load_avg_max:
        last, load_avg_max = load_avg_max, (load_avg_max * int(U32 * y) >> 32) + PERIOD
    return Tables(half_life, load_avg_max, tuple(int(U32 * y**n) for n in range(half_life)))
