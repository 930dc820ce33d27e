"""The extension module: conversions between Python and the core, no arithmetic."""

from collections.abc import Callable
from typing import Any, final

import numpy as np
import numpy.typing as npt

__all__ = [
    "VERSION",
    "PeltState",
    "balance_calculate_imbalance",
    "balance_classify",
    "balance_codes",
    "balance_decide",
    "balance_wake_affine",
    "balance_wake_wide",
    "calc_delta_fair",
    "cost_table",
    "decision_log",
    "default_costs",
    "domains_json",
    "feature_table",
    "kernel_notes",
    "kernel_slots",
    "kernels",
    "metric_table",
    "nice_weight",
    "parting",
    "pelt_decay_load",
    "pelt_tables",
    "pelt_trace_cfs_rqs",
    "pelt_trace_entities",
    "simulate",
    "simulate_derived",
    "simulate_trace",
    "tunable_table",
    "validate_costs",
    "validate_machine",
    "validate_scenario",
    "verify_text",
]

VERSION: str

_Signals = tuple[npt.NDArray[np.uint64], npt.NDArray[np.uint64], npt.NDArray[np.uint64]]

def simulate(
    scenario: str,
    seeds: npt.NDArray[np.uint64],
    threads: int,
    progress: Callable[[int], None] | None = None,
) -> dict[str, Any]: ...
def simulate_derived(
    scenario: str,
    seeds: npt.NDArray[np.uint64],
    threads: int,
    background: int = 0,
) -> list[dict[str, float | None]]: ...
def simulate_trace(scenario: str, seed: int) -> dict[str, Any]: ...
def validate_scenario(scenario: str) -> None: ...
def validate_costs(costs: str) -> None: ...
def metric_table() -> list[tuple[str, str, str]]: ...
def tunable_table() -> list[tuple[str, str]]: ...
def feature_table() -> list[tuple[str, bool, str]]: ...
def kernels() -> list[dict[str, str]]: ...
def kernel_slots(kernel_json: str) -> dict[str, str]: ...
def kernel_notes(kernel_json: str) -> dict[str, str]: ...
def parting(a: str, b: str, seed: int) -> str: ...
def decision_log(scenario: str, seed: int, kind: str) -> str: ...
def default_costs() -> str: ...
def cost_table() -> list[tuple[str, str, str]]: ...
def verify_text(file_name: str, data: bytes) -> dict[str, Any]: ...
def domains_json(machine_json: str, kernel: str) -> str: ...
def validate_machine(machine_json: str) -> None: ...

@final
class PeltState:
    def __new__(cls, half_life_ms: int, form: str, now_ns: int) -> PeltState: ...
    state: tuple[int, ...]
    def update_se(self, now_ns: int, weight: int, on_rq: bool, runnable: int, running: bool) -> bool: ...
    def update_blocked_se(self, now_ns: int, weight: int, runnable_weight: int) -> bool: ...
    def update_cfs_rq(self, now_ns: int, weight: int, runnable: int, running: bool) -> bool: ...
    def init_entity(self, weight: int) -> None: ...
    def post_init_entity_util_avg(self, cfs_rq: PeltState, cpu_scale: int, weight: int) -> None: ...
    def attach_entity(self, entity: PeltState, weight: int) -> None: ...
    def detach_entity(self, entity: PeltState, weight: int) -> None: ...

def pelt_trace_entities(
    times_ns: npt.NDArray[np.uint64],
    states: npt.NDArray[np.uint8],
    offsets: npt.NDArray[np.uintp],
    weights: npt.NDArray[np.uint64],
    at_ns: npt.NDArray[np.uint64] | None,
    tick_ns: int | None,
    half_life_ms: int,
    form: str,
) -> _Signals: ...
def pelt_trace_cfs_rqs(
    times_ns: npt.NDArray[np.uint64],
    weights: npt.NDArray[np.uint64],
    runnable: npt.NDArray[np.uint64],
    running: npt.NDArray[np.bool_],
    offsets: npt.NDArray[np.uintp],
    at_ns: npt.NDArray[np.uint64] | None,
    tick_ns: int | None,
    half_life_ms: int,
    form: str,
) -> _Signals: ...
def pelt_tables(half_life_ms: int) -> tuple[int, int, npt.NDArray[np.uint32]]: ...
def pelt_decay_load(
    vals: npt.NDArray[np.uint64], ns: npt.NDArray[np.uint64], half_life_ms: int
) -> npt.NDArray[np.uint64]: ...
def calc_delta_fair(
    deltas_ns: npt.NDArray[np.uint64], weights: npt.NDArray[np.uint64], inv_weights: npt.NDArray[np.uint32]
) -> npt.NDArray[np.uint64]: ...
def nice_weight(nice: int) -> tuple[int, int]: ...
def balance_codes() -> tuple[list[str], list[str], list[str]]: ...
def balance_decide(kernel_json: str, decision: str, case: str) -> str: ...
def balance_classify(
    kernel_json: str, len: int, arrays: dict[str, npt.NDArray[np.int64]]
) -> npt.NDArray[np.int8]: ...
def balance_calculate_imbalance(
    kernel_json: str, len: int, arrays: dict[str, npt.NDArray[np.int64]]
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int8]]: ...
def balance_wake_affine(
    kernel_json: str, len: int, arrays: dict[str, npt.NDArray[np.int64]]
) -> npt.NDArray[np.int8]: ...
def balance_wake_wide(
    kernel_json: str, len: int, arrays: dict[str, npt.NDArray[np.int64]]
) -> npt.NDArray[np.bool_]: ...
