from __future__ import annotations

import pickle
from collections.abc import Callable
from typing import Any

import pytest

import schedlab as sl


def test_the_generations_of_today_are_listed_with_the_source_they_model() -> None:
    frame = sl.kernels()
    assert list(frame.columns) == ["name", "kind", "base", "source", "summary", "changes"]
    generations = frame[frame.kind == "generation"].set_index("name")
    assert {"v5.5", "v5.6", "v5.7"} <= set(generations.index)
    assert all(generations.source)


def test_the_list_says_in_a_line_a_slot_what_each_kernel_and_patch_changes() -> None:
    frame = sl.kernels().set_index("name")
    assert frame.changes["v5.4"] == frame.base["v5.4"] == ""
    assert frame.base["v5.6"] == "v5.5"
    slots = sl.Kernel("v5.5").diff(sl.Kernel("v5.6")).rows
    assert frame.changes["v5.6"].split("\n") == [f"{row[1]}: {row[4]}" for row in _in_order(slots)]
    for name in frame.index[frame.base != ""]:
        for line in frame.changes[name].split("\n"):
            slot, _, sentence = line.partition(": ")
            slots = sl.Kernel(frame.base[name].split("+")[0]).functions()
            assert slot in slots and sentence.endswith("."), (name, line)


def _in_order(rows: list[tuple[str, str, str, str, str]]) -> list[tuple[str, str, str, str, str]]:
    """The rows in the order of the kernel's table."""
    order = list(sl.Kernel("v5.7").functions())
    return sorted(rows, key=lambda row: order.index(row[1]))


def test_v5_7_differs_from_v5_6_in_how_it_classifies_groups() -> None:
    diff = sl.Kernel("v5.6").diff(sl.Kernel("v5.7"))
    slots = {name for kind, name, *_ in diff.rows if kind == "slot"}
    assert slots & {"group_has_capacity", "group_is_overloaded"}
    assert "calculate_imbalance" not in slots or len(slots) > 1
    assert "v5.6" in repr(diff)
    assert all(row[4] for row in diff.rows)
    assert "Overloaded also by runnable_avg." in repr(diff) and "Overloaded also" in diff._repr_html_()
    assert diff._repr_html_().count("<tr>") == len(diff) + 1
    assert len(diff.to_pandas()) == len(diff)


def test_a_kernel_does_not_differ_from_itself() -> None:
    diff = sl.Kernel("v5.7").diff(sl.Kernel("v5.7"))
    assert len(diff) == 0
    assert "alike" in repr(diff)


def test_diff_shows_tunables_and_features() -> None:
    base = sl.Kernel("v5.6")
    diff = base.diff(base.with_tunables(hz=1000).with_features(START_DEBIT=False))
    assert [row[:4] for row in diff.rows] == [
        ("tunable", "hz", "default", "1000"),
        ("feature", "START_DEBIT", "default", "False"),
    ]
    assert diff.rows[0][4] == "" and diff.rows[1][4]


def test_a_slot_of_another_generation_is_the_only_difference() -> None:
    base = sl.Kernel("v5.7")
    older = base.with_slots(group_is_overloaded="v5.5")
    assert [(kind, name) for kind, name, *_ in base.diff(older).rows] == [("slot", "group_is_overloaded")]


@pytest.mark.parametrize(
    ("base", "patches"),
    [
        ("v5.4", ["lb-rework-v4"]),
        ("v5.4", ["lb-rework-v4-load"]),
        ("v5.4", ["lb-rework-v4-no-small-imbalance"]),
        ("v5.4", ["lb-rework-v4-nr-running"]),
        ("v5.4", ["lb-rework-v4-misfit"]),
        ("v5.4", ["lb-rework-v4-balance", "lb-rework-v4-idlest"]),
        ("v5.6", ["runnable-avg"]),
        ("v5.6", ["runnable-avg-numa-load"]),
        ("v5.6", ["runnable-avg-signal", "runnable-avg-classify"]),
        ("v5.6", ["runnable-avg-v3"]),
        ("v5.6", ["runnable-avg", "runnable-avg-v3-init"]),
        ("v5.7", ["runnable-avg-v3-init"]),
        ("v5.6", ["runnable-avg", "numa-lb-reconcile"]),
    ],
)
def test_patches_apply_where_their_base_is(base: str, patches: list[str]) -> None:
    kernel = sl.Kernel(base)
    diff = kernel.diff(kernel.with_patches(*patches))
    assert len(diff) > 0
    assert all(kind == "slot" and sentence for kind, *_, sentence in diff.rows)


@pytest.mark.parametrize(
    ("base", "patch", "needs"),
    [
        ("v5.6", "runnable-avg-classify", "as after runnable-avg"),
        ("v5.4", "lb-rework-v4-idlest", "as after lb-rework-v4"),
        ("v5.6", "lb-rework-v4", "in v5.6 already"),
        ("v5.6", "lb-rework-v4-misfit", "to be v5_4::detach_tasks"),
        ("v5.6", "runnable-avg-v3-init", "new_task_runnable"),
        ("v6.12", "runnable-avg-v3", "already"),
    ],
)
def test_a_patch_without_its_base_is_refused_and_says_what_it_needs(
    base: str, patch: str, needs: str
) -> None:
    with pytest.raises(ValueError, match=f'patch = "{patch}"') as error:
        sl.Kernel(base).with_patches(patch)
    assert needs in str(error.value), str(error.value)


def test_domains_follow_the_rules_of_another_kernel_where_asked() -> None:
    base = sl.Kernel("v5.7")
    later = base.with_domains("v5.10")
    assert base.diff(later).rows == [("domains", "rules", "default", "v5.10", "")]
    assert "domains of v5.10" in later.label
    machine = sl.Machine(4)
    assert [machine.domains(kernel)[0][0].busy_factor for kernel in (base, later)] == [32, 16]
    assert sl.Kernel.from_dict(later.to_dict()) == later
    with pytest.raises(ValueError, match=r'domains = "v9": must be one of v2.6.15, v5.4'):
        base.with_domains("v9")
    with pytest.raises(ValueError, match=r"domains = 5: must be the name"):
        base.with_domains(5)  # type: ignore[arg-type]


def test_with_methods_leave_the_kernel_alone_and_add_up() -> None:
    base = sl.Kernel("v5.6")
    tuned = base.with_tunables(hz=1000).with_tunables(pelt_half_life_ms=16)
    assert dict(tuned.tunables) == {"hz": 1000, "pelt_half_life_ms": 16}
    assert dict(base.tunables) == {}
    assert tuned.label == "v5.6 (hz=1000, pelt_half_life_ms=16)"


def test_equal_kernels_are_equal_however_they_were_made() -> None:
    one = sl.Kernel("v5.6").with_tunables(hz=1000, pelt_half_life_ms=16)
    other = sl.Kernel("v5.6").with_tunables(pelt_half_life_ms=16).with_tunables(hz=1000)
    assert one == other
    assert hash(one) == hash(other)
    assert one != sl.Kernel("v5.6")


def test_a_kernel_survives_pickling_and_json() -> None:
    kernel = sl.Kernel("v5.6").with_tunables(hz=300).with_features(START_DEBIT=False)
    assert pickle.loads(pickle.dumps(kernel)) == kernel
    assert sl.Kernel.from_dict(kernel.to_dict()) == kernel


def test_a_kernel_cannot_be_changed() -> None:
    kernel = sl.Kernel("v5.6").with_tunables(hz=300)
    with pytest.raises(AttributeError):
        kernel.name = "v5.7"  # type: ignore[misc]
    with pytest.raises(TypeError):
        kernel.tunables["hz"] = 100  # type: ignore[index]


@pytest.mark.parametrize(
    ("make", "parts"),
    [
        (lambda: sl.Kernel("v5.66"), ("v5.66", "v5.6")),
        (lambda: sl.Kernel(5.6), ("kernel", "5.6")),
        (lambda: sl.Kernel("v5.6", patches="runnable-avg"), ("patches", "runnable-avg")),
        (lambda: sl.Kernel("v5.6").with_patches("no-such-patch"), ("no-such-patch",)),
        (lambda: sl.Kernel("v5.6").with_slots(calculate_inbalance="v5.5"), ("calculate_inbalance",)),
        (lambda: sl.Kernel("v5.6").with_slots(calculate_imbalance="v9"), ("v9",)),
        (lambda: sl.Kernel("v5.6").with_tunables(hz=250.0), ("hz", "250.0", "integer")),
        (lambda: sl.Kernel("v5.6").with_features(START_DEBIT=1), ("START_DEBIT", "1", "True or False")),
        (lambda: sl.Kernel.from_dict({"name": "v5.6", "patch": []}), ("patch", "patches")),
        (lambda: sl.Kernel("v5.6").diff("v5.7"), ("other", "v5.7")),
    ],
)
def test_bad_kernels_are_refused_by_name_value_and_rule(
    make: Callable[[], Any], parts: tuple[str, ...]
) -> None:
    with pytest.raises(ValueError) as error:
        make()
    assert all(part in str(error.value) for part in parts), str(error.value)
