"""Makes the engines that the settings name."""

import logging
import os
import time
from collections.abc import Mapping, Sequence
from typing import Any

from trainshed.config.settings import EngineSettings, Settings
from trainshed.engines.base import Engine, EngineContext
from trainshed.engines.registry import LOCAL, open_engine
from trainshed.engines.several import Engines, ServedEngine
from trainshed.files.server_files import installation
from trainshed.model.explanation import Explanation, Reason
from trainshed.model.faults import UsageFault
from trainshed.model.resources import ANY_GPU
from trainshed.storage.buckets import buckets_of, cache_dir

_LOG = logging.getLogger(__name__)

#: The settings that are options of the local engine by the same name.
_LOCAL = (
    "policy", "slots", "fake_gpus", "gpu_wait_s", "container_runtime", "container_user", "hang_s",
    "hang_stacks", "grace_s", "processes_max", "package_bytes_max", "relax_pins",
    "environments_bytes_max", "log_bytes_per_s_max", "log_bytes_max", "pass_env",
)  # fmt: skip


def engines_of(settings: Settings) -> Engines:
    """Make the engines; omit one that cannot be made, and report why in its health.

    Raises UsageFault if none can be made, and for a name that is not in the settings.
    """
    tables = _select_tables(settings)
    failed = _explain_unstarted(settings, tables)
    if len(tables) == 1:
        return Engines(_serve_engine(tables[0], _create_engine(settings, tables[0])), failed)
    served: dict[str, ServedEngine] = {}
    for table in tables:
        try:
            served |= _serve_engine(table, _create_engine(settings, table))
        except (UsageFault, OSError) as fault:
            _LOG.error("the server runs without the engine %s: %s", table.name, fault)
            failed[table.name] = _explain_fault(fault)
    if not served:
        reasons = "; ".join(f"{name}: {why.message}" for name, why in failed.items())
        raise UsageFault(f"no engine is left: {reasons}")
    return Engines(served, failed)


def _explain_fault(fault: Exception) -> Explanation:
    return Explanation(reason=Reason.ENGINE_AWAY, message=str(fault), since_s=time.time())


def _select_tables(settings: Settings) -> Sequence[EngineSettings]:
    """Return the tables of the engines that this server runs."""
    options = settings.engine_options
    only = EngineSettings(name=settings.engine, kind=settings.engine, options=options)
    tables = settings.engines or (only,)
    names = {table.name for table in tables}
    if unknown := [name for name in settings.start_engines if name not in names]:
        accepted = ", ".join(table.name for table in tables)
        raise UsageFault(f"--engine is {unknown[0]!r}; accepted: {accepted}")
    started = settings.start_engines or names
    return [table for table in tables if table.name in started]


def _explain_unstarted(
    settings: Settings, started: Sequence[EngineSettings]
) -> dict[str, Explanation]:
    """Explain why engines that ``--engine`` does not name are away; their jobs keep their state."""
    why = Explanation(
        reason=Reason.ENGINE_AWAY, message="the server was started without it (serve --engine)"
    )
    return {table.name: why for table in settings.engines if table not in started}


def _serve_engine(table: EngineSettings, engine: Engine) -> dict[str, ServedEngine]:
    served = ServedEngine(
        engine=engine,
        regions=table.regions,
        labels=table.labels,
        environments=table.environments,
    )
    return {table.name: served}


def _create_engine(settings: Settings, table: EngineSettings) -> Engine:
    """Make an engine.  Raises UsageFault for an unknown kind or invalid options."""
    context = EngineContext(
        jobs_dir=settings.jobs_dir,
        name=table.name,
        installation="" if table.kind == LOCAL.name else installation(settings.data_dir),
        buckets=buckets_of(settings.data_dir).root,
        cache_dir=cache_dir(os.environ),
        environments=table.environments,
        options=_options(settings, table),
    )
    return open_engine(table.kind, context)


def _options(settings: Settings, table: EngineSettings) -> Mapping[str, Any]:
    """Return the kind's own keys; the local engine has its own tables."""
    if table.kind != LOCAL.name:
        return table.options
    if table.options:
        raise UsageFault("[engine.options] are for other engines; [fleet] and [hangs] set local's")
    own = {name: getattr(settings, name) for name in _LOCAL}
    own["isolation"] = settings.isolation and settings.isolation._asdict()
    return {**own, "gpu_alias": _gpu_alias(settings)}


def _gpu_alias(settings: Settings) -> Mapping[str, str]:
    """Fake GPUs are of every type."""
    if not settings.fake_gpus:
        return settings.gpu_alias
    from trainshed.catalog.accelerators import known_accelerators  # noqa: PLC0415 - rarely needed

    names = (
        name
        for accelerator in known_accelerators()
        for name in accelerator.enum_by_product.values()
    )
    return {**dict.fromkeys(names, ANY_GPU), **settings.gpu_alias}
