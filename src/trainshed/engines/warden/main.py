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
        from trainshed.engines.warden import prepare  # noqa: PLC0415 - imports much

        return prepare.main()
    first = argv[0] if argv else "none"
    return _refuse(f"the first argument must be attempt, task or prepare, got {first}")


def _run_attempt(folder: str) -> int:
    from trainshed.engines.supervise import main as supervisor  # noqa: PLC0415 - a warden has none
    from trainshed.engines.warden import teardown  # noqa: PLC0415 - see above

    devnull = os.open(os.devnull, os.O_RDONLY)
    os.dup2(devnull, 0)
    status = supervisor.main(folder, teardown.make)
    from trainshed.engines.warden import hold  # noqa: PLC0415 - the attempt is over

    hold.run_next_attempt(folder)  # does not return if there is a next attempt
    return status


def _run_task(arguments: Sequence[str]) -> int:
    from trainshed.engines.warden import warden  # noqa: PLC0415 - a launcher has none

    options = dict(zip(arguments[::2], arguments[1::2]))
    try:
        first = int(options.get("--first", "0"))
        rank = int(os.environ[options["--rank-variable"]])
    except (KeyError, ValueError) as error:
        return _refuse(f"cannot read the rank of this task: {error!r}")
    return warden.main(first + rank)


def _refuse(why: str) -> int:
    sys.stderr.write(f"{why}\n")
    return _USAGE
