"""Shared by the Python tests: the repository, arrays to draw, and the optional frameworks."""
from __future__ import annotations

import pathlib

import numpy as np
import pytest
from hypothesis import settings

ROOT = pathlib.Path(__file__).resolve().parents[2]

settings.register_profile("postlude", deadline=None, max_examples=40, derandomize=True)
settings.load_profile("postlude")


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(7)


@pytest.fixture
def torch():
    return pytest.importorskip("torch", reason="torch is not installed; ./dev gpu runs these on a GPU machine")


@pytest.fixture
def jax():
    return pytest.importorskip("jax", reason="jax is not installed")
