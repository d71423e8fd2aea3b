"""Tables of images by engine: each engine has the environments of its own nodes."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from trainshed.engines.base import Engine, NodeLocation
from trainshed.engines.capabilities import SupportsVersions
from trainshed.engines.several import Engines, ServedEngine
from trainshed.model.faults import UsageFault
from trainshed.service.starts.images import (
    CONTAINER,
    DEFAULT,
    ImageMapping,
    Images,
    LocalEnvironment,
)
from trainshed.service.starts.interpreters import UNKNOWN, Installed, installed, installed_of
from trainshed.service.upkeep.reread_file import RereadFile


class EngineImages:
    """The environments and images for programs, by engine name."""

    def __init__(self, by_engine: Mapping[str, Images]) -> None:
        """``by_engine``: images by engine name; the first engine is the default."""
        self._by_engine = dict(by_engine)
        self._first = next(iter(self._by_engine))

    def of(self, engine: str) -> Images:
        """Return the table of an engine; an empty name is the first engine."""
        return self._by_engine.get(engine) or self._by_engine[self._first]


class RereadImages:
    """Tables that are read again when their file has changed; see ``RereadFile``."""

    def __init__(self, first: EngineImages, file: Path, make: Callable[[], EngineImages]) -> None:
        """``make`` reads the file and raises UsageFault for an invalid one."""
        self._make = make
        self._tables = RereadFile(first, file, self._make_again, "environments")

    def of(self, engine: str) -> Images:
        """Return the table of an engine by the current file; an empty name is the first engine."""
        return self._tables.current().of(engine)

    def _make_again(self) -> EngineImages:
        installed.cache_clear()
        return self._make()


def images_of(
    engines: Engines,
    environments: Sequence[LocalEnvironment],
    mappings: Sequence[ImageMapping],
    *,
    have_tables: bool,
) -> EngineImages:
    """Return the tables of all engines.

    ``environments`` are those of this machine.  With ``have_tables``, engines have tables of their
    own, and only engines on this machine use ``environments``.  Raises UsageFault for a row whose
    environment no engine has.
    """
    if not have_tables:
        first = engines.served[engines.first].engine.traits
        images = Images(environments, mappings, first.python, first.containers)
        return EngineImages({engines.first: images})
    by_engine = {
        name: _environments(served, environments) for name, served in engines.served.items()
    }
    names = {environment.name for envs in by_engine.values() for environment in envs}
    if not engines.failed:
        _check(mappings, names)
    return EngineImages(
        {
            name: _images(engines.served[name].engine, envs, mappings)
            for name, envs in by_engine.items()
        }
    )


def _environments(
    served: ServedEngine, local_environments: Sequence[LocalEnvironment]
) -> tuple[LocalEnvironment, ...]:
    is_here = served.engine.traits.reach is NodeLocation.THIS_MACHINE
    configured = (
        LocalEnvironment(name=name, python=at) for name, at in served.environments.items()
    )
    return (*configured, *(local_environments if is_here else ()))


def _images(
    engine: Engine, environments: Sequence[LocalEnvironment], mappings: Sequence[ImageMapping]
) -> Images:
    names = {environment.name for environment in environments} | {CONTAINER, DEFAULT}
    rows = [row for row in mappings if row.environment in names]
    traits = engine.traits
    return Images(environments, rows, traits.python, traits.containers, _make_query(engine))


def _make_query(engine: Engine) -> Callable[[str], Installed] | None:
    """Return a function that lists the packages of an interpreter; None on this machine."""
    if engine.traits.reach is NodeLocation.THIS_MACHINE:
        return None
    if not isinstance(engine, SupportsVersions):
        return lambda _python: UNKNOWN

    def ask(python: str) -> Installed:
        versions = engine.list_versions(python)
        return installed_of(versions) if versions else UNKNOWN

    return ask


def _check(mappings: Sequence[ImageMapping], names: set[str]) -> None:
    for row in mappings:
        if row.environment not in {*names, CONTAINER, DEFAULT}:
            accepted = ", ".join([DEFAULT, *sorted(names), CONTAINER])
            message = f"an [[image]] names the environment {row.environment!r}"
            raise UsageFault(f"{message}, and there are only {accepted}")
