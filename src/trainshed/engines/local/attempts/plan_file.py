"""A launch plan as a file: what a preparer is told, whoever started it.

Plain JSON, so that it can be read by people and by the next version; it holds the job's variables
and is therefore nobody else's to read.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any

from trainshed.engines.container_runtime import Runtime
from trainshed.engines.local.attempts.folder import write_json
from trainshed.model.launch_plan import (
    ContainerPlan,
    Environment,
    LaunchPlan,
    MetricsPlan,
    ReplicaPlan,
)
from trainshed.model.roles import Role


@dataclass(frozen=True, slots=True, kw_only=True)
class Errand:
    """What is to be done: a plan, and how this machine performs it."""

    plan: LaunchPlan
    cache_dir: str | None = None
    """Where installed packages are kept; None is the engine's own place."""
    uses_gpus: bool = True
    """False on an emulating node: the machine's GPUs are not looked at."""
    runtime: Runtime | None = None
    """What runs containers here."""
    gpu_alias: Mapping[str, str] = field(default_factory=dict)
    """Which accelerators stand in for others (``model.resources.Node``)."""
    gpu_wait_s: float = 60.0
    """How long devices that others hold are waited for."""
    fake_gpus: int = 0
    """So many devices that exist in name only, in the place of the machine's."""


def write(path: str, errand: Errand) -> None:
    """Write the file whole or not at all.  Raises OSError."""
    runtime = None if errand.runtime is None else errand.runtime._asdict()
    write_json(path, {**_fields(errand), "plan": _plan_json(errand.plan), "runtime": runtime})


def read(path: str) -> Errand:
    """Read what ``write`` wrote.  Raises OSError, ValueError, KeyError or TypeError."""
    with open(path, "rb") as file:  # noqa: PTH123 - folders of attempts are strings
        found = json.load(file)
    runtime = found.get("runtime")
    return Errand(
        **{
            **_tuples(found),
            "plan": _plan(found["plan"]),
            "runtime": None if runtime is None else Runtime(**runtime),
        }
    )


def _plan_json(plan: LaunchPlan) -> dict[str, Any]:
    return {
        **_fields(plan),
        "replicas": [_replica_json(replica) for replica in plan.replicas],
        "environment": _fields(plan.environment),
        "metrics": None if plan.metrics is None else _fields(plan.metrics),
    }


def _replica_json(replica: ReplicaPlan) -> dict[str, Any]:
    container = None if replica.container is None else _fields(replica.container)
    return {**_fields(replica), "role": replica.role.value, "container": container}


def _plan(found: dict[str, Any]) -> LaunchPlan:
    metrics = found.get("metrics")
    return LaunchPlan(
        **{
            **_tuples(found),
            "replicas": tuple(_replica(each) for each in found["replicas"]),
            "environment": Environment(**_tuples(found["environment"])),
            "metrics": None if metrics is None else MetricsPlan(**_tuples(metrics)),
        }
    )


def _replica(found: dict[str, Any]) -> ReplicaPlan:
    container = found.get("container")
    return ReplicaPlan(
        **{
            **_tuples(found),
            "role": Role(found["role"]),
            "container": None if container is None else ContainerPlan(**_tuples(container)),
        }
    )


def _fields(value: Any) -> dict[str, Any]:
    """The fields of one dataclass, its mappings as plain ones."""
    found = {each.name: getattr(value, each.name) for each in fields(value)}
    return {name: dict(v) if hasattr(v, "items") else v for name, v in found.items()}


def _tuples(found: dict[str, Any]) -> dict[str, Any]:
    return {name: _tuple(v) if isinstance(v, list) else v for name, v in found.items()}


def _tuple(values: list[Any]) -> tuple[Any, ...]:
    return tuple(tuple(value) if isinstance(value, list) else value for value in values)
