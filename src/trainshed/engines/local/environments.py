"""Makes the packages of a job importable, once: the same content never installs twice.

The packages go into a folder of their own, named by content, that is put on PYTHONPATH; the
interpreter stays the caller's, so that its torch or TensorFlow are seen and not installed again.

A virtual environment per job was the alternative.  It would hide the interpreter's own frameworks,
or, with system packages visible, hide those of a virtual environment that we run in.
"""

import errno
import fcntl
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from trainshed.engines.local import content, installing, interpreter, uv
from trainshed.model.faults import EngineFault
from trainshed.model.launch_plan import Environment


@dataclass(frozen=True, slots=True, kw_only=True)
class Prepared:
    """An interpreter, and what to put in front of its import path."""

    python: str
    python_path_entries: tuple[str, ...] = ()


def default_cache_dir() -> Path:
    """Where environments are kept: ``trainshed/environments`` in the user's cache directory."""
    home = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    return Path(home) / "trainshed" / "environments"


def prepare(environment: Environment, *, cache_dir: Path, note: Callable[[str], None]) -> Prepared:
    """Have the packages of a job installed; a second time this only computes their address.

    Raises EngineFault when the interpreter cannot run, a package is missing, unreadable or does not
    build, a requirement cannot be had, or the disk is full; the cache is then as it was.
    """
    python = shutil.which(environment.python) or environment.python
    if not environment.packages and not environment.requirements:
        return Prepared(python=python)
    facts = _facts(python)
    with _explained(cache_dir):
        environment = replace(environment, ignored=(*environment.ignored, str(cache_dir)))
        home = cache_dir / content.address(str(facts["identity"]), environment)
        if not home.is_dir():
            cache_dir.mkdir(parents=True, exist_ok=True)
            _install_once(environment, python, home, note, builds=bool(facts["builds"]))
    return Prepared(python=python, python_path_entries=(str(home),))


def _facts(python: str) -> dict[str, object]:
    if python == sys.executable:
        return interpreter.describe()
    script = str(Path(interpreter.__file__))
    try:
        answer = subprocess.run(  # noqa: S603 - the interpreter that the user named
            [python, "-I", script], capture_output=True, check=True, text=True
        )
        return dict(json.loads(answer.stdout))
    except OSError as error:
        raise EngineFault(f"cannot run the interpreter {python}: {error.strerror}") from error
    except (subprocess.CalledProcessError, ValueError) as error:
        raise EngineFault(f"{python} does not answer as a Python 3 interpreter does") from error


def _install_once(
    environment: Environment,
    python: str,
    home: Path,
    note: Callable[[str], None],
    *,
    builds: bool,
) -> None:
    """Install under a lock, beside the final place, and move there only what is complete."""
    with _locked(home.with_suffix(".lock"), note):
        if home.is_dir():  # another job was quicker
            return
        partial = home.with_suffix(".partial")
        shutil.rmtree(partial, ignore_errors=True)  # of an install that was killed
        try:
            partial.mkdir()
            installing.install(environment, python, partial, note, builds=builds)
            (partial / installing.TARGET).rename(home)
        finally:
            shutil.rmtree(partial, ignore_errors=True)


@contextmanager
def _locked(path: Path, note: Callable[[str], None]) -> Iterator[None]:
    with path.open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            note("another job is installing the same packages; waiting for it")
            fcntl.flock(file, fcntl.LOCK_EX)
        yield


@contextmanager
def _explained(cache_dir: Path) -> Iterator[None]:
    """Turn what the file system refuses into a sentence."""
    try:
        yield
    except shutil.ReadError as error:
        raise EngineFault(f"not a readable package archive: {error}") from error
    except OSError as error:
        raise EngineFault(_sentence(error, cache_dir)) from error


def _sentence(error: OSError, cache_dir: Path) -> str:
    if error.errno in {errno.ENOSPC, errno.EDQUOT}:
        return uv.disk_full(cache_dir)
    return f"cannot prepare the packages: {error.filename}: {error.strerror}"
