"""PyTorch: a step is over when its optimizer has stepped; waits are those for a DataLoader.

Lightning trains with PyTorch's optimizers and loaders, so that this is all it needs.
"""

from __future__ import annotations

import os
import sys
import threading
import time
import weakref
from collections import deque
from contextlib import suppress
from types import ModuleType
from typing import Any, Callable

from trainshed_trainer.hooks import ALONE, FILL_S, INPUT, INPUT_S, wanted
from trainshed_trainer.hooks.guard import guarded
from trainshed_trainer.hooks.input_watch import InputWatch
from trainshed_trainer.steps import KEPT, StepTimes, step_times


def hook(module: ModuleType) -> None:
    """Change one of PyTorch's modules."""
    if module.__name__ == "torch.optim.optimizer":
        _Steps().listen(module)
    elif module.__name__ == "torch.utils.data.dataloader":
        (_input_alone if INPUT in wanted() else _time_waits)(module)
    elif ALONE in wanted():
        _without_exchange(module)


class _Steps:
    """Notes the steps of one optimizer: others step beside it."""

    def __init__(self) -> None:
        self._leader = _Leader()
        self._device = _Device()
        self._samples = _Samples()
        self._passed = 0

    def listen(self, module: ModuleType) -> None:
        register = getattr(module, "register_optimizer_step_post_hook", None)
        if register is not None:  # PyTorch 2.0 and later
            register(self._stepped)

    @guarded
    def _stepped(self, optimizer: Any, _args: Any, _kwargs: Any) -> None:
        times = step_times()
        if times is None:
            return
        if INPUT in wanted():  # it trains without a loader: there is no input to run alone
            times.write()
            os._exit(0)
        if self._leader.follows_anew(optimizer):
            _describe(times, optimizer)
            times.watch = InputWatch()
        if self._leader.leads(optimizer):
            self._note(times, optimizer)

    def _note(self, times: StepTimes, optimizer: Any) -> None:
        self._passed += 1
        self._samples.step_ended()
        if self._device.has_finished(optimizer, self._passed):
            times.note(self._passed, samples=self._samples.taken(), waited_s=_FETCHED.waited())


class _Leader:
    """The optimizer that tells steps: the first, until it is gone or others step without it."""

    #: So often another one steps meanwhile before it is followed.
    PATIENCE = 20

    def __init__(self) -> None:
        self._leader: Callable[[], Any] = lambda: None
        self._step_counts: weakref.WeakKeyDictionary[Any, int] = weakref.WeakKeyDictionary()

    def leads(self, optimizer: Any) -> bool:
        if optimizer is not self._leader():
            return False
        if self._step_counts:
            self._step_counts.clear()
        return True

    def follows_anew(self, optimizer: Any) -> bool:
        """Whether ``optimizer`` leads from now on, and did not before."""
        leader = self._leader()
        if leader is optimizer:
            return False
        count = self._step_counts[optimizer] = self._step_counts.get(optimizer, 0) + 1
        if leader is not None and count < self.PATIENCE:
            return False
        self._leader = weakref.ref(optimizer)
        return True


class _Device:
    """Waits until a device has finished a step: it computes on after the call has returned.

    To wait makes a training slower.  The first steps are all timed, which a calibration needs and
    no more; after them some are, and the time between is shared out.
    """

    PAUSE_S = 0.25

    def __init__(self) -> None:
        self._at = 0.0

    def has_finished(self, optimizer: Any, passed: int) -> bool:
        """Whether this step is timed; by then its device is idle."""
        first = next(iter(optimizer.param_groups[0]["params"]), None)
        if first is None or not first.is_cuda:
            return True
        cuda = sys.modules["torch"].cuda
        if cuda.is_current_stream_capturing():  # to wait would end the capture with an error
            raise RuntimeError("a CUDA graph replays steps without their optimizer")
        if passed > KEPT and time.monotonic() - self._at < self.PAUSE_S:
            return False
        cuda.synchronize(first.device)
        self._at, _FETCHED.device = time.monotonic(), first.device
        return True


class _Fetched(threading.local):
    """What a thread has fetched since its last step: samples, and how long it waited for them.

    A device that still computes waits for nothing: where there is one, marks in its queue of work
    tell how long it stood still.
    """

    #: Marks of so many batches are kept: a step has fewer.
    MARKS = 1024

    def __init__(self) -> None:
        self.device: Any = None
        self.samples = 0.0
        self._waited = 0.0
        self._marks: deque[tuple[Any, Any]] = deque(maxlen=self.MARKS)

    @guarded
    def begins(self) -> Any:
        """What ``ends`` is to be called with."""
        return time.monotonic() if self.device is None else self._mark()

    @guarded
    def ends(self, began: Any, batch: Any) -> None:
        if not _trains():
            return
        self.samples += _size(batch)
        if self.device is None:
            self._waited += time.monotonic() - began
        else:
            self._marks.append((began, self._mark()))

    def _mark(self) -> Any:
        cuda = sys.modules["torch"].cuda
        mark = cuda.Event(enable_timing=True)
        mark.record(cuda.current_stream(self.device))
        return mark

    def waited(self) -> float:
        """Seconds since this was asked before; to be asked when the device has finished."""
        stood_ms = sum(float(before.elapsed_time(after)) for before, after in self._marks)
        waited, self._waited = self._waited + stood_ms / 1e3, 0.0
        self._marks.clear()
        return waited


_FETCHED = _Fetched()


def _trains() -> bool:
    """Evaluations run without gradients; of those that do not nobody can know."""
    return bool(sys.modules["torch"].is_grad_enabled())


class _Samples:
    """Of steps: what loaders have fetched; where there are none, the model's own batch tells."""

    def __init__(self) -> None:
        self._has_loader = False
        self._batch: _Batch | None = None
        self._sum = 0.0

    def step_ended(self) -> None:
        fetched, _FETCHED.samples = _FETCHED.samples, 0.0
        self._has_loader = self._has_loader or fetched > 0
        self._sum += fetched if self._has_loader else self._seen_by_model()
        if self._has_loader and self._batch is not None:
            self._batch.look_away()

    def taken(self) -> float:
        """Of the steps since this was asked before."""
        total, self._sum = self._sum, 0.0
        return total

    def _seen_by_model(self) -> float:
        if self._batch is None:
            self._batch = _Batch()
            return 0.0
        return self._batch.samples()


class _Batch:
    """Looks at what goes into the model, for so few steps that it costs the others nothing."""

    LOOKS = 5

    def __init__(self) -> None:
        self._model: int | None = None
        self._now = 0.0
        self._sizes: list[float] = []
        register = getattr(
            sys.modules.get("torch.nn.modules.module"), "register_module_forward_pre_hook", None
        )
        self._handle: Any = register(self._entered) if register is not None else None

    @guarded
    def _entered(self, module: Any, args: Any) -> None:
        if not module.training or not _trains():
            return
        if self._model is None:  # the first after a step is the one that holds all others
            self._model = id(module)
        if id(module) == self._model:
            self._now += _size(args)

    def samples(self) -> float:
        """Of the step that is over; the usual count once that is known."""
        if self._handle is None:
            return sorted(self._sizes)[len(self._sizes) // 2] if self._sizes else 0.0
        samples, self._now = self._now, 0.0
        self._sizes.append(samples)
        if len(self._sizes) >= self.LOOKS:
            self.look_away()
        return samples

    def look_away(self) -> None:
        if self._handle is not None:
            self._handle.remove()
            self._handle = None


def _describe(times: StepTimes, optimizer: Any) -> None:
    """What is trained, as the optimizer sees it."""
    trained = [parameter for group in optimizer.param_groups for parameter in group["params"]]
    sent = [parameter for parameter in trained if parameter.grad is not None]
    times.describe(
        parameters=sum(parameter.numel() for parameter in trained),
        largest=max((parameter.numel() for parameter in trained), default=0),
        gradient_bytes=sum(
            parameter.grad.numel() * parameter.grad.element_size() for parameter in sent
        ),
        stack=f"torch {sys.modules['torch'].__version__}",
    )


def _time_waits(module: ModuleType) -> None:
    base = module._BaseDataLoaderIter  # noqa: SLF001  # the one place that every loader passes
    real = base.__next__

    def timed(self: Any) -> Any:
        began = _FETCHED.begins()
        batch = real(self)
        _FETCHED.ends(began, batch)
        return batch

    base.__next__ = timed


def _size(batch: Any) -> float:
    """Samples of a batch: the length of its first tensor; 0 where it has none."""
    while isinstance(batch, (list, tuple, dict)) and batch:
        batch = next(iter(batch.values())) if isinstance(batch, dict) else batch[0]
    with suppress(Exception):  # users' own objects, with shapes of their own
        return float(batch.shape[0])
    return 0.0


def _input_alone(module: ModuleType) -> None:
    """Have the first loader run by itself, epoch after epoch; then the program ends."""
    kind = module.DataLoader
    real = kind.__iter__

    def alone(self: Any) -> Any:
        times = step_times()
        over = time.monotonic() + FILL_S + INPUT_S
        while times is not None and time.monotonic() < over:
            for batch in real(self):
                if time.monotonic() > over - INPUT_S:
                    times.note(samples=_size(batch))
                if time.monotonic() > over:
                    break
        if times is not None:
            times.write()
        os._exit(0)  # threads and workers of the loader would hold an ordinary end up

    kind.__iter__ = alone


def _without_exchange(module: ModuleType) -> None:
    """Every step of DistributedDataParallel as if gradients were accumulated: none is sent."""
    kind = module.DistributedDataParallel
    real = kind.forward

    def alone(self: Any, *args: Any, **kwargs: Any) -> Any:
        self.require_backward_grad_sync = False
        return real(self, *args, **kwargs)

    kind.forward = alone
