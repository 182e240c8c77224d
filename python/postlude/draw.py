"""Pictures of graphs and plans, for notebooks. Needs matplotlib; `import postlude.draw`."""
from __future__ import annotations

from typing import TYPE_CHECKING, Any

from . import _core
from .epilogue import Epilogue

if TYPE_CHECKING:
    from matplotlib.axes import Axes

INK, PAPER = "#1b2a41", "#f7f5f0"
#: By the axes of a value: a sum of 2 (over M) and 4 (over N).
COLOURS = {6: "#cfe3ea", 4: "#dcecc9", 2: "#f6e3b4", 0: "#eadcf0"}
NAMES = {6: "tile", 4: "row", 2: "col", 0: "scalar"}


def _canvas(ax: Axes | None, width: float, height: float) -> Any:
    import matplotlib.pyplot as plt
    if ax is None:
        _, ax = plt.subplots(figsize=(width, height), facecolor=PAPER)
    ax.set_axis_off()
    return ax


def graph(epilogue: Epilogue | _core.Graph, ax: Axes | None = None) -> Axes:
    """The values of an epilogue from its operands (left) to its outputs (right), coloured by their axes."""
    drawn = epilogue.graph if isinstance(epilogue, Epilogue) else epilogue
    nodes = drawn.nodes()
    used = [index for index, node in enumerate(nodes) if node.op != "constant"]
    depth: dict[int, int] = {}
    for index in used:  # topological, so arguments have theirs
        depth[index] = 1 + max((depth[argument] for argument in nodes[index].args if argument in depth), default=-1)
    users = {argument: min(depth[i] for i in used if argument in nodes[i].args) for i in used for argument in nodes[i].args if argument in depth}
    for index in used:  # leaves stand right before what reads them first
        if not any(argument in depth for argument in nodes[index].args) and index in users:
            depth[index] = users[index] - 1
    columns: dict[int, list[int]] = {}
    for index in used:
        columns.setdefault(depth[index], []).append(index)
    tallest = max(map(len, columns.values()))
    place = {}
    for column, members in columns.items():
        # Near the mean height of its arguments, so that few lines cross.
        members.sort(key=lambda i: sum(place.get(a, (0, 0))[1] for a in nodes[i].args) / max(len(nodes[i].args), 1))
        for i, index in enumerate(members):
            place[index] = (column * 1.7, (i - (len(members) - 1) / 2) * -1.0)
    ax = _canvas(ax, max(4.0, 1.5 * len(columns)), max(2.0, 0.8 * tallest))
    for index in used:
        x, y = place[index]
        for argument in nodes[index].args:
            if argument in place:
                ax.annotate("", (x - 0.55, y), (place[argument][0] + 0.55, place[argument][1]),
                            arrowprops={"arrowstyle": "-|>", "color": INK, "lw": 0.8, "shrinkA": 0, "shrinkB": 0})
        node = nodes[index]
        numbers = [nodes[a].label for a in node.args if nodes[a].op == "constant"]
        label = node.label + (f" {', '.join(numbers)}" if numbers else "")
        if node.name and node.name != node.label:
            label += f"\n= {node.name}"
        ax.text(x, y, label, ha="center", va="center", fontsize=9, color=INK,
                bbox={"boxstyle": "round,pad=0.35", "facecolor": COLOURS[node.axes & 6], "edgecolor": INK, "lw": 0.7})
    ax.set_xlim(-1, max(x for x, _ in place.values()) + 1)
    ax.set_ylim(-tallest / 2 - 0.4, tallest / 2 + 0.4)
    for i, (axes, colour) in enumerate(COLOURS.items()):
        ax.text(0.01 + 0.09 * i, 0.0, NAMES[axes], transform=ax.transAxes, fontsize=8, color=INK,
                bbox={"boxstyle": "round,pad=0.25", "facecolor": colour, "edgecolor": "none"})
    return ax


def phases(plan: _core.Plan, ax: Axes | None = None) -> Axes:
    """The passes of a plan: what each reads, computes, reduces and writes."""
    views = plan.phases()
    ax = _canvas(ax, 8.0, 1.1 * len(views) + 0.3)
    for i, phase in enumerate(views):
        y = -i
        reads = (["the product"] if phase.accumulator else []) + sorted(set(phase.loads))
        computed = f"{len(phase.operations)} operations" + (f"; {', '.join(phase.reductions)}" if phase.reductions else "")
        columns = [(0.0, f"phase {i + 1} over {phase.domain}", "white"), (2.6, "reads\n" + (", ".join(reads) or "nothing"), COLOURS[4]),
                   (5.2, computed.replace("; ", "\n"), COLOURS[6]), (7.8, "writes\n" + (", ".join(phase.stores) or "statistics"), COLOURS[2])]
        for x, text, colour in columns:
            ax.text(x, y, text, ha="center", va="center", fontsize=9, color=INK,
                    bbox={"boxstyle": "round,pad=0.4", "facecolor": colour, "edgecolor": INK, "lw": 0.7})
        for (x, _, _), (following, _, _) in zip(columns[1:], columns[2:]):
            ax.annotate("", (following - 0.95, y), (x + 0.95, y), arrowprops={"arrowstyle": "-|>", "color": INK, "lw": 0.8})
    ax.set_xlim(-1.2, 9.2)
    ax.set_ylim(-len(views) + 0.4, 0.6)
    return ax
