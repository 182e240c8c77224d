"""Draws what examples/digits left in FOLDER: held-out digits with their predictions, the loss, the times."""
import json
import pathlib
import sys

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np

folder = pathlib.Path(sys.argv[1])
result = json.loads((folder / "result.json").read_text())
images, labels = np.load(folder / "test_images.npy"), np.load(folder / "test_labels.npy")
predicted = np.array(result["predicted"])

ink, paper, accent, wrong = "#1b2a41", "#f7f5f0", "#2a7f9e", "#c8553d"
figure = plt.figure(figsize=(12, 5.6), facecolor=paper)
grid = figure.add_gridspec(6, 16, left=0.02, right=0.98, top=0.83, bottom=0.1, wspace=0.25, hspace=0.65)
figure.text(0.02, 0.93, "Handwritten digits, every product fused with what follows it", fontsize=16, color=ink, weight="bold")
figure.text(0.02, 0.885, f"{result['accuracy']:.1%} of {len(labels)} held-out digits right; each shown with its prediction",
            fontsize=10.5, color=ink)

# Every mistake first, so that the picture hides none that fits, then digits as they come.
order = np.concatenate([np.flatnonzero(predicted != labels), np.flatnonzero(predicted == labels)])[:60]
for place, sample in enumerate(np.sort(order)):
    axis = figure.add_subplot(grid[place // 10, place % 10])
    axis.imshow(images[sample].reshape(8, 8), cmap="Greys", interpolation="nearest")
    axis.set_xticks([]), axis.set_yticks([])
    good = predicted[sample] == labels[sample]
    axis.set_title(f"{predicted[sample]}" if good else f"{predicted[sample]} (is {labels[sample]})", fontsize=9,
                   color=ink if good else wrong, pad=2, weight="normal" if good else "bold")
    for edge in axis.spines.values():
        edge.set_color(ink if good else wrong)
        edge.set_linewidth(0.5 if good else 1.8)

axis = figure.add_subplot(grid[0:3, 11:])
axis.set_facecolor(paper)
axis.plot(np.arange(1, len(result["loss"]) + 1), result["loss"], color=accent, lw=2)
axis.set_yscale("log")
axis.set_title("training loss, by epoch", fontsize=10.5, color=ink, loc="left")

bars = figure.add_subplot(grid[4:6, 11:])
bars.set_facecolor(paper)
times = [result["fused_ms"], result["unfused_ms"]]
bars.barh(["fused", "one pass an\noperation"], times, color=[accent, "#b8b4a8"], height=0.6)
bars.invert_yaxis()
for row, time in enumerate(times):
    bars.text(time, row, f" {time:.2f} ms", va="center", fontsize=9.5, color=ink)
bars.set_xlim(0, max(times) * 1.25)
bars.set_title("one training step, median", fontsize=10.5, color=ink, loc="left")
for panel in (axis, bars):
    panel.tick_params(labelsize=9, colors=ink)
    for side in ("top", "right"):
        panel.spines[side].set_visible(False)

figure.savefig(folder / "digits.png", dpi=130, facecolor=paper)
print(f"{folder / 'digits.png'}: {result['accuracy']:.1%} right, "
      f"a step takes {times[0]:.2f} ms fused, {times[1]:.2f} ms unfused")
