"""The steps of a training: how many are done, and the data of each."""

import argparse
import time
from collections.abc import Iterator
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from trainer.model import CLASSES, FEATURES
from trainshed_trainer import notice, progress

SAMPLES, BATCH = 960, 32

Batch = tuple[np.ndarray, np.ndarray]


class Steps(keras.callbacks.Callback):
    """Counts steps, tells of progress, and ends the training at the end of an epoch at a notice."""

    def __init__(self, args: argparse.Namespace) -> None:
        """Begin at step 0; who resumes says otherwise."""
        super().__init__()
        self.args, self.done, self.has_begun = args, 0, False
        self.inputs, self.labels = samples()

    def dataset(self) -> tf.data.Dataset:
        """Give the data of all steps that are not done when Keras begins to read."""
        signature = (
            tf.TensorSpec((BATCH, FEATURES), tf.float32),
            tf.TensorSpec((BATCH,), tf.int32),
        )
        return tf.data.Dataset.from_generator(self.batches, output_signature=signature)

    def batches(self) -> Iterator[Batch]:
        """Give batch after batch, shuffled anew each time that all samples have been seen."""
        for step in range(self.done, self.args.steps):
            shuffle, place = divmod(step, SAMPLES // BATCH)
            order = np.random.default_rng([self.args.seed, shuffle]).permutation(SAMPLES)
            own = order[place * BATCH : (place + 1) * BATCH]
            yield self.inputs[own], self.labels[own]

    def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
        """Take over the step where BackupAndRestore has put Keras into a later epoch."""
        del logs
        self.done = max(self.done, epoch * self.args.save_every)
        if not self.has_begun:
            self.has_begun = True
            words = f"resumed from step {self.done}" if self.done else "started at step 0"
            print(words, flush=True)

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        """Count the step."""
        del batch, logs
        self.done += 1
        time.sleep(self.args.step_seconds)
        progress(step=self.done, total=self.args.steps)

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        """End the training if a notice has come; a backup of this epoch is made all the same."""
        del epoch, logs
        if notice():
            self.model.stop_training = True


def samples() -> Batch:
    """Make points and their classes, the same in every run."""
    source = np.random.default_rng(7)
    inputs = source.normal(size=(SAMPLES, FEATURES)).astype("float32")
    labels = (inputs @ source.normal(size=(FEATURES, CLASSES))).argmax(axis=1)
    return inputs, labels.astype("int32")
