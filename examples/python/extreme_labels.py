"""# Extreme multi-label classification: a loss over logits that are never stored

Tagging with a hundred thousand labels means a product of (documents x features) by (features x labels), then a binary
cross entropy over every (document, label) pair. Only its sum is wanted, yet a framework stores the logits, the
sigmoids and each intermediate at full size. Here the loss is the epilogue: the product's tiles are reduced while they
are in the cache, and the only output is one number.

    loss = -sum((label - 1) * f + log(clamp(sigmoid(f), 0.001, 0.999)))     with f = x w + bias

which is the sum that the CUTLASS example with a reduction in its epilogue computes, with its sign turned. The labels
are bytes, since a document either has a label or has not.
"""
import sys
import time
import tracemalloc

import numpy as np

import postlude as post


@post.epilogue
def bce(acc, bias: post.row, label: post.tile[post.u8]):
    f = acc + bias
    s = post.clamp(post.sigmoid(f), 0.001, 0.999)
    loss = -post.sum((label - 1) * f + post.log(s))
    return loss


def unfused(x, w, bias, label):
    """The same in numpy, one pass an operation, each into memory."""
    f = x @ w + bias
    s = np.clip(1 / (1 + np.exp(-f)), 0.001, 0.999)
    return -np.sum((label.astype(np.float32) - 1) * f + np.log(s), dtype=np.float64)


def measured(function, repeats=3):
    """(result, best seconds, peak bytes that numpy allocated)."""
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        result = function()
        times.append(time.perf_counter() - start)
    tracemalloc.start()  # numpy reports its arrays to it
    function()
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return result, min(times), peak


documents, features, labels = (256, 64, 20_000) if len(sys.argv) < 2 else map(int, sys.argv[1].split("x"))
rng = np.random.default_rng(0)
x = rng.standard_normal((documents, features)).astype(np.float32)
w = (rng.standard_normal((features, labels)) / np.sqrt(features)).astype(np.float32)
bias = np.full(labels, -4, np.float32)
label = (rng.random((documents, labels)) < 0.001).astype(np.uint8)

# A plan's workspace is not numpy's memory: it is added to what tracemalloc saw.
call = post.plan(x, w, epilogue=bce, label=label).bind(x, w, bias=bias, label=label)
fused, fused_time, fused_peak = measured(lambda: post.matmul(x, w, epilogue=bce, bias=bias, label=label))
fused_peak += call.workspace_bytes
plain, plain_time, plain_peak = measured(lambda: unfused(x, w, bias, label))

assert abs(float(fused) - plain) < 1e-4 * abs(plain), (fused, plain)
print(f"{documents} documents, {labels} labels; the logits alone would take {documents * labels * 4 / 2**20:.0f} MiB")
print(f"unfused  loss {plain:.6e}  {1e3 * plain_time:8.1f} ms  peak {plain_peak / 2**20:8.2f} MiB")
print(f"postlude loss {float(fused):.6e}  {1e3 * fused_time:8.1f} ms  peak {fused_peak / 2**20:8.2f} MiB")
