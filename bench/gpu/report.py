"""h200.json and h200.md out of what gpu_suite and peers.py measured in one call; prints the table.

Usage: report.py SUITE.json PEERS.json FOLDER. A peer's time is its ratio to torch.mm, times cuBLAS's plain product beside ours:
two processes, so that only ratios can be compared. Without PEERS.json the rows have no peer.
"""
import datetime
import json
import pathlib
import sys

BARS = {  # of SUITE's table: ours over cuBLAS's plain product; square and mid, bert_ffn, odd
    "plain": (1.00, 0.96, 0.40), "bias_relu": (1.02, 1.00), "bias_gelu": (1.02, 1.00, 0.40), "swiglu": (1.02, 1.00), "axpby": (1.04, 1.10),
    "bias_gelu_res_aux": (1.04, 1.10), "rowmax": (1.03, 1.08), "argmax": (1.03, 1.08), "xent": (1.03, 1.08), "bce": (1.03, 1.08),
    "dgelu_dbias": (1.05, 1.18), "softmax": (1.10, 1.15), "rmsnorm": (1.10, 1.25)}


def bar(row):
    bars = BARS.get(row["epilogue"])
    place = {"square": 0, "mid": 0, "bert_ffn": 1, "odd": 2}.get(row["shape"], 3)  # the others have none
    return bars[place] if bars and place < len(bars) else None


def main():
    suite_path, peers_path, folder = map(pathlib.Path, sys.argv[1:4])
    data = json.loads(suite_path.read_text())
    peers = json.loads(peers_path.read_text()) if peers_path.exists() else {"rows": [], "versions": "", "skipped": []}
    for row in data["rows"]:
        mine = [p for p in peers["rows"] if (p["epilogue"], p["shape"]) == (row["epilogue"], row["shape"])]
        best = min(mine, key=lambda p: p["ms"] / p["plain_ms"], default=None)
        row["best_peer"] = best["peer"] if best else ""
        row["best_peer_ms"] = best["ms"] / best["plain_ms"] * row["cublas_plain_ms"] if best else 0
        row["peers"] = {p["peer"]: round(p["ms"] / p["plain_ms"], 4) for p in mine}
    data["date"] = datetime.date.today().isoformat()
    data["versions"] += f"; {peers['versions']}" if peers["versions"] else ""
    data["peers_skipped"] = peers["skipped"]
    (folder / "h200.json").write_text(json.dumps(data, indent=1) + "\n")

    lines = [f"{'epilogue':<18} {'shape':<9} {'ours ms':>9} {'cuBLAS':>9} {'ratio':>6} {'bar':>5}   {'peer':>6} {'':<13} {'err/bnd':>7} {'host us':>7}  schedule"]
    missed = behind = 0
    for r in data["rows"]:
        ratio, wanted = r["ours_ms"] / r["cublas_plain_ms"], bar(r)
        peer = r["best_peer_ms"] / r["cublas_plain_ms"]
        late = wanted is not None and ratio > wanted
        slower = peer and ratio >= peer
        missed, behind = missed + late, behind + bool(slower)
        lines.append(f"{r['epilogue']:<18} {r['shape']:<9} {r['ours_ms']:9.4f} {r['cublas_plain_ms']:9.4f} {ratio:6.3f} {format(wanted, '5.2f') if wanted else '     '}{'*' if late else ' '}  "
                     f"{peer:6.3f}{'!' if slower else ' '}{r['best_peer']:<13} {r['error_over_bound']:7.3f} {r['host_us']:7.1f}  {r['schedule'].split(';')[0]}")
    for s in data["streams"]:
        lines.append(f"stream {s['name']:<11} {s['dtype']:<9} {s['ms']:9.4f} ms, {s['gbps']:.0f} GB/s, {s['of_copy']:.3f} of a copy's (bar 0.90)")
    for c in data["costs"]:
        lines.append(f"{c['what']}: {c['value']:.3g} {c['unit']} (bar {c['bar']:g})")
    if data["sweep"]:
        far = [s for s in data["sweep"] if s["ratio"] > 1.03]
        lines.append(f"sweep: the heuristic is within 3% of the best of {min(s['tried'] for s in data['sweep'])} or more schedules in "
                     f"{len(data['sweep']) - len(far)} of {len(data['sweep'])} cells" +
                     "".join(f"\n  {s['epilogue']} {s['shape']}: {s['ratio']:.3f}, best {s['best']}" for s in far))
    lines.append(f"{missed} cells miss their bar (*), {behind} are not ahead of their best peer (!); {data['versions']}")
    table = "\n".join(lines)
    (folder / "h200.md").write_text(f"""# The suite on one {data['device']}, {data['date']}

One call of ./dev gpu: ours interleaved with cuBLAS's plain product, L2 flushed before each run, medians of {data['runs']}; peers in a second
process of the same call, as ratios to torch.mm interleaved with them. docs/benchmarks.md shows the same as a picture.

```
{table}
```
""")
    print(table)


if __name__ == "__main__":
    main()
