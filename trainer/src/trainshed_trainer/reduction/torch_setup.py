"""How torch comes to know ``backend="reduction"``: ``import torch`` itself calls :func:`register`.

It does so by the entry point group ``torch.backends``, so that installing this package is enough.
Nothing heavy is imported until a group is made, and nothing that fails here may fail ``import
torch``.  Elsewhere, ``import trainshed_trainer.reduction.torch_setup as setup; setup.register()``.
"""

from __future__ import annotations

import functools
import inspect
import logging
import os
from typing import Any, Callable

from trainshed_trainer import contract

NAME = "reduction"
#: Backends that a trainer may ask for, and get reducers where the environment wants it.
REPLACED = ("gloo", "nccl", "undefined")

LOGGER = logging.getLogger(__name__)


def register() -> None:
    """Make the backend known to torch; again does nothing.

    With ``TRAINSHED_TORCH_BACKEND=reduction``, ``init_process_group()`` then makes a group with
    reducers for trainers that ask for gloo or nccl, or for nothing.
    """
    try:
        _register()
    except Exception:  # whatever it is, torch works without us
        LOGGER.warning("torch does not know the backend reduction", exc_info=True)


def _register() -> None:
    from torch import distributed as dist  # noqa: PLC0415 - whoever has no torch imports this too

    if not dist.is_available():
        return
    if NAME not in dist.Backend.backend_list:
        dist.Backend.register_backend(NAME, _create, extended_api=True, devices=["cpu", "cuda"])
    if os.environ.get(contract.TRAINSHED_TORCH_BACKEND, "").lower() == NAME:
        _wrap(dist, "init_process_group", _initialized)


def _create(options: Any, backend_options: Any = None) -> Any:
    from torch import distributed as dist  # noqa: PLC0415 - as above

    from trainshed_trainer.reduction import torch_group  # noqa: PLC0415 - when it is used

    _wrap(dist, "monitored_barrier", _monitored)
    return torch_group.create(options, backend_options)


def _wrap(dist: Any, name: str, wrapper: Callable[[Callable[..., Any]], Any]) -> None:
    """Replace a function of torch wherever it has it, once."""
    original = getattr(dist, name)
    if not hasattr(original, "__trainshed__"):
        wrapped = wrapper(original)
        wrapped.__trainshed__ = True
        for module in (dist, dist.distributed_c10d):
            setattr(module, name, wrapped)


def _initialized(original: Callable[..., None]) -> Callable[..., None]:
    """``init_process_group`` that makes a group with reducers where gloo or nccl was asked for."""

    @functools.wraps(original)
    def init_process_group(backend: str | None = None, *args: Any, **kwargs: Any) -> None:
        if not _replaceable(backend):
            original(backend, *args, **kwargs)
            return
        from trainshed_trainer.reduction.torch_inner import BackendChoice  # noqa: PLC0415 - as above

        call = inspect.signature(original).bind(NAME, *args, **kwargs)
        nccl = "nccl" in str(backend or "nccl").lower()
        call.arguments["pg_options"] = BackendChoice(nccl, call.arguments.get("pg_options"))
        original(*call.args, **call.kwargs)
        _call_it(backend)

    return init_process_group


def _replaceable(backend: str | None) -> bool:
    """Whether a trainer asks for gloo, for nccl, for either by device, or for nothing."""
    pairs = str(backend or REPLACED[-1]).lower().split(",")
    return all(pair.split(":")[-1] in REPLACED for pair in pairs)


def _call_it(backend: str | None) -> None:
    """Let torch call the group by the name that the trainer knows, for what depends on it.

    ``get_backend()`` then says what was asked for, and ``new_group()`` makes plain groups of it.
    """
    from torch.distributed import distributed_c10d as c10d  # noqa: PLC0415 - as above

    group, world = c10d.group.WORLD, c10d._world  # noqa: SLF001 - torch has no other way
    if group is not None:
        name = c10d.Backend(backend or c10d.Backend.UNDEFINED)
        world.pg_map[group] = (name, world.pg_map[group][1])
        world.pg_backend_config[group] = str(c10d.BackendConfig(name))


def _monitored(original: Callable[..., None]) -> Callable[..., None]:
    """``monitored_barrier`` that knows that there is gloo inside of our groups, too."""

    @functools.wraps(original)
    def monitored_barrier(
        group: Any = None,
        timeout: Any = None,
        wait_all_ranks: bool = False,  # noqa: FBT001, FBT002
    ) -> None:
        from torch import distributed as dist  # noqa: PLC0415 - as above

        from trainshed_trainer.reduction.torch_group import ReductionGroup  # noqa: PLC0415 - same

        chosen = group or dist.group.WORLD
        if isinstance(chosen, ReductionGroup):
            chosen.monitored_barrier(timeout, wait_all_ranks)  # type: ignore[attr-defined]
        else:
            original(group, timeout, wait_all_ranks)

    return monitored_barrier
