"""Starts programs quickly: a process imports their modules, and each program is a fork of it.

Imports of a server take longer than most of its tests.  A forked server has its own process,
session, variables and log, like an executed one; only /proc shows the arguments of the fork server.
Parallel workers share the fork servers of the process that started them.
"""

import contextlib
import json
import os
import select
import signal
import socket
import subprocess
import sys
import threading
from pathlib import Path

import pytest

import leftovers
from fork_server import REQUEST_BYTES

PROGRAM = Path(__file__).with_name("fork_server.py")
#: The address at which the process that started the workers starts fork servers for them.
SHARED = "TRAINSHED_TEST_FORK_SERVERS"
ANSWER_BYTES = 4096
_begun = []


def pytest_configure(config):
    """Offer fork servers to workers, in a process that starts workers."""
    if getattr(config.option, "numprocesses", None) and not hasattr(config, "workerinput"):
        config.stash[_OFFER] = Offer()


def pytest_unconfigure(config):
    """End the fork servers; workers have ended."""
    if offer := config.stash.get(_OFFER, None):
        offer.close()


@pytest.fixture(scope="session", autouse=True)
def _fork_servers_end():
    yield
    while _begun:
        _begun.pop().close()


class ForkServer:
    """A fork server that starts at its first request; its imports see ``variables``."""

    def __init__(self, *modules, python=sys.executable, **variables):
        self._begins = [[str(python), *modules], variables]
        self._address = None

    def start(self, argv, *, env, output, errors=None):
        """Start ``trainshed`` or a Python file; its output is appended to ``output``."""
        if self._address is None:
            self._address = self._begin()
        request = {
            "argv": [str(word) for word in argv],
            "env": env,
            "cwd": str(Path.cwd()),
            "output": str(output),
            "errors": str(errors or output),
        }
        return Forked(self._address, request)

    def _begin(self):
        if SHARED in os.environ:
            with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as channel:
                channel.connect(bytes.fromhex(os.environ[SHARED]))
                channel.send(json.dumps(self._begins).encode())
                return bytes.fromhex(channel.recv(ANSWER_BYTES).decode())
        with leftovers.outliving_the_test():
            _begun.append(Begun(*self._begins))
        return _begun[-1].address


class Begun:
    """A process that forks."""

    def __init__(self, words, variables):
        env = {**os.environ, **variables}
        env.pop(leftovers.OWNER, None)
        with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as listener:
            listener.bind("")  # the kernel finds a name that is in no folder
            listener.listen(64)
            self.address = listener.getsockname()
            self._process = subprocess.Popen(
                [words[0], PROGRAM, str(listener.fileno()), *words[1:]],
                env=env,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                pass_fds=[listener.fileno()],
                start_new_session=True,
            )
        with self._process.stdout as ready:
            assert ready.readline() == b"ready\n"

    def close(self):
        self._process.stdin.close()
        self._process.wait(timeout=60)


class Offer:
    """Starts each fork server that a worker requests, and gives others its address."""

    def __init__(self):
        self._begun = {}
        self._listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._listener.bind("")
        self._listener.listen(64)
        os.environ[SHARED] = self._listener.getsockname().hex()
        self._thread = threading.Thread(target=self._answer_all, daemon=True)
        self._thread.start()

    def _answer_all(self):
        with contextlib.suppress(OSError):  # the end
            while True:
                channel = self._listener.accept()[0]
                with channel:
                    self._answer(channel)

    def _answer(self, channel):
        text = channel.recv(ANSWER_BYTES)
        if text not in self._begun:
            self._begun[text] = Begun(*json.loads(text))
        channel.send(self._begun[text].address.hex().encode())

    def close(self):
        del os.environ[SHARED]
        self._listener.shutdown(socket.SHUT_RDWR)
        self._thread.join()
        self._listener.close()
        for process in self._begun.values():
            process.close()


_OFFER = pytest.StashKey[Offer]()


class Forked:
    """A forked program, with the interface of ``subprocess.Popen``."""

    def __init__(self, address, request):
        self.returncode = None
        self._channel = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._channel.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, REQUEST_BYTES)
        try:
            self._channel.connect(address)
            self._channel.send(json.dumps(request).encode())
            self.pid = json.loads(self._channel.recv(64))
        except BaseException:
            self._channel.close()
            raise

    def poll(self):
        return self._status(0)

    def wait(self, timeout=None):
        if self._status(timeout) is None:
            raise subprocess.TimeoutExpired(f"fork {self.pid}", timeout)
        return self.returncode

    def send_signal(self, signum):
        if self.poll() is None:
            os.kill(self.pid, signum)

    def kill(self):
        self.send_signal(signal.SIGKILL)

    def _status(self, timeout):
        if self.returncode is None and select.select([self._channel], [], [], timeout)[0]:
            self.returncode = json.loads(self._channel.recv(64) or b"-9")
            self._channel.close()
        return self.returncode
