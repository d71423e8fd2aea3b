"""Pins of a package that its Python cannot have, and what is taken in their place (R25).

``tensorflow==2.8.0`` of an old ``setup.py`` was never built for the Pythons of today.  What the
interpreter has in another version is the nearest of all: it is there, and fits the rest.
"""

import json
import re
import zipfile
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Final, NamedTuple

from trainshed.engines.local.environments.nearest import Ask, nearest

#: ``name==version`` and no condition: where a pin has one, nobody knows whether it is meant.
_PIN: Final = re.compile(r"([A-Za-z0-9][\w.-]*)\s*(?:\[[^\]]*\])?\s*\(?\s*==\s*([\w.!+*]+)\s*\)?")
_REQUIRES: Final = "Requires-Dist:"
_METADATA_BYTES_MAX: Final = 1 << 20
#: A package says how many it has, and each is asked for by itself.
_PINS_MAX: Final = 64


class Unmet(NamedTuple):
    """A pin, and the version that can be had in its place."""

    name: str
    version: str
    nearest: str

    @property
    def pin(self) -> str:
        """As it was asked for."""
        return f"{self.name}=={self.version}"


def unmet(
    requirements: Iterable[str], wheels: Sequence[Path], python: str, ask: Ask
) -> Iterator[Unmet]:
    """The pins of requirements and wheels that an interpreter cannot have, while it has others.

    Of a package with very many pins the first are looked at.
    """
    wanted = [*requirements, *(line for wheel in wheels for line in _required_by(wheel))]
    pins = dict(filter(None, map(_pin, wanted)))
    here = _installed(python, ask) if pins else {}
    for name, version in islice(pins.items(), _PINS_MAX):
        found = nearest(name, version, python, ask)
        if found is None or not _meets(found, version):
            other = here.get(_normal(name), found)
            if other is not None:
                yield Unmet(name, version, other)


def _meets(found: str, version: str) -> bool:
    low = version.removesuffix("*")
    return found == version or (version != low and found.startswith(low))


def _pin(requirement: str) -> tuple[str, str] | None:
    match = _PIN.fullmatch(requirement.strip())
    return None if match is None else (match[1], match[2])


def _required_by(wheel: Path) -> Iterator[str]:
    with zipfile.ZipFile(wheel) as archive:
        names = [n for n in archive.namelist() if n.endswith(".dist-info/METADATA")]
        for name in names[:1]:
            with archive.open(name) as file:
                text = file.read(_METADATA_BYTES_MAX).decode("utf-8", errors="replace")
            for line in text.splitlines():
                if line.startswith(_REQUIRES):
                    yield line.removeprefix(_REQUIRES)


def _installed(python: str, ask: Ask) -> dict[str, str]:
    answer = ask(["pip", "list", "--quiet", "--format", "json", "--python", python])
    try:
        rows = json.loads(answer.text)
        return {_normal(row["name"]): row["version"] for row in rows}
    except (ValueError, TypeError, KeyError):
        return {}


def _normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()
