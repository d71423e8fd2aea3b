"""The handwritten digits that ship with scikit-learn: 1,797 images of 8 x 8 pixels."""

import numpy as np
from sklearn.datasets import load_digits

VALIDATION_IMAGES = 357
SPLIT_SEED = 7
#: Every training image is there as it is, and moved by a pixel: (rows, columns).
NUDGES = ((0, 0), (-1, 0), (1, 0), (0, -1), (0, 1))

Part = tuple[np.ndarray, np.ndarray]


def load() -> tuple[Part, Part]:
    """Give (images, labels) to train on, 5 x 1,440 of them, and to validate with, the other 357.

    No copy of an image to validate with is ever trained on.
    """
    digits = load_digits()
    images, labels = digits.images / 16, digits.target
    order = np.random.default_rng(SPLIT_SEED).permutation(len(labels))
    held_out, rest = order[:VALIDATION_IMAGES], order[VALIDATION_IMAGES:]
    nudged = np.concatenate([moved(images[rest], *nudge) for nudge in NUDGES])
    train = flat(nudged), np.tile(labels[rest], len(NUDGES))
    return train, (flat(images[held_out]), labels[held_out])


def moved(images: np.ndarray, rows: int, columns: int) -> np.ndarray:
    """Move images by at most a pixel; what comes in at the border is empty."""
    height, width = images.shape[1:]
    padded = np.pad(images, ((0, 0), (1, 1), (1, 1)))
    return padded[:, 1 - rows : 1 - rows + height, 1 - columns : 1 - columns + width]


def flat(images: np.ndarray) -> np.ndarray:
    """Give a row of pixels for each image."""
    return images.reshape(len(images), -1)
