"""Programs that start at once: a process imports what they need, and each is a fork of it.

A server imports for longer than most tests of it take.  One that is forked has its own process,
session, variables and log, as one that is executed; /proc alone shows the words of the fork server.
"""

import json
import os
import select
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

import leftovers
from fork_server import REQUEST_BYTES

PROGRAM = Path(__file__).with_name("fork_server.py")
_begun = []


@pytest.fixture(scope="session", autouse=True)
def _fork_servers_end():
    yield
    while _begun:
        _begun.pop().close()


class ForkServer:
    """Begins when it is first asked; ``variables`` are for what the imports read."""

    def __init__(self, *modules, **variables):
        self._modules = modules
        self._variables = variables
        self._address = None
        self._process = None

    def start(self, argv, *, env, output, errors=None):
        """Start ``trainshed`` or a Python file; what it prints is appended to ``output``."""
        if self._process is None:
            with leftovers.outliving_the_test():
                self._begin()
        request = {
            "argv": [str(word) for word in argv],
            "env": env,
            "cwd": str(Path.cwd()),
            "output": str(output),
            "errors": str(errors or output),
        }
        return Forked(self._address, request)

    def _begin(self):
        env = {**os.environ, **self._variables}
        env.pop(leftovers.OWNER, None)
        with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as listener:
            listener.bind("")  # the kernel finds a name that is in no folder
            listener.listen(64)
            self._address = listener.getsockname()
            self._process = subprocess.Popen(
                [sys.executable, PROGRAM, str(listener.fileno()), *self._modules],
                env=env,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                pass_fds=[listener.fileno()],
                start_new_session=True,
            )
        with self._process.stdout as ready:
            assert ready.readline() == b"ready\n"
        _begun.append(self)

    def close(self):
        if self._process is not None:
            self._process.stdin.close()
            self._process.wait(timeout=60)
            self._process = None


class Forked:
    """A program that was forked, as ``subprocess.Popen`` has it."""

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
