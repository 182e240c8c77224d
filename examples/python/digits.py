"""# A network trained on handwritten digits

64 -> 48 -> 10, trained by hand: six products a step, and everything else is an epilogue of one of them. The epilogues
are those of examples/digits/network.py, which the C++ demo and the command line read as text; here they are imported.
No logits are stored, the gradient through gelu happens where the gradient's product ends, and the optimiser updates the
weights in place in the epilogue of the product that makes their gradient.
"""
import importlib.util
import pathlib

import numpy as np
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

import postlude as post

path = pathlib.Path(__file__).resolve().parents[1] / "digits" / "network.py"
spec = importlib.util.spec_from_file_location("network", path)
network = importlib.util.module_from_spec(spec)
spec.loader.exec_module(network)

digits = load_digits()
x, x_test, y, y_test = train_test_split((digits.data / 16).astype(np.float32), digits.target.astype(np.int64), test_size=0.2,
                                        random_state=0, stratify=digits.target)
rng = np.random.default_rng(0)
hidden = 48
w1 = (rng.standard_normal((64, hidden)) / 8).astype(np.float32)
w2 = (rng.standard_normal((hidden, 10)) / np.sqrt(hidden)).astype(np.float32)
b1, b2 = np.zeros(hidden, np.float32), np.zeros(10, np.float32)
v1, v2 = np.zeros_like(w1), np.zeros_like(w2)
batch, rate, momentum = 64, 0.2, 0.9

for epoch in range(20):
    order = rng.permutation(len(x))
    total = 0.0
    for start in range(0, len(x) - batch + 1, batch):
        chosen = order[start:start + batch]
        xs, ys = x[chosen], y[chosen]
        h, z = post.matmul(xs, w1, epilogue=network.hidden, b1=b1)
        out = post.matmul(h, w2, epilogue=network.output, b2=b2, label=ys, share=1 / batch)
        dz, db1 = post.matmul(out.dlogits, w2.T, epilogue=network.hidden_gradient, z=z)
        post.matmul(h.T, out.dlogits, epilogue=network.step, w=w2, v=v2, rate=rate, momentum=momentum, out=(w2, v2))
        post.matmul(xs.T, dz, epilogue=network.step, w=w1, v=v1, rate=rate, momentum=momentum, out=(w1, v1))
        b1 -= rate * db1
        b2 -= rate * out.db2
        total += float(out.loss.sum())
    if epoch % 5 == 4:
        print(f"epoch {epoch + 1:2d}  loss {total / len(x):.4f}")

h, _ = post.matmul(x_test, w1, epilogue=network.hidden, b1=b1)
predicted = post.matmul(h, w2, epilogue=network.output, b2=b2, label=y_test, share=1.0).predicted
accuracy = (predicted == y_test).mean()
print(f"{accuracy:.1%} of {len(y_test)} digits that it has not seen")
assert accuracy > 0.95
