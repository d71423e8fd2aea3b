"""Being stopped: whole files whatever happens, and one more checkpoint when there is a notice."""

import argparse
import time
from typing import Any

import lightning
import torch
from lightning.pytorch.plugins import TorchCheckpointIO

from trainshed_trainer import notice, progress, save_atomically
from trainshed_trainer.checkpoint import checkpoint_directory


class WholeFiles(TorchCheckpointIO):
    """Writes a checkpoint so that it is on the disk, whole, or not there at all."""

    def save_checkpoint(
        self, checkpoint: dict[str, Any], path: Any, storage_options: Any = None
    ) -> None:
        """Write aside, force to the disk, rename."""
        del storage_options
        save_atomically(path, lambda out: torch.save(checkpoint, out))
        print(f"saved step {checkpoint['global_step']}", flush=True)


class StopAtNotice(lightning.Callback):
    """Tells of progress after every step; at a notice, saves that very step and ends."""

    def __init__(self, args: argparse.Namespace) -> None:
        """Take the number of steps and the pause after each."""
        self.args = args

    def on_train_batch_end(self, trainer: lightning.Trainer, *_: Any) -> None:
        """Look for a notice between two steps."""
        time.sleep(self.args.step_seconds)
        step = trainer.global_step
        progress(step=step, total=self.args.steps)
        if notice() and not trainer.should_stop:
            trainer.save_checkpoint(checkpoint_directory() / f"checkpoint-{step}.ckpt")
            trainer.should_stop = True
