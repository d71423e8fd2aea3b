"""Keras 3 and the older tf_keras: a step is over when the callbacks of its batch are called.

Keras 3 also tells its batch, and its input can run alone; what a step waits for it nobody sees.
"""

from __future__ import annotations

import os
import sys
import time
from contextlib import suppress
from types import ModuleType
from typing import Any

from trainshed_trainer.hooks import FILL_S, INPUT, INPUT_S, wanted
from trainshed_trainer.hooks.guard import guarded
from trainshed_trainer.steps import step_times

#: Samples of a batch of the newest data; 0 where the data does not say.
_BATCH = [0.0]


def hook(module: ModuleType) -> None:
    """Have every list of callbacks tell of the batches that end."""
    kind = module.CallbackList
    real = kind.on_train_batch_end

    def ended(self: Any, batch: int, logs: Any = None) -> Any:
        _ended(self, batch)
        return real(self, batch, logs)

    kind.on_train_batch_end = ended


def hook_data(module: ModuleType) -> None:
    """Have whatever reads data tell its batch, or run by itself."""
    kind = module.EpochIterator
    real = kind.__init__

    def init(self: Any, *args: Any, **kwargs: Any) -> None:
        real(self, *args, **kwargs)
        with suppress(Exception):  # data that does not say
            _BATCH[0] = float(self.data_adapter.batch_size or 0)
        if INPUT in wanted():
            _input_alone(self.data_adapter)

    kind.__init__ = init


@guarded
def _ended(callbacks: Any, batch: int) -> None:
    times = step_times()
    if times is None:
        return
    fit: _Fit | None = getattr(callbacks, "_trainshed_fit", None)
    if fit is None:
        fit = callbacks._trainshed_fit = _Fit(_BATCH[0])  # noqa: SLF001  # ours
        times.describe(
            **_model(getattr(callbacks, "_model", None) or getattr(callbacks, "model", None))
        )
    before, now = fit.passed, fit.passes(batch)
    times.note(now, samples=fit.batch * (now - before))


class _Fit:
    """One training: what reads its data is the newest when its first batch ends.

    Data that is made later is read to evaluate.
    """

    def __init__(self, batch: float) -> None:
        self.batch = batch
        self.passed = 0
        self._last = -1

    def passes(self, batch: int) -> int:
        """Batches since the beginning: their numbers begin anew with each epoch."""
        self.passed += batch - self._last if batch > self._last else batch + 1
        self._last = batch
        return self.passed


def _input_alone(data: Any) -> None:
    """Read batches, epoch after epoch; then the program ends."""
    times = step_times()
    over = time.monotonic() + FILL_S + INPUT_S
    while times is not None and time.monotonic() < over:
        is_empty = True
        for _ in data.get_numpy_iterator():
            is_empty = False
            if time.monotonic() > over - INPUT_S:
                times.note(samples=_BATCH[0])
            if time.monotonic() > over:
                break
        if is_empty:
            break
    if times is not None:
        times.write()
    os._exit(0)  # threads of the pipeline would hold an ordinary end up


def _model(model: Any) -> dict[str, Any]:
    """What is trained; lists of callbacks in loops of users' own may have no model."""
    sizes = [_size(variable.shape) for variable in getattr(model, "trainable_variables", ())]
    keras = sys.modules.get("keras") or sys.modules.get("tf_keras")
    return {
        "parameters": sum(sizes),
        "largest": max(sizes, default=0),
        "gradient_bytes": 4 * sum(sizes),  # float32, also of mixed precision's variables
        "stack": f"keras {getattr(keras, '__version__', '')}".strip(),
    }


def _size(shape: Any) -> int:
    size = 1
    for dimension in shape:
        size *= int(dimension)
    return size
