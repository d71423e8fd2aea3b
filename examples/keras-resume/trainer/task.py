"""Train with Keras so that being stopped at any step does not change the weights it ends with.

What the next step depends on is every variable of the model and of its optimizer, random numbers
included, and the data, which is computed from the seed and the step.  Two ways of keeping it are
shown: one whole file per checkpoint, and Keras' own BackupAndRestore.
"""

import os

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")  # errors only

import argparse
import json
import sys

import keras
import tensorflow as tf

from trainer import model as models
from trainer.steps import Steps
from trainer.whole_files import WholeFiles
from trainshed_trainer import notice
from trainshed_trainer.checkpoint import checkpoint_directory

#: What a shell reports of a program that SIGTERM ended.
TOLD_TO_STOP = 143


def main() -> None:
    """Train from where the last start came to, until all steps are done or a notice comes."""
    args = arguments()
    tf.config.threading.set_intra_op_parallelism_threads(1)
    keras.utils.set_random_seed(args.seed)
    notice()  # from here on SIGTERM is a notice, not the end
    model, steps = models.build(), Steps(args)
    if args.backup == "keras":
        train_with_keras_backup(model, steps, args)
    else:
        train_with_whole_files(model, steps, args)
    sys.exit(finish(model, steps, args))


def arguments() -> argparse.Namespace:
    """Read the command line; the checkpoints' place is read by the library."""
    parser = argparse.ArgumentParser(prog="trainer.task")
    parser.add_argument("--job-dir", help="where results go")
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--save-every", type=int, default=20, help="steps between two checkpoints")
    parser.add_argument("--step-seconds", type=float, default=0.0, help="a pause after each step")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--backup", choices=("whole-files", "keras"), default="whole-files")
    return parser.parse_args()


def train_with_whole_files(model: keras.Model, steps: Steps, args: argparse.Namespace) -> None:
    """Keep checkpoints that no kill can tear; a notice saves the very step it comes in."""
    backup = WholeFiles(steps, args)
    steps.done = backup.restore(model)
    left = args.steps - steps.done
    if left > 0:
        callbacks = [steps, backup]
        model.fit(
            steps.dataset(), steps_per_epoch=left, callbacks=callbacks, shuffle=False, verbose=0
        )


def train_with_keras_backup(model: keras.Model, steps: Steps, args: argparse.Namespace) -> None:
    """Let Keras resume at the epoch it was in; an epoch is as long as from save to save.

    Its backup is two files, written in place: a notice never tears it, SIGKILL while it saves may.
    It stays after a training that was told to stop, which for Keras has simply ended.
    """
    folder = str(checkpoint_directory() / "backup")
    backup = keras.callbacks.BackupAndRestore(folder, delete_checkpoint=False)
    around = keras.callbacks.LambdaCallback(
        on_epoch_begin=lambda epoch, _: models.reseed(model, args.seed, epoch),
        on_epoch_end=lambda *_: print(f"saved step {steps.done}", flush=True),
    )
    model.fit(
        steps.dataset(),
        steps_per_epoch=args.save_every,
        epochs=args.steps // args.save_every,
        callbacks=[steps, backup, around],
        shuffle=False,  # the dataset is
        verbose=0,
    )


def finish(model: keras.Model, steps: Steps, args: argparse.Namespace) -> int:
    """Write down the result if all steps are done; give the program's exit code."""
    if steps.done < args.steps and notice():
        print(f"told to stop at step {steps.done}: {notice()}", flush=True)
        return TOLD_TO_STOP
    folder = checkpoint_directory()
    folder.mkdir(parents=True, exist_ok=True)
    result = {"steps": args.steps, "weights_sha256": models.fingerprint(model)}
    (folder.parent / "result.json").write_text(json.dumps(result) + "\n")
    print(f"finished step {args.steps}, weights {result['weights_sha256'][:16]}", flush=True)
    return 0


if __name__ == "__main__":
    main()
