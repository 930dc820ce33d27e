# The private extension module; its public faces are the modules of this package.
from typing import Any, final

import numpy as np
import numpy.typing as npt

__all__ = [
    "VERSION",
    "PeltState",
    "calc_delta_fair",
    "nice_weight",
    "pelt_decay_load",
    "pelt_tables",
    "pelt_trace_cfs_rqs",
    "pelt_trace_entities",
    "verify_text",
]

VERSION: str

_Signals = tuple[npt.NDArray[np.uint64], npt.NDArray[np.uint64], npt.NDArray[np.uint64]]

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
def verify_text(file_name: str, data: bytes) -> dict[str, Any]: ...
