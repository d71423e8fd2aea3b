"""The network of an attempt while its supervisor lives: namespaces, and the way out of their hub.

The descriptors that are held here are all that keeps the namespaces, and slirp4netns ends with the
supervisor: nothing is left to be cleared up.
"""

import os
import resource
from collections.abc import Callable, Collection
from typing import Final

from trainshed.engines.network.namespaces import (
    Hub,
    Namespaces,
    change_host_name,
    enter_namespace,
    make_namespaces,
)
from trainshed.engines.network.netlink import tells_default_route
from trainshed.engines.network.rule import NetworkRule
from trainshed.engines.network.way_out import (
    PROGRAM,
    START_S_MAX,
    TUN,
    find_program,
    way_out_command,
)
from trainshed.engines.processes import tree
from trainshed.engines.supervise.helper import Helper
from trainshed.engines.supervise.loop import Children, Loop, Timer

_FIRST_PAUSE_S: Final = 0.1
_PAUSE_S_MAX: Final = 60.0
_MESSAGE_BYTES_MAX: Final = 1 << 16
_NOT_INSTALLED: Final = f"{PROGRAM} is not installed (apt install {PROGRAM})"
_NO_TUN: Final = f"{TUN} cannot be opened by the user of the server, as {PROGRAM} must"
_TRIED_AGAIN: Final = (
    f"Its connections are cut; {PROGRAM} is started again, at most {_PAUSE_S_MAX:g} s later."
)

#: Writes a sentence to the job's log, with its severity.
Note = Callable[[str, str], object]


class AttemptNetwork:
    """The namespaces of one attempt and the process that carries packets out of them."""

    def __init__(self, rule: NetworkRule, loop: Loop, children: Children, note: Note) -> None:
        """Make nothing yet."""
        self._rule = rule
        self._spaces: Namespaces | None = None
        self._way_out = _WayOut(loop, children, note)

    def make(self) -> None:
        """Make the namespaces and start the way out.  Raises OSError with what failed."""
        self._spaces = make_namespaces(
            self._rule, owns_user=os.geteuid() != 0, on_hub=self._way_out.start
        )

    @property
    def is_made(self) -> bool:
        """Whether the namespaces are there."""
        return self._spaces is not None

    @property
    def is_ready(self) -> bool:
        """Whether packets pass, or wait for the way out to take them."""
        return self._way_out.is_ready

    @property
    def fault(self) -> str:
        """Why the way out could not be started; empty if it was, or is being started."""
        return self._way_out.fault

    @property
    def processes(self) -> Collection[int]:
        """Children of this process that are the network's, and outlive the replicas."""
        return self._way_out.processes

    @property
    def listeners(self) -> tuple[tuple[int, ...], ...]:
        """Descriptors of the sockets of ``NetworkRule.listeners``: one row a namespace.

        There is a row for each replica where they have namespaces of their own, else one; the last
        row is that of the hub.
        """
        if self._spaces is None:
            return ()
        return tuple(space.listeners for space in (*self._spaces.replicas, self._spaces.hub))

    def enter_replica(self, index: int, host_name: str = "") -> None:
        """Have the calling process, a fresh fork, be in the network of a replica.

        It gets a host name of its own if there is one.  Raises OSError.
        """
        if self._spaces is not None:
            enter_namespace(self._spaces.user, self._spaces.of_replica(index).net)
            if host_name:
                change_host_name(host_name)

    def enter_hub(self) -> None:
        """Have the calling process, a fresh fork, be in the hub.  Raises OSError."""
        if self._spaces is not None:
            enter_namespace(self._spaces.user, self._spaces.hub.net)

    def expect_end(self) -> None:
        """Start the way out no more: what kills the replicas may kill it."""
        self._way_out.is_ending = True

    def close_when_alone(self) -> None:
        """End the way out if no other process of the attempt lives."""
        own = self.processes
        below = (child for _, child in tree.descendants(os.getpid()))
        if own and not tree.living(child for child in below if child not in own):
            self._way_out.kill()


class _WayOut:
    """One slirp4netns at a time; one that ends while the job runs is replaced, with a warning."""

    def __init__(self, loop: Loop, children: Children, note: Note) -> None:
        self._loop = loop
        self._children = children
        self._note = note
        self._helper: Helper | None = None
        self._limit: Timer | None = None
        self._exits = -1
        self._pause_s = _FIRST_PAUSE_S
        self._last_words = ""
        self._last_fault = ""
        self._was_ready = False
        self._hub = Hub(None, -1, -1)
        self.is_ready = False
        self.is_ending = False
        self.fault = ""

    @property
    def processes(self) -> Collection[int]:
        return (self._helper.pid,) if self._helper is not None and self._helper.pid else ()

    def start(self, hub: Hub) -> None:
        """Start it for a hub."""
        self._hub = hub
        self._start()

    def kill(self) -> None:
        """End it for good."""
        self.is_ending = True
        if self._helper is not None:
            self._helper.kill()

    def _start(self) -> None:
        program, hub = find_program(), self._hub
        if not (program and os.access(TUN, os.R_OK | os.W_OK)):
            self._fail(_NO_TUN if program else _NOT_INSTALLED)
            return
        reader, self._exits = os.pipe()
        descriptors = [reader, hub.net, *([] if hub.user is None else [hub.user])]
        command = way_out_command(program, hub.user, hub.net, reader)
        self._last_words = ""
        self._helper = Helper(
            self._loop,
            self._children,
            heard=self._heard,
            ended=self._ended,
            descriptors=resource.getrlimit(resource.RLIMIT_NOFILE),
        )
        self._loop.on_readable(hub.routes, self._hear)
        self._helper.start(command, {}, "/", enter=lambda: _pass_on(descriptors))
        os.close(reader)
        self._limit = self._loop.after(START_S_MAX, self._give_up)

    def _give_up(self) -> None:
        """It hangs: no link came in the time that it has."""
        self._last_words = f"made no link within {START_S_MAX:g} s"
        if self._helper is not None:
            self._helper.kill()

    def _heard(self, line: str, _stream: str) -> None:
        self._last_words = line.strip() or self._last_words

    def _hear(self) -> None:
        """A route of the hub has changed."""
        try:
            data = os.read(self._hub.routes, _MESSAGE_BYTES_MAX)
        except OSError:  # more were lost than it keeps
            return
        if tells_default_route(data):
            self._be_ready()

    def _be_ready(self) -> None:
        if self._limit is not None:
            self._limit.cancel()
        if self._last_fault:
            self._note("The job reaches other machines again.", "INFO")
        self.is_ready = self._was_ready = True
        self._last_fault = ""

    def _ended(self, status: int) -> None:
        os.close(self._exits)
        self._loop.forget(self._hub.routes)
        self._helper = None
        if self._limit is not None:
            self._limit.cancel()
        if not self.is_ending:
            self._fail(_end_words(status, self._last_words, was_ready=self.is_ready))

    def _fail(self, why: str) -> None:
        """It is not there: before the job's start for good, later until it can be started again.

        Each reason is written to the log once.
        """
        self.is_ready = False
        if not self._was_ready:
            self.fault = why
            return
        if why != self._last_fault:
            self._note(f"The job reaches no other machine: {why}. {_TRIED_AGAIN}", "WARNING")
        self._last_fault = why
        self._loop.after(self._pause_s, self._start_again)
        self._pause_s = min(_PAUSE_S_MAX, 2 * self._pause_s)

    def _start_again(self) -> None:
        if not self.is_ending:
            self._start()


def _pass_on(descriptors: Collection[int]) -> None:
    for descriptor in descriptors:
        os.set_inheritable(descriptor, True)


def _end_words(status: int, last_words: str, *, was_ready: bool) -> str:
    """How slirp4netns ended; what it prints while it starts says nothing of a later signal."""
    if last_words and not (was_ready and status < 0):
        return f"{PROGRAM}: {last_words.removeprefix(f'{PROGRAM}: ')}"
    if status < 0:
        return f"{PROGRAM} was ended by signal {-status}"
    return f"{PROGRAM} ended with status {status}"
