"""./dev bench: plain products beside OpenBLAS and oneDNN, and the suite's epilogues beside our own plain product.

Usage: run.py BUILD [--seconds S] [--case TEXT]. Writes bench/results/cpu.json and cpu.md. Compare within one run only.
"""
import argparse
import datetime
import json
import pathlib
import platform
import statistics
import subprocess

root = pathlib.Path(__file__).resolve().parent.parent
SHAPES = {"cpu_square": (1024, 1024, 1024), "cpu_ffn": (512, 3072, 768), "cpu_thin": (2048, 2048, 64)}
# Without a transcendental, with one, with more of them or two phases: the bars of the ratio to plain at K >= 768.
SUITE = {"bias_relu": 1.05, "axpby": 1.05, "rowmax": 1.05, "argmax": 1.05, "bias_gelu": 1.12, "swiglu": 1.12, "bias_gelu_res_aux": 1.12,
         "xent": 1.25, "bce": 1.25, "dgelu_dbias": 1.25, "rmsnorm": 1.25, "softmax": 1.25}


def products(build, options):
    command = [build / "bench/gemm_bench", "--json", "--seconds", str(options.seconds)]
    if options.case:
        command += ["--case", options.case]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return done.stderr.strip(), json.loads(done.stdout)


def epilogue_ms(build, epilogue, shape, threads, repeat):
    done = subprocess.run([build / "postlude", "run", root / f"epilogues/{epilogue}.py", "--gemm", "x".join(map(str, shape)),
                           "--threads", str(threads), "--repeat", str(repeat), "--json"],
                          capture_output=True, text=True, check=True)
    return json.loads(done.stdout)["median_ms"]


def epilogues(build, turns=5):
    """Each epilogue in turns with the plain product; the ratio of the medians."""
    rows = []
    for name, shape in SHAPES.items():
        for threads in (1, 2):
            for epilogue, bar in SUITE.items():
                pairs = [(epilogue_ms(build, epilogue, shape, threads, 9), epilogue_ms(build, "plain", shape, threads, 9))
                         for _ in range(turns)]
                ours, plain = (statistics.median(column) for column in zip(*pairs))
                rows.append({"shape": name, "threads": threads, "epilogue": epilogue, "ms": ours, "plain_ms": plain,
                             "ratio": ours / plain, "bar": bar if shape[2] >= 768 else None})
    return rows


def product_table(rows):
    lines = ["| case | B | threads | ours | packed | better plain peer | oneDNN packed | ours / peer | packed / packed |",
             "|---|---|---|---|---|---|---|---|---|"]
    keys = dict.fromkeys((r["case"], r["b"], r["threads"]) for r in rows)
    for key in keys:
        speed = {r["contender"]: r["p90_gflops"] for r in rows if (r["case"], r["b"], r["threads"]) == key and r["agrees"]}
        ours, packed = speed.get("postlude"), speed.get("postlude packed")
        prepacked = speed.get("onednn packed")
        plain = [v for k, v in speed.items() if not k.startswith("postlude") and k != "onednn packed"]
        peer = max(plain, default=None)
        number = lambda x: f"{x:.1f}" if x else ""
        ratio = lambda x, y: f"{x / y:.2f}" if x and y else ""
        lines.append("| " + " | ".join([key[0], key[1], str(key[2]), number(ours), number(packed), number(peer), number(prepacked),
                                       ratio(ours, peer), ratio(packed, prepacked)]) + " |")
    return "\n".join(lines)


def epilogue_table(rows):
    lines = ["| shape | threads | " + " | ".join(SUITE) + " |", "|---|---|" + "---|" * len(SUITE)]
    for shape in SHAPES:
        for threads in (1, 2):
            cells = [next((r for r in rows if (r["shape"], r["threads"], r["epilogue"]) == (shape, threads, e)), None) for e in SUITE]
            text = [f"**{c['ratio']:.2f}**" if c["bar"] and c["ratio"] > c["bar"] else f"{c['ratio']:.2f}" for c in cells]
            lines.append(f"| {shape} | {threads} | " + " | ".join(text) + " |")
    return "\n".join(lines)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("build", type=pathlib.Path)
    parser.add_argument("--seconds", type=float, default=1.0, help="for each case of the plain products")
    parser.add_argument("--case", default="", help="only plain products whose name begins so")
    options = parser.parse_args()
    versions, plain = products(options.build, options)
    fused = epilogues(options.build)
    model = next((line.split(":")[1].strip() for line in open("/proc/cpuinfo") if line.startswith("model name")), platform.machine())
    date = datetime.date.today().isoformat()
    results = root / "bench/results"
    results.mkdir(parents=True, exist_ok=True)
    (results / "cpu.json").write_text(json.dumps({"date": date, "machine": model, "versions": versions, "products": plain,
                                                  "epilogues": fused}, indent=1) + "\n")
    text = f"""# CPU, {date}

{model}; {versions}. Compare within a row: the machine's speed drifts.

## Plain products, GFLOP/s, 90th percentile

{product_table(plain)}

## Time of an epilogue over our own plain product's, f32, medians in turns; bold misses its bar

{epilogue_table(fused)}
"""
    (results / "cpu.md").write_text(text)
    print(text)


if __name__ == "__main__":
    main()
