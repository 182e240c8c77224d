"""# A convolutional network on handwritten digits

Three convolutions of 3 x 3, each with a batch norm and a relu, an average over the pixels, and a linear layer. A layer is
one call forward and two back: its batch statistics, its normalisation and their gradients are epilogues of the convolution
or of the gradient that stands in front of them, and the optimiser is the epilogue of the weight's gradient.

    python convolution.py [PICTURE.png]
"""
import importlib.util
import pathlib
import sys

import numpy as np
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

import postlude as post

path = pathlib.Path(__file__).resolve().parents[1] / "digits" / "network.py"
spec = importlib.util.spec_from_file_location("network", path)
network = importlib.util.module_from_spec(spec)
spec.loader.exec_module(network)


@post.epilogue
def normalised(acc, gamma: post.row, beta: post.row):
    """Forward: batch norm over all images and pixels, then relu, and its average over each image."""
    mean = post.mean(acc, axis=0, batch=True)
    centred = acc - mean
    variance = post.mean(centred * centred, axis=0, batch=True)
    rstd = post.rsqrt(variance + 1e-5)
    hat = centred * rstd
    y = post.relu(hat * gamma + beta)
    return {"y": y, "hat": hat, "mean": mean, "rstd": rstd, "pooled": post.mean(y, axis=0)}


@post.epilogue
def inference(acc, gamma: post.row, beta: post.row, mean: post.row, rstd: post.row):
    """The same with statistics from training."""
    y = post.relu((acc - mean) * rstd * gamma + beta)
    return {"y": y, "pooled": post.mean(y, axis=0)}


def through(gradient, hat, y, gamma, rstd):
    """Back through relu and batch norm."""
    g = post.where(y > 0, gradient, 0.0)
    dz = gamma * rstd * (g - post.mean(g, axis=0, batch=True) - hat * post.mean(g * hat, axis=0, batch=True))
    return {"dz": dz, "dgamma": post.sum(g * hat, axis=0, batch=True), "dbeta": post.sum(g, axis=0, batch=True)}


@post.epilogue
def backward(acc, hat: post.tile, y: post.tile, gamma: post.row, rstd: post.row):
    """Behind the data gradient of the next layer: acc is the gradient of y."""
    return through(acc, hat, y, gamma, rstd)


@post.epilogue
def backward_of_mean(acc, dpooled: post.row, y: post.tile, gamma: post.row, rstd: post.row, share: post.scalar):
    """The last layer's: acc is its normalised value; the gradient of y is an image's row, for each of its pixels."""
    return through(dpooled * share, acc, y, gamma, rstd)


class Layer:
    def __init__(self, rng, channels, filters, stride):
        self.options = {"stride": stride, "padding": 1}
        scale = np.sqrt(2 / (9 * channels))
        # Channels last in memory, in torch's shape.
        self.w = (rng.standard_normal((filters, 3, 3, channels)) * scale).astype(np.float32).transpose(0, 3, 1, 2)
        self.v = np.zeros((filters, 3, 3, channels), np.float32).transpose(0, 3, 1, 2)
        self.gamma, self.beta = np.ones(filters, np.float32), np.zeros(filters, np.float32)
        self.mean, self.rstd = np.zeros(filters, np.float32), np.ones(filters, np.float32)

    def forward(self, x):
        self.x = x
        self.out = post.conv2d(x, self.w, epilogue=normalised, gamma=self.gamma, beta=self.beta, **self.options)
        self.mean += 0.1 * (self.out.mean - self.mean)
        self.rstd += 0.1 * (self.out.rstd - self.rstd)
        return self.out.y

    def infer(self, x):
        return post.conv2d(x, self.w, epilogue=inference, gamma=self.gamma, beta=self.beta, mean=self.mean, rstd=self.rstd, **self.options)

    def before(self, layer, dz):
        """The gradient of the layer in front of this one, whose output is x."""
        return post.conv_dgrad(dz, self.w, self.x.shape[2:], epilogue=backward, hat=layer.out.hat, y=layer.out.y, gamma=layer.gamma,
                               rstd=layer.out.rstd, **self.options)

    def step(self, back, rate, momentum):
        post.conv_wgrad(self.x, back.dz, 3, epilogue=network.step, w=self.w, v=self.v, rate=rate, momentum=momentum,
                        out=(self.w, self.v), **self.options)
        self.gamma -= rate * back.dgamma
        self.beta -= rate * back.dbeta


digits = load_digits()
images = (digits.images / 16).astype(np.float32)[:, None]
x, x_test, y, y_test = train_test_split(images, digits.target.astype(np.int64), test_size=0.2, random_state=0, stratify=digits.target)
rng = np.random.default_rng(0)
layers = [Layer(rng, 1, 32, 1), Layer(rng, 32, 64, 2), Layer(rng, 64, 64, 1)]
w = (rng.standard_normal((64, 10)) / 8).astype(np.float32)
v, b = np.zeros_like(w), np.zeros(10, np.float32)
batch, epochs, momentum = 64, 12, 0.9
losses = []

for epoch in range(epochs):
    rate = 0.025 * (1 + np.cos(np.pi * epoch / epochs))
    order = rng.permutation(len(x))
    total = 0.0
    for start in range(0, len(x) - batch + 1, batch):
        chosen = order[start:start + batch]
        value = x[chosen]
        for layer in layers:
            value = layer.forward(value)
        last = layers[-1]
        out = post.matmul(last.out.pooled, w, epilogue=network.output, b2=b, label=y[chosen], share=1 / batch)
        dpooled = post.matmul(out.dlogits, w.T)
        pixels = value.shape[2] * value.shape[3]
        lines = [a.transpose(0, 2, 3, 1).reshape(batch, pixels, -1) for a in (last.out.hat, last.out.y)]
        back = post.stream(lines[0], epilogue=backward_of_mean, dpooled=dpooled, y=lines[1], gamma=last.gamma, rstd=last.out.rstd,
                           share=1 / pixels)
        back = back._replace(dz=back.dz.reshape(batch, *value.shape[2:], -1).transpose(0, 3, 1, 2))
        for layer, front in zip(layers[::-1], [*layers[-2::-1], None]):
            before = layer.before(front, back.dz) if front else None
            layer.step(back, rate, momentum)
            back = before
        post.matmul(last.out.pooled.T, out.dlogits, epilogue=network.step, w=w, v=v, rate=rate, momentum=momentum, out=(w, v))
        b -= rate * out.db2
        total += float(out.loss.sum())
    losses.append(total / (len(x) // batch * batch))
    if epoch % 3 == 2:
        print(f"epoch {epoch + 1:2d}  loss {losses[-1]:.4f}")

value = x_test
for layer in layers:
    out = layer.infer(value)
    value = out.y
predicted = post.matmul(out.pooled, w, epilogue=network.output, b2=b, label=y_test, share=1.0).predicted
accuracy = (predicted == y_test).mean()
print(f"{accuracy:.1%} of {len(y_test)} digits that it has not seen")
assert accuracy > 0.97


def draw(file):
    """Held-out digits with predictions, every mistake among them; the loss; the first layer's filters."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    ink, paper, accent, wrong = "#1b2a41", "#f7f5f0", "#2a7f9e", "#c8553d"
    figure = plt.figure(figsize=(12, 5.6), facecolor=paper)
    grid = figure.add_gridspec(6, 16, left=0.02, right=0.98, top=0.83, bottom=0.1, wspace=0.25, hspace=0.65)
    figure.text(0.02, 0.93, "A convolutional network: every convolution, gradient and batch statistic fused", fontsize=16, color=ink, weight="bold")
    figure.text(0.02, 0.885, f"{accuracy:.1%} of {len(y_test)} held-out digits right; each shown with its prediction", fontsize=10.5, color=ink)
    shown = np.concatenate([np.flatnonzero(predicted != y_test), np.flatnonzero(predicted == y_test)])[:60]
    for place, sample in enumerate(np.sort(shown)):
        axis = figure.add_subplot(grid[place // 10, place % 10])
        axis.imshow(x_test[sample, 0], cmap="Greys", interpolation="nearest")
        axis.set_xticks([]), axis.set_yticks([])
        good = predicted[sample] == y_test[sample]
        axis.set_title(f"{predicted[sample]}" if good else f"{predicted[sample]} (is {y_test[sample]})", fontsize=9,
                       color=ink if good else wrong, pad=2, weight="normal" if good else "bold")
        for edge in axis.spines.values():
            edge.set_color(ink if good else wrong)
            edge.set_linewidth(0.5 if good else 1.8)
    axis = figure.add_subplot(grid[0:3, 11:])
    axis.set_facecolor(paper)
    axis.plot(np.arange(1, len(losses) + 1), losses, color=accent, lw=2)
    axis.set_yscale("log")
    axis.set_title("training loss, by epoch", fontsize=10.5, color=ink, loc="left")
    for side in ("top", "right"):
        axis.spines[side].set_visible(False)
    axis.tick_params(labelsize=9, colors=ink)
    inner = grid[4:6, 11:].subgridspec(4, 8, wspace=0.15, hspace=0.15)
    for place in range(32):
        axis = figure.add_subplot(inner[place // 8, place % 8])
        axis.imshow(layers[0].w[place, 0], cmap="PuOr", interpolation="nearest")
        axis.set_xticks([]), axis.set_yticks([])
        if place == 0:
            axis.set_title("the first layer's filters", fontsize=10.5, color=ink, loc="left")
    figure.savefig(file, dpi=130, facecolor=paper)


if len(sys.argv) > 1:
    draw(sys.argv[1])
