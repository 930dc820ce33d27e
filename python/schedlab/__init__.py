"""A laboratory for the Linux fair scheduler: machines, kernels, loads, and thousands of seeds.

The nouns are `Machine`, `Kernel`, a workload such as `Hackbench`, and `Runs`; the verbs `simulate`, `compare`
and `reproduce`. The parts `topology`, `pelt` and `balance` work alone.
"""

from schedlab import balance, pelt, topology
from schedlab._core import VERSION as __version__
from schedlab.compare import Comparison, compare
from schedlab.difference import Difference, first_difference
from schedlab.hotplug import Hotplug
from schedlab.kernel import Kernel, KernelDiff, kernels
from schedlab.machine import Machine, machines
from schedlab.memory import Memory
from schedlab.reproduce import Reproduction, reproduce
from schedlab.runs import Runs, read_parquet
from schedlab.scenario import Scenario
from schedlab.simulate import simulate
from schedlab.sweep import plot_band, sweep
from schedlab.tasks import Barrier, CpuHog, ForkStorm, Periodic, PingPong, TaskGroup, Workload
from schedlab.workload import Hackbench, Kernbench, LuOmp, Tbench, Together

__all__ = [
    "Barrier",
    "Comparison",
    "CpuHog",
    "Difference",
    "ForkStorm",
    "Hackbench",
    "Hotplug",
    "Kernbench",
    "Kernel",
    "KernelDiff",
    "LuOmp",
    "Machine",
    "Memory",
    "Periodic",
    "PingPong",
    "Reproduction",
    "Runs",
    "Scenario",
    "TaskGroup",
    "Tbench",
    "Together",
    "Workload",
    "__version__",
    "balance",
    "compare",
    "first_difference",
    "kernels",
    "machines",
    "pelt",
    "plot_band",
    "read_parquet",
    "reproduce",
    "simulate",
    "sweep",
    "topology",
]
