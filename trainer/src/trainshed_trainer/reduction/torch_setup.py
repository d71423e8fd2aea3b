"""Registers ``backend="reduction"`` with torch: ``import torch`` calls :func:`register`.

torch finds it through the entry point group ``torch.backends``, so it is enough to install this
package.  No large module is imported before a group is created, and an error here must not make
``import torch`` fail.  If the package is not installed, call ``register()`` of this module.
"""

from __future__ import annotations

import functools
import inspect
import logging
import os
from typing import Any, Callable

from trainshed_trainer import contract

NAME = "reduction"
#: Backends that are replaced by this one if TRAINSHED_TORCH_BACKEND asks for it.
REPLACED = ("gloo", "nccl", "undefined")

LOGGER = logging.getLogger(__name__)


def register() -> None:
    """Register the backend with torch; further calls do nothing.

    With ``TRAINSHED_TORCH_BACKEND=reduction``, ``init_process_group()`` then creates a group with
    reducers for trainers that ask for gloo, for nccl or for no backend.
    """
    try:
        _register()
    except Exception:  # torch works without this backend
        LOGGER.warning("cannot register the backend reduction with torch", exc_info=True)


def _register() -> None:
    from torch import distributed as dist  # noqa: PLC0415 - this module is imported without torch

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
    """Replace a function in both of torch's modules, once."""
    original = getattr(dist, name)
    if not hasattr(original, "__trainshed__"):
        wrapped = wrapper(original)
        wrapped.__trainshed__ = True
        for module in (dist, dist.distributed_c10d):
            setattr(module, name, wrapped)


def _initialized(original: Callable[..., None]) -> Callable[..., None]:
    """Wrap ``init_process_group`` to create a group with reducers instead of gloo or nccl."""

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
        _rename_group(backend)

    return init_process_group


def _replaceable(backend: str | None) -> bool:
    """Return whether a trainer asks for gloo, nccl, both by device, or no backend."""
    pairs = str(backend or REPLACED[-1]).lower().split(",")
    return all(pair.split(":")[-1] in REPLACED for pair in pairs)


def _rename_group(backend: str | None) -> None:
    """Make torch report the backend that the trainer asked for, because trainers compare it.

    ``get_backend()`` then returns that name, and ``new_group()`` creates plain groups of it.
    """
    from torch.distributed import distributed_c10d as c10d  # noqa: PLC0415 - as above

    group, world = c10d.group.WORLD, c10d._world  # noqa: SLF001 - torch has no other way
    if group is not None:
        name = c10d.Backend(backend or c10d.Backend.UNDEFINED)
        world.pg_map[group] = (name, world.pg_map[group][1])
        world.pg_backend_config[group] = str(c10d.BackendConfig(name))


def _monitored(original: Callable[..., None]) -> Callable[..., None]:
    """Wrap ``monitored_barrier`` to use the gloo backend inside of a reduction group."""

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
