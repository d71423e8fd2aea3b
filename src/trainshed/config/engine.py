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

#: The settings that the local engine takes as options of the same names.
_LOCAL = (
    "policy", "slots", "fake_gpus", "gpu_wait_s", "container_runtime", "container_user", "hang_s",
    "hang_stacks", "grace_s", "processes_max", "package_bytes_max", "relax_pins",
    "environments_bytes_max", "log_bytes_per_s_max", "log_bytes_max", "pass_env",
)  # fmt: skip


def engines_of(settings: Settings) -> Engines:
    """Make the engines; leave out an engine that cannot be made, and put the reason in its health.

    Raises UsageFault if no engine can be made, or if ``--engine`` names an unknown engine.
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
            _LOG.error(
                "cannot start the engine %s: %s; the server runs without it", table.name, fault
            )
            failed[table.name] = _explain_fault(fault)
    if not served:
        reasons = "; ".join(f"{name}: {why.message}" for name, why in failed.items())
        raise UsageFault(f"cannot start any engine ({reasons}); correct config.toml")
    return Engines(served, failed)


def _explain_fault(fault: Exception) -> Explanation:
    return Explanation(reason=Reason.ENGINE_AWAY, message=str(fault), since_s=time.time())


def _select_tables(settings: Settings) -> Sequence[EngineSettings]:
    """Return the tables of the engines that this server runs."""
    options = settings.engine_options
    single = EngineSettings(name=settings.engine, kind=settings.engine, options=options)
    tables = settings.engines or (single,)
    names = {table.name for table in tables}
    if unknown := [name for name in settings.start_engines if name not in names]:
        accepted = ", ".join(table.name for table in tables)
        raise UsageFault(f"--engine must be one of {accepted}, got {unknown[0]!r}")
    started = settings.start_engines or names
    return [table for table in tables if table.name in started]


def _explain_unstarted(
    settings: Settings, started: Sequence[EngineSettings]
) -> dict[str, Explanation]:
    """Explain why the engines that ``--engine`` leaves out are away; their jobs do not change."""
    why = Explanation(
        reason=Reason.ENGINE_AWAY,
        message="the server was started with --engine, which does not name this engine",
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
        usage_s=settings.usage_s,
        options=_options(settings, table),
    )
    return open_engine(table.kind, context)


def _options(settings: Settings, table: EngineSettings) -> Mapping[str, Any]:
    """Return the options of an engine; those of the local engine are in tables such as [fleet]."""
    if table.kind != LOCAL.name:
        return table.options
    if table.options:
        raise UsageFault(
            "[engine.options] must be empty for the local engine; set its options in [fleet], "
            "[isolation] and [hangs]"
        )
    options = {name: getattr(settings, name) for name in _LOCAL}
    options["isolation"] = settings.isolation and settings.isolation._asdict()
    return {**options, "gpu_alias": _gpu_alias(settings)}


def _gpu_alias(settings: Settings) -> Mapping[str, str]:
    """Return the aliases of GPU types; simulated GPUs stand in for every type."""
    if not settings.fake_gpus:
        return settings.gpu_alias
    from trainshed.catalog.accelerators import known_accelerators  # noqa: PLC0415 - rarely needed

    names = (
        name
        for accelerator in known_accelerators()
        for name in accelerator.enum_by_product.values()
    )
    return {**dict.fromkeys(names, ANY_GPU), **settings.gpu_alias}
