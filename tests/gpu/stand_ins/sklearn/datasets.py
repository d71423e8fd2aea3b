"""Digits that are made up: a pattern for each, and noise.  As many and as large as real ones."""

from types import SimpleNamespace

import numpy as np

COUNT, SIDE, CLASSES, MAX = 1797, 8, 10, 16


def load_digits():
    source = np.random.default_rng(7)
    patterns = source.uniform(0, MAX, (CLASSES, SIDE * SIDE))
    target = source.integers(CLASSES, size=COUNT)
    noise = source.normal(0, 2, (COUNT, SIDE * SIDE))
    data = np.clip(patterns[target] + noise, 0, MAX).round()
    return SimpleNamespace(data=data, images=data.reshape(COUNT, SIDE, SIDE), target=target)
