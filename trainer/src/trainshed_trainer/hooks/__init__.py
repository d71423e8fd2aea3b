"""Steps of PyTorch, Lightning and Keras are noted without a line of the program being changed.

``TRAINSHED_STEPS`` switches them on: words with commas between them.  ``hooks`` notes steps;
``alone`` leaves the exchange of gradients out (DistributedDataParallel); ``input`` runs the input
pipeline by itself for some seconds and ends the program.  The folder ``site`` on PYTHONPATH brings
this into every Python that starts.

Nothing heavy is imported here: a framework is hooked when the program itself has imported it.  A
hook that fails is taken off, and the training goes on.
"""

from __future__ import annotations

import importlib.abc
import importlib.machinery
import os
import sys
from contextlib import suppress
from types import ModuleType
from typing import Callable, Sequence

from trainshed_trainer import contract

HOOKS, ALONE, INPUT = "hooks", "alone", "input"
#: How long the input pipeline runs alone, in seconds; before it fills its buffers.
INPUT_S, FILL_S = 8.0, 2.0


def wanted() -> frozenset[str]:
    """The words of TRAINSHED_STEPS."""
    return frozenset(filter(None, os.environ.get(contract.TRAINSHED_STEPS, "").split(",")))


def install() -> None:
    """Hook frameworks once they are imported.  Does nothing unless it is enabled."""
    if HOOKS not in wanted() or not os.environ.get(contract.TRAINSHED_STEPS_FILE):
        return
    if not any(isinstance(finder, _Finder) for finder in sys.meta_path):
        sys.meta_path.insert(0, _Finder())


def _torch(module: ModuleType) -> None:
    from trainshed_trainer.hooks import torch_hooks  # noqa: PLC0415  # only programs with torch

    torch_hooks.hook(module)


def _keras(module: ModuleType) -> None:
    from trainshed_trainer.hooks import keras_hooks  # noqa: PLC0415  # only programs with Keras

    keras_hooks.hook(module)


def _keras_data(module: ModuleType) -> None:
    from trainshed_trainer.hooks import keras_hooks  # noqa: PLC0415  # only programs with Keras

    keras_hooks.hook_data(module)


#: Which module is changed by whom once it is there.
_AFTER: dict[str, Callable[[ModuleType], None]] = {
    "torch.optim.optimizer": _torch,
    "torch.utils.data.dataloader": _torch,
    "torch.nn.parallel.distributed": _torch,
    "keras.src.callbacks.callback_list": _keras,
    "tf_keras.src.callbacks": _keras,
    "keras.src.trainers.epoch_iterator": _keras_data,
}


class _Finder(importlib.abc.MetaPathFinder):
    """Finds a module as it would be found anyway, and has it hooked after it was run."""

    def find_spec(
        self,
        fullname: str,
        path: Sequence[str] | None = None,
        target: ModuleType | None = None,
    ) -> importlib.machinery.ModuleSpec | None:
        """See importlib."""
        after = _AFTER.get(fullname)
        if after is None:
            return None
        spec = importlib.machinery.PathFinder.find_spec(fullname, path, target)
        if spec is None or spec.loader is None:
            return None
        spec.loader = _Loader(spec.loader, after)
        return spec


class _Loader(importlib.abc.Loader):
    def __init__(self, loader: importlib.abc.Loader, after: Callable[[ModuleType], None]) -> None:
        self._loader = loader
        self._after = after

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> ModuleType | None:
        return self._loader.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        self._loader.exec_module(module)
        with suppress(Exception):  # a framework of another shape: its steps are not seen
            self._after(module)
