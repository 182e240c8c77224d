"""Writes the digits that scikit-learn ships to FOLDER as .npy: 1,797 images of 8 x 8, split 4 to 1."""
import pathlib
import sys

import numpy as np
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

folder = pathlib.Path(sys.argv[1])
digits = load_digits()
images = (digits.data / 16.0).astype(np.float32)
labels = digits.target.astype(np.int64)
parts = train_test_split(images, labels, test_size=0.2, random_state=0, stratify=labels)
for name, part in zip(("train_images", "test_images", "train_labels", "test_labels"), parts):
    np.save(folder / f"{name}.npy", np.ascontiguousarray(part))
