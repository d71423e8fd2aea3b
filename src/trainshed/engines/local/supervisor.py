"""The small process between launcher and replicas: it starts them, waits for them, ends them.

It is a fork of the launcher, in a session of its own, and nothing else is its child.  It adopts
orphans, so "I have no children" means "nothing of the job is left", whatever a trainer forked.

Three deaths are covered.  The launcher's: the channel ends, everything is killed.  The
supervisor's: the kernel kills the replicas (PDEATHSIG) and hands their children to the launcher,
which sweeps them.  Both at once: the replicas die, and the next launcher empties the cgroup leaf.

Order of ending: SIGTERM to every process group and every other descendant, a time of grace until
nothing is left, then ``cgroup.kill`` and SIGKILL to descendants until nothing is left.
"""

import gc
import os
import selectors
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import NoReturn

from trainshed.engines.local.interrupts import ignore_in_supervisor
from trainshed.engines.local.messages import Exited, Finished, Message, Started, StartFailed, encode
from trainshed.engines.local.processes import linux, tree
from trainshed.engines.local.processes.cgroup import Box

KILL = b"kill\n"
_SWEEP_EVERY_S = 0.02
_UNKILLABLE_S = 10.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Command:
    """One process to start, with the whole of its environment."""

    argv: tuple[str, ...]
    env: Mapping[str, str]
    cwd: str | None = None


@dataclass(frozen=True, slots=True)
class Outputs:
    """The descriptors that become a process's stdout and stderr."""

    stdout: int
    stderr: int


def stop_order(grace_s: float) -> bytes:
    """The order to stop everything, with so many seconds of grace."""
    return f"stop {grace_s}\n".encode()


def supervise(
    title: str,
    commands: Sequence[Command],
    outputs: Sequence[Outputs],
    channel: socket.socket,
    leaf: Box | None,
) -> NoReturn:
    """Be the supervisor; to be called in a fresh fork, which it ends."""
    code = os.EX_SOFTWARE
    try:
        os.setsid()
        linux.show_as(title)
        linux.adopt_orphans(True)
        gc.freeze()  # the collector would touch, and so copy, the pages shared with the launcher
        supervisor = _Supervisor(channel, leaf, ignore_in_supervisor())
        supervisor.start(commands, outputs)
        supervisor.serve()
        code = os.EX_OK
    except BaseException:  # noqa: BLE001 - a fork must not return into the launcher's stack
        sys.excepthook(*sys.exc_info())
    finally:
        os._exit(code)


class _Supervisor:
    def __init__(self, channel: socket.socket, leaf: Box | None, wake: socket.socket) -> None:
        self._channel = channel
        self._leaf = leaf
        self._wake = wake
        self._living: dict[int, tuple[int, float]] = {}
        """By pid: the index of the replica and when it was started."""
        self._stopped: set[int] = set()
        self._kill_at: float | None = None
        self._give_up_at: float | None = None
        self._orders = b""

    def start(self, commands: Sequence[Command], outputs: Sequence[Outputs]) -> None:
        """Start all commands, or kill what was started and say which one failed."""
        self._enter_leaf()
        for index, command in enumerate(commands):
            try:
                pid = _spawn(command, outputs[index])
            except (OSError, ValueError, subprocess.SubprocessError) as error:
                self._tell([StartFailed(index=index, reason=_reason(error, command))])
                self._begin_kill()
                break
            self._living[pid] = (index, time.monotonic())
        else:
            self._tell([Started()])
        for pair in outputs:
            os.close(pair.stdout)
            os.close(pair.stderr)
        self._leave_leaf()

    def serve(self) -> None:
        """Wait, obey and report until no process is left."""
        selector = selectors.DefaultSelector()
        selector.register(self._wake, selectors.EVENT_READ, self._hear_child)
        selector.register(self._channel, selectors.EVENT_READ, partial(self._hear_order, selector))
        while self._reap() and not self._gave_up():
            for key, _ in selector.select(self._timeout()):
                key.data()
            self._press()
        if self._leaf is not None:
            self._leaf.remove()
        self._tell([Finished(left=tuple(pid for _, pid in tree.descendants(os.getpid())))])

    def _enter_leaf(self) -> None:
        if self._leaf is not None:
            try:
                self._leaf.enter()
            except OSError:
                self._leaf = None

    def _leave_leaf(self) -> None:
        if self._leaf is not None:
            try:
                self._leaf.leave()
            except OSError:  # a kill of the leaf would now kill the supervisor
                self._leaf = None

    def _hear_child(self) -> None:
        with suppress(BlockingIOError):
            self._wake.recv(4096)

    def _hear_order(self, selector: selectors.BaseSelector) -> None:
        try:
            data = self._channel.recv(4096)
        except ConnectionError:
            data = b""
        if not data:  # the launcher is gone
            selector.unregister(self._channel)
            data = KILL
        *orders, self._orders = (self._orders + data).split(b"\n")
        for word, *rest in (order.split() for order in orders):
            if word == b"stop":
                self._begin_stop(float(rest[0]))
            else:
                self._begin_kill()

    def _begin_stop(self, grace_s: float) -> None:
        if self._kill_at is not None:
            return
        self._kill_at = time.monotonic() + grace_s
        self._stopped |= set(self._living)
        me = os.getpid()
        listed = list(tree.descendants(me))
        for pid in self._living:
            with suppress(OSError):
                os.killpg(pid, signal.SIGTERM)
                os.killpg(pid, signal.SIGCONT)  # one that was suspended hears it too
        tree.send_to_all(listed, me, signal.SIGTERM, except_groups=self._living)

    def _begin_kill(self) -> None:
        self._kill_at = time.monotonic()
        self._stopped |= set(self._living)

    def _press(self) -> None:
        """Kill whatever is left, again and again, once the grace is over."""
        now = time.monotonic()
        if self._kill_at is None or now < self._kill_at:
            return
        self._give_up_at = self._give_up_at or now + _UNKILLABLE_S
        self._stopped |= set(self._living)
        if self._leaf is not None:
            self._leaf.kill()
        me = os.getpid()
        tree.send_to_all(list(tree.descendants(me)), me, signal.SIGKILL)
        for pid in self._living:
            with suppress(OSError):
                os.killpg(pid, signal.SIGKILL)

    def _timeout(self) -> float | None:
        if self._kill_at is None:
            return None
        return max(_SWEEP_EVERY_S, self._kill_at - time.monotonic())

    def _gave_up(self) -> bool:
        return self._give_up_at is not None and time.monotonic() > self._give_up_at

    def _reap(self) -> bool:
        """Collect and report every child that has ended; False when no child is left."""
        ended: list[Message] = []
        any_left = True
        while any_left:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                any_left = False
                break
            if pid == 0:
                break
            if pid in self._living:
                ended.append(self._exited(pid, status))
        self._tell(ended)
        return any_left

    def _exited(self, pid: int, status: int) -> Exited:
        index, since = self._living.pop(pid)
        seconds = time.monotonic() - since
        return Exited(index=index, status=status, seconds=seconds, stopped=pid in self._stopped)

    def _tell(self, messages: Sequence[Message]) -> None:
        with suppress(OSError):  # the launcher is gone; the channel says so to the loop
            self._channel.sendall(encode(messages))


def _spawn(command: Command, outputs: Outputs) -> int:
    process = subprocess.Popen(  # noqa: S603 - running the user's program is the purpose
        command.argv,
        env=command.env,
        cwd=command.cwd,
        stdin=subprocess.DEVNULL,
        stdout=outputs.stdout,
        stderr=outputs.stderr,
        start_new_session=True,
        preexec_fn=partial(  # noqa: PLW1509 - the supervisor has one thread
            linux.die_with_parent, os.getpid()
        ),
    )
    process.returncode = 0  # reaped by the supervisor, not by this object
    return process.pid


def _reason(error: Exception, command: Command) -> str:
    if isinstance(error, OSError):
        return f"{error.filename or command.argv[0]}: {error.strerror}"
    return f"{command.argv[0]}: {error}"
