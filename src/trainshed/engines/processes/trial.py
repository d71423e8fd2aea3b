"""Runs a module of ours as a program that tries what this machine allows, within a time limit."""

import subprocess
import sys
from pathlib import Path
from typing import Final

import trainshed

_LIMIT_S: Final = 30.0
_CODE: Final = (
    "import importlib, sys; sys.path.append(sys.argv[1])\n"
    "sys.exit(importlib.import_module(sys.argv[2]).main(*sys.argv[3:]))"
)


def run_trial(module: str, *words: str) -> str:
    """Call ``main`` of a module with some words; return why it failed, or nothing.

    The reason is the last line that the program, or one that it started, has written.
    """
    source = str(Path(trainshed.__file__).parent.parent)
    argv = [sys.executable, "-I", "-S", "-c", _CODE, source, module, *words]
    try:
        done = subprocess.run(  # noqa: S603 - ourselves
            argv, capture_output=True, text=True, timeout=_LIMIT_S, check=False
        )
    except subprocess.TimeoutExpired:
        return f"the trial did not end within {_LIMIT_S:g} s"
    except OSError as error:
        return str(error)
    if not done.returncode:
        return ""
    output = done.stderr.strip() or done.stdout.strip()  # bubblewrap says what it misses
    return (output.splitlines() or ["no answer"])[-1]
