"""Stores the packages of the interpreters on the nodes in the spool, as a probe lists them.

A server reads this record: it asks no node for it while a job waits to be judged.  An interpreter
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
        self._signature: tuple[int, int] | None = None
        self._versions: Mapping[str, Mapping[str, str]] = {}

    def look(self) -> None:
        """Read it where it has changed."""
        with suppress(OSError, ValueError, TypeError, KeyError, AttributeError):
            status = os.lstat(self._path)
            signature = (status.st_mtime_ns, status.st_size)
            if signature != self._signature:
                document = json.loads(
                    read_file(PathBeneath.of_file(self._path), bytes_max=_BYTES_MAX)
                )
                self._versions = {
                    str(path): _texts(packages) for path, packages in document["pythons"].items()
                }
                self._signature = signature

    def versions(self, python: str) -> Mapping[str, str]:
        """Versions by distribution, the interpreter's own under ``python``; empty: not known."""
        return self._versions.get(python, {})


def keep(spool: Spool, answer: Mapping[str, Any]) -> None:
    """Keep what a probe's task has found, with when and where.  Raises OSError."""
    pythons = {path: packages for path, packages in _pythons(answer).items() if packages}
    document = {"asked": time.time(), "host": str(answer.get("host", "?")), "pythons": pythons}
    write_json(f"{spool.here}/{_KEPT}", document, durably=True)


def list_pythons(options: SlurmOptions) -> tuple[str, ...]:
    """The interpreters that a probe asks, each once."""
    return tuple(dict.fromkeys((options.python, *options.environments.values())))


def findings(options: SlurmOptions, answer: Mapping[str, Any]) -> Iterator[EngineFinding]:
    """A line for each environment: what it holds, or that the node has none."""
    host, pythons = str(answer.get("host", "?")), _pythons(answer)
    for name, path in options.environments.items():
        versions = pythons.get(path, {})
        words = [f"{package} {versions[package]}" for package in _NAMED if package in versions]
        text = (
            ", ".join([f"Python {versions['python']}", *words])
            if versions
            else f"{host} has no {path}"
        )
        advice = f"install it there, or correct {name} in `environments` of the engine"
        yield EngineFinding(
            f"environment {name}", is_well=bool(versions), found=text, advice=advice
        )


def _pythons(answer: Mapping[str, Any]) -> dict[str, dict[str, str]]:
    pythons = answer.get("pythons")
    tables = pythons.items() if isinstance(pythons, dict) else ()
    return {str(path): _texts(table) for path, table in tables if isinstance(table, dict)}


def _texts(table: Any) -> dict[str, str]:
    return {str(name): str(text) for name, text in table.items()}
