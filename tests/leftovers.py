"""Fails tests that leave a process, a thread, a descriptor or a file behind.

A fixture of a module or session must end its own processes and close its own files.  In this
process sockets connect only to this machine.
"""

import gc
import os
import re
import shutil
import socket
import sys
import tempfile
import threading
import time
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest
import uvloop

#: ``fail`` makes a test fail; any other value is the path of a file that lists them.
SAID = os.environ.get("TRAINSHED_LEFTOVERS", "")
#: The time that things have to end by themselves.
WAIT_S_MAX = 10.0 if SAID else 0.0
POLL_S = 0.02
#: Locks and caches that stay for later programs: ours for devices, torch's and uv's, and the
#: compiled code of TensorFlow's autograph.
KEPT = re.compile(r"trainshed-gpus|torchinductor_\w+|uv-\S+\.lock|__pycache__")
#: Threads that end with their process: those of a server's calls, and of a command's input.
KEPT_THREADS = frozenset({"api", "tail", "reading"})
OWNER = "PYTEST_CURRENT_TEST"
#: The owner of a test run: another suite may run the same test.
RUNNER = "PYTEST_RUNNER_PID"

_added = {}
"""By the fixtures of modules, by their names."""
_expected = set()
"""By all fixtures that outlive a test."""
_for_all_tests = set()
_folders = []
"""The temporary folder of this process; in that of the machine others make files too."""
_seen_pids = set()
_latest = []
"""What was held at the end of the test before, if that test left nothing."""


def pytest_sessionstart():
    """The first loop of uvloop opens a pipe for good."""
    os.environ[RUNNER] = str(os.getpid())
    uvloop.new_event_loop().close()


@pytest.fixture(scope="session", autouse=True)
def _own_temporary_folder(tmp_path_factory):
    """Make a temporary folder that parallel tests do not share; every user may access it."""
    tmp_path_factory.getbasetemp()  # it outlives the session
    folder = tempfile.mkdtemp(prefix="t-")  # short: a socket's path has 107 bytes at most
    Path(folder).chmod(0o711)
    before = tempfile.tempdir, os.environ.get("TMPDIR")
    tempfile.tempdir = os.environ["TMPDIR"] = folder
    _folders.append(folder)
    yield
    _folders.clear()
    tempfile.tempdir = before[0]
    os.environ.pop("TMPDIR")
    if before[1]:
        os.environ["TMPDIR"] = before[1]
    shutil.rmtree(folder)


@contextmanager
def outliving_the_test():
    """Exempt things that later tests use too."""
    before = _held("")
    yield
    _for_all_tests.update(_held("") - before)


@pytest.fixture(autouse=True)
def _nothing_is_left(request, _own_temporary_folder):
    owner = request.node.nodeid
    before = _latest.pop() if _latest else _held(owner)
    yield
    now = _held(owner)
    added = now - before
    _keep_for_servers(request.fixturenames, added - _expected)
    # looked for once in most tests: to look costs as much as many of them
    if added - _expected and (left := _wait(lambda: _held(owner) - before - _expected)):
        _say(f"the test leaves behind: {_words(left)}")
    else:
        _latest.append(now)


def _keep_for_servers(fixtures, left):
    """What a module shares connects and starts threads when it is first asked, or starts again.

    A fixture may have got another one without naming it, so all that live may own what is left.
    """
    if _added.keys() & set(fixtures):
        _share(left)
        _expected.update(left)


def _share(left):
    for added in _added.values():
        added.update(left)


@pytest.hookimpl(wrapper=True)
def pytest_fixture_setup(fixturedef):
    """Assign new things after the setup of a long-lived fixture to the fixture."""
    if fixturedef.scope == "function":
        return (yield)
    owner = f"{fixturedef.scope} {fixturedef.baseid}::{fixturedef.argname}"
    added, before, test = set(), _held(owner), os.environ.get(OWNER, "")
    if fixturedef.scope != "session":
        _added[fixturedef.argname] = added
    # the first in is the last out
    fixturedef.addfinalizer(lambda: _check_fixture(fixturedef.argname, added, owner))
    os.environ[OWNER] = owner
    try:
        return (yield)
    finally:
        os.environ[OWNER] = test
        added.update(_held(owner) - before - _expected)
        _expected.update(added)
        if fixturedef.scope != "session":  # it may be a connection of a fixture that it uses
            _share(added)


def _check_fixture(name, added, owner):
    """Check that a fixture and everything that it started have ended.

    What a test left behind may belong to any of its fixtures: the last of them is checked for it.
    """
    _added.pop(name, None)
    added.difference_update(*_added.values())
    left = _wait(lambda: added & _held(owner)) if added else set()
    _expected.difference_update(added)
    if left:
        _say(f"{owner} leaves behind: {_words(left)}")


def _wait(look):
    if look():
        gc.collect()  # what nobody refers to any more is as good as closed
    deadline = time.monotonic() + WAIT_S_MAX
    while left := {
        resource
        for resource in look()
        if not _is_of_grpc(*resource) and not _is_of_a_font(*resource)
    }:
        if time.monotonic() > deadline:
            break
        time.sleep(POLL_S)
    return left


def _is_of_grpc(kind, name, *_):
    """Whether gRPC keeps it after its first use."""
    return kind == "descriptor" and "grpc" in sys.modules and "[event" in _more(kind, name)


def _is_of_a_font(kind, name, *_):
    """Whether it is a font that Matplotlib keeps open."""
    return kind == "descriptor" and "matplotlib" in sys.modules and ".ttf" in _more(kind, name)


def _say(text):
    if SAID == "fail":
        pytest.fail(text, pytrace=False)
    if SAID:
        with Path(SAID).open("a") as file:
            file.write(f"{os.environ.get(OWNER)}: {text}\n")


def _words(left):
    return "; ".join(sorted(f"{kind} {rest[0]} {_more(kind, rest[0])}" for kind, *rest in left))


def _more(kind, name):
    with suppress(OSError):
        if kind == "descriptor":
            return str(Path(f"/proc/self/fd/{name}").readlink())
        if kind == "process":
            return Path(f"/proc/{name}/cmdline").read_text()[:300].replace("\0", " ")
    return ""


def _held(owner):
    """Return all that this process and programs of ``owner`` hold now."""
    resources = {*_descriptors(), *_threads(), *_processes(owner), *_files()}
    return resources - _for_all_tests


def _descriptors():
    for name in os.listdir("/proc/self/fd"):  # noqa: PTH208 - it runs before and after each test
        try:
            status = os.fstat(int(name))
        except OSError:  # the listing's own
            continue
        yield "descriptor", int(name), status.st_dev, status.st_ino


def _threads():
    alive = threading.enumerate()
    return (
        ("thread", thread.name, thread.ident) for thread in alive if thread.name not in KEPT_THREADS
    )


def _files():
    for folder in _folders:
        for name in os.listdir(folder):  # noqa: PTH208 - the same
            if not KEPT.fullmatch(name):
                yield "file", name


def _processes(owner):
    """Return children of this process, and processes with the owner's name in their variables."""
    for thread in os.listdir("/proc/self/task"):  # noqa: PTH208 - the same
        for pid in _read(f"/proc/self/task/{thread}/children").split():
            if _read(f"/proc/{int(pid)}/cmdline"):  # else it has ended, and is reaped later
                yield "process", int(pid)
    pids = {name for name in os.listdir("/proc") if name.isdigit()}  # noqa: PTH208 - the same
    _seen_pids.intersection_update(pids)
    _seen_pids.update([pid for pid in pids - _seen_pids if not _is_of(owner, pid)])
    yield from (("process", int(pid)) for pid in pids - _seen_pids)


def _is_of(owner, pid):
    variables = b"\0" + _read(f"/proc/{pid}/environ")
    return f"\0{RUNNER}={os.getpid()}\0".encode() in variables and (
        f"\0{OWNER}={owner}".encode() in variables
    )


def _read(path):
    try:
        with open(path, "rb") as file:  # noqa: PTH123 - the same
            return file.read()
    except OSError:
        return b""


@pytest.fixture(scope="session", autouse=True)
def _only_loopback():
    """Fail a test that connects to another machine."""
    patched = pytest.MonkeyPatch()
    for name in ("connect", "connect_ex", "sendto"):
        patched.setattr(socket.socket, name, _guarded(getattr(socket.socket, name)))
    yield
    patched.undo()


def _guarded(call):
    def guarded(self, *args):
        sends = (
            self.type != socket.SOCK_DGRAM or call.__name__ == "sendto"
        )  # connecting UDP is local
        if sends and self.family in {socket.AF_INET, socket.AF_INET6}:
            host = os.fsdecode(args[-1][0])
            assert host in {"localhost", "::1", ""} or host.startswith("127."), (
                f"a test reaches for {host}: only this machine is allowed"
            )
        return call(self, *args)

    return guarded
