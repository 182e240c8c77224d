"""# Sampling a token without its logits

Greedy decoding is an argmax over the vocabulary; sampling from the softmax is an argmax too, of the logits plus
Gumbel noise, `-log(-log(u))`. Both leave one index a row and never store the logits. The noise comes from
`post.random`, Philox numbers that belong to an element and not to a schedule: the same seed draws the same tokens on
any machine, and plain numpy can draw them again.
"""
import numpy as np

import postlude as post


@post.epilogue
def greedy(acc):
    token = post.argmax(acc, axis=1)
    return token


@post.epilogue
def sample(acc, temperature: post.scalar):
    u = post.max(post.random(seed=42), 1e-7)
    token = post.argmax(acc / temperature - post.log(-post.log(u)), axis=1)
    return token


rng = np.random.default_rng(0)
hidden = rng.standard_normal((2000, 32)).astype(np.float32)
hidden[:] = hidden[0]  # one prompt, many draws
vocabulary = rng.standard_normal((32, 50)).astype(np.float32) / 4

tokens = post.matmul(hidden, vocabulary, epilogue=sample, temperature=1.0)
assert np.array_equal(tokens, post.matmul(hidden, vocabulary, epilogue=sample, temperature=1.0))
logits = hidden[0].astype(np.float64) @ vocabulary
probability = np.exp(logits - logits.max()) / np.exp(logits - logits.max()).sum()
drawn = np.bincount(tokens, minlength=50) / len(tokens)
assert abs(drawn - probability).max() < 0.03
assert post.matmul(hidden, vocabulary, epilogue=greedy)[0] == logits.argmax()

likely = np.argsort(-probability)[:5]
print("token       " + "".join(f"{t:8d}" for t in likely))
print("probability " + "".join(f"{probability[t]:8.3f}" for t in likely))
print("drawn       " + "".join(f"{drawn[t]:8.3f}" for t in likely))
