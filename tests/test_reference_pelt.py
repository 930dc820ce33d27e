"""The core against the plain Python twin, on drawn histories: equal integers everywhere."""

from hypothesis import given
from hypothesis import strategies as st

import schedlab as sl
from schedlab.reference import pelt as reference

FORMS = st.sampled_from(["modern", "old"])
HALF_LIVES = st.one_of(st.sampled_from([8, 16, 32, 64]), st.integers(1, 1024))
WEIGHTS = st.integers(-20, 19).map(lambda nice: sl.pelt.scale_load(sl.pelt.nice_weight(nice).weight))
# From below one unit of 1024 ns to beyond where everything has decayed.
DELTAS = st.one_of(st.integers(0, 3000), st.integers(0, 5_000_000), st.integers(0, 10**12))


@given(
    st.integers(0, 2**62),
    st.lists(st.tuples(DELTAS, st.integers(0, 2)), min_size=1, max_size=60),
    WEIGHTS,
    HALF_LIVES,
    FORMS,
)
def test_traces(start: int, changes: list[tuple[int, int]], weight: int, half_life: int, form: str) -> None:
    times = [start]
    for delta, _ in changes[1:]:
        times.append(times[-1] + delta)
    states = [state for _, state in changes]
    traced = sl.pelt.trace(times, states, weight=weight, half_life_ms=half_life, form=form)
    expected = list(reference.trace(times, states, weight, half_life, form))
    for signal in ("load_avg", "runnable_avg", "util_avg"):
        assert traced[signal].values.tolist() == [getattr(avg, signal) for avg in expected]


@given(
    st.lists(
        st.tuples(
            st.integers(0, 2),
            DELTAS,
            st.booleans(),
            st.integers(0, 300),
            st.booleans(),
            st.integers(0, 300).map(lambda weight: weight << 20),
        ),
        max_size=40,
    ),
    HALF_LIVES,
    FORMS,
)
def test_entities_and_queues_step_by_step(
    steps: list[tuple[int, int, bool, int, bool, int]], half_life: int, form: str
) -> None:
    entity = sl.pelt.Entity(half_life_ms=half_life, form=form)
    cfs_rq = sl.pelt.CfsRq(half_life_ms=half_life, form=form)
    plain_entity, plain_cfs_rq = reference.SchedAvg(), reference.SchedAvg()
    table = reference.tables(half_life)
    now = 0
    for op, delta, on_rq, count, running, weight in steps:
        now += delta
        runnable = count << 20 if form == "old" else count
        entity.weight = weight
        if op == 0:
            got = entity.update(now, on_rq=on_rq, runnable=runnable, running=running)
            expected = reference.update_se(
                plain_entity, table, form, now, weight, int(on_rq), runnable, running
            )
        elif op == 1:
            got = entity.update_blocked(now, runnable=runnable)
            expected = reference.update_blocked_se(plain_entity, table, form, now, weight, runnable)
        else:
            got = cfs_rq.update(now, weight=weight, runnable=runnable, running=running)
            expected = reference.update_cfs_rq(plain_cfs_rq, table, form, now, weight, runnable, running)
        assert got == expected
        assert entity.state == tuple(vars(plain_entity).values())
        assert cfs_rq.state == tuple(vars(plain_cfs_rq).values())


@given(HALF_LIVES)
def test_tables(half_life: int) -> None:
    tables, expected = sl.pelt.tables(half_life), reference.tables(half_life)
    assert tables.load_avg_max == expected.load_avg_max
    assert tables.yn_inv.tolist() == list(expected.yn_inv)
