"""Installs the packages of a job; the same content is installed only once.

The packages go into a folder named by their content, and the job gets this folder on PYTHONPATH.
The job keeps the interpreter of its settings, so that this interpreter's torch or TensorFlow is
used and not installed again.

A virtual environment for each job was rejected.  It would hide the interpreter's own frameworks,
or, with system packages visible, those of the virtual environment that the interpreter is in.
"""

import errno
import fcntl
import json
import os
import shutil
import stat
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any, TextIO

from trainshed.engines.environments import content, interpreter, prune, uv
from trainshed.engines.environments.builder import Builder
from trainshed.engines.environments.install import install
from trainshed.engines.environments.interpreter import Interpreter
from trainshed.engines.environments.job_python import JobPython
from trainshed.files.beneath import NOT_A_FILE
from trainshed.files.trees import remove_tree
from trainshed.model.faults import EngineFault
from trainshed.model.launch_plan import Environment

_PRIVATE = 0o700
_OTHERS_WRITE = stat.S_IWGRP | stat.S_IWOTH
_ROOT = 0
_NO_FOLDER = "the packages must be in a folder, but the build has replaced the folder"


def prepare(  # noqa: PLR0913 - the packages, and the settings of their installation
    environment: Environment,
    *,
    cache_dir: Path,
    note: Callable[[str], None],
    bytes_max: int | None = None,
    builder: Builder = Builder(),  # noqa: B008 - a constant
    relaxes: bool = False,
) -> JobPython:
    """Install the packages of a job; if they are installed already, only compute their hash.

    Raises EngineFault when the interpreter cannot run, a package is missing, unreadable or does not
    build, a requirement cannot be met, the disk is full, or another user can write to the cache;
    the cache is then unchanged.  A package may have, and unpack to, at most ``bytes_max`` bytes.
    ``relaxes``: a pin that cannot be met is relaxed, with a note.
    """
    python = shutil.which(environment.python) or environment.python
    if not environment.packages and not environment.requirements:
        return JobPython(python=python)
    facts = _describe(python)
    with _explain_errors(cache_dir):
        cache_dir.mkdir(mode=_PRIVATE, parents=True, exist_ok=True)
        _check_owner(cache_dir)
        ignored = replace(environment, ignored=(*environment.ignored, str(cache_dir)))
        with content.own_copies(ignored, cache_dir, bytes_max) as own:
            identity = f"{facts.identity}{' relaxed' * relaxes}"
            home = cache_dir / content.address(identity, own)
            how = {"builder": builder, "bytes_max": bytes_max, "relaxes": relaxes}
            while (used := _use_environment(home)) is None:
                _install_once(own, facts, home, note, **how)
    return JobPython(python=python, python_path_entries=(str(home),), used=used)


def _use_environment(home: Path) -> TextIO | None:
    """Open the file that protects an environment from removal; None if there is no environment."""
    if home.is_dir():
        _check_owner(home)
        file = prune.use(home)
        if home.is_dir():  # it was not removed before the lock
            return file
        file.close()
    return None


def _check_owner(folder: Path) -> None:
    """Refuse a folder that another user can write to: jobs would run that user's code."""
    facts = folder.stat()
    if facts.st_uid not in {os.getuid(), _ROOT}:
        raise EngineFault(
            f"{folder} must belong to the server's user or root; change its owner, or remove it"
        )
    if facts.st_mode & _OTHERS_WRITE:
        raise EngineFault(f"{folder} can be written by other users; chmod go-w it, or remove it")


def _describe(python: str) -> Interpreter:
    facts: dict[str, Any] = _read_facts(python)
    return Interpreter(python, facts["identity"], facts["version"], facts["builds"])


def _read_facts(python: str) -> dict[str, object]:
    if python == sys.executable and not sys.flags.no_site:
        return interpreter.describe()
    try:
        source = _source_of(interpreter)
        answer = subprocess.run(  # noqa: S603 - the interpreter that the user named
            [python, "-I", "-c", source], capture_output=True, check=True, text=True
        )
        return dict(json.loads(answer.stdout))
    except OSError as error:
        raise EngineFault(f"cannot run the interpreter {python}: {error.strerror}") from error
    except (subprocess.CalledProcessError, ValueError) as error:
        raise EngineFault(f"{python} must be a Python 3 interpreter that works") from error


def _source_of(module: ModuleType) -> str:
    """Return the text of a module, also of one in an archive or behind the loader of pytest."""
    loader: Any = module.__spec__ and module.__spec__.loader
    if hasattr(loader, "get_source"):
        return str(loader.get_source(module.__name__))
    return Path(str(module.__file__)).read_text(encoding="utf-8")


def _install_once(
    environment: Environment,
    python: Interpreter,
    home: Path,
    note: Callable[[str], None],
    **how: Any,
) -> None:
    """Install under a lock into a temporary folder, and rename it when it is complete.

    ``how``: the other arguments of ``install``, and the builder.
    """
    builder = how.pop("builder")
    with _hold_lock(home.with_suffix(".lock"), note), _uv_cache_used(builder.cache(home.parent)):
        if home.is_dir():  # another job was quicker
            return
        partial = home.with_suffix(".partial")
        _remove(partial)  # left by an install that was killed
        try:
            partial.mkdir(mode=_PRIVATE)
            context = uv.UvContext(partial, builder)
            install(environment, python, context, note, **how)
            _take_back(builder, context.target)
            context.target.rename(home)
            _check_is_folder(home)
            (home / ".lock").unlink(missing_ok=True)  # uv's lock file
            with prune.use(home) as used:
                prune.measure(home, used)
        finally:
            _remove(partial)


def _take_back(builder: Builder, target: Path) -> None:
    """Make the server the owner of ``target``.  Raises EngineFault if it is not a folder."""
    try:
        builder.take_back(target)
    except OSError as error:
        if error.errno not in NOT_A_FILE:
            raise
        raise EngineFault(_NO_FOLDER) from None


def _remove(folder: Path) -> None:
    with suppress(OSError):
        remove_tree(folder)


def _check_is_folder(home: Path) -> None:
    """Refuse a link in place of the folder: it may lead to files that the job must not see.

    This check comes after the move to the cache, where no builder can replace it any more.
    """
    if not stat.S_ISDIR(home.lstat().st_mode):
        home.unlink()
        raise EngineFault(_NO_FOLDER)


@contextmanager
def _uv_cache_used(cache: Path | None) -> Iterator[None]:
    """Protect uv's cache of a project from removal during an install, and measure it afterwards."""
    if cache is None:
        yield
        return
    with prune.use(cache) as used:
        yield
        prune.measure(cache, used)


@contextmanager
def _hold_lock(path: Path, note: Callable[[str], None]) -> Iterator[None]:
    """Hold a lock file; if the block fails, the file is removed while it is locked."""
    with _open_locked(path, note):
        try:
            yield
        except BaseException:
            path.unlink(missing_ok=True)
            raise


def _open_locked(path: Path, note: Callable[[str], None]) -> TextIO:
    """Lock the file at a path; if another process removed that file, lock the new file."""
    while True:
        file = path.open("w")
        try:
            _wait_for(file, note)
            if prune.lies_at(file, path):
                return file
        except BaseException:
            file.close()
            raise
        file.close()


def _wait_for(file: TextIO, note: Callable[[str], None]) -> None:
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        note("another job is installing the same packages; waiting for it")
        fcntl.flock(file, fcntl.LOCK_EX)


@contextmanager
def _explain_errors(cache_dir: Path) -> Iterator[None]:
    """Turn errors of the file system into an EngineFault with an explanation."""
    try:
        yield
    except shutil.ReadError as error:
        raise EngineFault(f"not a readable package archive: {error}") from error
    except OSError as error:
        raise EngineFault(_describe_error(error, cache_dir)) from error


def _describe_error(error: OSError, cache_dir: Path) -> str:
    if error.errno in {errno.ENOSPC, errno.EDQUOT}:
        return uv.disk_full(cache_dir)
    return f"cannot prepare the packages: {error.filename}: {error.strerror}"
