"""What random cells say: quantiles by class, the worst, first calls, a picture, a file of results.

Usage: report.py cells.jsonl OUT makes it again of what a run has left, also of one cut short.
"""
from __future__ import annotations

import json
import math
import pathlib
import statistics
import sys
from html import escape

from cells import classes_of

LEVEL = 0.98  # of the peer's speed
PLAIN = ("cublas_plain_ms", "plain_ms")  # what a row calls the plain product's time
INK, PAPER, GRID = "#1b2a41", "#f7f5f0", "#d9d5ca"
COLOURS = {"ours": "#2a7f9e", "plain": "#b8b4a8", "peer": "#c8553d"}


def quantile(values: list[float], q: float) -> float:
    ordered = sorted(values)
    at = q * (len(ordered) - 1)
    low = math.floor(at)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (at - low) * (ordered[high] - ordered[low])


def geometric_mean(values: list[float]) -> float:
    return math.exp(statistics.fmean(map(math.log, values)))


def table(lines: list[list[str]]) -> str:
    widths = [max(len(line[i]) for line in lines) for i in range(len(lines[0]))]
    padded = [[cell.ljust(width) for cell, width in zip(line, widths)] for line in lines]
    padded.insert(1, ["-" * width for width in widths])
    return "\n".join("| " + " | ".join(line) + " |" for line in padded)


def over_peer(row: dict) -> float | None:
    """Our speed over the best peer's."""
    return row["best_peer_ms"] / row["ours_ms"] if row.get("best_peer_ms") else None


def plain_ms(row: dict) -> float | None:
    return next((row[key] for key in PLAIN if row.get(key)), None)


def over_plain(row: dict) -> float | None:
    """Our time over the plain product's."""
    return row["ours_ms"] / plain_ms(row) if plain_ms(row) else None


def over_floor(row: dict) -> float | None:
    return row["ours_ms"] / row["floor_ms"] if row.get("floor_ms") else None


def shape(row: dict) -> str:
    if "shape" in row:
        return row["shape"]
    text = f"{row['m']} x {row['n']} x {row['k']}"
    return f"{row['batch']} of {text}" if row["batch"] > 1 else text


def class_line(name: str, rows: list[dict]) -> list[str]:
    peers, plain, floor = ([x for x in map(f, rows) if x] for f in
                           (over_peer, over_plain, over_floor))
    pair = lambda x: f"{quantile(x, 0.5):.2f}, {quantile(x, 0.9):.2f}" if x else "-"  # noqa: E731
    return [name, str(len(rows)),
            f"{100 * sum(x >= LEVEL for x in peers) / len(peers):.0f} %" if peers else "-",
            f"{geometric_mean(peers):.2f}" if peers else "-",
            f"{min(peers):.2f}" if peers else "-", pair(plain), pair(floor)]


def class_table(rows: list[dict], peer: str, plain: str) -> str:
    found: dict[str, list[dict]] = {}
    for row in rows:
        for name in classes_of(row):
            found.setdefault(name, []).append(row)
    rank = lambda name: (not name.startswith("M "),  # noqa: E731
                         int(name[2:].split("-")[0]) if name.startswith("M ") else 0, name)
    head = ["class", "cells", f"level with {peer} or ahead", "geometric mean", "worst",
            f"over {plain}: median, p90", "over floor: median, p90"]
    return table([head, class_line("all", rows),
                  *(class_line(name, found[name]) for name in sorted(found, key=rank))])


def worst_table(rows: list[dict], count: int, key, heading: str) -> str:
    chosen = sorted((r for r in rows if key(r)), key=key)[:count]
    lines = [[heading, "ours, ms", "plain", "peer", "floor", "shape", "epilogue", "schedule"]]
    for r in chosen:
        times = (r["ours_ms"], plain_ms(r), r.get("best_peer_ms"), r.get("floor_ms"))
        lines.append([f"{key(r):.2f}", *(f"{x:.4g}" if x else "-" for x in times), shape(r),
                      r["epilogue"][:36], r.get("schedule", "")[:74]])
    return table(lines)


def picture(rows: list[dict], title: str) -> str:
    """Time over floor against the floor's time, ours over everybody else's."""
    width, height, left, bottom = 1000, 560, 56, 46
    wide, tall = width - left - 20, height - bottom - 60
    x_low = math.log10(min(r["floor_ms"] for r in rows)) - 0.05
    x_high = math.log10(max(r["floor_ms"] for r in rows)) + 0.05
    y_high = math.log2(16)

    def dot(row, time, series):
        x = left + wide * (math.log10(row["floor_ms"]) - x_low) / (x_high - x_low)
        y = 60 + tall * (1 - min(1.0, max(0.0, math.log2(time / row["floor_ms"])) / y_high))
        hover = f"{row['epilogue']}, {shape(row)}: {time:.4f} ms, floor {row['floor_ms']:.4f}"
        return (f'<circle cx="{x:.1f}" cy="{y:.1f}" r="{3 if series == "ours" else 2.2}" '
                f'fill="{COLOURS[series]}" fill-opacity="0.7">'
                f"<title>{escape(hover)}</title></circle>")

    shapes = [f'<text x="16" y="26" font-size="17" font-weight="bold" fill="{INK}">'
              f"{escape(title)}</text>"]
    names = {"ours": "Postlude, epilogue included", "plain": "plain product alone",
             "peer": "best peer, epilogue included"}
    for i, (series, name) in enumerate(names.items()):
        shapes.append(f'<circle cx="{22 + 260 * i}" cy="45" r="5" fill="{COLOURS[series]}"/>'
                      f'<text x="{32 + 260 * i}" y="49" font-size="11" fill="{INK}">{name}</text>')
    for power in range(5):
        y = 60 + tall * (1 - power / y_high)
        shapes.append(f'<line x1="{left}" x2="{width - 20}" y1="{y:.1f}" y2="{y:.1f}" '
                      f'stroke="{GRID}"/><text x="{left - 6}" y="{y + 4:.1f}" font-size="10" '
                      f'text-anchor="end" fill="{INK}">{2 ** power} x</text>')
    for power in range(math.ceil(x_low), math.floor(x_high) + 1):
        x = left + wide * (power - x_low) / (x_high - x_low)
        shapes.append(f'<line x1="{x:.1f}" x2="{x:.1f}" y1="60" y2="{60 + tall}" stroke="{GRID}"/>'
                      f'<text x="{x:.1f}" y="{height - 26}" font-size="10" text-anchor="middle" '
                      f'fill="{INK}">{10.0 ** power:g} ms</text>')
    shapes.append(f'<text x="{left + wide / 2}" y="{height - 8}" font-size="11" fill="{INK}" '
                  'text-anchor="middle">the floor: what operations or bytes take at least; '
                  "upwards: time over it</text>")
    times = {"plain": plain_ms, "peer": lambda r: r.get("best_peer_ms"),
             "ours": lambda r: r["ours_ms"]}
    for series, time_of in times.items():
        shapes += [dot(r, time_of(r), series) for r in rows if time_of(r)]
    return (f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" '
            'font-family="Helvetica, Arial, sans-serif">\n'
            f'<rect width="{width}" height="{height}" fill="{PAPER}"/>\n' + "\n".join(shapes) +
            "\n</svg>\n")


def first_calls(rows: list[dict]) -> str:
    times = [r["first_call_s"] for r in rows if "first_call_s" in r]
    if not times:
        return "no first calls"
    slow = sorted(rows, key=lambda r: -r.get("first_call_s", 0))[:5]
    # At most: what was not timed again was as fast beside others.
    alone = [r.get("first_call_alone_s", r["first_call_s"]) for r in rows if "first_call_s" in r]
    return (f"first calls: median {quantile(times, 0.5):.2f} s, p90 {quantile(times, 0.9):.2f}, "
            f"p99 {quantile(times, 0.99):.2f}" +
            (f" (the slowest again, alone: p99 {quantile(alone, 0.99):.2f}, worst {max(alone):.1f})"
             if alone != times else "") + "; slowest " +
            "; ".join(f"{r['first_call_s']:.1f} ({r['epilogue']}, {shape(r)})" for r in slow))


def problems(rows: list[dict]) -> list[str]:
    """What is wrong rather than slow."""
    found = [f"FAILED {r['epilogue']}, {shape(r)}: {r['failed']}" for r in rows if "failed" in r]
    found += [f"WRONG {r['epilogue']}, {shape(r)} by {r.get('schedule')}: error / bound "
              f"{r['error_over_bound']:.3g}" for r in rows if not r.get("error_over_bound", 0) <= 1]
    return found


def write(what: dict, rows: list[dict], out: pathlib.Path, name: str, peer: str = "torch.compile",
          plain: str = "cuBLAS plain") -> int:
    """Prints, and writes OUT/NAME.json and .svg; 1 where something is wrong."""
    wrong = problems(rows)
    kept = [r for r in rows if "ours_ms" in r or "times" in r]
    with open(out / f"{name}.json", "w", encoding="utf-8") as file:
        file.write("{" + ", ".join(f'"{k}": {json.dumps(v)}' for k, v in what.items()) +
                   ',\n "rows": [\n  ' + ",\n  ".join(map(json.dumps, kept)) + "]}\n")
    timed = [r for r in kept if "ours_ms" in r]
    if timed:
        if timed[0].get("floor_ms"):
            (out / f"{name}.svg").write_text(picture(
                timed, f"{len(timed)} random cells on one {what['device']}: time over the floor"))
        print("\n" + class_table(timed, peer, plain))
        print(f"\nThe worst twenty beside {peer}\n" +
              worst_table(timed, 20, over_peer, "speed / peer's"))
        if plain:
            print(f"\nThe worst ten beside {plain}\n" + worst_table(
                timed, 10, lambda r: over_plain(r) and 1 / over_plain(r), "speed / plain's"))
        print("\n" + first_calls(timed))
        refused = [r for r in timed if "peer_refused" in r]
        print(f"{len(refused)} cells without a peer" + "".join(
            f"; {r['epilogue']}, {shape(r)}: {r['peer_refused'][:90]}" for r in refused[:3]))
        odd = [r for r in timed if r.get("peer_error", 0) > 100]
        print(f"{len(odd)} where the peer's values are far from exact" + "".join(
            f"; {r['epilogue']}, {shape(r)}: {r['peer_error']:.3g} of the bound" for r in odd[:3]))
    schedules = [t for r in kept for t in r.get("times", [])]
    if schedules:
        regret = [r["times"][0]["ms"] / min(t["ms"] for t in r["times"])
                  for r in kept if r["times"]]
        print(f"\n{len(schedules)} times of {len(kept)} cells; the chosen schedule over the best "
              f"of them: median {quantile(regret, 0.5):.3f}, p90 {quantile(regret, 0.9):.3f}, "
              f"worst {max(regret):.2f}")
    print("\n".join(wrong[:12]))
    print(f"{len(kept)} cells, {len(wrong)} failed or wrong")
    return bool(wrong) or not kept


if __name__ == "__main__":
    lines: dict[int, dict] = {}
    for line in open(sys.argv[1], encoding="utf-8"):
        row = json.loads(line)
        lines[row["number"]] = row
    sys.exit(write({"device": "GPU", "claim": False}, list(lines.values()),
                   pathlib.Path(sys.argv[2]), "again"))
