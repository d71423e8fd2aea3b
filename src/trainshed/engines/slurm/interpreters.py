"""What the interpreters on the nodes hold, as a probe has found it; kept in the spool.

A server reads what is kept: it asks no node for it while a job waits to be judged.  An interpreter
that no probe has asked is not known, as one that the table has got since.
"""

import json
import os
import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import Any, Final

from trainshed.engines.base import EngineFinding
from trainshed.engines.slurm.options import SlurmOptions
from trainshed.engines.slurm.spool import Spool
from trainshed.engines.supervise.record.folder import read_file, write_json
from trainshed.files.beneath import PathBeneath

_KEPT: Final = "interpreters.json"
_BYTES_MAX: Final = 1 << 22
_NAMED: Final = ("torch", "tensorflow", "jax", "scikit-learn", "xgboost")


class Interpreters:
    """What is kept, from memory."""

    def __init__(self, spool: Spool) -> None:
        """Nothing is read yet."""
        self._path = f"{spool.here}/{_KEPT}"
        self._seen: tuple[int, int] | None = None
        self._found: Mapping[str, Mapping[str, str]] = {}

    def look(self) -> None:
        """Read it where it has changed."""
        with suppress(OSError, ValueError, TypeError, KeyError, AttributeError):
            status = os.lstat(self._path)
            seen = (status.st_mtime_ns, status.st_size)
            if seen != self._seen:
                kept = json.loads(read_file(PathBeneath.of_file(self._path), bytes_max=_BYTES_MAX))
                self._found = {str(path): _texts(each) for path, each in kept["pythons"].items()}
                self._seen = seen

    def versions(self, python: str) -> Mapping[str, str]:
        """Versions by distribution, the interpreter's own under ``python``; empty: not known."""
        return self._found.get(python, {})


def keep(spool: Spool, answer: Mapping[str, Any]) -> None:
    """Keep what a probe's task has found, with when and where.  Raises OSError."""
    pythons = {path: each for path, each in _pythons(answer).items() if each}
    kept = {"asked": time.time(), "host": str(answer.get("host", "?")), "pythons": pythons}
    write_json(f"{spool.here}/{_KEPT}", kept, durably=True)


def asked(options: SlurmOptions) -> tuple[str, ...]:
    """The interpreters that a probe asks, each once."""
    return tuple(dict.fromkeys((options.python, *options.environments.values())))


def findings(options: SlurmOptions, answer: Mapping[str, Any]) -> Iterator[EngineFinding]:
    """A line for each environment: what it holds, or that the node has none."""
    host, pythons = str(answer.get("host", "?")), _pythons(answer)
    for name, path in options.environments.items():
        held = pythons.get(path, {})
        words = [f"{each} {held[each]}" for each in _NAMED if each in held]
        text = ", ".join([f"Python {held['python']}", *words]) if held else f"{host} has no {path}"
        advice = f"install it there, or correct {name} in `environments` of the engine"
        yield EngineFinding(f"environment {name}", is_well=bool(held), found=text, advice=advice)


def _pythons(answer: Mapping[str, Any]) -> dict[str, dict[str, str]]:
    found = answer.get("pythons")
    tables = found.items() if isinstance(found, dict) else ()
    return {str(path): _texts(each) for path, each in tables if isinstance(each, dict)}


def _texts(found: Any) -> dict[str, str]:
    return {str(name): str(text) for name, text in found.items()}
