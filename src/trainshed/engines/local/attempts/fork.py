"""The engine's side of the fork server: supervisors that cost no start of an interpreter."""

import json
import os
import signal
import socket
import struct
from collections.abc import Mapping
from contextlib import suppress
from typing import Final

from trainshed.engines.local.attempts import start
from trainshed.engines.processes.identity import Identity
from trainshed.engines.supervise.record.folder import AttemptFolder
from trainshed.engines.supervise.record.spec import FORK_SERVER

#: It answers in milliseconds once it has imported; one that was stopped never does.
_ANSWER_S_MAX: Final = 10
#: As the kernel takes it, struct timeval: no poll before each call.
_ANSWER_TIME_MAX: Final = struct.pack("ll", _ANSWER_S_MAX, 0)
_ANSWER_BYTES_MAX: Final = 1 << 12


class ForkServer:
    """One process, started when it is first asked; not for several threads at once."""

    def __init__(self) -> None:
        """Start nothing yet."""
        self._env: Mapping[str, str] = {}
        self._channel: socket.socket | None = None
        self._pid = 0

    def fork(self, folder: AttemptFolder, env: Mapping[str, str]) -> Identity | None:
        """A supervisor of an attempt; None where the fork server does not answer, and is ended.

        It may have forked one all the same: of two for a folder the first runs.  Raises OSError
        where the machine has no room for another process or file.
        """
        try:
            channel = self._channel if env == self._env else None
            channel = channel or self._start(env)
            channel.sendall(os.fsencode(folder.path))
            answer = json.loads(channel.recv(_ANSWER_BYTES_MAX))
        except (OSError, ValueError):
            self.close()
            return None
        if len(answer) == 1:
            raise OSError(*answer, os.strerror(*answer))
        return Identity(*answer)

    def close(self) -> None:
        """End it; its supervisors live on."""
        if self._channel is None:
            return
        self._channel.close()
        self._channel = None
        with suppress(ProcessLookupError, ChildProcessError):
            os.kill(self._pid, signal.SIGKILL)  # it may have been stopped; it has nothing to lose
            os.waitpid(self._pid, 0)

    def _start(self, env: Mapping[str, str]) -> socket.socket:
        self.close()
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        for bound in (socket.SO_SNDTIMEO, socket.SO_RCVTIMEO):
            ours.setsockopt(socket.SOL_SOCKET, bound, _ANSWER_TIME_MAX)
        argv = start.supervisor_argv(FORK_SERVER)
        with theirs:
            self._pid = start.spawn(argv, env, None, theirs.fileno())
        self._channel, self._env = ours, dict(env)
        return ours
