"""``trainshed serve`` under a clock that a test can set: a program for tests, started by path.

    python stepped_server.py SECONDS.txt serve --data-dir ...

SECONDS.txt says by how much the clock is ahead, for the server, which is a fork of a process that
imported ``stepped_imports``, and for every supervisor that it starts.  The server's chores are done
twice a second: one of them looks at the clock.
"""

import datetime as dt
import sys
from pathlib import Path

from e2e.stepped_time import Shifted
from trainshed.cli.main import main
from trainshed.engines.local.attempts import start
from trainshed.service.upkeep.housekeeping import Housekeeping

_TESTS = str(Path(__file__).parents[1])
_CHORES_S = 0.5


def have_shifted_times():
    """Modules of ours have the class by name, and ask it for the time."""
    for name, module in list(sys.modules.items()):
        if name.startswith("trainshed.") and vars(module).get("datetime") is dt.datetime:
            module.datetime = Shifted


if __name__ == "__main__":
    seconds = sys.argv.pop(1)
    have_shifted_times()
    first = f"import sys; sys.path.insert(0, {_TESTS!r})\n"
    first += f"from e2e.stepped_time import shift; shift({seconds!r})\n"
    start._CODE = first + start._CODE
    Housekeeping.__init__.__defaults__ = (_CHORES_S,)
    sys.exit(main())
