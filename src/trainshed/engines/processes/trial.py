"""Runs modules of Trainshed that test whether this machine supports a feature, with a time limit.

Such a module runs as its own program, and forks for each step that it cannot undo.
"""

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Final, NamedTuple

import trainshed

_LIMIT_S: Final = 30.0
_CODE: Final = (
    "import importlib, sys; sys.path.append(sys.argv[1])\n"
    "sys.exit(importlib.import_module(sys.argv[2]).main(*sys.argv[3:]))"
)


def run_trial(module: str, *words: str) -> str:
    """Run ``main(*words)`` of a module in a new process; return why it failed, or an empty text.

    The reason is the last line of output, of the module or of a program that the module started.
    """
    source = str(Path(trainshed.__file__).parent.parent)
    argv = [sys.executable, "-I", "-S", "-c", _CODE, source, module, *words]
    try:
        done = subprocess.run(  # noqa: S603 - a module of Trainshed
            argv, capture_output=True, text=True, timeout=_LIMIT_S, check=False
        )
    except subprocess.TimeoutExpired:
        return f"the trial did not end within {_LIMIT_S:g} s"
    except OSError as error:
        return str(error)
    if not done.returncode:
        return ""
    output = done.stderr.strip() or done.stdout.strip()  # such as an error of bubblewrap
    default = f"the trial ended with status {done.returncode} and no output"
    return (output.splitlines() or [default])[-1]


class Forked(NamedTuple):
    """The result of a function in a fork."""

    words: str
    """The text that the function returned, or the error that it raised."""
    status: int
    """The exit status of the fork, as ``os.waitstatus_to_exitcode`` returns it."""


def run_forked(act: Callable[[], str]) -> Forked:
    """Call a function in a fork of this process and wait for its end.

    This process must have only one thread.  If ``act`` executes another program, ``words`` of the
    result are empty.
    """
    reader, writer = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            os.write(writer, act().encode())
        except BaseException as error:  # noqa: BLE001 - a fork must not return
            os.write(writer, _describe(error).encode())
        finally:
            os._exit(0)
    os.close(writer)
    with os.fdopen(reader, encoding="utf-8", errors="replace") as file:
        words = file.read()
    return Forked(words, os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))


def _describe(error: BaseException) -> str:
    if isinstance(error, OSError) and error.strerror:
        return f"{error.filename}: {error.strerror}" if error.filename else error.strerror
    return repr(error)
