"""Hooks come with the environment alone, and whatever goes wrong in them is not the program's."""
# ruff: noqa: INP001, PT009  # unittest on a bare Python: no pytest, no package

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
    def on_train_batch_end(self, batch, logs=None): pass
"""


class Hooks(unittest.TestCase):
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

    STEPS = "import torch.optim.optimizer as o\nfor _ in range(5): o.SGD().step()\n"

    def test_steps_of_an_optimizer_are_noted(self) -> None:
        one = "import torch.optim.optimizer as o\nsgd = o.SGD()\nfor _ in range(5): sgd.step()\n"
        self.run_program(one, TRAINSHED_STEPS="hooks")
        report = self.written()
        self.assertEqual(report["steps"], 4)
        model = {"parameters": 42, "largest": 30, "gradient_bytes": 168, "stack": "torch 2.9"}
        state = {"device": "cpu", "state_bytes": 3 * 168}
        self.assertEqual(report["model"], {**model, **state})
        self.assertGreater(report["host_bytes"], 1e6)
        self.assertEqual((report["device_bytes"], report["micro_batches"]), (0, 0))

    #: A step has three backward passes, and its loader returns so many batches.
    BACKWARD = (
        "import torch, torch.autograd as a, torch.optim.optimizer as o\n"
        "import torch.utils.data.dataloader as d, torch.nn.modules.module as m\n"
        "sgd, data = o.SGD(), d._BaseDataLoaderIter(m.Batch())\n"
        "for _ in range(5):\n"
        "    for number in range(3):\n"
        "        if number < {batches}: next(data)\n"
        "        a.backward()\n"
        "    sgd.step()\n"
    )

    def test_batches_whose_gradients_are_added_up_are_micro_batches_of_a_step(self) -> None:
        for batches, micro_batches in ((0, 3), (1, 1), (3, 3)):
            with self.subTest(batches=batches):
                program = self.BACKWARD.format(batches=batches)
                self.run_program(program, TRAINSHED_STEPS="hooks")
                report = self.written()
                self.assertEqual((report["steps"], report["micro_batches"]), (4, micro_batches))

    def test_a_checkpointed_layer_makes_no_micro_batch(self) -> None:
        self.run_program(
            "import torch.autograd as a, torch.optim.optimizer as o\n"
            "sgd = o.SGD()\n"
            "for _ in range(5): a.backward(a.backward); sgd.step()\n",
            TRAINSHED_STEPS="hooks",
        )
        self.assertEqual(self.written()["micro_batches"], 1)

    def test_memory_of_a_device_is_reported(self) -> None:
        self.run_program(
            "import torch, torch.optim.optimizer as o\n"
            "o.Size.is_cuda = True\n"
            "torch.cuda.max_memory_allocated = lambda device: 5e9\n"
            "sgd = o.SGD()\n"
            "for _ in range(5): sgd.step()\n",
            TRAINSHED_STEPS="hooks",
        )
        report = self.written()
        self.assertEqual((report["device_bytes"], report["model"]["device"]), (5e9, "cuda"))

    def test_nothing_is_hooked_where_nobody_asked(self) -> None:
        self.run_program(self.STEPS)
        self.assertFalse(self.file.exists())

    def test_a_framework_of_another_shape_is_left_alone(self) -> None:
        broken = self.folder / "torch" / "optim" / "optimizer.py"
        broken.write_text("register_optimizer_step_post_hook = 5\ndone = True\n")
        said = self.run_program(
            "import torch.optim.optimizer as o; print(o.done)", TRAINSHED_STEPS="hooks"
        )
        self.assertEqual(said, "True\n")

    def test_a_hook_that_fails_is_taken_off_and_the_training_goes_on(self) -> None:
        said = self.run_program(
            "import torch.optim.optimizer as o, torch.utils.data.dataloader as d\n"
            "from keras.src.callbacks.callback_list import CallbackList\n"
            "class Odd: param_groups = None\n"
            "for each in o.HOOKS: each(Odd(), (), {})\n"
            "sgd, data, lists = o.SGD(), d._BaseDataLoaderIter('batch'), CallbackList()\n"
            "del CallbackList.model\n"
            "for batch in range(5):\n"
            "    sgd.step(); lists.on_train_batch_end(batch)\n"
            "    print(next(data))\n",
            TRAINSHED_STEPS="hooks",
        )
        self.assertEqual(said, 5 * "batch\n")
        self.assertEqual(self.written()["steps"], 0)
        self.assertEqual(self.stderr.count("WARNING: cannot record steps by hooks"), 1)

    def test_progress_tells_steps_once_hooks_see_no_more(self) -> None:
        self.run_program(
            "import torch.optim.optimizer as o\n"
            "from trainshed_trainer import progress\n"
            "sgd = o.SGD()\n"
            "for step in range(3): sgd.step(); progress(step)\n"
            "sgd.param_groups = None\n"
            "for step in range(3, 8): sgd.step(); progress(step)\n",
            TRAINSHED_STEPS="hooks",
        )
        self.assertEqual(self.written()["steps"], 2 + 4)

    def test_a_batch_without_a_size_is_none_of_its_business(self) -> None:
        self.run_program(
            "import torch.optim.optimizer as o, torch.utils.data.dataloader as d\n"
            "class Odd: shape = None\n"
            "sgd, data = o.SGD(), d._BaseDataLoaderIter([Odd()])\n"
            "for _ in range(5): next(data); sgd.step()\n",
            TRAINSHED_STEPS="hooks",
        )
        report = self.written()
        self.assertEqual((report["steps"], report["samples"]), (4, 0))

    def test_the_programs_own_customization_is_imported_too(self) -> None:
        (self.folder / "sitecustomize.py").write_text("print('own')\n")
        self.assertEqual(self.run_program("pass", TRAINSHED_STEPS="hooks"), "own\n")

    def test_the_models_own_batch_counts_where_no_loader_tells_samples(self) -> None:
        self.run_program(
            "import torch.optim.optimizer as o, torch.nn.modules.module as m\n"
            "sgd, model = o.SGD(), m.Model()\n"
            "model.inner = m.Model()\n"
            "for _ in range(21):\n"
            "    model(m.Batch()); model(m.Batch()); sgd.step()\n"
            "assert not m.LOOKING\n",
            TRAINSHED_STEPS="hooks",
        )
        report = self.written()
        self.assertEqual((report["steps"], report["samples"]), (20, 20 * 32))

    #: Half of what it fetches is evaluated with.
    EVALUATES = (
        "import torch, torch.optim.optimizer as o\n"
        "import torch.utils.data.dataloader as d, torch.nn.modules.module as m\n"
        "sgd, data = o.SGD(), d._BaseDataLoaderIter(m.Batch())\n"
    )

    def test_batches_that_are_evaluated_with_are_not_trained_on(self) -> None:
        self.run_program(
            f"{self.EVALUATES}"
            "for _ in range(5):\n"
            "    next(data)\n"
            "    torch.GRAD.append(False); next(data); torch.GRAD.pop()\n"
            "    sgd.step()\n",
            TRAINSHED_STEPS="hooks",
        )
        self.assertEqual(self.written()["samples"], 4 * 16)

    def test_a_step_without_a_batch_of_its_own_is_not_guessed_where_loaders_tell(self) -> None:
        self.run_program(
            f"{self.EVALUATES}"
            "model = m.Model()\n"
            "for _ in range(3):\n"
            "    next(data); model(m.Batch()); sgd.step()\n"
            "    model(m.Batch()); sgd.step()\n"
            "assert not m.LOOKING\n",
            TRAINSHED_STEPS="hooks",
        )
        self.assertEqual(self.written()["samples"], 2 * 16)

    def test_a_model_that_trains_as_it_evaluates_is_not_looked_at_for_ever(self) -> None:
        self.run_program(
            "import torch.optim.optimizer as o, torch.nn.modules.module as m\n"
            "sgd, model = o.SGD(), m.Model()\n"
            "model.training = False\n"
            "for _ in range(7): model(m.Batch()); sgd.step()\n"
            "assert not m.LOOKING\n",
            TRAINSHED_STEPS="hooks",
        )
        self.assertEqual(self.written()["samples"], 0)

    def test_a_second_training_is_seen_when_the_optimizer_of_the_first_is_gone(self) -> None:
        self.run_program(
            "import torch.optim.optimizer as o\n"
            "for count in (30, 70):\n"
            "    sgd = None\n"
            "    sgd = o.SGD()\n"
            "    sgd.param_groups = [{'params': [o.Size(count)]}]\n"
            "    for _ in range(5): sgd.step()\n",
            TRAINSHED_STEPS="hooks",
        )
        report = self.written()
        self.assertEqual((report["steps"], report["model"]["parameters"]), (8, 70))

    def test_a_second_training_is_seen_when_the_first_optimizer_steps_no_more(self) -> None:
        self.run_program(
            "import torch.optim.optimizer as o\n"
            "kept = [o.SGD(), o.SGD()]\n"
            "for sgd in kept:\n"
            "    for _ in range(50): sgd.step()\n",
            TRAINSHED_STEPS="hooks",
        )
        self.assertEqual(self.written()["steps"], 49 + 30)

    def test_optimizers_that_step_beside_the_first_are_not_counted(self) -> None:
        self.run_program(
            "import torch.optim.optimizer as o\n"
            "every = [o.SGD() for _ in range(100)]\n"
            "for _ in range(10):\n"
            "    for each in every: each.step()\n"
            "    for _ in range(5): every[1].step()\n",
            TRAINSHED_STEPS="hooks",
        )
        self.assertEqual(self.written()["steps"], 9)

    #: One step takes 0.01 s of a clock that nobody else moves.
    DEVICE = (
        "import time, trainshed_trainer\n"
        "now = [100.0]\n"
        "time.monotonic = lambda: now[0]\n"
        "import torch, torch.optim.optimizer as o\n"
        "import torch.utils.data.dataloader as d, torch.nn.modules.module as m\n"
        "o.Size.is_cuda = True\n"
        "sgd, data = o.SGD(), d._BaseDataLoaderIter(m.Batch())\n"
    )

    def test_a_job_waits_for_its_device_at_its_first_steps_and_seldom_after_them(self) -> None:
        said = self.run_program(
            f"{self.DEVICE}"
            "for _ in range(1256):\n"
            "    now[0] += 0.01; next(data); sgd.step()\n"
            "print(len(torch.cuda.WAITS))\n",
            TRAINSHED_STEPS="hooks",
        )
        self.assertLess(int(said), 256 + 1000 // 20)
        report = self.written()
        self.assertGreater(report["steps"], 1200)
        self.assertEqual(report["samples"], 16 * report["steps"])
        for one, _ in report["recent"]:
            self.assertAlmostEqual(one, 0.01)

    def test_a_device_that_computes_while_a_batch_is_fetched_waits_for_nothing(self) -> None:
        self.run_program(
            f"{self.DEVICE}"
            "class Slow:\n"
            "    @property\n"
            "    def batch(self): now[0] += 0.01; return m.Batch()\n"
            "d._BaseDataLoaderIter.batch = Slow.batch\n"
            "data = object.__new__(d._BaseDataLoaderIter)\n"
            "for _ in range(600):\n"
            "    torch.cuda.busy_until = now[0] + 0.006; next(data); sgd.step()\n",
            TRAINSHED_STEPS="hooks",
        )
        for one, waited in self.written()["recent"]:
            self.assertAlmostEqual(one, 0.01)
            self.assertAlmostEqual(waited, 0.004)

    def test_a_step_that_is_captured_as_a_graph_is_not_waited_for(self) -> None:
        said = self.run_program(
            f"{self.DEVICE}"
            "from trainshed_trainer import progress\n"
            "for _ in range(3): sgd.step()\n"
            "torch.cuda.CAPTURES.append(1); sgd.step(); torch.cuda.CAPTURES.pop()\n"
            "for step in range(6): progress(step)\n"
            "print('trained')\n",
            TRAINSHED_STEPS="hooks",
        )
        self.assertEqual(said, "trained\n")
        self.assertEqual(self.written()["steps"], 2 + 5)

    def test_batches_of_keras_are_noted_over_epochs(self) -> None:
        self.run_program(
            "from keras.src.callbacks.callback_list import CallbackList\n"
            "from keras.src.trainers.epoch_iterator import EpochIterator\n"
            "EpochIterator()\n"
            "callbacks = CallbackList()\n"
            "for _ in range(2):\n"
            "    for batch in range(5): callbacks.on_train_batch_end(batch)\n",
            TRAINSHED_STEPS="hooks",
        )
        report = self.written()
        self.assertEqual((report["steps"], report["samples"]), (9, 72))
        self.assertEqual(report["model"]["parameters"], 20)
        self.assertEqual(report["model"]["state_bytes"], 4 * 4 * 20)

    def test_batches_that_keras_adds_up_are_one_step(self) -> None:
        self.run_program(
            f"{self.KERAS}CallbackList.model.optimizer.gradient_accumulation_steps = 4\n"
            "callbacks = CallbackList()\n"
            "for batch in range(42): callbacks.on_train_batch_end(batch)\n",
            TRAINSHED_STEPS="hooks",
        )
        report = self.written()
        self.assertEqual((report["steps"], report["samples"]), (9, 9 * 4 * 8))
        self.assertEqual(report["micro_batches"], 4)

    KERAS = (
        "from keras.src.callbacks.callback_list import CallbackList\n"
        "from keras.src.trainers.epoch_iterator import EpochIterator\n"
        "EpochIterator(8)\n"
    )

    def test_data_that_keras_evaluates_with_is_not_trained_on(self) -> None:
        self.run_program(
            f"{self.KERAS}callbacks = CallbackList()\n"
            "for batch in range(5): callbacks.on_train_batch_end(batch)\n"
            "EpochIterator(500)\n"
            "for batch in range(5): callbacks.on_train_batch_end(batch)\n",
            TRAINSHED_STEPS="hooks",
        )
        self.assertEqual(self.written()["samples"], 72)

    def test_batches_that_keras_tells_together_all_count(self) -> None:
        self.run_program(
            f"{self.KERAS}callbacks = CallbackList()\n"
            "for batch in (9, 19, 29): callbacks.on_train_batch_end(batch)\n",
            TRAINSHED_STEPS="hooks",
        )
        report = self.written()
        self.assertEqual((report["steps"], report["samples"]), (20, 160))

    def test_callbacks_of_keras_without_a_model_tell_steps(self) -> None:
        self.run_program(
            f"{self.KERAS}del CallbackList.model\n"
            "callbacks = CallbackList()\n"
            "for batch in range(5): callbacks.on_train_batch_end(batch)\n",
            TRAINSHED_STEPS="hooks",
        )
        self.assertEqual(self.written()["steps"], 4)

    def test_the_input_of_keras_runs_alone_and_ends_the_program(self) -> None:
        said = self.run_program(
            "import itertools, time\n"
            "import trainshed_trainer.hooks as hooks\n"
            "hooks.FILL_S, hooks.INPUT_S = 0.0, 0.2\n"
            "time.monotonic = itertools.count(0.0, 0.01).__next__\n"  # on any machine the same
            "from keras.src.trainers.epoch_iterator import EpochIterator\n"
            "EpochIterator()\n"
            "print('trained')\n",
            TRAINSHED_STEPS="hooks,input",
        )
        self.assertEqual(said, "")
        self.assertGreater(self.written()["samples"], 0)
