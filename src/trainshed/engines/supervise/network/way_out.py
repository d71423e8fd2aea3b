"""Runs slirp4netns, which forwards packets out of an attempt's network, and restarts it."""

import os
import resource
from collections.abc import Callable, Collection
from typing import Final

from trainshed.engines.network.namespaces import Hub
from trainshed.engines.network.netlink import tells_default_route
from trainshed.engines.network.way_out import (
    NO_TUN,
    NOT_INSTALLED,
    PROGRAM,
    START_S_MAX,
    TUN,
    find_program,
    leave_mounts,
    way_out_command,
)
from trainshed.engines.supervise.helpers.helper import Helper
from trainshed.engines.supervise.loop import Children, Loop, Timer

_FIRST_PAUSE_S: Final = 0.1
_PAUSE_S_MAX: Final = 60.0
_MESSAGE_BYTES_MAX: Final = 1 << 16

_RETRY_NOTE: Final = (
    f"The job's open connections are lost; the supervisor restarts {PROGRAM} within "
    f"{_PAUSE_S_MAX:g} s."
)

#: Writes a sentence to the job's log, with its severity.
Note = Callable[[str, str], object]


class WayOut:
    """Starts slirp4netns for a hub, and starts it again if it ends while the job runs."""

    def __init__(self, loop: Loop, children: Children, note: Note) -> None:
        self._loop = loop
        self._children = children
        self._note = note
        self._hub: Hub | None = None
        self._helper: Helper | None = None
        self._exit_pipe = self._routes = -1
        self._limit: Timer | None = None
        self._pause_s = _FIRST_PAUSE_S
        self._last_words = ""
        self._last_fault = ""
        self._has_worked = False
        self.is_ready = False
        """Whether slirp4netns forwards packets, or will soon forward those that wait."""
        self.is_ending = False
        """Whether the attempt ends, so that slirp4netns must not be restarted."""
        self.fault = ""
        """Why the first start failed; empty if it succeeded or is in progress."""

    @property
    def processes(self) -> Collection[int]:
        """The pid of slirp4netns, if it runs."""
        return (self._helper.pid,) if self._helper is not None and self._helper.pid else ()

    def start(self, hub: Hub) -> None:
        """Start slirp4netns for a hub; set ``is_ready`` or ``fault`` when the result is known."""
        self._hub = hub
        self._start(hub)

    def kill(self) -> None:
        """Kill slirp4netns and do not restart it."""
        self.is_ending = True
        if self._helper is not None:
            self._helper.kill()

    def _start(self, hub: Hub) -> None:
        program = find_program()
        if not program:
            self._fail(NOT_INSTALLED)
        elif not os.access(TUN, os.R_OK | os.W_OK):
            self._fail(NO_TUN)
        else:
            try:
                self._run(program, hub)
            except OSError as error:
                self._fail(f"{PROGRAM}: {error.strerror}")

    def _run(self, program: str, hub: Hub) -> None:
        """Start the program.  Raises OSError if this process can open no more files."""
        routes = os.dup(hub.routes)  # the caller closes its own descriptor if it gives up
        try:
            reader, self._exit_pipe = os.pipe()
        except OSError:
            os.close(routes)
            raise
        self._routes = routes
        self._loop.on_readable(routes, self._handle_route_change)
        self._helper = Helper(
            self._loop,
            self._children,
            resource.getrlimit(resource.RLIMIT_NOFILE),
            on_line=self._take_line,
            on_exit=self._handle_exit,
        )
        descriptors = [reader, hub.net, *([] if hub.user is None else [hub.user])]
        command = way_out_command(program, hub.user, hub.net, reader)
        self._last_words = ""
        self._helper.start(command, {}, "/", enter=lambda: _enter(descriptors, hub.user))
        os.close(reader)
        self._limit = self._loop.after(START_S_MAX, self._kill_late)

    def _kill_late(self) -> None:
        self._last_words = f"no network connection within {START_S_MAX:g} s"
        if self._helper is not None:
            self._helper.kill()

    def _take_line(self, line: str, _stream: str) -> None:
        self._last_words = line.strip() or self._last_words

    def _handle_route_change(self) -> None:
        try:
            data = os.read(self._routes, _MESSAGE_BYTES_MAX)
        except OSError:  # the kernel has dropped messages (ENOBUFS)
            return
        if tells_default_route(data):
            self._become_ready()

    def _become_ready(self) -> None:
        self._cancel_limit()
        if self._last_fault:
            self._note("The job can connect to other machines again.", "INFO")
        self._last_fault = ""
        self.is_ready = self._has_worked = True

    def _cancel_limit(self) -> None:
        if self._limit is not None:
            self._limit.cancel()

    def _handle_exit(self, status: int) -> None:
        self._helper = None
        self._cancel_limit()
        self._loop.forget(self._routes)
        for descriptor in (self._exit_pipe, self._routes):
            os.close(descriptor)
        if not self.is_ending:
            self._fail(_describe_end(status, self._last_words, was_ready=self.is_ready))

    def _fail(self, why: str) -> None:
        """Set ``fault`` if slirp4netns never worked; otherwise restart it after a pause.

        Log a reason only if it differs from the last one.
        """
        self.is_ready = False
        if not self._has_worked:
            self.fault = why
            return
        if why != self._last_fault:
            self._note(f"The job cannot connect to other machines: {why}. {_RETRY_NOTE}", "WARNING")
        self._last_fault = why
        self._loop.after(self._pause_s, self._start_again)
        self._pause_s = min(_PAUSE_S_MAX, 2 * self._pause_s)

    def _start_again(self) -> None:
        if not self.is_ending and self._hub is not None:
            self._start(self._hub)


def _enter(descriptors: Collection[int], user: int | None) -> None:
    """Prepare the child that becomes slirp4netns.  Raises OSError."""
    leave_mounts(user)
    for descriptor in descriptors:
        os.set_inheritable(descriptor, True)


def _describe_end(status: int, last_words: str, *, was_ready: bool) -> str:
    """Describe how slirp4netns ended; its output at its start does not explain a later signal."""
    if last_words and not (was_ready and status < 0):
        return f"{PROGRAM}: {last_words.removeprefix(f'{PROGRAM}: ')}"
    if status < 0:
        return f"{PROGRAM} was ended by signal {-status}"
    return f"{PROGRAM} ended with status {status}"
