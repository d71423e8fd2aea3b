"""Has the replicas made complete by a child, where packages or devices are needed first.

What is slow or heavy (installing, asking the driver) is done there, so that the supervisor stays
small.  Devices come as open descriptors of their locks: whoever holds those holds the devices.
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

#: The variable with the path of what a preparer is to prepare.
REQUEST: Final = "TRAINSHED_PREPARER_REQUEST"
#: What a line of the child begins with that is a warning.
WARNING_MARK: Final = "WARNING: "
_READ_BYTES: Final = 1 << 16
_DESCRIPTORS_MAX: Final = 253
#: A preparer only has to let go of its locks.
_GRACE_S_MAX: Final = 5.0


class Preparer:
    """One run of the program that prepares, and what it has sent."""

    def __init__(
        self,
        loop: Loop,
        children: Children,
        note: Callable[[str, str], object],
        descriptors: tuple[int, int],
    ) -> None:
        """``note`` gets what it says while it works, a line at a time, with its severity."""
        self._loop = loop
        self._note = note
        self._channel, self._theirs = socket.socketpair()
        self._data = b""
        self._last_words = ""
        self._fault = ""
        self._status = 0
        self._helper = Helper(
            loop, children, heard=self._heard, ended=self._ended, descriptors=descriptors
        )
        self.has_ended = False
        self.locks: list[int] = []
        """Descriptors of the locks that it has taken; they are the caller's now."""

    def start(
        self,
        argv: Sequence[str],
        request: str,
        mark: str,
        cwd: str,
        enter: Callable[[], object],
    ) -> None:
        """Start it with the environment of this process; ``enter`` is called in the child.

        ``request`` is the path of what it is to prepare; it stands in no command line.
        """
        self._channel.setblocking(False)
        self._loop.on_readable(self._channel, self._receive)
        env = {**os.environ, JOB: mark, REQUEST: request}
        self._helper.start(argv, env, cwd, channel=self._theirs.fileno(), enter=enter)
        self._theirs.close()

    def stop(self, grace_s: float) -> None:
        """Have it end soon."""
        if not self.has_ended:
            self._helper.terminate()
            self._loop.after(min(grace_s, _GRACE_S_MAX), self._helper.kill)

    def read_answer(self) -> tuple[Mapping[str, Any] | None, str]:
        """What it has sent; or None, and why there is nothing."""
        if self._fault:
            return None, self._fault
        if self._status == 0:
            try:
                answer = json.loads(self._data)
            except ValueError:
                return None, f"the preparer has not answered: {self._last_words}".strip(": ")
            return answer, ""
        return None, self._last_words or f"the preparer ended with status {self._status}"

    @property
    def is_worth_another_try(self) -> bool:
        """Whether it failed of what passes, such as devices that others have."""
        return self._status == os.EX_TEMPFAIL

    def _heard(self, line: str, stream: str) -> None:
        if stream == "stdout" and line.startswith(WARNING_MARK):
            self._note(line.removeprefix(WARNING_MARK), "WARNING")
        elif stream == "stdout":
            self._note(line, "INFO")
        elif line.strip():
            self._last_words = line.strip()

    def _receive(self) -> bool:
        """Whether there may be more."""
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

    def _ended(self, status: int) -> None:
        while self._channel.fileno() >= 0 and self._receive():
            pass
        if self._channel.fileno() >= 0:  # something that it has left behind holds its end
            self._loop.forget(self._channel)
            self._channel.close()
        self._status = status
        self.has_ended = True
