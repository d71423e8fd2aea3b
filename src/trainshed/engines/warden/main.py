"""Runs the archive as a launcher, as a warden, or as the preparer of a node's packages.

warden.pyz attempt FOLDER
warden.pyz task --first N --rank-variable NAME
warden.pyz prepare
"""

import os
import sys
from collections.abc import Sequence
from typing import Final

_USAGE: Final = 2


def main(argv: Sequence[str]) -> int:
    """Run the program that the first argument names; return its exit status."""
    if len(argv) == 2 and argv[0] == "attempt":  # noqa: PLR2004 - the name and a folder
        return _run_attempt(argv[1])
    if argv and argv[0] == "task":
        return _run_task(argv[1:])
    if list(argv) == ["prepare"]:
        from trainshed.engines.warden import prepare  # noqa: PLC0415 - other programs need no packages

        return prepare.main()
    program = argv[0] if argv else "none"
    return _refuse(f"the first argument must be attempt, task or prepare, got {program}")


def _run_attempt(folder: str) -> int:
    from trainshed.engines.supervise import main as supervisor  # noqa: PLC0415 - for a launcher
    from trainshed.engines.warden import teardown  # noqa: PLC0415 - for a launcher

    devnull = os.open(os.devnull, os.O_RDONLY)
    os.dup2(devnull, 0)
    status = supervisor.main(folder, teardown.make)
    from trainshed.engines.warden import hold  # noqa: PLC0415 - used after the attempt

    hold.run_next_attempt(folder)  # does not return if there is a next attempt
    return status


def _run_task(arguments: Sequence[str]) -> int:
    from trainshed.engines.warden import warden  # noqa: PLC0415 - for a warden

    options = dict(zip(arguments[::2], arguments[1::2]))
    try:
        first = int(options.get("--first", "0"))
        rank = int(os.environ[options["--rank-variable"]])
    except (KeyError, ValueError) as error:
        return _refuse(
            f"--first and the variable of --rank-variable must be whole numbers, got {error!r}"
        )
    return warden.main(first + rank)


def _refuse(message: str) -> int:
    sys.stderr.write(f"{message}\n")
    return _USAGE
