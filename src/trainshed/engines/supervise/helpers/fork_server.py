"""Forks supervisors from one process that has imported their modules in advance.

Imports were two thirds of the cost of a supervisor and delayed a job's first line.  The process has
one thread and the environment of a supervisor, and no data of any job; its stdin is its channel to
the server.  Each supervisor gets its own session and its own standard files.

The fork server ends with its server, so that no old code or old settings remain in use; the
supervisors that it has forked continue.  It imports all modules that a supervisor may need later,
because an upgrade may replace their files by those of another version.
"""

import ctypes
import gc
import json
import os
import signal
import sys
from collections.abc import Callable
from contextlib import suppress
from typing import Final, NoReturn

from trainshed.engines.isolation import landlock, none, sandbox, users
from trainshed.engines.processes import identity
from trainshed.engines.processes.identity import Identity
from trainshed.engines.processes.tree import stat_fields
from trainshed.engines.supervise import control, own_modules
from trainshed.engines.supervise.helpers import preparer
from trainshed.engines.supervise.network import join as network
from trainshed.engines.supervise.record import gpu_file
from trainshed.engines.supervise.record.folder import AttemptFolder
from trainshed.engines.supervise.record.spec import FORK_SERVER, SUPERVISOR
from trainshed.engines.supervise.watch import watch_metrics
from trainshed.model import advice, missing_modules, severity

#: Modules imported in advance for the code that imports them when it runs.
IMPORTED: Final = (
    advice,
    missing_modules,
    own_modules,
    control,
    gpu_file,
    landlock,
    network,
    none,
    preparer,
    sandbox,
    severity,
    users,
    watch_metrics,
)

#: A request is the path of a folder, which is shorter.
_REQUEST_BYTES_MAX: Final = 1 << 13
_CHANNEL: Final = 0
_APPEND: Final = os.O_WRONLY | os.O_APPEND | os.O_CREAT
_PRIVATE_FILE: Final = 0o600
_FAILED: Final = 1
#: Fields 48 and 49 of /proc/PID/stat (proc(5)), counted from the closing bracket of the command.
_ARGUMENTS: Final = slice(48 - 3, 50 - 3)


def serve(supervise: Callable[[str], int]) -> int:
    """Fork a supervisor for each requested folder, until the channel closes; return 0.

    Answer each request with the identity of the supervisor, or with an errno.  Each supervisor
    calls ``supervise`` with the path of its folder, and ends with the returned status.
    """
    signal.signal(signal.SIGCHLD, _collect)
    gc.collect()
    gc.freeze()  # a collection in a fork would write to shared pages, and so copy them
    while request := _read_request():
        try:
            answer: tuple[object, ...] = _fork_supervisor(
                AttemptFolder(os.fsdecode(request)), supervise
            )
        except OSError as error:
            answer = (error.errno,)
        with suppress(ConnectionError):
            os.write(_CHANNEL, json.dumps(answer).encode())
    return 0


def _read_request() -> bytes:
    with suppress(ConnectionError):
        return os.read(_CHANNEL, _REQUEST_BYTES_MAX)
    return b""


def _collect(*_: object) -> None:
    with suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass


def _fork_supervisor(folder: AttemptFolder, supervise: Callable[[str], int]) -> Identity:
    """Fork a supervisor and return its identity.  Raises OSError."""
    stderr = os.open(folder.words, _APPEND | os.O_CLOEXEC, _PRIVATE_FILE)
    # collect no child before its identity is read
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGCHLD})
    try:
        pid = os.fork()
        if pid == 0:
            _become(folder.path, stderr, supervise)
        return identity.read_identity(pid)
    finally:
        os.close(stderr)
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)


def _become(folder: str, stderr: int, supervise: Callable[[str], int]) -> NoReturn:
    status = _FAILED
    try:
        os.setsid()
        os.dup2(os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC), _CHANNEL)
        os.dup2(stderr, 1)
        os.dup2(stderr, 2)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_SETMASK, ())
        _rename()
        status = supervise(folder)
    except BaseException:  # noqa: BLE001 - a fork must not return into its parent's stack
        sys.excepthook(*sys.exc_info())
    finally:
        os._exit(status)


def _rename() -> None:
    """Replace the last argument of the command line, so that ``ps`` shows a supervisor."""
    start, end = map(int, stat_fields(os.getpid())[_ARGUMENTS])
    command = ctypes.string_at(start, end - start).rstrip(b"\0")
    old, new = FORK_SERVER.encode(), SUPERVISOR.encode()
    if command.endswith(b"\0" + old):
        ctypes.memmove(start + len(command) - len(old), new.ljust(len(old), b"\0"), len(old))
