"""Starts a process that outlives its server, with nothing of the server's own but the environment.

Of that, secrets are left out: what a runner has in its environment, programs of users can read.
"""

import os
import signal
from pathlib import Path
from typing import Final

from trainshed.engines.local.interrupts import ENDING

#: What the server knows and programs of users must not.
_SECRET_VARIABLES: Final = frozenset(
    {
        "CLOUDSDK_AUTH_ACCESS_TOKEN",
        "PGPASSWORD",
        "STORAGE_EMULATOR_HOST",  # carries the token in its path
        "TRAINSHED_DATABASE",
        "TRAINSHED_TOKEN",
    }
)


def spawn(argv: tuple[str, ...], words: Path) -> int:
    """Start a process in a session of its own, with nothing of ours but the environment."""
    append = os.O_WRONLY | os.O_APPEND | os.O_CREAT
    return os.posix_spawn(
        argv[0],
        argv,
        {name: value for name, value in os.environ.items() if name not in _SECRET_VARIABLES},
        file_actions=(
            (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
            (os.POSIX_SPAWN_OPEN, 1, str(words), append, 0o600),
            (os.POSIX_SPAWN_DUP2, 1, 2),
        ),
        setsid=True,
        setsigmask=(),
        setsigdef=(*ENDING, signal.SIGPIPE, signal.SIGCHLD),
    )
