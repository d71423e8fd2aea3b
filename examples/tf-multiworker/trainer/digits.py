"""The handwritten digits that ship with scikit-learn: 1,797 images of 8 x 8 pixels."""

import numpy as np
from sklearn.datasets import load_digits

TEST_IMAGES = 357

Part = tuple[np.ndarray, np.ndarray]


def load() -> tuple[Part, Part]:
    """Give (images, labels) to train on, 1,440 of them, and to test on, the other 357."""
    digits = load_digits()
    images = (digits.images[..., np.newaxis] / 16 - 0.5).astype("float32")
    labels = digits.target.astype("int32")
    order = np.random.default_rng(7).permutation(len(labels))
    test, train = order[:TEST_IMAGES], order[TEST_IMAGES:]
    return (images[train], labels[train]), (images[test], labels[test])
