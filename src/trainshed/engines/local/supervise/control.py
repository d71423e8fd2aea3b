"""Answers whoever asks on the attempt's socket: one JSON line a question, one an answer.

Nobody who connects can make the supervisor wait: it reads and writes only what the kernel has room
for, and the one that has been silent the longest makes room for a new one.
"""

import json
import os
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any, Final

from trainshed.engines.local.attempts.folder import AttemptFolder, Order
from trainshed.engines.local.processes import tree
from trainshed.engines.local.supervise.attempt import Attempt
from trainshed.engines.local.supervise.loop import Loop

_CLIENTS_MAX: Final = 16
_QUESTION_BYTES_MAX: Final = 1 << 16
_READ_BYTES: Final = 1 << 12
_PRIVATE: Final = 0o177
_KIB: Final = 1024


class Control:
    """The socket of one attempt."""

    def __init__(
        self, loop: Loop, folder: AttemptFolder, attempt: Attempt, look: Callable[[], object]
    ) -> None:
        """Listen, where the file system knows sockets; ``look`` looks for an order to stop."""
        self._loop = loop
        self._path = folder.control
        self._attempt = attempt
        self._look = look
        self._clients: list[_Client] = []
        self._listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            self._listen()
        except OSError as error:
            attempt.output.note(f"The supervisor cannot be asked: {error.strerror}.", "WARNING")
            return
        loop.on_readable(self._listener, self._accept)

    def close(self) -> None:
        """Answer nobody any more."""
        for client in list(self._clients):
            client.close()
        with suppress(KeyError, ValueError):
            self._loop.forget(self._listener)
        self._listener.close()
        with suppress(OSError):
            os.unlink(self._path)

    def _listen(self) -> None:
        with suppress(FileNotFoundError):
            os.unlink(self._path)
        before = os.umask(_PRIVATE)
        try:
            with short_path(self._path) as path:
                self._listener.bind(path)
        finally:
            os.umask(before)
        self._listener.listen(_CLIENTS_MAX)
        self._listener.setblocking(False)

    def _accept(self) -> None:
        try:
            connection, _ = self._listener.accept()
        except OSError:
            return
        if len(self._clients) >= _CLIENTS_MAX:
            self._clients[0].close()
        self._clients.append(_Client(self._loop, connection, self._answer, self._clients))

    def _answer(self, question: Any, client: "_Client") -> None:
        match question:
            case {"do": "status"}:
                client.tell(self._status())
            case {"do": "stop", **more}:
                self._stop(more.get("order"))
                client.tell({"ok": True})
            case {"do": "stacks", "task_name": name}:
                self._tell_stacks(name, client)
            case _:
                client.tell({"error": "unknown question"})

    def _stop(self, order: Any) -> None:
        """The order itself comes along, for the case that no disk had room for it."""
        self._look()
        if isinstance(order, dict):
            with suppress(TypeError, ValueError, OverflowError):
                given = Order(**order)
                self._attempt.obey(given._replace(grace_s=float(given.grace_s)))

    def _status(self) -> dict[str, Any]:
        attempt = self._attempt
        return {
            "pid": os.getpid(),
            "rss_bytes": _rss_bytes(),
            "phase": attempt.phase,
            "rungs": attempt.rungs,
            "log_is_held_back": attempt.output.is_held_back,
            "replicas": [self._replica(index) for index in range(len(attempt.spec.replicas))],
        }

    def _replica(self, index: int) -> dict[str, Any]:
        usage = self._attempt.replicas.usage(index)
        watching = self._attempt.watching
        return {
            "task_name": self._attempt.spec.replicas[index].task_name,
            "pid": self._attempt.replicas.living.get(index),
            "cpu_ns": usage.cpu_ns,
            "memory_bytes": usage.memory_bytes,
            "peak_memory_bytes": usage.peak_bytes,
            "silent_s": None if watching is None else watching.silent_s(index),
        }

    def _tell_stacks(self, name: str, client: "_Client") -> None:
        replicas = self._attempt.spec.replicas
        index = next((i for i, each in enumerate(replicas) if each.task_name == name), -1)
        pid = self._attempt.replicas.living.get(index)
        watching = self._attempt.watching
        if pid is None or watching is None:
            client.tell({"error": f"{name} does not run"})
        elif not watching.stacks.look(
            pid, lambda stacks: client.tell({"task_name": name, "stacks": stacks})
        ):
            client.tell({"error": "py-spy is not installed"})


class _Client:
    """One connection."""

    def __init__(
        self,
        loop: Loop,
        connection: socket.socket,
        answer: Callable[[Any, "_Client"], object],
        clients: "list[_Client]",
    ) -> None:
        self._loop = loop
        self._connection = connection
        self._answer = answer
        self._clients = clients
        self._question = b""
        connection.setblocking(False)
        loop.on_readable(connection, self._read)

    def tell(self, answer: dict[str, Any]) -> None:
        """Send one line; who does not read what was sent before is cut off."""
        if self._connection.fileno() < 0:
            return
        data = json.dumps(answer).encode() + b"\n"
        try:
            is_sent = self._connection.send(data) == len(data)
        except OSError:
            is_sent = False
        if not is_sent:
            self.close()

    def close(self) -> None:
        """Have nothing more to do with it."""
        self._loop.forget(self._connection)
        self._connection.close()
        self._clients.remove(self)

    def _read(self) -> None:
        try:
            data = self._connection.recv(_READ_BYTES)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        *questions, self._question = (self._question + data).split(b"\n")
        for question in questions:
            self._take(question)
        if self._connection.fileno() >= 0 and (
            not data or len(self._question) > _QUESTION_BYTES_MAX
        ):
            self.close()

    def _take(self, line: bytes) -> None:
        try:
            question = json.loads(line)
        except (ValueError, RecursionError):
            question = None
        self._answer(question, self)


@contextmanager
def short_path(path: str) -> Iterator[str]:
    """The same place under a name that fits into a socket's address, however deep it lies."""
    folder, _, name = path.rpartition("/")
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        yield f"/proc/self/fd/{descriptor}/{name}"
    finally:
        os.close(descriptor)


def _rss_bytes() -> int:
    for line in tree.read("/proc/self/status").splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) * _KIB
    return 0
