"""As much of PyTorch and Keras as the hooks look at, and programs with them."""
# ruff: noqa: INP001  # unittest on a bare Python: no pytest, no package

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path
from typing import Any

SITE = Path(__file__).parent.parent / "src" / "trainshed_trainer" / "hooks" / "site"

#: As much of PyTorch as the hooks look at; a device has done its work when it is waited for.
BASE = """\
import time
__version__ = '2.9'
GRAD = [True]
def is_grad_enabled(): return GRAD[-1]
class Event:
    def __init__(self, enable_timing): self.at = None
    def record(self, stream): stream.append(self)
    def elapsed_time(self, other): return 1e3 * (other.at - self.at)
class cuda:
    WAITS, QUEUE, CAPTURES, Event = [], [], [], Event
    busy_until = 0.0
    @classmethod
    def is_current_stream_capturing(cls): return bool(cls.CAPTURES)
    @classmethod
    def current_stream(cls, device): return cls
    @classmethod
    def append(cls, event): event.at = max(time.monotonic(), cls.busy_until)
    @classmethod
    def synchronize(cls, device):
        assert not cls.CAPTURES
        cls.WAITS.append(device)
"""
OPTIMIZER = """\
HOOKS = []
def register_optimizer_step_post_hook(hook):
    HOOKS.append(hook)
class Size:
    is_cuda, device = False, 'cuda:0'
    def __init__(self, count): self.count, self.grad = count, self
    def numel(self): return self.count
    def element_size(self): return 4
class SGD:
    param_groups = [{"params": [Size(30), Size(12)]}]
    state = {1: {"momentum": Size(42), "step": 7}}
    def step(self):
        for hook in HOOKS:
            hook(self, (), {})
"""

#: As much of its modules.
MODULES = """\
LOOKING = []
class Handle:
    def remove(self): LOOKING.clear()
def register_module_forward_pre_hook(hook):
    LOOKING.append(hook)
    return Handle()
class Batch:
    shape = (16, 3)
class Model:
    training = True
    inner = None
    def __call__(self, batch):
        for hook in LOOKING: hook(self, (batch,))
        if self.inner: self.inner(batch)
"""

#: As much of its automatic differentiation.
AUTOGRAD = """\
def backward(loss=None):
    if loss: loss()
"""

#: As much of its loaders.
LOADERS = """\
import torch.nn.modules.module as m
class _BaseDataLoaderIter:
    def __init__(self, batch): self.batch = batch
    def __next__(self): return self.batch
"""

#: As much of Keras.
KERAS = """\
class Data:
    batch_size = 8
    def get_numpy_iterator(self): return iter([1, 2, 3])
class EpochIterator:
    def __init__(self, batch=8):
        self.data_adapter = Data()
        self.data_adapter.batch_size = batch
"""
CALLBACKS = """\
class Weight:
    shape = (4, 5)
class Optimizer:
    gradient_accumulation_steps = None
    variables = [Weight(), Weight()]
class Model:
    trainable_variables = [Weight()]
    optimizer = Optimizer()
class CallbackList:
    model = Model()
    def on_train_begin(self, logs=None): pass
    def on_train_batch_end(self, batch, logs=None): pass
"""


class HookedProgram(unittest.TestCase):
    """A Python of its own for each test."""

    def setUp(self) -> None:
        holder = tempfile.TemporaryDirectory()
        self.addCleanup(holder.cleanup)
        self.folder = Path(holder.name)
        self.file = self.folder / "steps.json"
        for name, text in (
            ("torch/__init__.py", BASE),
            ("torch/optim/__init__.py", ""),
            ("torch/optim/optimizer.py", OPTIMIZER),
            ("torch/nn/modules/module.py", MODULES),
            ("torch/autograd/__init__.py", AUTOGRAD),
            ("torch/utils/data/dataloader.py", LOADERS),
            ("keras/__init__.py", "__version__ = '3'"),
            ("keras/src/trainers/epoch_iterator.py", KERAS),
            ("keras/src/callbacks/callback_list.py", CALLBACKS),
        ):
            path = self.folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)

    def run_program(self, program: str, **env: str) -> str:
        paths = os.pathsep.join([str(SITE), str(self.folder)])
        own = {"TRAINSHED_STEPS_FILE": str(self.file), "PYTHONPATH": paths, **env}
        done = subprocess.run(  # noqa: S603  # our own words
            [sys.executable, "-c", program],
            env={**os.environ, **own},
            capture_output=True,
            text=True,
            timeout=60,
            check=True,
        )
        self.stderr = done.stderr
        return done.stdout

    def written(self) -> dict[str, Any]:
        report: dict[str, Any] = json.loads(self.file.read_text())
        return report
