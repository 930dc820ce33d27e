"""Draws a machine as nested boxes: nodes, last-level caches, cores and their CPUs."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from matplotlib.axes import Axes

CPU_INCHES = 0.3
"""Width of a CPU's cell in a figure of our own making."""

LARGEST_INCHES = 16.0
"""No figure of our own making is wider or higher."""

TITLE_INCHES = 0.09
"""Room for a character of the title."""

LABELLED_CPUS = 1024
"""Machines with more CPUs are drawn without CPU numbers: they would be smaller than a pixel."""

SHAPE = 1.8
"""Width over height that boxes are arranged for."""

GAP = 0.5
TITLE = 0.9

NODE_COLOUR = "#eef2f7"
LLC_COLOUR = "#d6e2f0"
OFFLINE_COLOUR = "#bdbdbd"
ISOLATED_COLOUR = "#f4c27a"
BIG_COLOUR = (0.56, 0.77, 0.55)
LITTLE_COLOUR = (0.90, 0.96, 0.88)


def draw(spec: dict[str, Any], ax: Axes | None) -> Axes:
    """Draws the machine of a spec onto the axes, or onto a new figure of fitting size."""
    import matplotlib.pyplot as plt
    from matplotlib.patches import Patch

    nodes = [_node(spec, node) for node in range(len(spec["distance"]))]
    places, width, height = _arrange([(node.width, node.height) for node in nodes])
    if ax is None:
        inches = min(CPU_INCHES, LARGEST_INCHES / width, LARGEST_INCHES / height)
        size = (max(width * inches, TITLE_INCHES * len(_title(spec))), max(height * inches, 1.5) + 0.7)
        ax = plt.subplots(figsize=size, layout="constrained")[1]
    ax.set_xlim(-GAP, width + GAP)
    ax.set_ylim(height + GAP, -GAP)
    ax.set_aspect("equal")
    ax.set_axis_off()
    ax.set_title(_title(spec), fontsize=11)

    fit = _points_per_unit(ax, width, height)
    boxes: list[tuple[float, float, float, float, Any]] = []
    for node, (x, y) in zip(nodes, places, strict=True):
        _draw_node(ax, spec, node, x, y, fit, boxes)
    _draw_cpus(ax, boxes)

    legend = [
        Patch(facecolor=colour, edgecolor="grey", label=label)
        for key, colour, label in (
            ("offline", OFFLINE_COLOUR, "offline"),
            ("isolated", ISOLATED_COLOUR, "isolated"),
        )
        if spec[key]
    ]
    if legend:
        ax.legend(handles=legend, loc="upper center", bbox_to_anchor=(0.5, 0), ncols=2, frameon=False)
    return ax


@dataclass(frozen=True)
class _Llc:
    """A last-level cache: its cores, each a list of CPUs, in `columns` columns."""

    cores: list[list[int]]
    columns: int
    threads: int

    @property
    def width(self) -> float:
        return self.columns * (self.threads + GAP / 2) + GAP / 2

    @property
    def height(self) -> float:
        return math.ceil(len(self.cores) / self.columns) * (1 + GAP / 2) + GAP / 2


@dataclass(frozen=True)
class _Node:
    """A NUMA node: its caches and where they go."""

    number: int
    llcs: list[_Llc]
    places: list[tuple[float, float]]
    width: float
    height: float


def _node(spec: dict[str, Any], number: int) -> _Node:
    cpus = [cpu for cpu, node in enumerate(spec["node"]) if node == number]
    by_llc: dict[int, dict[int, list[int]]] = {}
    for cpu in cpus:
        by_llc.setdefault(spec["llc"][cpu], {}).setdefault(spec["core"][cpu], []).append(cpu)
    llcs = []
    for cores in by_llc.values():
        threads = max(len(core) for core in cores.values())
        columns = max(1, round(math.sqrt(len(cores) * SHAPE / (threads + GAP / 2))))
        llcs.append(_Llc(list(cores.values()), min(columns, len(cores)), threads))
    places, width, height = _arrange([(llc.width, llc.height) for llc in llcs])
    return _Node(number, llcs, places, max(width, 5.0) + GAP, height + TITLE + GAP / 2)


def _arrange(sizes: Sequence[tuple[float, float]]) -> tuple[list[tuple[float, float]], float, float]:
    """Places boxes in rows of equal cells, about `SHAPE` times as wide as high: places, width, height."""
    if not sizes:
        return [], 0.0, 0.0
    cell_width = max(width for width, _ in sizes) + GAP
    cell_height = max(height for _, height in sizes) + GAP
    columns = round(math.sqrt(len(sizes) * SHAPE * cell_height / cell_width))
    columns = min(max(columns, 1), len(sizes))
    rows = math.ceil(len(sizes) / columns)
    columns = math.ceil(len(sizes) / rows)
    places = [(index % columns * cell_width, index // columns * cell_height) for index in range(len(sizes))]
    return places, columns * cell_width - GAP, rows * cell_height - GAP


def _points_per_unit(ax: Axes, width: float, height: float) -> float:
    """Size of one CPU's cell in points, for fonts that fit."""
    figure = ax.get_figure(root=True)
    assert figure is not None
    box = ax.get_position()
    inches_x, inches_y = figure.get_size_inches()
    return 72 * float(
        min(box.width * inches_x / (width + 2 * GAP), box.height * inches_y / (height + 2 * GAP))
    )


def _draw_node(
    ax: Axes,
    spec: dict[str, Any],
    node: _Node,
    x: float,
    y: float,
    fit: float,
    boxes: list[tuple[float, float, float, float, Any]],
) -> None:
    from matplotlib.patches import Rectangle

    label = f"node {node.number}"
    if not node.llcs:
        label += ": memory only"
    elif node.number in spec["memoryless_nodes"]:
        label += ": no memory"
    ax.add_patch(Rectangle((x, y), node.width, node.height, facecolor=NODE_COLOUR, edgecolor="#5b6b7f"))
    size = min(10.0, 0.62 * fit * TITLE, 1.6 * fit * node.width / len(label))
    ax.text(x + GAP / 2, y + TITLE / 2, label, va="center", fontsize=size, clip_on=True)
    digits = max(len(str(len(spec["core"]) - 1)), 2)
    number_size = min(11.0, fit * 1.3 / digits)
    for llc, (dx, dy) in zip(node.llcs, node.places, strict=True):
        left, top = x + GAP / 2 + dx, y + TITLE + dy
        ax.add_patch(Rectangle((left, top), llc.width, llc.height, facecolor=LLC_COLOUR, edgecolor="#7f97b2"))
        for index, core in enumerate(llc.cores):
            column, row = index % llc.columns, index // llc.columns
            core_x = left + GAP / 2 + column * (llc.threads + GAP / 2)
            core_y = top + GAP / 2 + row * (1 + GAP / 2)
            for thread, cpu in enumerate(core):
                boxes.append((core_x + thread, core_y, 1.0, 1.0, _colour(spec, cpu)))
                if len(spec["core"]) <= LABELLED_CPUS:
                    _draw_number(ax, cpu, core_x + thread + 0.5, core_y + 0.5, number_size)


def _draw_number(ax: Axes, cpu: int, x: float, y: float, size: float) -> None:
    ax.text(x, y, str(cpu), ha="center", va="center", fontsize=size, clip_on=True)


def _draw_cpus(ax: Axes, boxes: Sequence[tuple[float, float, float, float, Any]]) -> None:
    """All CPUs as one collection: thousands of single patches would take seconds."""
    from matplotlib.collections import PolyCollection

    corners = [[(x, y), (x + w, y), (x + w, y + h), (x, y + h)] for x, y, w, h, _ in boxes]
    colours = [colour for *_, colour in boxes]
    ax.add_collection(PolyCollection(corners, facecolors=colours, edgecolors="#4c6a4b", linewidths=0.6))


def _colour(spec: dict[str, Any], cpu: int) -> Any:
    """Greener for more capacity; offline and isolated CPUs have their own colours."""
    if cpu in spec["offline"]:
        return OFFLINE_COLOUR
    if cpu in spec["isolated"]:
        return ISOLATED_COLOUR
    share = spec["capacity"][cpu] / 1024
    return tuple(
        little + share * (big - little) for little, big in zip(LITTLE_COLOUR, BIG_COLOUR, strict=True)
    )


def _title(spec: dict[str, Any]) -> str:
    threads = len(spec["core"]) / len(set(spec["core"]))
    kinds = sorted(set(spec["capacity"]))
    title = f"{spec['name']}: {len(spec['core'])} CPUs"
    if threads > 1:
        title += f", {threads:g} threads a core" if threads.is_integer() else ", some cores with threads"
    if len(kinds) > 1:
        title += f", capacities {', '.join(map(str, kinds))}"
    return title
