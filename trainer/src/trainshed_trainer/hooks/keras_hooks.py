"""Hooks of Keras 3 and the older tf_keras: a step ends when the callbacks of its batch are called.

Keras 3 also reports its batch size, and its input pipeline can run alone.  The time for which a
step waits for its input is not measured.
"""

from __future__ import annotations

import os
import sys
import time
from contextlib import suppress
from types import ModuleType
from typing import Any

from trainshed_trainer.hooks import FILL_S, INPUT, INPUT_S, enabled_modes
from trainshed_trainer.hooks.counted_steps import COUNTED_STEPS
from trainshed_trainer.hooks.guard import guarded
from trainshed_trainer.steps import step_times

#: Samples per batch of the data that was created last; 0 if unknown.
_BATCH_SIZE = [0.0]


def hook(module: ModuleType) -> None:
    """Record a step at the end of every training batch."""
    kind = module.CallbackList
    original = kind.on_train_batch_end

    def on_train_batch_end(self: Any, batch: int, logs: Any = None) -> Any:
        _record_batch(self, batch)
        return original(self, batch, logs)

    kind.on_train_batch_end = on_train_batch_end
    _read_iterations_at_begin(kind)


def hook_data(module: ModuleType) -> None:
    """Read the batch size of the data, and run the input pipeline alone in the mode ``input``."""
    kind = module.EpochIterator
    original = kind.__init__

    def init(self: Any, *args: Any, **kwargs: Any) -> None:
        original(self, *args, **kwargs)
        with suppress(Exception):  # data without a batch size
            _BATCH_SIZE[0] = float(self.data_adapter.batch_size or 0)
        if INPUT in enabled_modes():
            _run_input_alone(self.data_adapter)

    kind.__init__ = init


def _read_iterations_at_begin(kind: Any) -> None:
    original = kind.on_train_begin

    def on_train_begin(self: Any, logs: Any = None) -> Any:
        result = original(self, logs)  # may restore a checkpoint
        _read_iterations(self)
        return result

    kind.on_train_begin = on_train_begin


def _read_iterations(callbacks: Any) -> None:
    """Read how many steps the optimizer has made, while no backend holds a newer number."""
    with suppress(Exception):  # without it, steps have no numbers
        if step_times() is not None and not hasattr(callbacks, "_trainshed_iterations"):
            iterations = _model_of(callbacks).optimizer.iterations
            callbacks._trainshed_iterations = int(iterations.numpy())  # noqa: SLF001  # ours


@guarded
def _record_batch(callbacks: Any, batch: int) -> None:
    times = step_times()
    if times is None:
        return
    fit: _Fit | None = getattr(callbacks, "_trainshed_fit", None)
    if fit is None:
        model = _model_of(callbacks)
        fit = _Fit(_BATCH_SIZE[0], _read_accumulation(model))
        callbacks._trainshed_fit = fit  # noqa: SLF001  # ours
        times.describe(**_describe_model(model))
    steps = fit.count_steps(batch)
    if steps:
        times.add_micro_batches(fit.micro_batches)
        before = getattr(callbacks, "_trainshed_iterations", None)
        if before is not None:
            COUNTED_STEPS.add(times, before + fit.steps, fit.steps)
        times.note(fit.steps, samples=fit.batch_size * fit.micro_batches * steps)


def _model_of(callbacks: Any) -> Any:
    return getattr(callbacks, "_model", None) or getattr(callbacks, "model", None)


class _Fit:
    """Counts the steps of one call of ``fit``: each has one batch, or several micro batches.

    The batch size is that of the data that was created last when the first batch ends: data that is
    created later is used for evaluation.
    """

    def __init__(self, batch_size: float, micro_batches: int) -> None:
        self.batch_size = batch_size
        self.micro_batches = micro_batches
        self.steps = 0
        self._batches = 0
        self._last = -1

    def count_steps(self, batch: int) -> int:
        """Return the steps that ended with this batch; ``batch`` starts at 0 in each epoch."""
        self._batches += batch - self._last if batch > self._last else batch + 1
        self._last = batch
        previous, self.steps = self.steps, self._batches // self.micro_batches
        return self.steps - previous


def _run_input_alone(data: Any) -> None:
    """Read batches for some seconds, epoch after epoch, and then end the program."""
    times = step_times()
    end = time.monotonic() + FILL_S + INPUT_S
    while times is not None and time.monotonic() < end:
        is_empty = True
        for _ in data.get_numpy_iterator():
            is_empty = False
            if time.monotonic() > end - INPUT_S:
                times.note(samples=_BATCH_SIZE[0])
            if time.monotonic() > end:
                break
        if is_empty:
            break
    if times is not None:
        times.write()
    os._exit(0)  # sys.exit would wait for threads of the pipeline


def _describe_model(model: Any) -> dict[str, Any]:
    """Describe the model for the steps file; a user's own training loop may have no model."""
    sizes = [_size(variable.shape) for variable in getattr(model, "trainable_variables", ())]
    keras = sys.modules.get("keras") or sys.modules.get("tf_keras")
    return {
        "parameters": sum(sizes),
        "largest": max(sizes, default=0),
        "gradient_bytes": 4 * sum(sizes),  # float32, with mixed precision too
        "state_bytes": _count_state_bytes(model, sum(sizes)),
        "stack": f"keras {getattr(keras, '__version__', '')}".strip(),
    }


def _read_accumulation(model: Any) -> int:
    """Return how many batches the model's optimizer adds up for one update."""
    optimizer = getattr(model, "optimizer", None)
    return int(getattr(optimizer, "gradient_accumulation_steps", None) or 1)


def _count_state_bytes(model: Any, parameters: int) -> int:
    """Count the bytes of parameters, gradients and the optimizer's state; 0 if unknown."""
    optimizer = getattr(model, "optimizer", None)
    if optimizer is None:
        return 0
    variables = getattr(optimizer, "variables", ())
    if callable(variables):  # tf_keras
        variables = variables()
    return 4 * (2 * parameters + sum(_size(variable.shape) for variable in variables))


def _size(shape: Any) -> int:
    size = 1
    for dimension in shape:
        size *= int(dimension)
    return size
