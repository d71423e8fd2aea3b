"""The engine that the settings name."""

import os
from collections.abc import Mapping
from typing import Any

from trainshed.config.settings import Settings
from trainshed.engines.base import Engine, EngineContext
from trainshed.engines.registry import LOCAL, open_engine
from trainshed.model.faults import UsageFault
from trainshed.model.resources import ANY_GPU
from trainshed.storage.buckets import buckets_of, cache_dir

#: The settings that are options of the local engine by the same name.
_LOCAL = (
    "policy", "slots", "fake_gpus", "gpu_wait_s", "container_runtime", "container_user", "hang_s",
    "hang_stacks", "grace_s", "processes_max", "package_bytes_max", "relax_pins",
    "environments_bytes_max", "log_bytes_per_s_max", "log_bytes_max", "pass_env",
)  # fmt: skip


def engine_of(settings: Settings) -> Engine:
    """Make it.  Raises UsageFault for a name that no package has, or options that do not fit."""
    context = EngineContext(
        jobs_dir=settings.jobs_dir,
        buckets=buckets_of(settings.data_dir).root,
        cache_dir=cache_dir(os.environ),
        options=_options(settings),
    )
    return open_engine(settings.engine, context)


def _options(settings: Settings) -> Mapping[str, Any]:
    """What is under [engine.options]; the local engine is set in tables of its own."""
    if settings.engine != LOCAL.name:
        return settings.engine_options
    if settings.engine_options:
        raise UsageFault("[engine.options] are for other engines; [fleet] and [hangs] set local's")
    own = {name: getattr(settings, name) for name in _LOCAL}
    own["isolation"] = settings.isolation and settings.isolation._asdict()
    return {**own, "gpu_alias": _gpu_alias(settings)}


def _gpu_alias(settings: Settings) -> Mapping[str, str]:
    """Fake GPUs are of every type."""
    if not settings.fake_gpus:
        return settings.gpu_alias
    from trainshed.catalog.accelerators import known_accelerators  # noqa: PLC0415 - rarely needed

    names = (name for each in known_accelerators() for name in each.enum_by_product.values())
    return {**dict.fromkeys(names, ANY_GPU), **settings.gpu_alias}
