"""Checkpoints that survive a kill at any moment: written aside, forced to disk, then renamed."""

import os
from pathlib import Path
from typing import Any

import torch

KEPT = 3
PATTERN = "checkpoint-*.pt"


def save(folder: Path, epoch: int, state: dict[str, Any]) -> None:
    """Write the checkpoint of an epoch and forget all but the last few."""
    folder.mkdir(parents=True, exist_ok=True)
    target = folder / f"checkpoint-{epoch:04d}.pt"
    partial = target.with_suffix(".partial")
    with partial.open("wb") as out:
        torch.save({"epoch": epoch, **state}, out)
        out.flush()
        os.fsync(out.fileno())
    partial.replace(target)
    for old in sorted(folder.glob(PATTERN))[:-KEPT]:
        old.unlink()


def newest(folder: Path) -> dict[str, Any] | None:
    """Read the newest checkpoint that can be read, or None where there is none."""
    for path in sorted(folder.glob(PATTERN), reverse=True):
        try:
            state: dict[str, Any] = torch.load(path, map_location="cpu", weights_only=True)
        except Exception as error:  # noqa: BLE001  # torch.load has no error type of its own
            print(f"{path.name} cannot be read and is skipped: {error!r:.80}", flush=True)
        else:
            return state
    return None
