"""Sched domains through the package: kernels, rings, tables, and what symmetry demands."""

import csv
import time
from importlib import resources

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from schedlab.machine import Machine
from schedlab.topology import build_domains, cpulist, parse_cpulist

KERNELS = ["v5.4", "v5.5", "v5.6", "v5.7", "v5.10", "v6.1", "v6.12", "v7.3"]


def names(domains, cpu=0):
    return [sd.name for sd in domains[cpu]]


def test_xeon_e7_has_the_five_levels_that_its_mail_prints():
    folder = resources.files("schedlab") / "data" / "machine_sources"
    text = (folder / "e7_4870_8node_domains_cpu159.csv").read_text(encoding="utf-8")
    printed = [
        parse_cpulist(row["cpus_in_mask"].replace(" ", ",")) for row in csv.DictReader(text.splitlines())
    ]
    domains = Machine.named("xeon-e7-8node-160").domains("v5.4")
    assert names(domains, 159) == ["SMT", "MC", "NUMA", "NUMA", "NUMA"]
    assert [list(sd.span) for sd in domains[159]] == printed


def test_xeon_4node_has_three_levels():
    domains = Machine.named("xeon-4node-80").domains("v5.4")
    assert [len(sd.span) for sd in domains[79]] == [2, 20, 80]


def test_a_domain_of_the_dual_quad():
    domains = Machine.named("arm64-dual-quad").domains("v5.6")
    cluster, die = domains[6]
    assert (cluster.name, cluster.span, cluster.imbalance_pct) == ("MC", (4, 5, 6, 7), 117)
    assert [group.id for group in cluster.groups] == [6, 7, 4, 5]
    assert (die.name, die.busy_factor, die.min_interval_ms, die.max_interval_ms) == ("DIE", 32, 8, 16)
    assert [group.span for group in die.groups] == [(4, 5, 6, 7), (0, 1, 2, 3)]
    assert {group.capacity for group in die.groups} == {4096}
    assert domains.llc(6) == (4, 4)
    assert [(gone.name, gone.reason) for gone in domains.removed(6)] == [
        ("SMT", "one CPU only"),
        ("NODE", "not built: DIE already spans every CPU"),
    ]


def test_names_and_numbers_follow_the_kernel():
    machine = Machine.synthetic("node:2 l3:2 core:2 pu:2")
    assert [names(machine.domains(kernel)) for kernel in ("v5.7", "v6.1", "v6.12")] == [
        ["SMT", "MC", "DIE", "NUMA"],
        ["SMT", "MC", "DIE", "NUMA"],
        ["SMT", "MC", "PKG", "NUMA"],
    ]
    assert [sd.imbalance_pct for sd in machine.domains("v5.7")[0]] == [110, 117, 125, 125]
    assert [sd.imbalance_pct for sd in machine.domains("v5.10")[0]] == [110, 117, 117, 117]
    assert "SD_SHARE_PKG_RESOURCES" in machine.domains("v6.1")[0][1].flags
    assert "SD_SHARE_LLC" in machine.domains("v6.12")[0][1].flags


def test_sub_numa_clusters_have_no_package_level_on_x86():
    machine = Machine.synthetic("package:2 node:2 l3:1 core:4")
    domains = machine.domains("v6.12")
    assert names(domains) == ["MC", "NUMA"]
    assert "PKG" not in {gone.name for gone in domains.removed(0)}


def test_takes_anything_with_the_name_of_a_kernel():
    class Kernel:
        name = "v5.7"

    assert build_domains(Machine(2), Kernel()).kernel == "v5.7"


@pytest.mark.parametrize("kernel", ["v5.3", "", "5.7"])
def test_refuses_an_unknown_kernel(kernel):
    with pytest.raises(ValueError, match=r"kernel = .*must be one of v2\.6\.15, v5\.4, v5\.5"):
        Machine(2).domains(kernel)


def test_refuses_what_is_no_kernel():
    with pytest.raises(ValueError, match="kernel = 57: must be a kernel or its label"):
        Machine(2).domains(57)


def test_table_has_a_row_a_cpu_and_level():
    machine = Machine.synthetic("node:2 core:2 pu:2").with_offline([7])
    frame = machine.domains("v5.7").to_pandas()
    assert list(frame.columns[:7]) == ["cpu", "domain", "name", "level", "span", "span_weight", "nr_groups"]
    assert len(frame) == 7 * 3 - 1
    lone = frame[frame["cpu"] == 6]
    assert list(lone["name"]) == ["MC", "NUMA"]
    assert list(lone["span"]) == ["4-6", "0-6"]
    assert 7 not in set(frame["cpu"])


def test_printed_levels_come_once_and_say_what_is_missing():
    text = repr(Machine.synthetic("node:2 core:2 pu:2").domains("v5.7"))
    assert text.count("\nSMT ") == text.count("\nNUMA ") == 1
    assert "all CPUs" in text
    assert "not there: DIE (same span as MC), NODE (same span as MC)" in text


def test_printed_kinds_of_cpu_are_told_apart():
    machine = Machine.synthetic("node:2 core:2 pu:2").with_offline([7]).with_isolated([0])
    text = repr(machine.domains("v5.7"))
    assert "CPU 0\nno domains: isolated" in text
    assert "CPU 7\nno domains: offline" in text
    assert "CPUs 2-3\n" in text
    assert "CPU 6\n" in text


def test_html_escapes_the_machine():
    html = Machine(2, name="<i>").domains("v5.7")._repr_html_()
    assert "&lt;i&gt;" in html
    assert "<i>" not in html
    assert "<table>" in html


def test_4096_cpus_take_seconds_at_most():
    distance = [[10 + 10 * (a ^ b).bit_count() for b in range(32)] for a in range(32)]
    machine = Machine.numa(distance, 128, threads_per_core=2)
    start = time.process_time()
    domains = machine.domains("v5.7")
    assert time.process_time() - start < 10
    assert [len(sd.span) for sd in domains[4095]] == [2, 128, 768, 2048, 3328, 3968, 4096]


@pytest.mark.parametrize("text", ["", "3", "0-3,8", "0,2,4-5,4095"])
def test_lists_of_cpus(text):
    assert cpulist(parse_cpulist(text)) == text


@pytest.mark.parametrize("text", ["a", "1-", "-1", "1-2-3", "1 2"])
def test_refuses_what_is_no_list_of_cpus(text):
    with pytest.raises(ValueError, match="must be a list like 0-3,8"):
        parse_cpulist(text)


@st.composite
def numa_machines(draw):
    """Symmetric distances among up to five nodes of up to four CPUs, some nodes without any."""
    nr_nodes = draw(st.integers(1, 5))
    upper = {(a, b): draw(st.sampled_from([11, 20, 30, 31, 40])) for a in range(nr_nodes) for b in range(a)}
    distance = [
        [10 if a == b else upper[max(a, b), min(a, b)] for b in range(nr_nodes)] for a in range(nr_nodes)
    ]
    sizes = draw(st.lists(st.sampled_from([0, 2, 4]), min_size=nr_nodes, max_size=nr_nodes).filter(any))
    return Machine.numa(distance, sizes, threads_per_core=draw(st.sampled_from([1, 2])))


@settings(deadline=None, max_examples=60)
@given(numa_machines(), st.sampled_from(KERNELS))
def test_every_hierarchy_is_whole(machine, kernel):
    domains = machine.domains(kernel)
    for cpu, hierarchy in enumerate(domains):
        below = {cpu}
        for sd in hierarchy:
            assert below <= set(sd.span)
            assert cpu in sd.groups[0].span
            assert set(sd.span) <= {member for group in sd.groups for member in group.span}
            assert all(set(group.balance_mask) <= set(group.span) for group in sd.groups)
            assert all(group.capacity == 1024 * len(group.span) for group in sd.groups)
            below = set(sd.span)
        if hierarchy:
            assert below == set(range(machine.nr_cpus))


@settings(deadline=None, max_examples=40)
@given(numa_machines(), st.sampled_from(KERNELS), st.randoms(use_true_random=False))
def test_relabelling_cpus_relabels_spans(machine, kernel, random):
    new = list(range(machine.nr_cpus))
    random.shuffle(new)
    old = sorted(range(machine.nr_cpus), key=new.__getitem__)
    spec = machine.spec
    sets = {
        key: [spec[key][cpu] for cpu in old] for key in ("core", "cluster", "llc", "die", "package", "node")
    }
    relabelled = Machine(**sets, distance=spec["distance"])
    before, after = machine.domains(kernel), relabelled.domains(kernel)
    for cpu, hierarchy in enumerate(before):
        expected = [(sd.name, sorted(new[member] for member in sd.span), sd.flags) for sd in hierarchy]
        assert [(sd.name, sorted(sd.span), sd.flags) for sd in after[new[cpu]]] == expected
