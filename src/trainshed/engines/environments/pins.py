"""Pins of a package that its Python cannot have, and what is taken in their place.

``tensorflow==2.8.0`` of an old ``setup.py`` was never built for the Pythons of today.  What the
interpreter has in another version is the nearest of all: it is there, and fits the rest.

Of ``pandas==1.4.1`` there is the source alone, which compiles for minutes and then fails.  What is
compiled is known by the wheels of its nearest version; a source of Python alone is built.
"""

import json
import re
import zipfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Final, NamedTuple

from trainshed.engines.environments.nearest import Index, nearest

#: ``name==version`` and no condition: the meaning of a pin with a condition is unknown.
_PIN: Final = re.compile(r"([A-Za-z0-9][\w.-]*)\s*(?:\[[^\]]*\])?\s*\(?\s*==\s*([\w.!+*]+)\s*\)?")
_REQUIRES: Final = "Requires-Dist:"
_METADATA_BYTES_MAX: Final = 1 << 20
#: A package says how many it has, and each is asked for by itself.
_PINS_MAX: Final = 64

#: By normal names: the name and the version as they are written.
Pins = Mapping[str, tuple[str, str]]


class Unmet(NamedTuple):
    """A pin, and the version that can be had in its place."""

    name: str
    version: str
    nearest: str
    has_source: bool
    """Whether it may be built, for minutes and perhaps in vain."""

    @property
    def pin(self) -> str:
        """As it was asked for."""
        return f"{self.name}=={self.version}"


def pinned(requirements: Iterable[str], wheels: Sequence[Path]) -> Pins:
    """The pins of requirements and wheels.

    Of a package with very many pins the first are looked at.
    """
    lines = [*requirements, *(line for wheel in wheels for line in _read_requirements(wheel))]
    pins = {_normal(name): (name, version) for name, version in filter(None, map(_pin, lines))}
    return dict(islice(pins.items(), _PINS_MAX))


def unmet(pins: Pins, index: Index) -> Iterator[Unmet]:
    """The pins that an interpreter cannot have, or only compiled, while it has other versions."""
    if not pins:
        return
    here = _list_installed(index)
    requirements = [f"{name}=={version}" for name, version in pins.values()]
    releases = index.releases(requirements, "--offline") or index.releases(requirements)
    wheels = {release.name for release in releases if release.wheel}
    for key, (name, version) in pins.items():
        if key not in wheels and here.get(key) != version:
            yield from _find_replacement(name, version, here, index)


def _find_replacement(
    name: str, version: str, here: Mapping[str, str], index: Index
) -> Iterator[Unmet]:
    release = nearest(name, version, index)
    if release is None or _meets(release.version, version):
        return
    has_source = index.newest(f"{name}=={version}") is not None
    if not (has_source and release.is_pure):
        yield Unmet(name, version, here.get(_normal(name), release.version), has_source)


def unbuilt(name: str, version: str, index: Index) -> Unmet | None:
    """Return a substitute for a version that does not build from source; None: there is none."""
    release = nearest(name, version, index)
    if release is None or release.wheel is None:
        return None
    return Unmet(name, version, _list_installed(index).get(_normal(name), release.version), True)


def of(name: str, pins: Pins) -> tuple[str, str] | None:
    """The pin of a distribution, however its name is written."""
    return pins.get(_normal(name))


def _meets(candidate: str, version: str) -> bool:
    low = version.removesuffix("*")
    return candidate == version or (version != low and candidate.startswith(low))


def _pin(requirement: str) -> tuple[str, str] | None:
    match = _PIN.fullmatch(requirement.strip())
    return None if match is None else (match[1], match[2])


def _read_requirements(wheel: Path) -> Iterator[str]:
    with zipfile.ZipFile(wheel) as archive:
        names = [n for n in archive.namelist() if n.endswith(".dist-info/METADATA")]
        for name in names[:1]:
            with archive.open(name) as file:
                text = file.read(_METADATA_BYTES_MAX).decode("utf-8", errors="replace")
            for line in text.splitlines():
                if line.startswith(_REQUIRES):
                    yield line.removeprefix(_REQUIRES)


def _list_installed(index: Index) -> dict[str, str]:
    answer = index.ask(["pip", "list", "--quiet", "--format", "json", "--python", index.python])
    try:
        rows = json.loads(answer.text)
        return {_normal(row["name"]): row["version"] for row in rows}
    except (ValueError, TypeError, KeyError):
        return {}


def _normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()
