"""Finds the Python interpreters of this machine: on PATH, and those of uv, pyenv and conda.

uv itself searches PATH only, where pyenv has placeholders that run no Python, and not the folders
of pyenv and conda.
"""

import os
import subprocess
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Final, NamedTuple

from trainshed.catalog.software import version

_CONDA_FOLDERS: Final = ("miniconda3", "anaconda3", "miniforge3", "mambaforge", "micromamba")
_PYENV_SHIMS: Final = "shims"
_ANSWER_S_MAX: Final = 10.0
_ASK: Final = "import sys; print('%d.%d' % sys.version_info[:2])"


class FoundPython(NamedTuple):
    """An interpreter that runs."""

    version: str
    """The version, such as 3.10."""
    path: str


def find_pythons(environ: Mapping[str, str]) -> list[FoundPython]:
    """Find the interpreters that run; if one file has several names, use the first."""
    pythons: dict[str, FoundPython] = {}
    for path in _candidates(environ):
        real = str(path.resolve())
        if real not in pythons and (answer := _ask_version(path)):
            pythons[real] = FoundPython(answer, str(path))
    return list(pythons.values())


def nearest_python(target: str, pythons: Iterable[FoundPython]) -> FoundPython | None:
    """Return the interpreter with the version nearest to ``target``; of two, the older one."""

    def distance(python: FoundPython) -> tuple[int, int]:
        minor, target_minor = version(python.version)[1], version(target)[1]
        return abs(minor - target_minor), minor

    return min(pythons, key=distance, default=None)


def _candidates(environ: Mapping[str, str]) -> Iterator[Path]:
    home = Path(environ.get("HOME") or Path.home())
    yield from _on_path(environ)
    shared = Path(environ.get("XDG_DATA_HOME") or home / ".local/share")
    uv = Path(environ.get("UV_PYTHON_INSTALL_DIR") or shared / "uv/python")
    yield from sorted(uv.glob("*/bin/python3"))
    pyenv = Path(environ.get("PYENV_ROOT") or home / ".pyenv")
    yield from sorted(pyenv.glob("versions/*/bin/python"))
    for root in _conda_roots(environ, home):
        yield from (root / "bin/python", *sorted(root.glob("envs/*/bin/python")))


def _on_path(environ: Mapping[str, str]) -> Iterator[Path]:
    for folder in map(Path, filter(None, environ.get("PATH", "").split(os.pathsep))):
        if folder.name != _PYENV_SHIMS:
            yield from (folder / "python3", *sorted(folder.glob("python3.[0-9]*[0-9]")))


def _conda_roots(environ: Mapping[str, str], home: Path) -> Iterator[Path]:
    if program := environ.get("CONDA_EXE"):
        yield Path(program).parent.parent
    if prefix := environ.get("CONDA_PREFIX"):
        yield Path(prefix)
    if root := environ.get("MAMBA_ROOT_PREFIX"):
        yield Path(root)
    yield from (home / name for name in _CONDA_FOLDERS)
    yield Path("/opt/conda")


def _ask_version(path: Path) -> str:
    """Return an interpreter's version; empty for a program that does not answer."""
    if not os.access(path, os.X_OK):
        return ""
    try:
        answer = subprocess.run(  # noqa: S603 - an interpreter of this machine
            [str(path), "-I", "-S", "-c", _ASK],
            capture_output=True,
            check=True,
            text=True,
            timeout=_ANSWER_S_MAX,
        )
    except (OSError, ValueError, subprocess.SubprocessError):
        return ""
    return answer.stdout.strip()
