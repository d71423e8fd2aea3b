"""A launch plan as a file: what a runner is told, whoever started it.

Plain JSON, so that it can be read by people and by the next version; it holds the job's variables
and is therefore nobody else's to read.
"""

import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from trainshed.model.launch_plan import Environment, LaunchPlan, ReplicaPlan
from trainshed.model.roles import Role

_PRIVATE = 0o600


@dataclass(frozen=True, slots=True, kw_only=True)
class Errand:
    """What one runner has to do: a plan, and how this machine performs it."""

    plan: LaunchPlan
    cache_dir: str | None = None
    """Where installed packages are kept; None is the engine's own place."""
    uses_gpus: bool = True
    """False on an emulating node: the machine's GPUs are not looked at."""


def write(path: Path, errand: Errand) -> None:
    """Write the file whole or not at all.  Raises OSError."""
    draft = path.with_name(f".{path.name}-{os.getpid()}-{os.urandom(4).hex()}")
    try:
        with open(draft, "x", encoding="utf-8", opener=_private) as file:
            json.dump(_errand_json(errand), file)
        draft.replace(path)
    except BaseException:
        draft.unlink(missing_ok=True)
        raise


def read(path: Path) -> Errand:
    """Read what ``write`` wrote.  Raises OSError, ValueError, KeyError or TypeError."""
    found = json.loads(path.read_bytes())
    return Errand(**{**found, "plan": _plan(found["plan"])})


def _private(path: str, flags: int) -> int:
    return os.open(path, flags, _PRIVATE)


def _errand_json(errand: Errand) -> dict[str, Any]:
    return {
        "plan": _plan_json(errand.plan),
        "cache_dir": errand.cache_dir,
        "uses_gpus": errand.uses_gpus,
    }


def _plan_json(plan: LaunchPlan) -> dict[str, Any]:
    return {
        **_fields(plan),
        "replicas": [{**_fields(r), "role": r.role.value} for r in plan.replicas],
        "environment": _fields(plan.environment),
    }


def _plan(found: dict[str, Any]) -> LaunchPlan:
    return LaunchPlan(
        **{
            **_tuples(found),
            "replicas": tuple(_replica(each) for each in found["replicas"]),
            "environment": Environment(**_tuples(found["environment"])),
        }
    )


def _replica(found: dict[str, Any]) -> ReplicaPlan:
    return ReplicaPlan(**{**_tuples(found), "role": Role(found["role"])})


def _fields(value: Any) -> dict[str, Any]:
    """The fields of one dataclass, its mappings as plain ones."""
    found = {name: getattr(value, name) for name in value.__slots__}
    return {name: dict(v) if hasattr(v, "items") else v for name, v in found.items()}


def _tuples(found: dict[str, Any]) -> dict[str, Any]:
    return {name: tuple(v) if isinstance(v, list) else v for name, v in found.items()}
