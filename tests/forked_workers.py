"""``--forks N`` runs the files of tests in N forks of the process that has collected all tests.

Workers of pytest-xdist import and collect all tests, each for itself; with four workers on two
cores that takes as long as a thousand tests.  A fork goes on as an ordinary pytest process that has
collected them: it has its own temporary folder, runs files until none is left, and ends as pytest
ends.  Only hooks and objects that pytest documents for plugins are used.
"""

import itertools
import os
import random
import sys
from multiprocessing import Pipe
from multiprocessing.connection import wait

import pytest

import leftovers

#: Folders whose files run in one process: the files of the console share a browser.
TOGETHER = ("tests/console/",)
#: The length of a file's number in the pipe from which workers take files.
NUMBER_BYTES = 2


def pytest_addoption(parser):
    parser.addoption("--forks", type=int, default=0, metavar="N", help="run tests in N processes")


def pytest_configure(config):
    if config.option.forks and config.option.basetemp:
        raise pytest.UsageError("--forks makes a temporary folder for each worker: no --basetemp")


@pytest.hookimpl(tryfirst=True)
def pytest_runtestloop(session):
    """Run all tests in forks, and report what they report."""
    options = session.config.option
    if not options.forks or options.collectonly or session.testsfailed:
        return None
    files = _group(session.items)
    numbers = _pipe_of_numbers(len(files))
    channels = {}
    for _ in range(options.forks):
        receives, sends = Pipe(duplex=False)
        sys.stdout.flush()
        pid = os.fork()
        if not pid:
            _become_worker(session.config, sends)
            _run(session.config, sends, _take(files, numbers))
            return True
        sends.close()
        channels[receives] = pid
    os.close(numbers)
    _report_all(session.config, channels)
    return True


def _group(items):
    """Return lists of tests that run in one process."""
    files = {}
    for item in items:
        folder = next((name for name in TOGETHER if item.nodeid.startswith(name)), item.path)
        files.setdefault(folder, []).append(item)
    return list(files.values())


def _pipe_of_numbers(count):
    """Return a descriptor from which each process reads the number of the next file."""
    reads, writes = os.pipe()
    os.write(writes, b"".join(number.to_bytes(NUMBER_BYTES) for number in range(count)))
    os.close(writes)
    return reads


def _take(files, numbers):
    while number := os.read(numbers, NUMBER_BYTES):
        yield from files[int.from_bytes(number)]


def _become_worker(config, channel):
    """Give the process its own captured output and random numbers; it reports to the channel."""
    config.workerinput = {}  # by it, plugins recognize a worker, also one of pytest-xdist
    config.pluginmanager.unregister(name="terminalreporter")
    capture = config.pluginmanager.getplugin("capturemanager")
    capture.stop_global_capturing()
    capture.start_global_capturing()
    capture.suspend_global_capture()
    config.pluginmanager.register(Reports(config, channel))
    os.environ[leftovers.RUNNER] = str(os.getpid())
    random.seed()


def _run(config, channel, items):
    for item, next_item in itertools.pairwise(itertools.chain(items, [None])):
        channel.send((item.nodeid, item.location))
        config.hook.pytest_runtest_protocol(item=item, nextitem=next_item)
    channel.send(None)


class Reports:
    """Sends the reports of a worker's tests."""

    def __init__(self, config, channel):
        self._config = config
        self._channel = channel

    def pytest_runtest_logreport(self, report):
        hook = self._config.hook
        self._channel.send(hook.pytest_report_to_serializable(config=self._config, report=report))


def _report_all(config, channels):
    """Pass on what workers send until all have ended: a test's name, a report, or None last."""
    running = dict.fromkeys(channels)
    while running:
        for channel in wait([*running]):
            try:
                message = channel.recv()
            except EOFError:
                _, status = os.waitpid(channels[channel], 0)
                if test := running.pop(channel):
                    _report_death(config, *test, os.waitstatus_to_exitcode(status))
                continue
            if isinstance(message, dict):
                report = config.hook.pytest_report_from_serializable(config=config, data=message)
                config.hook.pytest_runtest_logreport(report=report)
            else:
                running[channel] = message


def _report_death(config, nodeid, location, code):
    """Report the test in which a worker died, and with it the tests that this worker had taken."""
    words = f"the process of this test ended with {code}: no test after it in its file has run"
    report = pytest.TestReport(nodeid, location, {}, "failed", words, "call")
    config.hook.pytest_runtest_logreport(report=report)
