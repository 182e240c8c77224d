"""What Python adds to C++: a prepared call, and post.matmul, on matrices so small that nothing else is left.

Usage: overhead.py [OUTPUT.json]. Three ways of computing the same 8 x 8 x 8 product with a bias and a relu, interleaved
round by round, 200 calls a round; a figure is the mean time of a call in its best round, since a machine that does
something else too only ever adds, and the median of the rounds stands beside it.
  prepared   call(), the plan's own call from Python
  inside     the same call run in a loop in C++, called once from Python: what C++ itself takes
  matmul     post.matmul(a, b, epilogue=f, bias=bias), found, checked, bound and allocated each time
"""
from __future__ import annotations

import json
import platform
import statistics
import sys
import time

import numpy as np

import postlude as post


@post.epilogue
def bias_relu(acc, bias: post.row):
    return post.relu(acc + bias)


def mean_us(function, calls):
    start = time.perf_counter()
    for _ in range(calls):
        function()
    return 1e6 * (time.perf_counter() - start) / calls


def main():
    rng = np.random.default_rng(0)
    a, b = rng.standard_normal((2, 8, 8)).astype(np.float32)
    bias = rng.standard_normal(8).astype(np.float32)
    out = np.empty((8, 8), np.float32)
    call = post.plan(a, b, epilogue=bias_relu).bind(a, b, bias=bias)
    calls = 200
    ways = {
        "prepared": lambda: mean_us(call, calls),
        "inside": lambda: 1e6 * call._loop(calls) / calls,
        "matmul": lambda: mean_us(lambda: post.matmul(a, b, epilogue=bias_relu, bias=bias), calls),
        "matmul_out": lambda: mean_us(lambda: post.matmul(a, b, epilogue=bias_relu, bias=bias, out=out), calls),
        "numpy": lambda: mean_us(lambda: np.maximum(a @ b + bias, 0), calls),
    }
    rounds = {way: [] for way in ways}
    for _ in range(100):
        for way, measure in ways.items():
            rounds[way].append(measure())
    best = {way: min(times) for way, times in rounds.items()}
    median = {way: statistics.median(times) for way, times in rounds.items()}
    result = {
        "machine": platform.processor() or platform.machine(), "python": platform.python_version(),
        "best_us": best, "median_us": median,
        "prepared_adds_us": best["prepared"] - best["inside"], "matmul_adds_us": best["matmul"] - best["inside"],
    }
    for way in ways:
        print(f"{way:<12}{best[way]:8.2f} us   (median {median[way]:.2f})")
    print(f"a prepared call adds {result['prepared_adds_us']:.2f} us to C++ (less than 3 wanted), "
          f"post.matmul {result['matmul_adds_us']:.2f} us (less than 15 wanted)")
    if len(sys.argv) > 1:
        with open(sys.argv[1], "w", encoding="utf-8") as file:
            json.dump(result, file, indent=1)
    return result


if __name__ == "__main__":
    main()
