"""Opens an engine by its name; other Python packages can add engines.

Such a package declares the factory of its engine as an entry point.  ``open_engine`` imports the
factory only when a server uses that engine.
"""

from collections.abc import Callable
from importlib.metadata import EntryPoint, entry_points
from typing import Final

from trainshed.engines.base import Engine, EngineContext
from trainshed.model.faults import UsageFault

#: The group of entry points.  Each entry point is a ``Factory`` with the name of its engine.
GROUP: Final = "trainshed.engines"

#: Makes an engine.  Raises UsageFault for unknown or invalid options.
Factory = Callable[[EngineContext], Engine]

#: The engines of Trainshed itself.  ``open_engine`` needs no package metadata for them: metadata is
#: slow to read, and a source tree that is not installed has none.
OWN: Final = {
    name: EntryPoint(name, f"trainshed.engines.{name}.factory:make", GROUP)
    for name in ("kubernetes", "local", "slurm")
}
LOCAL: Final = OWN["local"]


def open_engine(name: str, context: EngineContext) -> Engine:
    """Make the engine of this name.  Raises UsageFault if no package has an engine of this name."""
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
