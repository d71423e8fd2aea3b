"""Fails a training pipeline's job that succeeded without writing a model.

A pipeline that asks for a model (``modelToUpload``) registers what its program wrote to the folder
that AIP_MODEL_DIR names.  Google fails a pipeline whose folder is empty; a model that names an
empty folder would otherwise fail only when a program loads it.
"""

from dataclasses import dataclass
from typing import Final

from trainshed.lifecycle.events import PrimarySucceeded
from trainshed.lifecycle.outcome import Judgement, gave_up
from trainshed.model.faults import UsageFault
from trainshed.storage.buckets import Buckets
from trainshed.storage.object_files import Walk
from trainshed.store.opening import Store

#: google.rpc.Code, as Google has it for a model folder without files.
NOT_FOUND: Final = 5

EMPTY: Final = (
    "The program ended with exit code 0, but there are no files under {folder}/ to make the model "
    "of modelToUpload from; have the program save its model to the folder that the environment "
    "variable AIP_MODEL_DIR names, or leave modelToUpload out."
)


@dataclass(frozen=True, slots=True)
class ModelFolders:
    """Checks the model folders of pipelines.  Without ``buckets``, checks nothing."""

    store: Store
    buckets: Buckets | None = None

    def check(self, uid: int, judgement: Judgement) -> Judgement:
        """Return the judgement, or a failure if the model folder is empty."""
        if self.buckets is None or not isinstance(judgement.event, PrimarySucceeded):
            return judgement
        folder = self.store.model_folder(uid).rstrip("/")
        if folder and _is_empty(self.buckets, folder):
            return gave_up(EMPTY.format(folder=folder), NOT_FOUND)
        return judgement


def _is_empty(buckets: Buckets, folder: str) -> bool:
    """Return whether a folder of a local bucket has no file; False if it cannot be read."""
    try:
        root, name = buckets.place_of(folder)
        return root.is_dir() and Walk(root=root, is_placeholder=lambda _name: False).is_empty(
            f"{name}/"
        )
    except (OSError, UsageFault):
        return False
