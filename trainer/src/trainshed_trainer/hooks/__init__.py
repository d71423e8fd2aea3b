"""Records the steps of PyTorch, Lightning and Keras without a change of the user's program.

``TRAINSHED_STEPS`` switches this on; its value is a list of words with commas between them.
``hooks`` records steps; ``alone`` skips the exchange of gradients (DistributedDataParallel);
``input`` runs only the input pipeline for some seconds and then ends the program.  The folder
``site`` on PYTHONPATH loads this module into every Python process.

This module imports no framework: the hooks are installed when the program imports its framework.
If a hook fails, all hooks are turned off and the training continues.
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
#: Seconds for which the input pipeline is measured; seconds before that, to fill its buffers.
INPUT_S, FILL_S = 8.0, 2.0


def enabled_modes() -> frozenset[str]:
    """Read the words of TRAINSHED_STEPS."""
    return frozenset(filter(None, os.environ.get(contract.TRAINSHED_STEPS, "").split(",")))


def install() -> None:
    """Hook each framework when the program imports it, if TRAINSHED_STEPS asks for hooks."""
    if HOOKS not in enabled_modes() or not os.environ.get(contract.TRAINSHED_STEPS_FILE):
        return
    if not any(isinstance(finder, _Finder) for finder in sys.meta_path):
        sys.meta_path.insert(0, _Finder())


def _hook_torch(module: ModuleType) -> None:
    from trainshed_trainer.hooks import torch_hooks  # noqa: PLC0415  # only programs with torch

    torch_hooks.hook(module)


def _hook_keras(module: ModuleType) -> None:
    from trainshed_trainer.hooks import keras_hooks  # noqa: PLC0415  # only programs with Keras

    keras_hooks.hook(module)


def _hook_keras_data(module: ModuleType) -> None:
    from trainshed_trainer.hooks import keras_hooks  # noqa: PLC0415  # only programs with Keras

    keras_hooks.hook_data(module)


#: The function that changes each module after its import.
_HOOKS: dict[str, Callable[[ModuleType], None]] = {
    "torch.optim.optimizer": _hook_torch,
    "torch.utils.data.dataloader": _hook_torch,
    "torch.autograd": _hook_torch,
    "torch.nn.parallel.distributed": _hook_torch,
    "keras.src.callbacks.callback_list": _hook_keras,
    "tf_keras.src.callbacks": _hook_keras,
    "keras.src.trainers.epoch_iterator": _hook_keras_data,
}


class _Finder(importlib.abc.MetaPathFinder):
    """Finds a module through Python's path finder and hooks the module after its import."""

    def find_spec(
        self,
        fullname: str,
        path: Sequence[str] | None = None,
        target: ModuleType | None = None,
    ) -> importlib.machinery.ModuleSpec | None:
        """See importlib."""
        hook = _HOOKS.get(fullname)
        if hook is None:
            return None
        spec = importlib.machinery.PathFinder.find_spec(fullname, path, target)
        if spec is None or spec.loader is None:
            return None
        spec.loader = _Loader(spec.loader, hook)
        return spec


class _Loader(importlib.abc.Loader):
    def __init__(self, loader: importlib.abc.Loader, hook: Callable[[ModuleType], None]) -> None:
        self._loader = loader
        self._hook = hook

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> ModuleType | None:
        return self._loader.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        self._loader.exec_module(module)
        with suppress(Exception):  # an unsupported version of the framework: no steps are recorded
            self._hook(module)
