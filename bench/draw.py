"""The tables and pictures of docs/benchmarks.md, out of bench/results: h200.json, cpu.json, their *_shapes.json and
h200_conv.json. What is missing is left as it is.

Usage: python3 bench/draw.py. Needs nothing but Python. Writes docs/benchmarks_*.svg and, in docs/benchmarks.md, what
stands between `<!-- NAME: bench/draw.py -->` and `<!-- end -->`.
"""
import json
import math
import pathlib
import re
import sys
from html import escape

root = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(root / "bench/shapes"))
import report  # noqa: E402  what the random cells print of themselves
from report import COLOURS, GRID, INK, PAPER, geometric_mean  # noqa: E402


def bars(path, title, note, panels):
    """A picture of vertical bars. panels: [(heading, [group], {series: (label, [value or None a group])})]."""
    width, height, left, top = 1000, 190, 48, 62
    shapes = []

    def text(x, y, what, size=11, anchor="start", weight="normal", turn=""):
        shapes.append(f'<text x="{x:.1f}" y="{y:.1f}" font-size="{size}" text-anchor="{anchor}" font-weight="{weight}" fill="{INK}"{turn}>'
                      f"{escape(what)}</text>")

    def box(x, y, w, h, fill, hover=""):
        shapes.append(f'<rect x="{x:.1f}" y="{y:.1f}" width="{w:.1f}" height="{h:.1f}" fill="{fill}">'
                      + (f"<title>{escape(hover)}</title>" if hover else "") + "</rect>")

    text(16, 26, title, 17, weight="bold")
    text(16, 44, note)
    x = 16
    for series, (label, _) in panels[0][2].items():
        box(x, top - 7, 10, 10, COLOURS[series])
        text(x + 15, top + 2, label)
        x += 30 + 6.2 * len(label)
    for number, (heading, groups, series) in enumerate(panels):
        base = top + 24 + number * (height + 66) + height
        largest = max([v for _, values in series.values() for v in values if v is not None], default=1)
        step = 0.25 if largest <= 2 else 0.5 if largest <= 4 else 1 if largest <= 10 else 10 ** math.floor(math.log10(largest))
        end = step * math.ceil(largest * 1.04 / step)
        text(left, base - height - 2, heading, 12, weight="bold")
        for i in range(round(end / step) + 1):
            y = base - (height - 14) * i * step / end
            shapes.append(f'<line x1="{left}" x2="{width - 12}" y1="{y:.1f}" y2="{y:.1f}" stroke="{INK if i * step == 1 else GRID}" stroke-width="{0.8}"/>')
            text(left - 5, y + 4, f"{i * step:g}", 10, "end")
        slot = (width - 12 - left) / len(groups)
        bar = min(30.0, slot * 0.8 / len(series))
        for g, group in enumerate(groups):
            start = left + slot * g + (slot - bar * len(series)) / 2
            for s, (name, (label, values)) in enumerate(series.items()):
                if values[g] is None:
                    continue
                tall = (height - 14) * values[g] / end
                box(start + s * bar, base - tall, bar - 1, tall, COLOURS[name], f"{group}: {label} {values[g]:.3f}")
                if name == "ours":
                    text(start + s * bar + bar / 2, base - tall - 3, f"{values[g]:.2f}", 9, "middle")
            middle = left + slot * (g + 0.5)
            text(middle + 4, base + 13, group, 10, "end", turn=f' transform="rotate(-28 {middle + 4:.1f} {base + 13:.1f})"')
    total = top + 24 + len(panels) * (height + 66)
    path.write_text(f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {total}" font-family="Helvetica, Arial, sans-serif">\n'
                    f'<rect width="{width}" height="{total}" fill="{PAPER}"/>\n' + "\n".join(shapes) + "\n</svg>\n")


def table(columns, rows):
    return "\n".join("| " + " | ".join(row) + " |" for row in [columns, ["---"] * len(columns), *rows])


H200_SHAPES = {"square": "8192 x 8192 x 8192", "bert_ffn": "16384 x 4096 x 1024", "mid": "4096 x 4096 x 4096",
               "odd": "4095 x 4099 x 1021", "decode": "64 x 4096 x 4096", "narrow": "64 x 1024 x 8192"}


def h200(data):
    rows = {(r["epilogue"], r["shape"]): r for r in data["rows"]}
    names = list(dict.fromkeys(r["epilogue"] for r in data["rows"]))
    panels = []
    for shape in ("square", "bert_ffn", "mid"):
        here = [name for name in names if (name, shape) in rows]
        if not here:
            continue
        cells = [rows[name, shape] for name in here]
        panels.append((f"{shape}: {H200_SHAPES[shape]}", here, {
            "ours": ("Postlude, epilogue included", [c["ours_ms"] / c["cublas_plain_ms"] for c in cells]),
            "plain": ("cuBLAS, the bf16 product alone", [1.0 for _ in cells]),
            "peer": ("best peer, epilogue included", [c["best_peer_ms"] / c["cublas_plain_ms"] if c["best_peer_ms"] else None for c in cells])}))
    bars(root / "docs/benchmarks_h200.svg", f"Products with their epilogues on one {data['device']}",
         f"Time over cuBLAS's plain bf16 product, lower is faster; {data.get('date', '')}, medians of {data['runs']}, L2 flushed before each run", panels)

    lines = []
    for name in names:
        for shape in H200_SHAPES:
            if not (r := rows.get((name, shape))):
                continue
            peer = r["best_peer_ms"]
            lines.append([name, shape, f"{r['ours_ms']:.4f}", f"{r['cublas_plain_ms']:.4f}", f"{r['ours_ms'] / r['cublas_plain_ms']:.3f}",
                          f"{peer / r['cublas_plain_ms']:.3f} {r['best_peer']}" if peer else "", f"{peer / r['ours_ms']:.2f}" if peer else "",
                          f"{r['error_over_bound']:.2f}" if r["error_over_bound"] >= 0 else "", f"`{r['schedule'].split(';')[0]}`"])
    parts = [f"![Bars of each epilogue's time over the plain product's](benchmarks_h200.svg)\n\n{data['device']}, {data.get('versions', '')}, {data.get('date', '')}.",
             table(["epilogue", "shape", "ours, ms", "cuBLAS plain, ms", "ratio", "best peer's ratio", "peer / ours", "error / bound", "schedule"], lines)]
    with_peer = {s: [r["best_peer_ms"] / r["ours_ms"] for r in data["rows"] if r["shape"] == s and r["dtype"] == "bf16" and r["best_peer_ms"]] for s in H200_SHAPES}
    with_peer = {s: v for s, v in with_peer.items() if v}
    if with_peer:
        parts.append("Best peer's time over ours, geometric mean of the bf16 epilogues:\n\n"
                     + table(list(with_peer), [[f"{geometric_mean(v):.2f}" for v in with_peer.values()]]))
    if streams := data.get("streams"):
        parts.append("Without a product, 16384 x 4096, against a device copy of the same bytes:\n\n" + table(
            ["stream", "dtype", "ms", "GB/s", "of a copy's bandwidth"],
            [[s["name"], s["dtype"], f"{s['ms']:.4f}", f"{s['gbps']:.0f}", f"{s['of_copy']:.2f}"] for s in streams]))
    if sweep := data.get("sweep"):
        parts.append("How far the heuristic's schedule is from the best of all that were tried:\n\n" + table(
            ["epilogue", "shape", "heuristic / best", "tried", "best"],
            [[s["epilogue"], s["shape"], f"{s['ratio']:.3f}", str(s["tried"]), f"`{s['best']}`"] for s in sweep]))
    if costs := data.get("costs"):
        parts.append("Other costs:\n\n" + table(
            ["what", "value", "bar"], [[c["what"], f"{c['value']:.3g} {c['unit']}", f"{c['bar']:g}"] for c in costs]))
    return "\n\n".join(part for part in parts if part)


def cpu(data):
    """One thread, whose processor time other programs on the machine do not lengthen."""
    cells = {}
    for r in data["suite"]:
        if r["threads"] == 1 and r["agrees"] and r["shape"] != "small":
            cells.setdefault(r["shape"], {}).setdefault(r["epilogue"], {})[r["contender"]] = r["median_ms"]
    panels, gains = [], {}
    for shape, epilogues in cells.items():
        over_plain = lambda e, ms: ms / epilogues[e]["postlude plain"] if ms else None
        hand = {e: min((ms for name, ms in by.items() if name.endswith("+ loop")), default=None) for e, by in epilogues.items()}
        gains[shape] = [hand[e] / by["postlude"] for e, by in epilogues.items() if hand[e]]
        panels.append((shape, list(epilogues), {
            "ours": ("Postlude, epilogue included", [over_plain(e, by["postlude"]) for e, by in epilogues.items()]),
            "plain": ("our plain product", [1.0 for _ in epilogues]),
            "peer": ("better of OpenBLAS and oneDNN, with a hand-fused loop", [over_plain(e, hand[e]) for e in epilogues])}))
    bars(root / "docs/benchmarks_cpu.svg", f"Products with their epilogues, {data['machine']}, one thread",
         f"Time over our own plain product's, lower is faster; f32, {data['date']}, medians in turns", panels)
    return ("![Bars of each epilogue's time over the plain product's](benchmarks_cpu.svg)\n\n"
            "Speed over the better of the peers with a hand-fused loop, one thread, geometric mean:\n\n"
            + table(list(gains), [[f"{geometric_mean(v):.2f}" for v in gains.values()]]))


def shapes(peer, plain):
    """The random cells of one run, by class."""
    def made(data):
        where = " ".join(str(data[key]) for key in ("device", "versions") if data.get(key))
        return (f"{where}, seed {data['seed']}, {len(data['rows'])} cells:\n\n{report.class_table(data['rows'], peer, plain)}\n\n"
                f"{report.first_calls(data['rows']).capitalize()}.")
    return made


def convolutions(data):
    """Times over cuDNN's plain kernel, by direction and epilogue; depthwise layers and groups apart."""
    rows, lines, ours = data["rows"], [], {}
    same = lambda row: tuple(row[key] for key in ("direction", "layer", "batch", "what"))  # noqa: E731
    peers = {same(row): row["ms"] for row in rows if row["who"] == "torch.compile"}
    for row in rows:
        if row["who"] == "ours":
            kind = next((kind for kind in ("depthwise", "groups") if kind in row["layer"]), "dense")
            ours.setdefault((row["batch"] if row["batch"] in (32, 128) else 128, kind, row["direction"], row["what"]), []).append(row)
    for (batch, kind, direction, what), cells in ours.items():
        over = [row["ms"] / row["plain_ms"] for row in cells]
        ahead = [peers[same(row)] / row["ms"] for row in cells if same(row) in peers]
        worst = max(cells, key=lambda row: row["ms"] / row["plain_ms"])
        lines.append([str(batch), kind, direction, what, str(len(cells)), f"{geometric_mean(over):.2f}", f"{max(over):.2f} ({worst['layer']})",
                      f"{geometric_mean(ahead):.2f}, {min(ahead):.2f}" if ahead else ""])
    versions = data["versions"]
    return (f"{versions['gpu']}, torch {versions['torch']}, cuDNN {versions['cudnn']}, commit {data['commit']}:\n\n"
            + table(["images", "layers", "direction", "epilogue", "cells", "over cuDNN, plain", "worst", "torch.compile over ours: mean, least"], lines))


def main():
    page = root / "docs/benchmarks.md"
    text = page.read_text()
    for name, make in {"h200": h200, "cpu": cpu, "h200_shapes": shapes("torch.compile", "cuBLAS plain"),
                       "cpu_shapes": shapes("the best peer", "the better plain product"), "h200_conv": convolutions}.items():
        source = root / f"bench/results/{name}.json"
        if not source.exists():
            continue
        made = make(json.loads(source.read_text()))
        block = re.compile(rf"(<!-- {name}: bench/draw.py -->\n).*?(<!-- end -->)", re.DOTALL)
        if not block.search(text):
            raise SystemExit(f"docs/benchmarks.md has no place for {name}")
        text = block.sub(lambda match: match[1] + "\n" + made + "\n\n" + match[2], text)
    page.write_text(text)


if __name__ == "__main__":
    main()
