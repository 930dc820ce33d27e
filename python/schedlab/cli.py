"""The command line: `schedlab COMMAND`."""

from __future__ import annotations

import argparse
import json
import os
import sys
import textwrap
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from schedlab import _core, calibrate, tables
from schedlab._arguments import bad_argument
from schedlab._files import write_text, written_beside
from schedlab._render import text_table
from schedlab.calibrate_figures import FIGURES, calibrate_figures
from schedlab.compare import compare
from schedlab.kernel import kernels
from schedlab.machine import Machine, machines
from schedlab.recordings import RecordedComparison, compare_recordings
from schedlab.reproduce import Laboratory, summary
from schedlab.runs import read_parquet
from schedlab.scenario import Scenario
from schedlab.simulate import simulate_scenario
from schedlab.sweep import read_definition, sweep
from schedlab.verdict import VERDICTS
from schedlab.verify import Verification, verify

BAD_INPUT = 2
INTERRUPTED = 130


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs one command and returns its exit status.

    0: done. 1: `verify` found a difference. 2: the input breaks a rule, said in one line. 130: interrupted.
    """
    options = _parser().parse_args(arguments)
    try:
        status: int = options.run(options)
        sys.stdout.flush()
    except (ValueError, OSError) as error:
        if isinstance(error, BrokenPipeError):
            # The reader of our output has gone: nothing is left to say, at the interpreter's exit neither.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            return 0
        print(f"schedlab: {error}", file=sys.stderr)
        return BAD_INPUT
    except KeyboardInterrupt:
        print("schedlab: interrupted", file=sys.stderr)
        return INTERRUPTED
    return status


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="schedlab", description="A laboratory for the Linux fair scheduler's load balancing."
    )
    parser.add_argument("--version", action="version", version=f"schedlab {_core.VERSION}")
    commands = parser.add_subparsers(title="commands", required=True, metavar="COMMAND")

    def command(name: str, run: Any, text: str) -> argparse.ArgumentParser:
        sub = commands.add_parser(name, help=text, description=text[0].upper() + text[1:] + ".")
        sub.set_defaults(run=run)
        return sub

    sub = command("reproduce", _reproduce, "simulate published tables and judge every row")
    sub.add_argument("tables", nargs="*", metavar="TABLE", help="names of tables; all of them by default")
    _add_simulation(sub, None)
    sub.add_argument("--full", action="store_true", help="run the published size where a table runs shorter")
    sub.add_argument("--json", metavar="FILE", help="write tables and verdicts to FILE")

    sub = command("run", _run, "simulate a scenario")
    sub.add_argument("scenario", metavar="SCENARIO.json", help="file with machine, kernel and workload")
    _add_simulation(sub, 1)
    sub.add_argument("--output", metavar="FILE", help="write the metrics, one row a seed, to a Parquet file")
    sub.add_argument("--json", metavar="FILE", help="write metrics and provenance to FILE")

    sub = command("sweep", _sweep, "simulate a scenario over a grid of settings")
    sub.add_argument(
        "sweep", metavar="SWEEP.json", help="a scenario with `over` (dimension to values) and `seeds`"
    )
    sub.add_argument("--store", metavar="DIR", required=True, help="folder of finished points")
    sub.add_argument("--threads", type=int, metavar="N", help="threads of the core (default: one a CPU)")
    sub.add_argument("--output", metavar="FILE", help="write one row a point and seed to a Parquet file")

    sub = command("compare", _compare, "compare two Parquet files of `run --output` over the same seeds")
    sub.add_argument("a", metavar="A", help="runs of the base")
    sub.add_argument("b", metavar="B", help="runs of the other kernel")
    sub.add_argument("--metric", default="time_s", help="what to compare (default: %(default)s)")
    sub.add_argument("--format", choices=("text", "markdown", "html"), default="text")

    command("machines", _machines, "list the named machines")
    command("kernels", _kernels, "list kernel generations and patches")
    command("tables", _tables, "list the published tables")

    sub = command("domains", _domains, "show the sched domains that a kernel builds on a machine")
    sub.add_argument("machine", metavar="MACHINE", help="name of a machine, or its JSON file")
    sub.add_argument("--kernel", required=True, metavar="K", help="kernel whose rules apply, such as v5.7")

    sub = command("verify", _verify, "replay vectors of real kernels; status 1 if a case differs")
    source = sub.add_mutually_exclusive_group()
    source.add_argument(
        "--vectors", metavar="DIR", help="folder of vector files (default: the package's sample)"
    )
    source.add_argument(
        "--recordings",
        metavar="DIR",
        help="folder of recorded schedules, to be simulated and set side by side",
    )
    sub.add_argument("--threads", type=int, metavar="N", help="files replayed at a time (default: one a CPU)")
    sub.add_argument(
        "--json", metavar="FILE", help="write cases and failures by family, or measures, to FILE"
    )

    sub = command("calibrate", _calibrate, "fit a machine's costs on one published base figure")
    sub.add_argument("machine", metavar="MACHINE", help="name of the machine")
    sub.add_argument("--table", metavar="TABLE", help="published table (default: the machine's own)")
    sub.add_argument("--row", metavar="ROW", help="row of the table (default: the machine's own)")
    sub.add_argument("--free", metavar="COST,...", help="costs to scale (default: all that are times)")
    _add_simulation(sub, 30)
    sub.add_argument("--output", metavar="FILE", help="write the fit to FILE, not into the package's data")
    return parser


def _add_simulation(sub: argparse.ArgumentParser, seeds: int | None) -> None:
    default = "as many as the table asks for" if seeds is None else "%(default)s"
    sub.add_argument(
        "--seeds",
        default=None if seeds is None else str(seeds),
        metavar="N",
        help=f"number of seeds, or seeds as 3,5,8 (default: {default})",
    )
    sub.add_argument("--threads", type=int, metavar="N", help="threads of the core (default: one a CPU)")


def _seeds(text: str) -> int | list[int]:
    try:
        numbers = [int(part) for part in text.split(",")]
    except ValueError:
        raise bad_argument(
            "--seeds", text, "must be a number of seeds or seeds separated by commas"
        ) from None
    return numbers[0] if "," not in text else numbers


def _reproduce(options: argparse.Namespace) -> int:
    names = [tables.named(name).name for name in options.tables or tables.TABLES]
    seeds = None if options.seeds is None else _seeds(options.seeds)
    laboratory = Laboratory(seeds, options.full, options.threads)
    done = []
    for name in names:
        done.append(laboratory.reproduce(name))
        print(done[-1], end="\n\n", flush=True)
    counts = summary(done)
    verdicts = ", ".join(f"{counts[name]} {name}" for name in VERDICTS)
    print(f"In all: {counts['tables']} tables, {counts['rows']} rows: {verdicts}; {counts['wall_s']:.0f} s")
    if options.json is not None:
        whole = {"tables": [reproduction.to_dict() for reproduction in done], "summary": counts}
        _write_json(options.json, whole)
    return 0


def _run(options: argparse.Namespace) -> int:
    scenario = Scenario.from_json(Path(options.scenario).read_text(encoding="utf-8"))
    runs = simulate_scenario(scenario, _seeds(options.seeds), options.threads)
    print(runs)
    if options.output is not None:
        runs.to_parquet(options.output)
    if options.json is not None:
        columns = runs.to_pandas().to_dict(orient="list")
        _write_json(options.json, {"metrics": columns, "provenance": runs.provenance})
    return 0


def _sweep(options: argparse.Namespace) -> int:
    scenario, over, seeds = read_definition(Path(options.sweep).read_text(encoding="utf-8"))
    data = sweep(
        *(scenario.machine, scenario.kernel, scenario.work),
        over,
        seeds,
        store=options.store,
        threads=options.threads,
    )
    frame = data.to_dataframe().reset_index()
    means = frame.groupby(list(over), sort=False)["time_s"].agg(["mean", "std", "min", "max"])
    print(means.to_string())
    if options.output is not None:
        with written_beside(options.output) as beside:
            frame.to_parquet(beside)
    return 0


def _compare(options: argparse.Namespace) -> int:
    comparison = compare(read_parquet(options.a), read_parquet(options.b), options.metric)
    if options.format == "markdown":
        print(comparison.to_markdown())
    elif options.format == "html":
        print(comparison._repr_html_())
    else:
        print(comparison)
    return 0


def _machines(options: argparse.Namespace) -> int:
    rows = []
    for name in machines():
        machine = Machine.named(name)
        fit = tables.calibration(name)
        fitted = [] if fit is None else tables.fitted_rows(fit)
        on = f"row {fitted[0]}" if len(fitted) == 1 else f"{len(fitted)} rows"
        costs = "defaults" if fit is None else f"fitted on {fit['table']}, {on}"
        sizes = [str(machine.nr_cpus), str(machine.nr_nodes)]
        rows.append([name, machine.arch, *sizes, costs, _short(machine.source)])
    header = ["name", "arch", "CPUs", "nodes", "costs", "source"]
    print(text_table(header, rows, left=len(header)))
    return 0


def _kernels(options: argparse.Namespace) -> int:
    _print_frame(kernels().drop(columns="changes"), left=5)
    return 0


def _tables(options: argparse.Namespace) -> int:
    _print_frame(tables.published()[["name", "title", "machine", "base", "patched", "rows"]], left=5)
    return 0


def _domains(options: argparse.Namespace) -> int:
    print(_machine(options.machine).domains(options.kernel))
    return 0


def _verify(options: argparse.Namespace) -> int:
    outcome: Verification | RecordedComparison
    if options.recordings is not None:
        outcome = compare_recordings(options.recordings, options.threads)
    else:
        outcome = verify(options.vectors, options.threads)
    print(outcome)
    if options.json is not None:
        _write_json(options.json, outcome.to_dict())
    return outcome.status


def _calibrate(options: argparse.Namespace) -> int:
    free = options.free.split(",") if options.free else None
    fit: calibrate.Fit
    if options.machine in FIGURES and (options.table, options.row, free) == (None, None, None):
        fit = calibrate_figures(options.machine, _seeds(options.seeds), options.threads)
    else:
        fit = calibrate.calibrate(
            options.machine, options.table, options.row, free, _seeds(options.seeds), options.threads
        )
    print(fit)
    for path in calibrate.write(fit, options.output):
        print(f"wrote {path}")
    return 0


def _machine(name: str) -> Machine:
    if name.endswith(".json"):
        return Machine.from_json(Path(name).read_text(encoding="utf-8"))
    return Machine.named(name)


def _short(text: str) -> str:
    """As much of a text as a line of a list can show."""
    return textwrap.shorten(text, 72, placeholder=" ...")


def _print_frame(frame: pd.DataFrame, left: int) -> None:
    rows = [["" if value is None else str(value) for value in row] for row in frame.itertuples(index=False)]
    print(text_table([str(name) for name in frame.columns], rows, left))


def _write_json(path: str, content: dict[str, Any]) -> None:
    write_text(path, json.dumps(content, indent=2) + "\n")


if __name__ == "__main__":
    sys.exit(main())
