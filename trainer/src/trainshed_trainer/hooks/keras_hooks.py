"""Keras 3 and the older tf_keras: a step is over when the callbacks of its batch are called."""

from __future__ import annotations

import sys
from types import ModuleType
from typing import Any

from trainshed_trainer.steps import step_times


def hook(module: ModuleType) -> None:
    """Have every list of callbacks tell of the batches that end."""
    kind = module.CallbackList
    real = kind.on_train_batch_end

    def ended(self: Any, batch: int, logs: Any = None) -> Any:
        times = step_times()
        if times is not None:
            if not times.is_described:
                times.describe(**_model(getattr(self, "_model", None) or self.model))
            times.note(_count(self, batch))
        return real(self, batch, logs)

    kind.on_train_batch_end = ended


def _count(callbacks: Any, batch: int) -> int:
    """Batches since the beginning: their numbers begin anew with each epoch."""
    before = getattr(callbacks, "_trainshed_batches", (-1, 0))
    passed = before[1] + (batch - before[0] if batch > before[0] else batch + 1)
    callbacks._trainshed_batches = (batch, passed)  # noqa: SLF001  # ours
    return passed


def _model(model: Any) -> dict[str, Any]:
    sizes = [_size(each.shape) for each in model.trainable_variables]
    keras = sys.modules.get("keras") or sys.modules.get("tf_keras")
    return {
        "parameters": sum(sizes),
        "largest": max(sizes, default=0),
        "gradient_bytes": 4 * sum(sizes),  # float32, also of mixed precision's variables
        "stack": f"keras {getattr(keras, '__version__', '')}".strip(),
    }


def _size(shape: Any) -> int:
    found = 1
    for each in shape:
        found *= int(each)
    return found
