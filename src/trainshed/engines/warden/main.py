"""What the archive is asked to be: a launcher, a warden, or what prepares the packages of a node.

warden.pyz attempt FOLDER
warden.pyz task --first N --rank-variable NAME
"""

import os
import sys
from collections.abc import Sequence
from typing import Final

_USAGE: Final = 2


def main(argv: Sequence[str]) -> int:
    """Be what the first word says."""
    if len(argv) == 2 and argv[0] == "attempt":  # noqa: PLR2004 - a word and a folder
        return _attempt(argv[1])
    if argv and argv[0] == "task":
        return _task(argv[1:])
    if list(argv) == ["prepare"]:
        from trainshed.engines.warden import prepare  # noqa: PLC0415 - imports much

        return prepare.main()
    return _wrong("the first word is attempt or task")


def _attempt(folder: str) -> int:
    from trainshed.engines.supervise import main as supervisor  # noqa: PLC0415 - a warden has none
    from trainshed.engines.warden import teardown  # noqa: PLC0415 - see above

    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    status = supervisor.main(folder, teardown.make)
    from trainshed.engines.warden import hold  # noqa: PLC0415 - the attempt is over

    hold.go_on(folder)  # it does not come back where another attempt follows here
    return status


def _task(words: Sequence[str]) -> int:
    from trainshed.engines.warden import warden  # noqa: PLC0415 - a launcher has none

    options = dict(zip(words[::2], words[1::2]))
    try:
        first = int(options.get("--first", "0"))
        rank = int(os.environ[options["--rank-variable"]])
    except (KeyError, ValueError) as error:
        return _wrong(f"the place of this task is not known: {error}")
    return warden.main(first + rank)


def _wrong(why: str) -> int:
    sys.stderr.write(f"{why}\n")
    return _USAGE
