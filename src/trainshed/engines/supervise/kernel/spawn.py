"""Starts a process by fork and exec, which is safe because the supervisor has one thread.

``subprocess`` would cost a megabyte and would wait for each exec in turn.  Here all forks are made
first, and the errors of all come back through one pipe.  The end of the pipe shows that every fork
runs its program or has ended.
"""

import errno
import fcntl
import json
import os
import resource
import signal
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Final, NamedTuple, NoReturn

from trainshed.engines.processes import tree

#: Signals that Python ignores; programs expect their default action.
_RESTORED: Final = (signal.SIGPIPE, signal.SIGXFSZ)

#: The number of the channel's descriptor in a program that gets a channel.
CHANNEL: Final = 3
_STANDARD: Final = 10
_NOT_STARTED: Final = 127
_ABSENT: Final = frozenset({errno.ENOENT, errno.ENOTDIR})


class ProcessSpec(NamedTuple):
    """One process to start, with its whole environment."""

    argv: Sequence[str]
    env: Mapping[str, str]
    cwd: str


class Wiring(NamedTuple):
    """The descriptors that become stdout, stderr and the channel of the process."""

    stdout: int
    stderr: int
    channel: int | None = None


def raise_descriptor_limit() -> tuple[int, int]:
    """Raise this process's limit of descriptors to its maximum; return the limit for programs."""
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    with suppress(OSError, ValueError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (before[1], before[1]))
    return before


def descriptors_left() -> int:
    """Return the number of files that this process may still open."""
    allowed = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    try:
        return allowed - len(os.listdir("/proc/self/fd"))
    except OSError:
        return 0


def fork_exec(  # noqa: PLR0913 - the parts of a process
    command: ProcessSpec,
    wiring: Wiring,
    errors: int,
    *,
    descriptors: tuple[int, int],
    enter: Callable[[], object] = lambda: None,
    number: int = 0,
) -> int:
    """Start a process in its own session and return its pid; the kernel kills it with this process.

    If the program cannot run, the child writes the reason and its ``number`` to ``errors``
    (``StartFault``).  The child calls ``enter`` when its descriptors are in place, before it runs
    the program.  ``descriptors`` is the program's limit of open files, as (soft, hard).  Raises
    OSError if the fork fails.
    """
    parent = os.getpid()
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
    try:
        pid = os.fork()
        if pid == 0:
            _become(command, wiring, errors, descriptors, enter, number, parent)
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
    return pid


class StartFault(NamedTuple):
    """The number of the process that could not be started, and the reason."""

    number: int
    reason: str


def read_fault(data: bytes) -> StartFault:
    """Return the first fault that the children wrote to the pipe."""
    number, reason = json.loads(data.splitlines()[0])
    return StartFault(number, reason)


def _become(  # noqa: PLR0913, PLR0917 - the parameters of fork_exec
    command: ProcessSpec,
    wiring: Wiring,
    errors: int,
    descriptors: tuple[int, int],
    enter: Callable[[], object],
    number: int,
    parent: int,
) -> NoReturn:
    try:
        tree.die_with_parent(parent)
        os.setsid()
        errors = fcntl.fcntl(errors, fcntl.F_DUPFD_CLOEXEC, _STANDARD)
        _wire(wiring)
        enter()
        resource.setrlimit(resource.RLIMIT_NOFILE, descriptors)
        signal.set_wakeup_fd(-1)
        for signum in (*_RESTORED, signal.SIGCHLD, signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            if signal.getsignal(signum) is not signal.SIG_IGN or signum in _RESTORED:
                signal.signal(signum, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_SETMASK, ())
        _run(command)
    except BaseException as error:  # noqa: BLE001 - a fork must not return into its parent's stack
        with suppress(OSError):
            os.write(errors, json.dumps([number, _reason(error, command)]).encode() + b"\n")
    finally:
        os._exit(_NOT_STARTED)


def _wire(wiring: Wiring) -> None:
    devnull = os.open(os.devnull, os.O_RDONLY)
    os.dup2(devnull, 0)
    os.dup2(wiring.stdout, 1)
    os.dup2(wiring.stderr, 2)
    if wiring.channel is not None:
        if wiring.channel == CHANNEL:
            os.set_inheritable(CHANNEL, True)
        else:
            os.dup2(wiring.channel, CHANNEL)


def _run(command: ProcessSpec) -> NoReturn:
    """Change to the working folder, find the program on the PATH of its environment, and run it.

    Raises OSError: the first error that is not "no such file", if there is one.
    """
    os.chdir(command.cwd)
    program = command.argv[0]
    paths = [program]
    if "/" not in program:
        folders = command.env.get("PATH", os.defpath).split(os.pathsep)
        paths = [os.path.join(folder, program) for folder in folders]
    failure: OSError = FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT))
    for path in paths:
        try:
            os.execve(path, list(command.argv), command.env)  # noqa: S606 - the purpose
        except OSError as error:
            if failure.errno in _ABSENT:
                failure = error
    raise OSError(failure.errno, failure.strerror, program)


def _reason(error: BaseException, command: ProcessSpec) -> str:
    if isinstance(error, OSError):
        return f"{error.filename or command.argv[0]}: {error.strerror}"
    return f"{command.argv[0]}: {error}"
