"""Checkpoints of a Keras model that are whole or absent: one file holds all of the state."""

import argparse
from typing import Any

import keras
import numpy as np

from trainer.model import state
from trainer.steps import Steps
from trainshed_trainer import checkpoint_saver, latest_checkpoint, notice


class WholeFiles(keras.callbacks.Callback):
    """Saves every so many steps, at the last one, and at a notice, which also ends the training."""

    def __init__(self, steps: Steps, args: argparse.Namespace) -> None:
        """Save where the job's checkpoints belong, the last three of them."""
        super().__init__()
        self.steps, self.args = steps, args
        self.saver = checkpoint_saver(keep_last=3, suffix=".npz")

    def restore(self, model: keras.Model) -> int:
        """Put the newest checkpoint into the model; give the number of steps that it has seen."""
        newest = latest_checkpoint(pattern="checkpoint-*.npz")
        if newest is None:
            return 0
        with np.load(newest) as saved:
            for number, variable in enumerate(state(model)):
                variable.assign(saved[f"variable_{number}"])
            return int(saved["step"])

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        """Save if it is time to."""
        del batch, logs
        done = self.steps.done
        if notice() or done % self.args.save_every == 0 or done == self.args.steps:
            variables = enumerate(state(self.model))
            values = {f"variable_{number}": np.asarray(variable) for number, variable in variables}
            self.saver.save(done, lambda out: np.savez(out, step=done, **values))
            print(f"saved step {done}", flush=True)
        if notice():
            self.model.stop_training = True
