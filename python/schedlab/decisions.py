"""Logs of the decisions of a run, as tables: the run is made again and logged."""

from __future__ import annotations

import json
from typing import Any

import pandas as pd

from schedlab import _core
from schedlab.scenario import Scenario

REFUSALS = ("throttled", "affinity", "running", "hot", "size", "ineligible")
"""Why tasks that a balance pass looked at stayed, in the order of the core's counts."""


def balance_log(scenario: Scenario, seed: int) -> pd.DataFrame:
    """Every balance pass of a run, `Runs.balance_log` describes the columns."""
    rows = []
    for entry in json.loads(_core.decision_log(scenario.to_json(), seed, "balance")):
        asked, answer = entry["asked"], entry["answer"]
        rows.append(
            {
                "time_s": entry["time_ns"] / 1e9,
                "cpu": entry["cpu"],
                "level": asked["level"],
                "idle": asked["idle"],
                "nr_balance_failed": asked["nr_balance_failed"],
                "group_types": tuple(answer["group_types"]),
                "groups": tuple(asked["groups"]),
                "busiest": answer["busiest"],
                "src_cpu": answer["src_cpu"],
                "migration_type": answer["migration_type"],
                "imbalance": answer["imbalance"],
                "nr_moved": len(answer["moved"]),
                "moved": tuple(answer["moved"]),
                **{f"refused_{why}": n for why, n in zip(REFUSALS, answer["refused"], strict=True)},
                "active_balance": answer["active_balance"],
                "outcome": answer["outcome"],
            }
        )
    return _frame(rows, BALANCE_COLUMNS, integers=("busiest", "src_cpu", "imbalance"))


def wakeup_log(scenario: Scenario, seed: int) -> pd.DataFrame:
    """Every placement of a waking or new task of a run, `Runs.wakeup_log` describes the columns."""
    rows = []
    for entry in json.loads(_core.decision_log(scenario.to_json(), seed, "placement")):
        asked, answer = entry["asked"], entry["answer"]
        rows.append(
            {
                "time_s": entry["time_ns"] / 1e9,
                "kind": entry["kind"],
                "task": asked["task"],
                "waker": asked["waker"],
                "waker_cpu": entry["cpu"],
                "prev_cpu": asked["prev_cpu"],
                "sync": asked["sync"],
                "cpu": answer["cpu"],
                "rule": answer["rule"],
            }
        )
    return _frame(rows, WAKEUP_COLUMNS, integers=("waker",))


BALANCE_COLUMNS = (
    *("time_s", "cpu", "level", "idle", "nr_balance_failed", "group_types", "groups", "busiest", "src_cpu"),
    *("migration_type", "imbalance", "nr_moved", "moved"),
    *(f"refused_{why}" for why in REFUSALS),
    *("active_balance", "outcome"),
)
"""Columns of `balance_log`."""

WAKEUP_COLUMNS = ("time_s", "kind", "task", "waker", "waker_cpu", "prev_cpu", "sync", "cpu", "rule")
"""Columns of `wakeup_log`."""


def _frame(rows: list[dict[str, Any]], columns: tuple[str, ...], integers: tuple[str, ...]) -> pd.DataFrame:
    """The rows under the columns; integers that may be missing stay integers."""
    frame = pd.DataFrame(rows, columns=pd.Index(columns))
    return frame.astype(dict.fromkeys(integers, "Int64"))
