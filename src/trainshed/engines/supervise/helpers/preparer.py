"""Runs the preparer: a child that installs packages, locks devices and completes the replicas.

The child does the slow and heavy work (installing, querying the driver), so that the supervisor
stays small.  It sends the open descriptors of the device locks: the process that holds these holds
the devices.
"""

import json
import os
import socket
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from trainshed.engines.processes.descriptors import receive
from trainshed.engines.supervise.helpers.helper import Helper
from trainshed.engines.supervise.loop import Children, Loop
from trainshed.model.trainer_contract import JOB

#: The variable with the path of the preparer's request: a file or folder that describes the work.
REQUEST: Final = "TRAINSHED_PREPARER_REQUEST"
#: The prefix of a line that the preparer prints as a warning.
WARNING_MARK: Final = "WARNING: "
_READ_BYTES: Final = 1 << 16
_DESCRIPTORS_MAX: Final = 253
#: The longest grace period, in seconds: a preparer that is stopped only releases its locks.
_GRACE_S_MAX: Final = 5.0


class Preparer:
    """One run of the preparer, and its answer."""

    def __init__(
        self,
        loop: Loop,
        children: Children,
        note: Callable[[str, str], object],
        descriptors: tuple[int, int],
    ) -> None:
        """``note`` gets each line that the preparer prints, with its severity."""
        self._loop = loop
        self._note = note
        self._channel, self._child_end = socket.socketpair()
        self._data = b""
        self._last_words = ""
        self._fault = ""
        self._status = 0
        self._helper = Helper(
            loop, children, descriptors, on_line=self._take_line, on_exit=self._finish
        )
        self.has_ended = False
        self.locks: list[int] = []
        """Descriptors of the locks that the preparer has taken; the caller closes them."""

    def start(
        self, argv: Sequence[str], request: str, mark: str, cwd: str, enter: Callable[[], object]
    ) -> None:
        """Start the preparer with the environment of this process; the child calls ``enter``.

        ``request`` is a path; it becomes the variable ``REQUEST``, because other users can read
        command lines.
        """
        self._channel.setblocking(False)
        self._loop.on_readable(self._channel, self._receive)
        env = {**os.environ, JOB: mark, REQUEST: request}
        self._helper.start(argv, env, cwd, channel=self._child_end.fileno(), enter=enter)
        self._child_end.close()

    def stop(self, grace_s: float) -> None:
        """Terminate the preparer, and kill it after ``grace_s``, but at most five seconds."""
        if not self.has_ended:
            self._helper.terminate()
            self._loop.after(min(grace_s, _GRACE_S_MAX), self._helper.kill)

    def read_answer(self) -> tuple[Mapping[str, Any] | None, str]:
        """Return the answer and an empty text; or None and the reason if there is no answer."""
        if self._fault:
            return None, self._fault
        if self._status == 0:
            try:
                answer = json.loads(self._data)
            except ValueError:
                return None, f"the preparer sent no answer: {self._last_words}".strip(": ")
            return answer, ""
        return None, self._last_words or f"the preparer ended with status {self._status}"

    @property
    def is_worth_another_try(self) -> bool:
        """Whether a later run may succeed, for example when other jobs have released devices."""
        return self._status == os.EX_TEMPFAIL

    def _take_line(self, line: str, stream: str) -> None:
        if stream == "stdout" and line.startswith(WARNING_MARK):
            self._note(line.removeprefix(WARNING_MARK), "WARNING")
        elif stream == "stdout":
            self._note(line, "INFO")
        elif line.strip():
            self._last_words = line.strip()

    def _receive(self) -> bool:
        """Receive once; return whether there may be more."""
        try:
            data, descriptors = receive(self._channel, _READ_BYTES, _DESCRIPTORS_MAX)
        except BlockingIOError:
            return False
        except ConnectionError:
            data, descriptors = b"", []
        except OSError as error:
            self._fault = f"cannot receive the preparer's answer: {error.strerror}"
            data, descriptors = b"", []
        self.locks += descriptors
        self._data += data
        if not data:
            self._loop.forget(self._channel)
            self._channel.close()
        return bool(data)

    def _finish(self, status: int) -> None:
        while self._channel.fileno() >= 0 and self._receive():
            pass
        if self._channel.fileno() >= 0:  # a child of the preparer still has the other end
            self._loop.forget(self._channel)
            self._channel.close()
        self._status = status
        self.has_ended = True
