"""Whose process a connection is, and that nobody can claim to be another."""

import json
import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from engines.attempts import KEY, OTHER, ended, engine_at, folder, marked, order
from engines.support import FOREVER, wait_until
from trainshed.engines.base import Endpoint
from trainshed.engines.processes import peers

CONNECTS = (
    "import socket, sys\n"
    "found = socket.socket(socket.AF_INET6 if sys.argv[2] == '6' else socket.AF_INET)\n"
    "found.connect((('::ffff:' if sys.argv[2] == '6' else '') + '127.0.0.1', int(sys.argv[1])))\n"
    "sys.stdin.read()\n"
)


@pytest.fixture
def connected():
    """A connection of a child: both ends, and its pid."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        children = []

        def connect(family="4"):
            argv = [sys.executable, "-c", CONNECTS, str(listener.getsockname()[1]), family]
            child = subprocess.Popen(argv, stdin=subprocess.PIPE)
            accepted, address = listener.accept()
            children.append((child, accepted))
            return Endpoint(*address[:2]), Endpoint(*accepted.getsockname()), child.pid

        yield connect
        for child, accepted in children:
            child.communicate()
            accepted.close()


@pytest.mark.parametrize("family", ["4", "6"])
@pytest.mark.parametrize("means", ["_query_inode", "_read_inode"])
def test_the_socket_at_the_other_end_is_found(connected, family, means):
    theirs, ours, pid = connected(family)
    inode = getattr(peers, means)(theirs, ours)
    held = [str(path.readlink()) for path in Path(f"/proc/{pid}/fd").iterdir()]
    assert f"socket:[{inode}]" in held
    assert getattr(peers, means)(theirs._replace(port=1), ours) == 0


def test_it_is_whose_process_holds_it(connected):
    theirs, ours, _ = connected()
    _, _, other = connected()
    assert peers.holder_of(theirs, ours, {other: "other", os.getpid(): "ours"}) == "ours"
    assert peers.holder_of(theirs, ours, {other: "other"}) is None
    assert peers.holder_of(ours, theirs, {other: "other"}) is None


def test_whoever_comes_again_is_not_searched_for_but_a_later_process_is(connected, monkeypatch):
    theirs, ours, pid = connected()
    assert peers.holder_of(theirs, ours, {os.getpid(): "ours"}) == "ours"
    with monkeypatch.context() as patched:
        patched.setattr(peers, "_list_below", lambda _: ())
        assert peers.holder_of(theirs, ours, {os.getpid(): "ours"}) == "ours"
        assert peers.holder_of(theirs, ours, {pid: "other"}) is None
        patched.setitem(peers._recent, pid, (os.getpid(), "another start"))
        assert peers.holder_of(theirs, ours, {os.getpid(): "ours"}) is None


ORPHANS = (
    "import os, socket\n"
    "if not os.fork():\n"
    "    os.setsid()\n"
    "    if os.fork(): os._exit(0)\n"
    "    os.environ.clear()\n"
    "    found = socket.create_connection(('127.0.0.1', {port}))\n"
    "    found.recv(1)\n"
    "    os._exit(0)\n"
    "os.wait()\n"
)


def test_an_attempt_is_known_by_its_processes_also_by_orphans_that_hide(root, mark, connected):
    engine = engine_at(root)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        code = ORPHANS.format(port=listener.getsockname()[1]) + FOREVER
        engine.launch(KEY, marked(mark, code), ())
        accepted, address = listener.accept()
        theirs, ours = Endpoint(*address), Endpoint(*accepted.getsockname())
        assert engine.attempt_at(theirs, ours) == KEY
        restarted = engine_at(root)
        restarted.observe([KEY])
        assert restarted.attempt_at(theirs, ours) == KEY
        stranger = connected()[:2]
        assert engine.attempt_at(*stranger) is None
        engine.stop(KEY, order(0.0))
        ended(engine)
        assert engine.attempt_at(theirs, ours) is None
        accepted.close()


def test_an_attempt_whose_records_cannot_be_read_hides_no_other_one(root, mark):
    """Its neighbours had no gateway: each of their calls failed."""
    engine = engine_at(root)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        engine.launch(OTHER, marked(mark, FOREVER), ())
        code = ORPHANS.format(port=listener.getsockname()[1]) + FOREVER
        engine.launch(KEY, marked(mark, code), ())
        accepted, address = listener.accept()
        with accepted:
            records = folder(root, OTHER) / "records.jsonl"
            wait_until(records.exists, "the other attempt has begun")
            records.rename(records.with_name("moved"))
            records.mkdir()
            theirs, ours = Endpoint(*address), Endpoint(*accepted.getsockname())
            assert engine.attempt_at(theirs, ours) == KEY
            records.rmdir()
            records.with_name("moved").rename(records)
        for key in (KEY, OTHER):
            engine.stop(key, order(0.0))
            ended(engine, key)


#: In a network of its own, whose loopback it turns on, it connects to itself.
ALONE = """\
import ctypes, fcntl, json, socket, struct, sys
assert ctypes.CDLL(None, use_errno=True).unshare(0x40000000) == 0
with socket.socket() as any_one:
    fcntl.ioctl(any_one.fileno(), 0x8914, struct.pack("16sH14x", b"lo", 1))
listener = socket.create_server(("127.0.0.1", 0))
found = socket.create_connection(listener.getsockname())
print(json.dumps([found.getsockname(), found.getpeername()]), flush=True)
sys.stdin.read()
"""


@pytest.mark.skipif(os.geteuid() != 0, reason="only root makes networks: run as root")
def test_a_process_in_a_network_of_its_own_is_found_by_the_table_of_that():
    argv = [sys.executable, "-c", ALONE]
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as child:
        theirs, ours = (Endpoint(*pair) for pair in json.loads(child.stdout.readline()))
        assert peers.holder_in(theirs, ours, {os.getpid(): "us", child.pid: "it"}) == "it"
        assert peers.holder_in(theirs._replace(port=1), ours, {child.pid: "it"}) is None
        assert peers.socket_of(theirs, ours) == 0
        child.stdin.close()
