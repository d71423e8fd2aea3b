"""Engines by name, so that somebody else's package can bring one.

A package names a factory among its entry points; it is imported when it is asked for.
"""

from collections.abc import Callable
from importlib.metadata import EntryPoint, entry_points
from typing import Final

from trainshed.engines.base import Engine, EngineContext
from trainshed.model.faults import UsageFault

#: The group of entry points.  Each is a ``Factory``, under the name of its engine.
GROUP: Final = "trainshed.engines"

#: Makes an engine.  Raises UsageFault for options that it does not take.
Factory = Callable[[EngineContext], Engine]

#: Known without metadata: source that is only on the path has none, and reading it takes time.
OWN: Final = {
    name: EntryPoint(name, f"trainshed.engines.{name}.factory:make", GROUP)
    for name in ("local", "slurm")
}
LOCAL: Final = OWN["local"]


def open_engine(name: str, context: EngineContext) -> Engine:
    """The engine of a name.  Raises UsageFault for a name that no package has."""
    if name in OWN:
        return _load_engine(OWN[name], context)
    installed = entry_points(group=GROUP)
    if name not in installed.names:
        names = ", ".join(sorted({*OWN, *installed.names}))
        raise UsageFault(f"engine must be one of {names}, got {name!r}")
    return _load_engine(installed[name], context)


def _load_engine(entry_point: EntryPoint, context: EngineContext) -> Engine:
    factory: Factory = entry_point.load()
    return factory(context)
