"""What replicas run in.

Apart from ``environments``, because most jobs of a server install nothing, and their first line
need not wait for all that installing imports.
"""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from trainshed.model.launch_plan import Environment


@dataclass(frozen=True, slots=True, kw_only=True)
class Prepared:
    """An interpreter, and what to put in front of its import path."""

    python: str
    python_path_entries: tuple[str, ...] = ()


def prepared(
    environment: Environment, cache_dir: Path | None, note: Callable[[str], None]
) -> Prepared:
    """Have the packages of a job installed, if it has any.  Raises EngineFault."""
    if "/" in environment.python and not (environment.packages or environment.requirements):
        return Prepared(python=environment.python)
    from trainshed.engines.local.environments import cache as environments  # noqa: PLC0415 - see above

    where = cache_dir or environments.default_cache_dir()
    return environments.prepare(environment, cache_dir=where, note=note)
