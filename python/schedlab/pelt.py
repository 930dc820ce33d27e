"""Per-entity load tracking (PELT): the kernel's own integers, for any half-life.

`Entity` and `CfsRq` hold the signals of one scheduling entity or one runqueue and are updated step by step;
`trace` and `trace_cfs_rq` take whole activation histories as arrays. Both are kernel/sched/pelt.c bit for
bit.

Two forms exist. ``"modern"`` (v5.7 and later) has `load_avg`, `runnable_avg` and `util_avg`. ``"old"`` (v5.4
to v5.6) has no runnable_avg: there the attributes `runnable_sum` and `runnable_avg` hold `runnable_load_sum`
and `runnable_load_avg`.

Units: times in ns; weights are the kernel's scaled `load.weight` (`NICE_0_LOAD` = 1048576 for nice 0);
averages of utilization and runnable time have 1024 = always. A half-life counts PELT periods of 1024 x 1024
ns, which the kernel calls milliseconds; the kernel's is 32.
"""

from __future__ import annotations

import operator
from typing import Any, NamedTuple, cast, overload

import numpy as np
import numpy.typing as npt
import xarray as xr

from schedlab import _core

__all__ = [
    "NICE_0_LOAD",
    "RUNNABLE",
    "RUNNING",
    "SLEEPING",
    "CfsRq",
    "Entity",
    "Levels",
    "NiceWeight",
    "State",
    "SteadyState",
    "Tables",
    "calc_delta_fair",
    "decay_load",
    "nice_weight",
    "scale_load",
    "steady_state",
    "tables",
    "trace",
    "trace_cfs_rq",
]

NICE_0_LOAD = 1 << 20
"""Scaled weight of a nice-0 task."""

SLEEPING, RUNNABLE, RUNNING = 0, 1, 2
"""States of a task in the histories that `trace` takes."""

_PERIOD_NS = 1024 * 1024
_MAX_WEIGHT = 1 << 42
_U32 = (1 << 32) - 1
_U64 = (1 << 64) - 1
_MAX_TIME_NS = (1 << 63) - 1
_MAX_TICKS = 10_000_000_000


class State(NamedTuple):
    """The complete state of one entity or cfs_rq (`struct sched_avg`)."""

    last_update_time: int
    """Clock of the last update, ns."""
    period_contrib: int
    """Part of the current period that has passed, units of 1024 ns, below 1024."""
    load_sum: int
    """Decayed time with load, units of 1024 ns; of a cfs_rq weighted."""
    runnable_sum: int
    """Decayed runnable time times 1024 (old form: runnable_load_sum, not scaled)."""
    util_sum: int
    """Decayed running time times 1024."""
    load_avg: int
    """Weight times the share of time with load."""
    runnable_avg: int
    """1024 = one task always runnable (old form: runnable_load_avg)."""
    util_avg: int
    """1024 = always running."""


class _Signals:
    """What `Entity` and `CfsRq` share."""

    def __init__(self, form: str, half_life_ms: int, now_ns: int) -> None:
        self._half_life_ms = _integer("half_life_ms", half_life_ms, high=_U32)
        self._form = _form(form)
        self._core = _core.PeltState(self._half_life_ms, self._form, _integer("now_ns", now_ns))

    @property
    def form(self) -> str:
        """``"modern"`` or ``"old"``."""
        return self._form

    @property
    def half_life_ms(self) -> int:
        """Half-life in PELT periods."""
        return self._half_life_ms

    @property
    def state(self) -> State:
        """All eight numbers; may be set, to start from any state.

        Raises ValueError if a number does not fit its kernel type or period_contrib is not below 1024.
        """
        return State(*self._core.state)

    @state.setter
    def state(self, state: State | tuple[int, ...]) -> None:
        if len(state) != len(State._fields):
            raise _invalid("state", state, f"must have {len(State._fields)} numbers, as State has")
        highs = {"period_contrib": _U32, "util_sum": _U32}
        self._core.state = tuple(
            _integer(name, value, high=highs.get(name, _U64))
            for name, value in zip(State._fields, state, strict=True)
        )

    @property
    def last_update_time(self) -> int:
        """Clock of the last update, ns: up to 1023 ns behind the time given to it."""
        return self.state.last_update_time

    @property
    def load_sum(self) -> int:
        """See `State`."""
        return self.state.load_sum

    @property
    def runnable_sum(self) -> int:
        """See `State`."""
        return self.state.runnable_sum

    @property
    def util_sum(self) -> int:
        """See `State`."""
        return self.state.util_sum

    @property
    def period_contrib(self) -> int:
        """See `State`."""
        return self.state.period_contrib

    @property
    def load_avg(self) -> int:
        """See `State`."""
        return self.state.load_avg

    @property
    def runnable_avg(self) -> int:
        """See `State`."""
        return self.state.runnable_avg

    @property
    def util_avg(self) -> int:
        """See `State`."""
        return self.state.util_avg

    def __repr__(self) -> str:
        """The averages, for people."""
        load, runnable, util = self.state[5:]
        return (
            f"{type(self).__name__}(load_avg={load}, runnable_avg={runnable}, util_avg={util}, "
            f"form={self._form!r}, half_life_ms={self._half_life_ms})"
        )


class Entity(_Signals):
    """The signals of one task or group entity, step by step.

    Starts with zero signals at `now_ns`; `init` gives the start values of a forked task.

    Args:
        weight: scaled `load.weight`.
        form: ``"modern"`` (v5.7 and later) or ``"old"`` (v5.4 to v5.6).
        half_life_ms: half-life, 1 to 1024.
        now_ns: the clock.

    Raises:
        ValueError: an argument is out of its range; the message names argument, value and rule.
    """

    def __init__(
        self, *, weight: int = NICE_0_LOAD, form: str = "modern", half_life_ms: int = 32, now_ns: int = 0
    ) -> None:
        """See the class."""
        super().__init__(form, half_life_ms, now_ns)
        self.weight = weight

    @property
    def weight(self) -> int:
        """Scaled `load.weight`; a new one counts from the next update on, the averages are not rescaled."""
        return self._weight

    @weight.setter
    def weight(self, weight: int) -> None:
        self._weight = _integer("weight", weight, high=_MAX_WEIGHT)

    def init(self, cfs_rq: CfsRq | None = None, *, cpu_scale: int = 1024) -> None:
        """Start values of a forked task, before `CfsRq.attach`.

        Models kernel/sched/fair.c, v5.6 and v5.7, init_entity_runnable_average() and
        post_init_entity_util_avg(): full load, and half of the utilization that the CPU has left.

        Args:
            cfs_rq: where the task will be attached; None = an idle one.
            cpu_scale: capacity of that CPU, 1024 = the biggest.
        """
        cpu_scale = _integer("cpu_scale", cpu_scale, high=_U32)
        queue = CfsRq(form=self.form, half_life_ms=self.half_life_ms) if cfs_rq is None else cfs_rq
        self._core.init_entity(self.weight)
        self._core.post_init_entity_util_avg(queue._core, cpu_scale, self.weight)

    def update(
        self, now_ns: int, *, on_rq: bool = True, running: bool = False, runnable: int | None = None
    ) -> bool:
        """Age the signals to `now_ns`; the flags describe the interval that ends there.

        Models kernel/sched/pelt.c, v5.4 to v5.7, __update_load_avg_se(). As there, a clock that went back
        becomes the new base and nothing is accounted.

        Args:
            now_ns: absolute time.
            on_rq: whether the entity was queued or running.
            running: whether it had the CPU.
            runnable: what the kernel's se_runnable() returns: by default 1 if queued, else 0; a group
                entity's number of queued tasks; in the old form the scaled runnable weight, by default
                `weight`.

        Returns:
            Whether a period boundary was crossed, so that the averages are new.
        """
        if runnable is None:
            runnable = self.weight if self.form == "old" else int(on_rq)
        now_ns, runnable = _integer("now_ns", now_ns), _integer("runnable", runnable)
        return self._core.update_se(now_ns, self.weight, bool(on_rq), runnable, bool(running))

    def update_blocked(self, now_ns: int, *, runnable: int | None = None) -> bool:
        """Age the signals over a sleep that lasts until `now_ns`.

        Models kernel/sched/pelt.c, v5.4 to v5.7, __update_load_avg_blocked_se().

        Args:
            now_ns: absolute time.
            runnable: in the old form the scaled runnable weight, by default `weight`; without effect in the
                modern one.

        Returns:
            Whether the averages are new.
        """
        runnable = self.weight if runnable is None else _integer("runnable", runnable)
        return self._core.update_blocked_se(_integer("now_ns", now_ns), self.weight, runnable)


class CfsRq(_Signals):
    """The signals of one cfs_rq, step by step: the sum over its entities, sleeping ones included.

    Args:
        form: ``"modern"`` (v5.7 and later) or ``"old"`` (v5.4 to v5.6).
        half_life_ms: half-life, 1 to 1024.
        now_ns: the clock.

    Raises:
        ValueError: an argument is out of its range; the message names argument, value and rule.
    """

    def __init__(self, *, form: str = "modern", half_life_ms: int = 32, now_ns: int = 0) -> None:
        """See the class."""
        super().__init__(form, half_life_ms, now_ns)

    def update(self, now_ns: int, *, weight: int, runnable: int, running: bool) -> bool:
        """Age the signals to `now_ns`; the arguments describe the interval that ends there.

        Models kernel/sched/pelt.c, v5.4 to v5.7, __update_load_avg_cfs_rq().

        Args:
            now_ns: absolute time.
            weight: the queue's scaled `load.weight`.
            runnable: number of runnable tasks in its hierarchy (old form: its scaled runnable weight).
            running: whether one of its entities had the CPU.

        Returns:
            Whether the averages are new.
        """
        now_ns, runnable = _integer("now_ns", now_ns), _integer("runnable", runnable)
        return self._core.update_cfs_rq(
            now_ns, _integer("weight", weight, high=_MAX_WEIGHT), runnable, bool(running)
        )

    def attach(self, entity: Entity) -> None:
        """Add an entity's signals; it takes over the queue's clock and period.

        Models kernel/sched/fair.c, v5.6 and v5.7, attach_entity_load_avg().
        """
        self._same_signals(entity)
        self._core.attach_entity(entity._core, entity.weight)

    def detach(self, entity: Entity) -> None:
        """Take an entity's signals off, never below 0.

        Models kernel/sched/fair.c, v5.6 and v5.7, detach_entity_load_avg(). Both must be updated to the same
        time before.
        """
        self._same_signals(entity)
        self._core.detach_entity(entity._core, entity.weight)

    def _same_signals(self, entity: Entity) -> None:
        if (entity.form, entity.half_life_ms) != (self.form, self.half_life_ms):
            raise _invalid("entity", entity, f"must have the form and the half-life of {self!r}")


def trace(
    times: npt.ArrayLike,
    states: npt.ArrayLike,
    *,
    offsets: npt.ArrayLike | None = None,
    weight: npt.ArrayLike = NICE_0_LOAD,
    at: npt.ArrayLike | None = None,
    tick_ns: int | None = None,
    half_life_ms: int = 32,
    form: str = "modern",
) -> xr.Dataset:
    """Signals of tasks over whole activation histories.

    Models kernel/sched/pelt.c, __update_load_avg_se(), called where the kernel calls it: at every change of
    state and at the ticks of a running task. Every history starts with zero signals at its first time.
    Histories are spread over all cores without the GIL; the result does not depend on how many there are.

    Args:
        times: when the state changes, ns, never decreasing within a history. Shape (changes,) for one history
            or for ragged ones with `offsets`, (entities, changes) for many of one length.
        states: the state from each time on, same shape: `SLEEPING` 0, `RUNNABLE` 1 or `RUNNING` 2.
        offsets: shape (entities + 1,): history i is ``times[offsets[i]:offsets[i + 1]]``.
        weight: scaled `load.weight`, one for all or shape (entities,).
        at: times to sample all histories at, ns, shape (samples,), never decreasing. A sample shows what an
            update at that time would, and changes nothing; before a history's start it shows zeros. None = at
            every change.
        tick_ns: tick period, at least 1024; None = no ticks.
        half_life_ms: half-life, 1 to 1024.
        form: ``"modern"`` or ``"old"``.

    Returns:
        Dataset of `load_avg`, `runnable_avg` and `util_avg`, int64, over (entity, change) or (entity,
        time_ns); without the dimension entity for a single 1-D history; over (change,) with a coordinate
        entity for ragged histories at their changes.

    Raises:
        ValueError: the message names argument, value and rule.
    """
    histories = _Histories(times, offsets, at, tick_ns, half_life_ms, form)
    kinds = histories.per_change("states", states, np.uint8, RUNNING, "must be 0, 1 or 2")
    weights = _array("weight", weight, np.uint64, _MAX_WEIGHT)
    if weights.ndim > 1 or (weights.ndim == 1 and weights.size != histories.nr):
        raise _invalid(
            "weight", f"shape {weights.shape}", f"must be one or {histories.nr} values, as entities"
        )
    weights = np.ascontiguousarray(np.broadcast_to(weights, histories.nr))
    return histories.dataset(
        _core.pelt_trace_entities(
            histories.times,
            kinds,
            histories.offsets,
            weights,
            histories.at,
            histories.tick_ns,
            histories.half_life_ms,
            histories.form,
        )
    )


def trace_cfs_rq(
    times: npt.ArrayLike,
    weight: npt.ArrayLike,
    runnable: npt.ArrayLike,
    running: npt.ArrayLike,
    *,
    offsets: npt.ArrayLike | None = None,
    at: npt.ArrayLike | None = None,
    tick_ns: int | None = None,
    half_life_ms: int = 32,
    form: str = "modern",
) -> xr.Dataset:
    """Signals of cfs_rqs over whole histories of their queues.

    Models kernel/sched/pelt.c, __update_load_avg_cfs_rq(), at every change and at the ticks while running.
    Nothing is attached or detached: the queue's own weight and numbers drive the signals.

    Args:
        times: when the queue changes, ns; shapes as in `trace`.
        weight: the scaled `load.weight` from each time on, same shape.
        runnable: the number of runnable tasks from each time on (old form: the scaled runnable weight), same
            shape.
        running: whether one has the CPU from each time on, same shape.
        offsets: as in `trace`.
        at: as in `trace`.
        tick_ns: as in `trace`.
        half_life_ms: as in `trace`.
        form: as in `trace`.

    Returns:
        Dataset as of `trace`.

    Raises:
        ValueError: the message names argument, value and rule.
    """
    histories = _Histories(times, offsets, at, tick_ns, half_life_ms, form)
    weights = histories.per_change("weight", weight, np.uint64, _MAX_WEIGHT, "must be from 0 to 2^42")
    tasks = histories.per_change("runnable", runnable, np.uint64, _MAX_WEIGHT, "must be from 0 to 2^42")
    has_curr = histories.per_change("running", running, np.uint8, 1, "must be False or True")
    return histories.dataset(
        _core.pelt_trace_cfs_rqs(
            histories.times,
            weights,
            tasks,
            has_curr.view(np.bool_),
            histories.offsets,
            histories.at,
            histories.tick_ns,
            histories.half_life_ms,
            histories.form,
        )
    )


class Levels(NamedTuple):
    """A periodic signal in its steady state."""

    minimum: float
    """Just before what the signal counts begins."""
    mean: float
    """Over a whole cycle."""
    maximum: float
    """Just after it ends."""


class SteadyState(NamedTuple):
    """The signals of a periodic task after infinitely many cycles."""

    load_avg: Levels
    """Scale: the unscaled weight."""
    runnable_avg: Levels
    """Scale: 1024 = always runnable."""
    util_avg: Levels
    """Scale: 1024 = always running."""


def steady_state(
    running_ns: int, period_ns: int, *, waiting_ns: int = 0, weight: int = NICE_0_LOAD, half_life_ms: int = 32
) -> SteadyState:
    """Where the signals of a periodic task end, in closed form.

    In each period the task waits, runs and sleeps, in this order. This is the continuous signal that PELT
    approximates: real numbers, no periods, no rounding. The integers of `trace` stay within a few units of
        it.

    Args:
        running_ns: time on the CPU a period.
        period_ns: length of a period.
        waiting_ns: time on the queue without the CPU a period.
        weight: scaled `load.weight`.
        half_life_ms: half-life in PELT periods, 1 to 1024.

    Raises:
        ValueError: the parts do not fit into the period, or an argument is out of range.
    """
    period_ns = _integer("period_ns", period_ns, low=1)
    running_ns = _integer("running_ns", running_ns, high=period_ns)
    waiting_ns = _integer("waiting_ns", waiting_ns, high=period_ns - running_ns)
    half_life_ns = tables(half_life_ms).half_life_ms * _PERIOD_NS

    def levels(active_ns: int, scale: float) -> Levels:
        def gone(span_ns: int) -> float:
            return 1.0 - cast(float, 0.5 ** (span_ns / half_life_ns))

        maximum = scale * gone(active_ns) / gone(period_ns)
        return Levels(maximum * (1.0 - gone(period_ns - active_ns)), scale * active_ns / period_ns, maximum)

    active_ns = running_ns + waiting_ns
    unscaled = _integer("weight", weight, high=_MAX_WEIGHT) / 1024
    return SteadyState(levels(active_ns, unscaled), levels(active_ns, 1024.0), levels(running_ns, 1024.0))


class Tables(NamedTuple):
    """The constants of one half-life (kernel/sched/sched-pelt.h)."""

    half_life_ms: int
    """Half-life in PELT periods (`LOAD_AVG_PERIOD`)."""
    load_avg_max: int
    """Sum that an entity with load forever reaches, units of 1024 ns (`LOAD_AVG_MAX`)."""
    load_avg_max_n: int
    """Number of the last period that still makes that sum grow (`LOAD_AVG_MAX_N`)."""
    yn_inv: npt.NDArray[np.uint32]
    """y^n times 2^32, shape (half_life_ms,) (`runnable_avg_yN_inv`)."""


def tables(half_life_ms: int = 32) -> Tables:
    """The constants of a half-life, as the kernel's generator makes them.

    Models Documentation/scheduler/sched-pelt.c. Raises ValueError unless the half-life is 1 to 1024.
    """
    half_life_ms = _integer("half_life_ms", half_life_ms, high=_U32)
    return Tables(half_life_ms, *_core.pelt_tables(half_life_ms))


@overload
def decay_load(val: int, n: int, half_life_ms: int = 32) -> int: ...
@overload
def decay_load(
    val: npt.ArrayLike, n: npt.ArrayLike, half_life_ms: int = 32
) -> int | npt.NDArray[np.uint64]: ...
def decay_load(val: npt.ArrayLike, n: npt.ArrayLike, half_life_ms: int = 32) -> int | npt.NDArray[np.uint64]:
    """A sum after `n` periods without load.

    Models kernel/sched/pelt.c, decay_load().

    Args:
        val: the sum or sums, from 0 to 2^64 - 1, any shape.
        n: periods, broadcast against `val`.
        half_life_ms: half-life, 1 to 1024.

    Returns:
        An int for two scalars, else an array of uint64 in the broadcast shape.

    Raises:
        ValueError: the message names argument, value and rule.
    """
    vals, ns = _array("val", val, np.uint64), _array("n", n, np.uint64)
    vals, ns = np.broadcast_arrays(vals, ns)
    half_life_ms = _integer("half_life_ms", half_life_ms, high=_U32)
    decayed = _core.pelt_decay_load(_flat(vals), _flat(ns), half_life_ms)
    return _like(decayed, vals.shape)


@overload
def calc_delta_fair(delta_ns: int, weight: int, inv_weight: int = 0) -> int: ...
@overload
def calc_delta_fair(
    delta_ns: npt.ArrayLike, weight: npt.ArrayLike, inv_weight: npt.ArrayLike = 0
) -> int | npt.NDArray[np.uint64]: ...
def calc_delta_fair(
    delta_ns: npt.ArrayLike, weight: npt.ArrayLike, inv_weight: npt.ArrayLike = 0
) -> int | npt.NDArray[np.uint64]:
    """Virtual time of a real time: what a vruntime grows by.

    Models kernel/sched/fair.c, calc_delta_fair() and __calc_delta().

    Args:
        delta_ns: real time, any shape.
        weight: scaled `load.weight`, broadcast.
        inv_weight: cached inverse weight, broadcast; 0 = computed. For the weight of a nice level the kernel
            uses its table (`nice_weight` has it), which differs from the computed inverse for some levels.

    Returns:
        An int for scalars, else an array of uint64 in the broadcast shape.

    Raises:
        ValueError: the message names argument, value and rule.
    """
    deltas, weights, inverses = np.broadcast_arrays(
        _array("delta_ns", delta_ns, np.uint64),
        _array("weight", weight, np.uint64),
        _array("inv_weight", inv_weight, np.uint32, _U32),
    )
    virtual = _core.calc_delta_fair(_flat(deltas), _flat(weights), _flat(inverses))
    return _like(virtual, deltas.shape)


class NiceWeight(NamedTuple):
    """Weight of a nice level."""

    weight: int
    """Unscaled: 1024 for nice 0; `scale_load` scales it."""
    inv_weight: int
    """The kernel's table of 2^32 / weight."""


def nice_weight(nice: int) -> NiceWeight:
    """Weight and inverse weight of a nice level, -20 to 19.

    Models kernel/sched/core.c, sched_prio_to_weight[] and sched_prio_to_wmult[]. Raises ValueError for other
    levels.
    """
    return NiceWeight(*_core.nice_weight(_integer("nice", nice, low=-20, high=19)))


def scale_load(weight: int) -> int:
    """The scaled weight of an unscaled one: what `weight` means everywhere in this module."""
    return _integer("weight", weight, high=_MAX_WEIGHT >> 10) << 10


class _Histories:
    """The arguments that both traces take, checked, flat and contiguous."""

    def __init__(
        self,
        times: npt.ArrayLike,
        offsets: npt.ArrayLike | None,
        at: npt.ArrayLike | None,
        tick_ns: int | None,
        half_life_ms: int,
        form: str,
    ) -> None:
        self.form = _form(form)
        self.half_life_ms = _integer("half_life_ms", half_life_ms, high=_U32)
        self.tick_ns = None if tick_ns is None else _integer("tick_ns", tick_ns)
        shaped = _array("times", times, np.uint64, _MAX_TIME_NS)
        if shaped.ndim not in (1, 2) or (offsets is not None and shaped.ndim != 1):
            rule = "must have 1 dimension with offsets, else 1 or 2"
            raise _invalid("times", f"shape {shaped.shape}", rule)
        self.shape = shaped.shape
        self.times = _flat(shaped)
        self.ragged = offsets is not None
        if offsets is not None:
            self.offsets = _array("offsets", offsets, np.uintp)
            if self.offsets.ndim != 1:
                raise _invalid("offsets", f"shape {self.offsets.shape}", "must have 1 dimension")
            self.offsets = _flat(self.offsets)
        else:
            rows, length = (1, *self.shape)[-2:]
            self.offsets = np.arange(rows + 1, dtype=np.uintp) * np.uintp(length)
        self.nr = max(self.offsets.size - 1, 0)
        self.at = None if at is None else _array("at", at, np.uint64, _MAX_TIME_NS)
        if self.at is not None:
            if self.at.ndim != 1:
                raise _invalid("at", f"shape {self.at.shape}", "must have 1 dimension")
            self.at = _flat(self.at)
        self._check_ticks()

    def _check_ticks(self) -> None:
        """Refuses what would never end: the core goes from tick to tick."""
        ends = [array for array in (self.times, self.at) if array is not None and array.size]
        if not self.tick_ns or not self.times.size:
            return
        span_ns = max(int(array.max()) for array in ends) - int(self.times.min())
        ticks = self.nr * span_ns // self.tick_ns
        if ticks > _MAX_TICKS:
            rule = f"must be longer: the histories have up to {ticks} ticks, the most is {_MAX_TICKS}"
            raise _invalid("tick_ns", self.tick_ns, rule)

    def per_change(
        self, argument: str, values: npt.ArrayLike, dtype: type[np.generic], high: int, rule: str
    ) -> npt.NDArray[Any]:
        """An argument of the shape of `times`, flat."""
        shaped = _array(argument, values, dtype, high, rule)
        if shaped.shape != self.shape:
            raise _invalid(argument, f"shape {shaped.shape}", f"must have the shape of times, {self.shape}")
        return _flat(shaped)

    def dataset(self, signals: tuple[npt.NDArray[np.uint64], ...]) -> xr.Dataset:
        """The averages with their dimensions and coordinates."""
        dims: tuple[str, ...]
        shape: tuple[int, ...]
        coords: dict[str, Any]
        if self.at is not None:
            dims, shape = ("entity", "time_ns"), (self.nr, self.at.size)
            coords = {"time_ns": self.at.view(np.int64)}
            if not self.ragged and len(self.shape) == 1:
                dims, shape = dims[1:], shape[1:]
        elif self.ragged:
            dims, shape = ("change",), self.shape
            lengths = (self.offsets[1:] - self.offsets[:-1]).astype(np.intp)
            coords = {
                "entity": ("change", np.repeat(np.arange(self.nr), lengths)),
                "time_ns": ("change", self.times.view(np.int64)),
            }
        else:
            dims, shape = ("entity", "change")[-len(self.shape) :], self.shape
            coords = {"time_ns": (dims, self.times.view(np.int64).reshape(shape))}
        names = ("load_avg", "runnable_avg", "util_avg")
        return xr.Dataset(
            {
                name: (dims, values.view(np.int64).reshape(shape))
                for name, values in zip(names, signals, strict=True)
            },
            coords,
            {"half_life_ms": self.half_life_ms, "form": self.form},
        )


def _integer(argument: str, value: Any, *, low: int = 0, high: int = _U64) -> int:
    try:
        number = operator.index(value)
    except TypeError:
        raise _invalid(argument, value, "must be an integer") from None
    if not low <= number <= high:
        raise _invalid(argument, value, f"must be from {low} to {high}")
    return number


def _array(
    argument: str, values: npt.ArrayLike, dtype: type[np.generic], high: int = _U64, rule: str | None = None
) -> npt.NDArray[Any]:
    """`values` as an array of an unsigned type, unless one is not an integer from 0 to `high`."""
    array = np.asarray(values)
    if array.size == 0 and array.dtype.kind == "f":
        return array.astype(dtype)
    if array.dtype.kind not in "iub":
        raise _invalid(argument, f"dtype {array.dtype}", "must be integers from 0 to 2^64 - 1")
    if array.size > 0 and (array.dtype.kind == "i" or high < _U64):
        lowest, highest = int(array.min()), int(array.max())
        if lowest < 0 or highest > high:
            wrong = lowest if lowest < 0 else highest
            raise _invalid(argument, wrong, rule or f"must be from 0 to {high}")
    return array.astype(dtype, copy=False)


def _flat(array: npt.NDArray[Any]) -> npt.NDArray[Any]:
    return np.ascontiguousarray(array).reshape(-1)


def _like(values: npt.NDArray[np.uint64], shape: tuple[int, ...]) -> int | npt.NDArray[np.uint64]:
    return int(values[0]) if shape == () else values.reshape(shape)


def _form(form: str) -> str:
    if form not in ("modern", "old"):
        raise _invalid("form", repr(form), 'must be "modern" or "old"')
    return form


def _invalid(argument: str, value: object, rule: str) -> ValueError:
    return ValueError(f"{argument} = {value}: {rule}")
