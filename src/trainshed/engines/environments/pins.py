"""Finds pins that an interpreter cannot meet, and the versions to install instead.

``tensorflow==2.8.0`` of an old ``setup.py`` was never built for current Pythons.  If the
interpreter has another version of the package, that one replaces it: it fits the other packages.

``pandas==1.4.1`` has only a source, which compiles for minutes and then fails.  The wheels of the
nearest version show whether a package is compiled; a source without compiled code is built.
"""

import json
import re
import zipfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Final, NamedTuple

from trainshed.engines.environments.nearest import Index, nearest

#: ``name==version`` without a condition; pins with a condition are left alone.
_PIN: Final = re.compile(r"([A-Za-z0-9][\w.-]*)\s*(?:\[[^\]]*\])?\s*\(?\s*==\s*([\w.!+*]+)\s*\)?")
_REQUIRES: Final = "Requires-Dist:"
_METADATA_BYTES_MAX: Final = 1 << 20
#: The maximum number of pins to check: a package may have any number, and each needs a run of uv.
_PINS_MAX: Final = 64

#: The name and the version of each pin, as they are written, by the normalized name.
Pins = Mapping[str, tuple[str, str]]


class Unmet(NamedTuple):
    """A pin that cannot be met, and the version that replaces it."""

    name: str
    version: str
    nearest: str
    has_source: bool
    """Whether the pinned version has a source, which may build for minutes and then fail."""

    @property
    def pin(self) -> str:
        """The pin as it was written."""
        return f"{self.name}=={self.version}"


def pinned(requirements: Iterable[str], wheels: Sequence[Path]) -> Pins:
    """Return the pins of requirements and wheels, at most the first ``_PINS_MAX``."""
    lines = [*requirements, *(line for wheel in wheels for line in _read_requirements(wheel))]
    pins = {
        _normalize(name): (name, version) for name, version in filter(None, map(_parse_pin, lines))
    }
    return dict(islice(pins.items(), _PINS_MAX))


def unmet(pins: Pins, index: Index) -> Iterator[Unmet]:
    """Yield the pins without a wheel for this interpreter, each with the nearest other version.

    Skips a pin whose source has no compiled code: uv builds this source.
    """
    if not pins:
        return
    installed = _list_installed(index)
    requirements = [f"{name}=={version}" for name, version in pins.values()]
    releases = index.releases(requirements, "--offline") or index.releases(requirements)
    wheels = {release.name for release in releases if release.wheel}
    for key, (name, version) in pins.items():
        if key not in wheels and installed.get(key) != version:
            yield from _find_replacement(name, version, installed, index)


def _find_replacement(
    name: str, version: str, installed: Mapping[str, str], index: Index
) -> Iterator[Unmet]:
    release = nearest(name, version, index)
    if release is None or _meets(release.version, version):
        return
    has_source = index.newest(f"{name}=={version}") is not None
    if not (has_source and release.is_pure):
        yield Unmet(name, version, installed.get(_normalize(name), release.version), has_source)


def unbuilt(name: str, version: str, index: Index) -> Unmet | None:
    """Return a substitute for a version that does not build from source; None: there is none."""
    release = nearest(name, version, index)
    if release is None or release.wheel is None:
        return None
    return Unmet(name, version, _list_installed(index).get(_normalize(name), release.version), True)


def find_pin(name: str, pins: Pins) -> tuple[str, str] | None:
    """Return the pin of a distribution, by any spelling of its name; None if it has no pin."""
    return pins.get(_normalize(name))


def _meets(candidate: str, version: str) -> bool:
    prefix = version.removesuffix("*")
    return candidate == version or (version != prefix and candidate.startswith(prefix))


def _parse_pin(requirement: str) -> tuple[str, str] | None:
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
        return {_normalize(row["name"]): row["version"] for row in rows}
    except (ValueError, TypeError, KeyError):
        return {}


def _normalize(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()
