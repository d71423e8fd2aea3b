"""The engine's side of the fork server, which makes supervisors without starting an interpreter."""

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

#: A fork server answers in milliseconds once its imports are done; a suspended one never does.
_ANSWER_S_MAX: Final = 10
#: The same limit as a struct timeval: the kernel applies it, which saves a poll before each call.
_ANSWER_TIME_MAX: Final = struct.pack("ll", _ANSWER_S_MAX, 0)
_ANSWER_BYTES_MAX: Final = 1 << 12


class ForkServer:
    """The fork server's process, started at the first ``fork``; not thread-safe."""

    def __init__(self) -> None:
        """Do not start the process yet."""
        self._env: Mapping[str, str] = {}
        self._channel: socket.socket | None = None
        self._pid = 0

    def fork(self, folder: AttemptFolder, env: Mapping[str, str]) -> Identity | None:
        """Fork a supervisor of an attempt; if the fork server does not answer, kill it: None.

        The fork server may have forked a supervisor even so.  This is safe, since only the first
        supervisor of a folder runs.  Raises OSError if the machine has too many processes or files.
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
        """End the fork server; its supervisors continue."""
        if self._channel is None:
            return
        self._channel.close()
        self._channel = None
        with suppress(ProcessLookupError, ChildProcessError):
            os.kill(self._pid, signal.SIGKILL)  # a suspended one ends by no other signal
            os.waitpid(self._pid, 0)

    def _start(self, env: Mapping[str, str]) -> socket.socket:
        self.close()
        own_end, other_end = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        for option in (socket.SO_SNDTIMEO, socket.SO_RCVTIMEO):
            own_end.setsockopt(socket.SOL_SOCKET, option, _ANSWER_TIME_MAX)
        argv = start.supervisor_argv(FORK_SERVER)
        with other_end:
            self._pid = start.spawn(argv, env, None, other_end.fileno())
        self._channel, self._env = own_end, dict(env)
        return own_end
