"""``--forks N`` runs the files of tests in N forks of the process that has collected all tests.

Workers of pytest-xdist import and collect all tests, each for itself; with four workers on two
cores that takes as long as a thousand tests.
"""

import itertools
import os
import random
import sys
import traceback
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


@pytest.hookimpl(tryfirst=True)
def pytest_runtestloop(session):
    """Run all tests in forks, and report what they report."""
    options = session.config.option
    if not options.forks or options.collectonly or session.testsfailed:
        return None
    files = _files(session.items)
    numbers = _pipe_of_numbers(len(files))
    session.config._tmp_path_factory.getbasetemp()  # one for all workers
    workers = []
    for name in range(options.forks):
        workers.append(_fork(session.config, f"worker-{name}", workers, _taken(files, numbers)))
    os.close(numbers)
    _report_all(session.config, {channel: "" for _, channel in workers})
    for pid, _ in workers:
        os.waitpid(pid, 0)
    return True


def _files(items):
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


def _fork(config, name, workers, items):
    """Fork a worker that runs tests; return its pid, and the connection on which it reports."""
    ours, theirs = Pipe()
    sys.stdout.flush()
    pid = os.fork()
    if pid:
        theirs.close()
        return pid, ours
    try:
        for channel in (ours, *(channel for _, channel in workers)):
            channel.close()
        _become_worker(config, name)
        config.pluginmanager.register(Reports(config, theirs))
        _run(config, theirs, items)
        theirs.send(None)
    except BaseException:  # noqa: BLE001 - the process ends here
        traceback.print_exc(file=sys.__stderr__)
    finally:
        os._exit(0)


def _become_worker(config, name):
    """Give the process its own output, temporary folder and random numbers."""
    config.pluginmanager.unregister(name="terminalreporter")
    capture = config.pluginmanager.getplugin("capturemanager")
    capture.stop_global_capturing()
    capture.start_global_capturing()
    capture.suspend_global_capture()
    factory = config._tmp_path_factory
    factory._basetemp = factory.getbasetemp() / name
    factory._basetemp.mkdir(mode=0o700)
    os.environ[leftovers.RUNNER] = str(os.getpid())
    random.seed()


def _taken(files, numbers):
    while number := os.read(numbers, NUMBER_BYTES):
        yield from files[int.from_bytes(number)]


def _run(config, channel, items):
    for item, next_item in itertools.pairwise(itertools.chain(items, [None])):
        channel.send(item.nodeid)
        config.hook.pytest_runtest_protocol(item=item, nextitem=next_item)


class Reports:
    """Sends the reports of a worker's tests."""

    def __init__(self, config, channel):
        self._config = config
        self._channel = channel

    def pytest_runtest_logreport(self, report):
        hook = self._config.hook
        self._channel.send(hook.pytest_report_to_serializable(config=self._config, report=report))


def _report_all(config, tests):
    """Pass on what workers send until all have ended: a test's name, a report, or None last."""
    while tests:
        for channel in wait([*tests]):
            try:
                message = channel.recv()
            except EOFError:
                if test := tests.pop(channel):
                    pytest.exit(f"a process of tests died in {test}", returncode=1)
                continue
            if isinstance(message, dict):
                report = config.hook.pytest_report_from_serializable(config=config, data=message)
                config.hook.pytest_runtest_logreport(report=report)
            else:
                tests[channel] = message
