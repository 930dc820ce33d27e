"""Machines: named ones, descriptions, arrays, changes, errors and drawings."""

import csv
import json
import pickle
from importlib import resources

import matplotlib
import pytest
from hypothesis import given
from hypothesis import strategies as st

from schedlab.machine import Machine, machines

matplotlib.use("Agg")

import matplotlib.pyplot as plt

NAMED = {
    "arm64-224": (224, 56, 2),
    "arm64-dual-quad": (8, 8, 1),
    "celeron-2cpu": (2, 2, 1),
    "i7-13700-12c24t": (24, 12, 1),
    "power9-44c": (176, 44, 2),
    "vm-2cpu": (2, 2, 1),
    "xeon-4node-80": (80, 40, 4),
    "xeon-e7-8node-160": (160, 80, 8),
}


def source_rows(name):
    folder = resources.files("schedlab") / "data" / "machine_sources"
    return list(csv.DictReader((folder / name).read_text(encoding="utf-8").splitlines()))


def cpus_of(spec, key, number):
    return [cpu for cpu, value in enumerate(spec[key]) if value == number]


class TestNamed:
    def test_lists_every_machine_that_ships(self):
        assert machines() == sorted(NAMED)

    @pytest.mark.parametrize("name", NAMED)
    def test_has_its_size_its_source_and_what_is_assumed(self, name):
        machine = Machine.named(name)
        cores = len(set(machine.spec["core"]))
        assert (machine.nr_cpus, cores, machine.nr_nodes) == NAMED[name]
        assert machine.name == name
        assert machine.source
        assert machine.assumed

    def test_offers_near_names(self):
        with pytest.raises(
            ValueError, match=r"machine = 'arm64-dualquad': must be one of .*did you mean arm64-dual-quad"
        ):
            Machine.named("arm64-dualquad")

    def test_xeon_e7_is_numbered_as_its_mail_prints_it(self):
        spec = Machine.named("xeon-e7-8node-160").spec
        for row in source_rows("e7_4870_8node_cpus.csv"):
            first, second = (run.split("-") for run in row["cpus"].split())
            printed = [*range(int(first[0]), int(first[1]) + 1), *range(int(second[0]), int(second[1]) + 1)]
            assert cpus_of(spec, "node", int(row["node"])) == printed
        for cpu in range(80):
            assert cpus_of(spec, "core", spec["core"][cpu]) == [cpu, cpu + 80]
        distances = source_rows("e7_4870_8node_distances.csv")
        assert spec["distance"] == [[int(row[f"to{to}"]) for to in range(8)] for row in distances]

    def test_xeon_4node_is_numbered_as_its_mail_prints_it(self):
        spec = Machine.named("xeon-4node-80").spec
        assert cpus_of(spec, "node", 1) == [*range(10, 20), *range(50, 60)]
        assert cpus_of(spec, "core", spec["core"][13]) == [13, 53]


class TestSynthetic:
    def test_numbers_cpus_depth_first(self):
        spec = Machine.synthetic("node:2 l3:1 core:12 pu:2").spec
        assert len(spec["core"]) == 48
        assert spec["core"][:4] == [0, 0, 1, 1]
        assert spec["node"] == [0] * 24 + [1] * 24
        assert spec["package"] == spec["llc"] == spec["node"]
        assert spec["cluster"] == spec["core"]
        assert spec["distance"] == [[10, 20], [20, 10]]

    def test_numbers_siblings_apart(self):
        spec = Machine.synthetic("package:2 core:2 pu:2", siblings="apart").spec
        assert spec["core"] == [0, 1, 2, 3, 0, 1, 2, 3]
        assert spec["package"] == [0, 0, 1, 1, 0, 0, 1, 1]

    def test_knows_sub_numa_clusters_and_dies(self):
        spec = Machine.synthetic("socket:2 numanode:2 die:1 l3:2 l2:2 core:1 pu:1").spec
        assert spec["package"] == [0] * 8 + [1] * 8
        assert [len(set(spec[key])) for key in ("node", "die", "llc", "cluster", "core")] == [4, 4, 8, 16, 16]

    def test_reads_what_hwloc_exports(self):
        text = (
            "Package:1(arch=x) [NUMANode(memory=16G indexes=0)] L3Cache:1(size=32M) L2Cache:4(size=1M) "
            "L1dCache:1 L1iCache:1 Core:1 PU:2(indexes=2*4:1*2)"
        )
        spec = Machine.synthetic(text).spec
        assert len(spec["core"]) == 8
        assert [len(set(spec[key])) for key in ("node", "llc", "cluster", "core")] == [1, 1, 4, 4]

    def test_shares_the_smallest_box_without_caches(self):
        assert Machine.synthetic("package:2 core:2").spec["llc"] == [0, 0, 1, 1]
        assert Machine.synthetic("core:2 pu:2").spec["llc"] == [0, 0, 0, 0]

    @pytest.mark.parametrize(
        ("text", "rule"),
        [
            ("", "must have a level"),
            (
                "node:2 banana:3",
                "'banana:3' is no level: must be one of package, node, die, l3, l2, core, pu",
            ),
            ("node:0", "'node:0' must have a count of at least 1"),
            ("node", "'node' must have a count"),
            ("core:-1", "must have a count"),
            ("core:2 core:2", "level core comes twice"),
            ("pu:2 core:2", "pu is the lowest level"),
            ("core:2 node:2", "node cannot be inside a core"),
            ("node:64 core:65", "at most 4096 CPUs, not 4160"),
        ],
    )
    def test_refuses(self, text, rule):
        with pytest.raises(ValueError, match="description = ") as error:
            Machine.synthetic(text)
        assert rule in str(error.value)

    def test_refuses_another_numbering(self):
        with pytest.raises(ValueError, match="siblings = 'odd': must be one of adjacent, apart"):
            Machine.synthetic("core:2", siblings="odd")

    @given(
        st.lists(st.integers(1, 3), min_size=5, max_size=5),
        st.sampled_from(["adjacent", "apart"]),
    )
    def test_every_count_is_there(self, counts, siblings):
        names = ["package", "node", "l3", "core", "pu"]
        text = " ".join(f"{name}:{count}" for name, count in zip(names, counts, strict=True))
        spec = Machine.synthetic(text, siblings=siblings).spec
        product = 1
        for key, count in zip(["package", "node", "llc", "core"], counts, strict=False):
            product *= count
            assert len(set(spec[key])) == product
        assert len(spec["core"]) == product * counts[4]


class TestNuma:
    def test_puts_threads_cores_and_caches_into_nodes(self):
        spec = Machine.numa([[10, 21], [21, 10]], cpus_per_node=112, threads_per_core=4).spec
        assert len(spec["core"]) == 224
        assert len(set(spec["core"])) == 56
        assert spec["node"] == spec["llc"] == spec["package"] == [0] * 112 + [1] * 112
        assert spec["distance"] == [[10, 21], [21, 10]]

    def test_takes_uneven_and_empty_nodes(self):
        distance = [[10, 15, 20], [15, 10, 15], [20, 15, 10]]
        machine = Machine.numa(distance, [4, 0, 6], threads_per_core=2, llcs_per_node=2, memoryless_nodes=[2])
        assert machine.spec["node"] == [0] * 4 + [2] * 6
        assert machine.spec["llc"] == [0, 0, 1, 1, 4, 4, 4, 4, 5, 5]
        assert machine.spec["memoryless_nodes"] == [2]
        assert machine.nr_nodes == 3

    def test_puts_nodes_into_packages(self):
        distance = [[10 if a == b else 20 for b in range(4)] for a in range(4)]
        assert Machine.numa(distance, 2, nodes_per_package=2).spec["package"] == [0] * 4 + [1] * 4

    @pytest.mark.parametrize(
        ("arguments", "message"),
        [
            (([[10, 20]], 2), "machine.distance[0] = 2 entries: must be square"),
            (
                ([[10, 20], [20, 11]], 2),
                "machine.distance[1][1] = 11: the distance of a node to itself is 10",
            ),
            (
                ([[10, 10], [20, 10]], 2),
                "machine.distance[0][1] = 10: the distance to another node is from 11 to 255",
            ),
            (([[10, 20.5], [20, 10]], 2), "distance[0][1] = 20.5: must be an integer"),
            (("10", 2), "distance = '10': must be a square matrix"),
            (([[10]], 0), "cpus_per_node = 0: must be an integer from 1 to 4096"),
            (([[10]], [0]), "cpus = None: a machine has at least one CPU"),
            (([[10]], 2.0), "cpus_per_node = 2.0: must be an integer"),
            (([[10]], True), "cpus_per_node = True: must be an integer"),
            (([[10]], [1, 2]), "cpus_per_node = [1, 2]: must have one entry a node (1)"),
            (([[10]], 4097), "cpus_per_node = 4097: must be an integer from 1 to 4096"),
            (([[10, 20], [20, 10]], 4096), "cpus = 8192: a machine has at most 4096 CPUs"),
        ],
    )
    def test_refuses(self, arguments, message):
        with pytest.raises(ValueError, match=r" = ") as error:
            Machine.numa(*arguments)
        assert message in str(error.value)

    def test_refuses_split_cores_and_caches(self):
        with pytest.raises(ValueError, match=r"cpus_per_node\[0\] = 3: must be whole cores"):
            Machine.numa([[10]], 3, threads_per_core=2)
        with pytest.raises(ValueError, match="llcs_per_node = 3: must be at most the cores of node 0"):
            Machine.numa([[10]], 4, threads_per_core=2, llcs_per_node=3)
        with pytest.raises(ValueError, match="threads_per_core = 0"):
            Machine.numa([[10]], 4, threads_per_core=0)


class TestArrays:
    def test_numbers_and_sets_are_the_same(self):
        assert Machine(node=[0, 0, 1, 1]) == Machine(node=[[0, 1], [2, 3]])

    def test_fills_what_is_left_out(self):
        spec = Machine(4, node=[[0, 2], [1, 3]]).spec
        assert spec["core"] == spec["cluster"] == [0, 1, 2, 3]
        assert spec["llc"] == spec["package"] == spec["die"] == [0, 1, 0, 1]
        assert spec["capacity"] == [1024] * 4

    @pytest.mark.parametrize(
        ("arguments", "message"),
        [
            ({}, "cpus = None: a machine has at least one CPU"),
            ({"cpus": 0}, "cpus = 0: must be an integer from 1 to 4096"),
            ({"cpus": 4097}, "cpus = 4097: must be an integer from 1 to 4096"),
            ({"node": [[0, 1], [1, 2]]}, "node[1] = [1, 2]: CPU 1 is in one node only, not in 0 and 1"),
            ({"cpus": 3, "node": [[0], [1]]}, "node = [[0], [1]]: CPU 2 is in no node"),
            ({"cpus": 2, "core": [[0], [2]]}, "core[1] = 2: must be a CPU, below 2"),
            ({"cpus": 2, "llc": [0]}, "machine.llc = 1 entries: must have one entry a CPU"),
            ({"cpus": 2, "capacity": [1024, 0]}, "machine.capacity[1] = 0: must be from 1 to 1024"),
            ({"cpus": 2, "arch": "vax"}, 'machine.arch = "vax": must be one of'),
            ({"cpus": 2, "offline": [2]}, "machine.offline[0] = 2: must be a CPU, below 2"),
            ({"cpus": 2, "isolated": "01"}, "isolated = '01': must be a sequence of integers"),
            ({"cpus": 2, "node": [0, 10**9]}, "at most 1024 nodes"),
            ({"cpus": 2, "node": [0, 1], "distance": [[10]]}, "machine.node[1] = 1: must be a node"),
            ({"core": [0, 0, 1, 1], "node": [0, 1, 1, 1]}, "CPUs 0 and 1 share core 0"),
            (
                {"cpus": 2, "costs": {"ipi_ns": "many"}},
                "costs.ipi_ns = 'many': must be an integer",
            ),
            (
                {"cpus": 2, "costs": {"ipi_ns": 1.5}},
                "costs.ipi_ns = 1.5: must be an integer",
            ),
            (
                {"cpus": 2, "costs": {"switch_ns": 1}},
                "or context_switch_ns or tick_ns?",
            ),
            (
                {"cpus": 2, "costs": {"ipi_ns": 10_000_001}},
                "costs.ipi_ns = 10000001: a cost is at most 10000000 ns",
            ),
        ],
    )
    def test_refuses(self, arguments, message):
        with pytest.raises(ValueError, match=r" = ") as error:
            Machine(**arguments)
        assert message in str(error.value)


class TestChanges:
    machine = Machine.synthetic("node:2 core:2 pu:2")

    def test_leave_the_original_alone(self):
        changed = self.machine.with_offline([7]).with_isolated([6]).with_costs({"context_switch_ns": 1500})
        assert (changed.spec["offline"], changed.spec["isolated"], changed.costs) == (
            [7],
            [6],
            {"context_switch_ns": 1500},
        )
        assert (self.machine.spec["offline"], self.machine.spec["isolated"], self.machine.costs) == (
            [],
            [],
            {},
        )
        changed.spec["offline"].append(1)
        assert changed.spec["offline"] == [7]

    def test_are_refused_on_the_instance(self):
        with pytest.raises(AttributeError):
            self.machine.source = "elsewhere"

    def test_set_capacities_by_cpu_or_all(self):
        assert self.machine.with_capacity({6: 512, 7: 512}).spec["capacity"] == [1024] * 6 + [512] * 2
        assert self.machine.with_capacity([600] * 8).spec["capacity"] == [600] * 8
        with pytest.raises(ValueError, match="capacity CPU = 8: must be an integer from 0 to 7"):
            self.machine.with_capacity({8: 512})
        with pytest.raises(ValueError, match=r"machine.capacity\[7\] = 1024: CPUs 6 and 7 share core 3"):
            self.machine.with_capacity({6: 512})

    def test_refuse_to_take_every_cpu(self):
        with pytest.raises(ValueError, match=r"machine\.offline = all 8 CPUs: some CPU is online"):
            self.machine.with_offline(range(8))
        with pytest.raises(ValueError, match=r"machine\.isolated = .*some online CPU is not isolated"):
            self.machine.with_offline([0]).with_isolated(range(1, 8))

    def test_survive_json_and_pickle(self):
        machine = Machine.named("power9-44c").with_offline([3]).with_costs({"tick_ns": 2000, "ipi_ns": 5})
        assert Machine.from_json(machine.to_json()) == machine
        assert hash(pickle.loads(pickle.dumps(machine))) == hash(machine)

    @pytest.mark.parametrize(
        ("text", "message"),
        [
            ("{", "machine = '{': must be JSON"),
            ("[]", "must be an object with an object `spec`"),
            ('{"spec": {"name": "x"}}', "missing field `arch`"),
            ('{"spec": {}, "cost": {}}', "did you mean costs?"),
        ],
    )
    def test_json_that_is_no_machine(self, text, message):
        with pytest.raises(ValueError, match="machine") as error:
            Machine.from_json(text)
        assert message in str(error.value)

    def test_json_may_leave_out_what_has_a_default(self):
        spec = Machine(2).spec
        for key in ("offline", "isolated", "memoryless_nodes"):
            del spec[key]
        assert Machine.from_json(json.dumps({"spec": spec})) == Machine(2)


class TestShown:
    def test_as_a_line(self):
        machine = Machine.named("arm64-dual-quad").with_offline([1, 2, 3])
        assert repr(machine) == (
            "Machine('arm64-dual-quad': 8 CPUs, 8 cores, 2 LLCs, 1 package, 1 node, arm64, offline 1-3)"
        )

    def test_as_html_escapes_names(self):
        assert "&lt;b&gt;" in Machine(2, name="<b>")._repr_html_()

    @pytest.mark.parametrize("name", ["arm64-dual-quad", "arm64-224"])
    def test_as_a_drawing_with_every_cpu(self, name):
        machine = Machine.named(name)
        ax = machine.plot()
        try:
            assert isinstance(ax, plt.Axes)
            texts = {text.get_text() for text in ax.texts}
            assert {str(cpu) for cpu in range(machine.nr_cpus)} <= texts
            ax.figure.canvas.draw()
            assert min(text.get_fontsize() for text in ax.texts) >= 6
        finally:
            plt.close(ax.figure)

    def test_as_a_drawing_on_given_axes(self):
        figure, ax = plt.subplots()
        try:
            machine = Machine.numa([[10, 20], [20, 10]], [4, 0]).with_offline([3])
            assert machine.plot(ax) is ax
            assert "node 1: memory only" in {text.get_text() for text in ax.texts}
            assert [text.get_text() for text in ax.get_legend().get_texts()] == ["offline"]
        finally:
            plt.close(figure)
