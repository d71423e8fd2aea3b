"""Train with Lightning so that being stopped at any step does not change the weights it ends with.

Lightning keeps weights, optimizer and step by itself and goes on from them with ``ckpt_path``.  Two
things are added: checkpoints are written so that a kill never tears one, and they hold the random
numbers that dropout goes on with.  The data is computed from the seed and the step.
"""

import argparse
import json
import sys
from contextlib import suppress

import lightning
from lightning.pytorch.callbacks import ModelCheckpoint
from lightning.pytorch.utilities.exceptions import SIGTERMException

from trainer.data import Batches
from trainer.model import Classifier, fingerprint
from trainer.stopping import StopAtNotice, WholeFiles
from trainshed_trainer import latest_checkpoint, notice
from trainshed_trainer.checkpoint import checkpoint_directory

#: What a shell reports of a program that SIGTERM ended.
TOLD_TO_STOP = 143


def main() -> None:
    """Train from the newest checkpoint on, until all steps are done or a notice comes."""
    args = arguments()
    notice()  # from here on SIGTERM is a notice, not the end
    lightning.seed_everything(args.seed, verbose=False)
    model = Classifier()
    newest = latest_checkpoint(pattern="checkpoint-*.ckpt")
    print(f"resumed from {newest.name}" if newest else "started at step 0", flush=True)
    trainer = lightning.Trainer(
        max_steps=args.steps,
        accelerator="cpu",
        devices=1,
        callbacks=[every_so_often(args.save_every), StopAtNotice(args)],
        plugins=[WholeFiles()],
        logger=False,
        enable_progress_bar=False,
        enable_model_summary=False,
    )
    with suppress(SIGTERMException):  # Lightning's own answer to SIGTERM, after ours has saved
        trainer.fit(model, Batches(model, args), ckpt_path=newest)
    sys.exit(finish(model, trainer.global_step, args))


def arguments() -> argparse.Namespace:
    """Read the command line; the checkpoints' place is read by the library."""
    parser = argparse.ArgumentParser(prog="trainer.task")
    parser.add_argument("--job-dir", help="where results go")
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--save-every", type=int, default=20, help="steps between two checkpoints")
    parser.add_argument("--step-seconds", type=float, default=0.0, help="a pause after each step")
    parser.add_argument("--seed", type=int, default=1)
    return parser.parse_args()


def every_so_often(steps: int) -> ModelCheckpoint:
    """Save every so many steps, and keep the last three."""
    return ModelCheckpoint(
        dirpath=checkpoint_directory(),
        filename="checkpoint-{step}",
        auto_insert_metric_name=False,
        every_n_train_steps=steps,
        monitor="step",
        mode="max",
        save_top_k=3,
    )


def finish(model: Classifier, step: int, args: argparse.Namespace) -> int:
    """Write down the result if all steps are done; give the program's exit code."""
    if step < args.steps and notice():
        print(f"told to stop at step {step}: {notice()}", flush=True)
        return TOLD_TO_STOP
    folder = checkpoint_directory()
    folder.mkdir(parents=True, exist_ok=True)
    result = {"steps": step, "weights_sha256": fingerprint(model)}
    (folder.parent / "result.json").write_text(json.dumps(result) + "\n")
    print(f"finished step {step}, weights {result['weights_sha256'][:16]}", flush=True)
    return 0


if __name__ == "__main__":
    main()
