"""Starts supervisors, which outlive their server and have nothing of it but the environment.

Of that, secrets are left out: what a supervisor has in its environment, programs of users can read.
"""

import os
import signal
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import trainshed
from trainshed.engines.local.attempts.folder import AttemptFolder

#: Signals that a supervisor is to hear, whatever its parent ignores.
_DEFAULT: Final = (
    signal.SIGINT,
    signal.SIGTERM,
    signal.SIGHUP,
    signal.SIGPIPE,
    signal.SIGCHLD,
)

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

#: Isolated, and without the packages of the interpreter: the standard library and our own source.
_FLAGS: Final = ("-I", "-S", "-c")
_CODE: Final = (
    "import sys; sys.path.append(sys.argv[1])\n"
    "from trainshed.engines.local.supervise.main import main\n"
    "sys.exit(main(sys.argv[2]))"
)


def replica_base_env() -> dict[str, str]:
    """What the environment of supervisors and replicas begins with: ours without its secrets."""
    return {name: value for name, value in os.environ.items() if name not in _SECRET_VARIABLES}


def supervisor_argv(folder: AttemptFolder) -> tuple[str, ...]:
    """The command of the supervisor of a folder; the folder is its last word."""
    source = str(Path(trainshed.__file__).parent.parent)
    return (sys.executable, *_FLAGS, _CODE, source, folder.path)


def spawn(
    argv: tuple[str, ...], env: Mapping[str, str], words: str, tether: int | None = None
) -> int:
    """Start a process in a session of its own; its pid.  Raises OSError.

    ``tether`` is the descriptor of a command that it is to end with (``supervise.tether``).
    """
    nothing = (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0)
    append = os.O_WRONLY | os.O_APPEND | os.O_CREAT
    return os.posix_spawn(
        argv[0],
        argv,
        env,
        file_actions=(
            nothing if tether is None else (os.POSIX_SPAWN_DUP2, tether, 0),
            (os.POSIX_SPAWN_OPEN, 1, words, append, 0o600),
            (os.POSIX_SPAWN_DUP2, 1, 2),
        ),
        setsid=True,
        setsigmask=(),
        setsigdef=_DEFAULT,
    )
