"""Hooks of PyTorch: a step ends when its optimizer has stepped; only waits for a DataLoader count.

A step may have several micro batches (gradient accumulation): one for each backward pass.
They also record Lightning's steps, because Lightning uses PyTorch's optimizers and loaders.
"""

from __future__ import annotations

import functools
import os
import sys
import threading
import time
import weakref
from collections import deque
from contextlib import suppress
from types import ModuleType
from typing import Any, Callable

from trainshed_trainer.hooks import ALONE, FILL_S, INPUT, INPUT_S, enabled_modes
from trainshed_trainer.hooks.counted_steps import COUNTED_STEPS
from trainshed_trainer.hooks.guard import guarded
from trainshed_trainer.hooks.input_watch import InputWatch
from trainshed_trainer.steps import KEPT, StepTimes, step_times


def hook(module: ModuleType) -> None:
    """Hook one of PyTorch's modules."""
    if module.__name__ == "torch.optim.optimizer":
        _StepRecorder().register(module)
    elif module.__name__ == "torch.utils.data.dataloader":
        (_run_input_alone if INPUT in enabled_modes() else _measure_waits)(module)
    elif module.__name__ == "torch.autograd":
        _count_backward_passes(module)
    elif ALONE in enabled_modes():
        _disable_exchange(module)


class _StepRecorder:
    """Records the steps of one optimizer; a program may have several."""

    def __init__(self) -> None:
        self._leader = _Leader()
        self._device = _Device()
        self._samples = _SampleCounter()
        self._numbers: _StepNumbers | None = None
        self._steps = 0

    def register(self, module: ModuleType) -> None:
        register = getattr(module, "register_optimizer_step_post_hook", None)
        if register is not None:  # PyTorch 2.0 and later
            register(self._on_step)

    @guarded
    def _on_step(self, optimizer: Any, _args: Any, _kwargs: Any) -> None:
        times = step_times()
        if times is None:
            return
        if INPUT in enabled_modes():  # a training without a loader has no input pipeline to measure
            times.write()
            os._exit(0)
        if self._leader.replace_with(optimizer):
            _describe_model(times, optimizer)
            times.watch = InputWatch()
            if self._steps:  # another optimizer has another count
                COUNTED_STEPS.stop(times)
            self._numbers = _StepNumbers(optimizer)
        micro_batches = _LOADS.take_micro_batches()
        if self._leader.is_leader(optimizer):
            self._record_step(times, optimizer, micro_batches)

    def _record_step(self, times: StepTimes, optimizer: Any, micro_batches: int) -> None:
        self._steps += 1
        self._samples.end_step()
        times.add_micro_batches(micro_batches)
        if self._device.has_finished(optimizer, self._steps):
            samples = self._samples.take_count()
            number = self._numbers.read(optimizer) if self._numbers is not None else None
            if number is not None:
                COUNTED_STEPS.add(times, number, self._steps)
            times.note(self._steps, samples=samples, waited_s=_LOADS.take_wait_s())


class _StepNumbers:
    """Reads the number of an optimizer's newest step from its state, which checkpoints restore.

    Adam and most others count the steps of each parameter; SGD does not.
    """

    def __init__(self, optimizer: Any) -> None:
        """Choose a parameter with a count, after the optimizer's first step."""
        self._parameter: Callable[[], Any] = lambda: None
        with suppress(Exception):  # an optimizer of another kind has no numbers
            parameters = (one for group in optimizer.param_groups for one in group["params"])
            counted = (one for one in parameters if "step" in optimizer.state.get(one, ()))
            for parameter in counted:
                self._parameter = weakref.ref(parameter)
                break

    def read(self, optimizer: Any) -> int | None:
        """Return the number; None if it is unknown.  The device must be idle."""
        with suppress(Exception):
            parameter = self._parameter()
            return None if parameter is None else int(optimizer.state[parameter]["step"])
        return None


class _Leader:
    """The optimizer whose steps count: the first one, until it is deleted or no longer used."""

    #: Another optimizer becomes the leader after so many steps without one of the leader.
    PATIENCE = 20

    def __init__(self) -> None:
        self._leader: Callable[[], Any] = lambda: None
        self._step_counts: weakref.WeakKeyDictionary[Any, int] = weakref.WeakKeyDictionary()

    def is_leader(self, optimizer: Any) -> bool:
        if optimizer is not self._leader():
            return False
        if self._step_counts:
            self._step_counts.clear()
        return True

    def replace_with(self, optimizer: Any) -> bool:
        """Make ``optimizer`` the leader if the old one is gone or unused; return whether it has."""
        leader = self._leader()
        if leader is optimizer:
            return False
        count = self._step_counts[optimizer] = self._step_counts.get(optimizer, 0) + 1
        if leader is not None and count < self.PATIENCE:
            return False
        self._leader = weakref.ref(optimizer)
        return True


class _Device:
    """Waits until a device has finished a step, because the optimizer's call returns earlier.

    Waiting makes a training slower.  Therefore each of the first steps is timed, which is all that
    a calibration needs, and after them one step in a while; the steps between share the time.
    """

    PAUSE_S = 0.25

    def __init__(self) -> None:
        self._waited_at = 0.0

    def has_finished(self, optimizer: Any, steps: int) -> bool:
        """Return whether to time this step; if so, wait until its device is idle."""
        first = next(iter(optimizer.param_groups[0]["params"]), None)
        if first is None or not first.is_cuda:
            return True
        cuda = sys.modules["torch"].cuda
        if cuda.is_current_stream_capturing():  # synchronize would make the capture fail
            raise RuntimeError("the steps of a CUDA graph are replayed without their optimizer")
        if steps > KEPT and time.monotonic() - self._waited_at < self.PAUSE_S:
            return False
        cuda.synchronize(first.device)
        self._waited_at, _LOADS.device = time.monotonic(), first.device
        return True


class _Loads(threading.local):
    """The samples that a thread has loaded since its last step, and how long it waited for them.

    A GPU that still computes does not wait for its input.  On a GPU, events on its stream therefore
    measure how long the stream was idle.
    """

    #: Most pairs of events; a step loads fewer batches.
    EVENTS_MAX = 1024

    def __init__(self) -> None:
        self.device: Any = None
        self.samples = 0.0
        self.backward_depth = 0
        self._batches = self._backward_passes = 0
        self._waited_s = 0.0
        self._events: deque[tuple[Any, Any]] = deque(maxlen=self.EVENTS_MAX)

    @guarded
    def start(self) -> Any:
        """Return the start of a load, which ``end`` needs."""
        return time.monotonic() if self.device is None else self._record_event()

    @guarded
    def end(self, start: Any, batch: Any) -> None:
        if not _is_training():
            return
        self.samples += _count_samples(batch)
        self._batches += 1
        if self.device is None:
            self._waited_s += time.monotonic() - start
        else:
            self._events.append((start, self._record_event()))

    def _record_event(self) -> Any:
        cuda = sys.modules["torch"].cuda
        event = cuda.Event(enable_timing=True)
        event.record(cuda.current_stream(self.device))
        return event

    @guarded
    def add_backward_pass(self) -> None:
        self._backward_passes += 1

    def take_micro_batches(self) -> int:
        """Return the micro batches since the last step of any optimizer; 0 if unknown.

        A step with several losses has several backward passes over one batch of the loader.
        """
        counts = self._backward_passes, self._batches or self._backward_passes
        self._backward_passes = self._batches = 0
        return min(counts)

    def take_wait_s(self) -> float:
        """Return the seconds waited since the last call; the device must be idle."""
        idle_ms = sum(float(start.elapsed_time(end)) for start, end in self._events)
        waited_s, self._waited_s = self._waited_s + idle_ms / 1e3, 0.0
        self._events.clear()
        return waited_s


_LOADS = _Loads()


def _is_training() -> bool:
    """Return whether gradients are enabled; an evaluation with gradients counts as training."""
    return bool(sys.modules["torch"].is_grad_enabled())


class _SampleCounter:
    """Counts the samples of steps: the samples that loaders return, or else the model's inputs."""

    def __init__(self) -> None:
        self._has_loader = False
        self._inputs: _ModelInputs | None = None
        self._count = 0.0

    def end_step(self) -> None:
        loaded, _LOADS.samples = _LOADS.samples, 0.0
        self._has_loader = self._has_loader or loaded > 0
        self._count += loaded if self._has_loader else self._count_model_inputs()
        if self._has_loader and self._inputs is not None:
            self._inputs.stop()

    def take_count(self) -> float:
        """Return the samples since the last call."""
        count, self._count = self._count, 0.0
        return count

    def _count_model_inputs(self) -> float:
        if self._inputs is None:
            self._inputs = _ModelInputs()
            return 0.0
        return self._inputs.end_step()


class _ModelInputs:
    """Counts the samples in the model's inputs, in the first few steps only, to cost little."""

    STEPS_MAX = 5

    def __init__(self) -> None:
        self._model: int | None = None
        self._count = 0.0
        self._step_counts: list[float] = []
        register = getattr(
            sys.modules.get("torch.nn.modules.module"), "register_module_forward_pre_hook", None
        )
        self._handle: Any = register(self._on_forward) if register is not None else None

    @guarded
    def _on_forward(self, module: Any, args: Any) -> None:
        if not module.training or not _is_training():
            return
        if self._model is None:  # the first module after a step contains all others
            self._model = id(module)
        if id(module) == self._model:
            self._count += _count_samples(args)

    def end_step(self) -> float:
        """Return the samples of the step that ends; after the first few steps, their median."""
        if self._handle is None:
            counts = sorted(self._step_counts)
            return counts[len(counts) // 2] if counts else 0.0
        count, self._count = self._count, 0.0
        self._step_counts.append(count)
        if len(self._step_counts) >= self.STEPS_MAX:
            self.stop()
        return count

    def stop(self) -> None:
        if self._handle is not None:
            self._handle.remove()
            self._handle = None


def _describe_model(times: StepTimes, optimizer: Any) -> None:
    """Record the sizes of the parameters that the optimizer trains."""
    trained = [parameter for group in optimizer.param_groups for parameter in group["params"]]
    exchanged = [parameter for parameter in trained if parameter.grad is not None]
    device = trained[0].device if trained and trained[0].is_cuda else None
    times.read_device_bytes = functools.partial(_read_peak_bytes, device)
    times.describe(
        device="cpu" if device is None else "cuda",
        state_bytes=_count_state_bytes(optimizer, trained),
        parameters=sum(parameter.numel() for parameter in trained),
        largest=max((parameter.numel() for parameter in trained), default=0),
        gradient_bytes=sum(
            parameter.grad.numel() * parameter.grad.element_size() for parameter in exchanged
        ),
        stack=f"torch {sys.modules['torch'].__version__}",
    )


def _count_state_bytes(optimizer: Any, trained: list[Any]) -> int:
    """Count the bytes of parameters, gradients and the optimizer's state.

    The state is counted after the first step, which creates it.
    """
    tensors = [*trained, *(parameter.grad for parameter in trained)]
    for state in getattr(optimizer, "state", {}).values():
        tensors += state.values()
    sizes = (
        tensor.numel() * tensor.element_size() for tensor in tensors if hasattr(tensor, "numel")
    )
    return sum(sizes)


def _read_peak_bytes(device: Any) -> float:
    """Return the most bytes that PyTorch has allocated on a device; 0 if unknown."""
    with suppress(Exception):  # another allocator has no statistics
        if device is not None:
            return float(sys.modules["torch"].cuda.max_memory_allocated(device))
    return 0.0


def _count_backward_passes(module: Any) -> None:
    """Count calls of ``backward``; a checkpointed layer calls it again inside of one."""
    original = module.backward

    @functools.wraps(original)
    def backward(*args: Any, **kwargs: Any) -> Any:
        if _LOADS.backward_depth == 0:
            _LOADS.add_backward_pass()
        _LOADS.backward_depth += 1
        try:
            return original(*args, **kwargs)
        finally:
            _LOADS.backward_depth -= 1

    module.backward = backward


def _measure_waits(module: ModuleType) -> None:
    base = module._BaseDataLoaderIter  # noqa: SLF001  # the base class of every loader's iterator
    original = base.__next__

    def next_batch(self: Any) -> Any:
        start = _LOADS.start()
        batch = original(self)
        _LOADS.end(start, batch)
        return batch

    base.__next__ = next_batch


def _count_samples(batch: Any) -> float:
    """Return the length of a batch's first tensor; 0 if it has none."""
    while isinstance(batch, (list, tuple, dict)) and batch:
        batch = next(iter(batch.values())) if isinstance(batch, dict) else batch[0]
    with suppress(Exception):  # a user's own type of batch
        return float(batch.shape[0])
    return 0.0


def _run_input_alone(module: ModuleType) -> None:
    """Run the first loader for some seconds, epoch after epoch, and then end the program."""
    kind = module.DataLoader
    original = kind.__iter__

    def run_alone(self: Any) -> Any:
        times = step_times()
        end = time.monotonic() + FILL_S + INPUT_S
        while times is not None and time.monotonic() < end:
            for batch in original(self):
                if time.monotonic() > end - INPUT_S:
                    times.note(samples=_count_samples(batch))
                if time.monotonic() > end:
                    break
        if times is not None:
            times.write()
        os._exit(0)  # sys.exit would wait for threads and workers of the loader

    kind.__iter__ = run_alone


def _disable_exchange(module: ModuleType) -> None:
    """Run every step of DistributedDataParallel as an accumulation step, without an all-reduce."""
    kind = module.DistributedDataParallel
    original = kind.forward

    def forward_alone(self: Any, *args: Any, **kwargs: Any) -> Any:
        self.require_backward_grad_sync = False
        return original(self, *args, **kwargs)

    kind.forward = forward_alone
