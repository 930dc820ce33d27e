"""Where results come from: everything needed to repeat a run bit for bit."""

from __future__ import annotations

import importlib.metadata
import os
import platform
import sys
from typing import Any

from schedlab import _core
from schedlab._arguments import bad_argument
from schedlab.scenario import Scenario

SCHEMA = 1
"""Version of the dictionary's layout; it grows when a field changes its meaning."""


def describe(scenario: Scenario, seeds: list[int]) -> dict[str, Any]:
    """The provenance of runs: plain data that goes into JSON.

    Fields: `schema`; `schedlab` (version of the core); `scenario`, `scenario_sha256` and `seeds`, which fix
    the results; `slots` (the function behind each decision of the kernel); `packages` and `host`, which
    should not matter and are kept in case they do.
    """
    return {
        "schema": SCHEMA,
        "schedlab": _core.VERSION,
        "scenario": scenario.to_dict(),
        "scenario_sha256": scenario.sha256(),
        "seeds": list(seeds),
        "slots": scenario.kernel.functions(),
        "packages": {name: importlib.metadata.version(name) for name in ("numpy", "pandas", "xarray")},
        "host": {
            "python": platform.python_version(),
            "implementation": sys.implementation.name,
            "system": platform.system(),
            "machine": platform.machine(),
            "cpus": os.cpu_count(),
        },
    }


def scenario_of(provenance: dict[str, Any]) -> tuple[Scenario, list[int]]:
    """The scenario and the seeds to hand to `simulate` so as to get the same bits again.

    Raises:
        ValueError: the schema is another one, or the core that ran was another version.
    """
    if provenance.get("schema") != SCHEMA:
        raise bad_argument("provenance.schema", provenance.get("schema"), f"must be {SCHEMA}")
    if provenance.get("schedlab") != _core.VERSION:
        raise bad_argument(
            "provenance.schedlab", provenance.get("schedlab"), f"must be this version, {_core.VERSION}"
        )
    return Scenario.from_dict(provenance["scenario"]), list(provenance["seeds"])
