"""Stores lists of the packages of the nodes' interpreters in the spool, from the last probe.

The server reads these lists, and so runs nothing on a node while it judges a job.  The packages of
an interpreter that was added to the configuration after the last probe are unknown.
"""

import json
import os
import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import Any, Final

from trainshed.engines.base import EngineFinding
from trainshed.engines.slurm.options import SlurmOptions
from trainshed.engines.spool import Spool
from trainshed.engines.supervise.record.folder import read_file, write_json
from trainshed.files.beneath import PathBeneath

_FILE_NAME: Final = "interpreters.json"
_BYTES_MAX: Final = 1 << 22
_MAIN_PACKAGES: Final = ("torch", "tensorflow", "jax", "scikit-learn", "xgboost")


class Interpreters:
    """The stored packages, cached in memory."""

    def __init__(self, spool: Spool) -> None:
        """Remember the path of the record; ``reload`` reads it."""
        self._path = f"{spool.server_path}/{_FILE_NAME}"
        self._signature: tuple[int, int] | None = None
        self._versions: Mapping[str, Mapping[str, str]] = {}

    def reload(self) -> None:
        """Read the record again if it has changed."""
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
        """Return versions by distribution, that of Python as ``python``; empty: unknown."""
        return self._versions.get(python, {})


def keep(spool: Spool, answer: Mapping[str, Any]) -> None:
    """Store the packages in the answer of a probe, with time and node.  Raises OSError."""
    pythons = {path: packages for path, packages in _pythons(answer).items() if packages}
    document = {"asked": time.time(), "host": str(answer.get("host", "?")), "pythons": pythons}
    write_json(f"{spool.server_path}/{_FILE_NAME}", document, durably=True)


def list_pythons(options: SlurmOptions) -> tuple[str, ...]:
    """List the interpreters that a probe runs, without duplicates."""
    return tuple(dict.fromkeys((options.python, *options.environments.values())))


def findings(options: SlurmOptions, answer: Mapping[str, Any]) -> Iterator[EngineFinding]:
    """Yield a finding for each environment: its main packages, or that it is missing."""
    host, pythons = str(answer.get("host", "?")), _pythons(answer)
    for name, path in options.environments.items():
        versions = pythons.get(path, {})
        words = [
            f"{package} {versions[package]}" for package in _MAIN_PACKAGES if package in versions
        ]
        text = (
            ", ".join([f"Python {versions['python']}", *words])
            if versions
            else f"{host} has no {path}"
        )
        advice = f"install {path} on the nodes, or correct {name} in `environments` of the engine"
        yield EngineFinding(
            f"environment {name}", is_well=bool(versions), found=text, advice=advice
        )


def _pythons(answer: Mapping[str, Any]) -> dict[str, dict[str, str]]:
    pythons = answer.get("pythons")
    tables = pythons.items() if isinstance(pythons, dict) else ()
    return {str(path): _texts(table) for path, table in tables if isinstance(table, dict)}


def _texts(table: Any) -> dict[str, str]:
    return {str(name): str(text) for name, text in table.items()}
