"""./dev bench conv: ResNet-50's convolutions in f32 on one thread, beside oneDNN's.

Usage: conv.py BUILD [--images N] [--seconds S]. Runs conv_bench of BUILD and writes bench/results/cpu_conv.json: every
time, and the geometric mean of oneDNN's time over ours for each epilogue. Times are a thread's processor time, in turns.
"""
import argparse
import datetime
import json
import math
import pathlib
import platform
import subprocess

ROOT = pathlib.Path(__file__).resolve().parent.parent
BAR = 0.95  # of oneDNN's speed, in the geometric mean


def ratios(rows):
    """Ours over theirs, as speeds, by epilogue and layer."""
    cells = {}
    for row in rows:
        if row["agrees"]:
            cells.setdefault((row["epilogue"], row["layer"]), {})[row["contender"]] = row["median_ms"]
    found = {}
    for (epilogue, layer), times in cells.items():
        peer = next((times[name] for name in times if name.startswith("onednn")), None)
        if peer and "postlude" in times:
            found.setdefault(epilogue, {})[layer] = round(peer / times["postlude"], 3)
    return found


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("build", type=pathlib.Path)
    parser.add_argument("--images", type=int, default=16)
    parser.add_argument("--seconds", type=float, default=0.5)
    given = parser.parse_args()
    done = subprocess.run([given.build / "bench/conv_bench", "--images", str(given.images), "--seconds", str(given.seconds), "--json"],
                          capture_output=True, text=True, check=True)
    write(done.stderr.strip(), [json.loads(line) for line in done.stdout.splitlines()], given.images)


def write(peers, rows, images):
    found = ratios(rows)
    means = {epilogue: round(math.exp(sum(map(math.log, of.values())) / len(of)), 3) for epilogue, of in found.items()}
    (ROOT / "bench/results/cpu_conv.json").write_text(json.dumps(
        {"date": datetime.date.today().isoformat(), "machine": platform.processor() or platform.machine(), "peers": peers, "images": images,
         "threads": 1, "speed_over_onednn": means, "by_layer": found, "rows": rows}, indent=1) + "\n")
    for epilogue, mean in means.items():
        worst = min(found[epilogue].items(), key=lambda item: item[1])
        print(f"{epilogue:14s} {mean:.3f} of oneDNN's speed{'' if mean >= BAR else ' (below the bar)'}, worst {worst[1]:.2f} at {worst[0]}")


if __name__ == "__main__":
    main()
