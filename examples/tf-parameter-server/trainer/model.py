"""The model, its checkpoints and its data: what the chief and the evaluator have in common."""

from pathlib import Path

import numpy as np
import tensorflow as tf
from sklearn.datasets import load_digits

TEST_IMAGES = 357

Part = tuple[np.ndarray, np.ndarray]


def digits() -> tuple[Part, Part]:
    """Give (images, labels) to train on, 1,440 of them, and to test on, the other 357."""
    dataset = load_digits()
    images = (dataset.data / 16 - 0.5).astype("float32")
    labels = dataset.target.astype("int32")
    order = np.random.default_rng(7).permutation(len(labels))
    test, train = order[:TEST_IMAGES], order[TEST_IMAGES:]
    return (images[train], labels[train]), (images[test], labels[test])


def build() -> tf.keras.Model:
    """Build the model; in the strategy's scope its weights lie on the parameter servers."""
    tf.keras.utils.set_random_seed(1)
    layers = tf.keras.layers
    model = tf.keras.Sequential(
        [
            layers.InputLayer((64,)),
            layers.Dense(128, activation="relu"),
            layers.Dense(64, activation="relu"),
            layers.Dense(10),
        ]
    )
    model.compile(
        optimizer=tf.keras.optimizers.Adam(0.003),
        loss=tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        metrics=["accuracy"],
    )
    return model


def checkpoints(folder: Path) -> Path:
    """Say where the checkpoints lie: every replica must see this folder."""
    return folder / "checkpoints"


def number(checkpoint: str) -> int:
    """Read the epoch from a checkpoint's name, such as ``.../ckpt-3``."""
    return int(checkpoint.rpartition("-")[2])
