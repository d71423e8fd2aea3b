"""Ends a test run at SIGTERM as at Ctrl+C: fixtures stop their databases, clusters and servers.

By default SIGTERM would end the process at once, and what fixtures have started would go on.
"""

import contextlib
import os
import signal

import pytest

_main_pid = os.getpid()
_worker_pids = []
_received = []


def pytest_configure():
    if signal.getsignal(signal.SIGTERM) is signal.SIG_DFL:
        signal.signal(signal.SIGTERM, _interrupt)


@pytest.hookimpl(optionalhook=True)
def pytest_testnodeready(node):
    """Remember a worker: it gets the signal too, because xdist would kill it after ten seconds."""
    _worker_pids.append(node.gateway._io.popen.pid)


def _interrupt(signum, _frame):
    if os.getpid() != _main_pid:  # a fork that has not set its own handlers
        signal.signal(signum, signal.SIG_DFL)
        os.kill(os.getpid(), signum)
        return
    if _received:  # a second one would interrupt the fixtures
        return
    _received.append(signum)
    for pid in _worker_pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signum)
    raise KeyboardInterrupt
