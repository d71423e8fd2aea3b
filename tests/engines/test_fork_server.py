"""Supervisors are forked: each is a process of its own all the same, and needs no fork server."""

import ast
import importlib.util
import os
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest

import trainshed
from engines import attempts
from engines.attempts import KEY, OTHER, ended, engine_at, folder, marked, order, supervisor, texts
from engines.support import FOREVER, awaiting, wait_until
from trainshed.engines.processes import tree
from trainshed.engines.supervise.record.spec import FORK_SERVER, SUPERVISOR

LOADED = """
import sys
sys.path.append(sys.argv[1])
from trainshed.engines.supervise import main
from trainshed.engines.supervise.helpers import fork_server
print(*(name for name in sys.modules if name.startswith("trainshed.")))
"""


def forked(engine, mark, code=FOREVER, key=KEY):
    """A supervisor of an engine, and the fork server that is its parent."""
    engine.launch(key, marked(mark, code), ())
    pid = supervisor(engine._root, key)
    return pid, fork_server_of(pid)


def fork_server_of(pid):
    """The nearest ancestor that says that it is one; a machine may need a reaper in between."""
    while words(pid)[-1] != FORK_SERVER:
        pid = tree.parent_of(pid)
    return pid


def words(pid):
    return Path(f"/proc/{pid}/cmdline").read_text().rstrip("\0").split("\0")


def is_gone(pid):
    with suppress(OSError):
        return tree.stat_fields(pid)[0] == "Z"
    return True


def test_a_supervisor_that_was_forked_has_a_session_and_a_name_of_its_own(root, mark):
    engine = engine_at(root)
    pid, parent = forked(engine, mark)
    assert tree.parent_of(parent) == os.getpid()
    assert os.getsid(pid) == pid
    assert os.getsid(parent) == parent
    assert words(pid) == [*words(parent)[:-1], SUPERVISOR]
    assert any("supervise.main" in word for word in words(pid))
    assert Path(f"/proc/{pid}/fd/0").readlink() == Path(os.devnull)
    assert Path(f"/proc/{pid}/fd/2").readlink() == folder(root) / "runner.txt"
    assert Path(f"/proc/{pid}/environ").read_bytes() == Path(f"/proc/{parent}/environ").read_bytes()


def test_a_killed_fork_server_takes_no_supervisor_along_and_has_a_successor(root, mark, tmp_path):
    engine, go = engine_at(root), tmp_path / "go"
    _, parent = forked(engine, mark, f"{awaiting(go)}print('lived on')")
    os.kill(parent, signal.SIGKILL)
    wait_until(lambda: is_gone(parent), "the fork server is gone")
    for number in (1, 2):  # the first finds it gone
        key = OTHER._replace(attempt=number)
        engine.launch(key, marked(mark, "print('next')"), ())
        ended(engine, key)
        assert texts(root, key=key) == ["next"]
    go.touch()
    assert ended(engine).outcome.exit_code == 0
    assert texts(root) == ["lived on"]


def test_a_stopped_fork_server_keeps_no_job_waiting(root, mark):
    engine = engine_at(root)
    _, parent = forked(engine, mark)
    os.kill(parent, signal.SIGSTOP)
    engine._fork_server._channel.settimeout(0.2)
    engine.launch(OTHER, marked(mark, "print('next')"), ())
    assert is_gone(parent)
    ended(engine, OTHER)
    assert texts(root, key=OTHER) == ["next"]


def test_a_fork_server_ends_with_its_server_and_its_supervisors_do_not(root, mark):
    argv = [sys.executable, attempts.__file__, str(root), str(KEY.uid), mark, FOREVER]
    with subprocess.Popen(argv, stdout=subprocess.PIPE) as server:
        assert server.stdout.readline() == b"launched\n"
        pid = supervisor(root)
        parent = fork_server_of(pid)
        assert tree.parent_of(parent) == server.pid
        server.kill()
    wait_until(lambda: is_gone(parent), "the fork server has ended")
    assert not is_gone(pid)


def test_what_a_server_is_told_anew_reaches_the_next_job(root, mark, monkeypatch):
    """What prepares a job and cleans up after it has its supervisor's variables."""
    engine = engine_at(root)
    for key, word in ((KEY, "before"), (OTHER, "after")):
        monkeypatch.setenv("LC_NAME", word)
        pid, _ = forked(engine, mark, key=key)
        environ = Path(f"/proc/{pid}/environ").read_bytes()
        assert f"\0LC_NAME={word}\0".encode() in b"\0" + environ


def test_a_machine_without_room_for_a_supervisor_says_so(root, mark):
    """It is tried again then: the fork server answers, and is no reason to begin another way."""
    engine = engine_at(root)
    _, parent = forked(engine, mark)
    engine._attempts.get(OTHER).folder.make()
    Path(engine._attempts.get(OTHER).folder.words).mkdir()
    with pytest.raises(OSError, match="Is a directory"):
        engine._fork_server.fork(engine._attempts.get(OTHER).folder, engine._fork_server._env)
    assert forked(engine, mark, key=OTHER._replace(attempt=2))[1] == parent
    engine.stop(KEY, order(0.0))


def test_a_supervisor_imports_nothing_that_its_fork_server_has_not():
    """By then the files may be another version's."""
    source = Path(trainshed.__file__).parent.parent
    argv = [sys.executable, "-I", "-S", "-c", LOADED, str(source)]
    loaded = set(subprocess.run(argv, capture_output=True, text=True, check=True).stdout.split())
    later = {name for module in loaded for name in imported_by(module)} - loaded
    assert not later, "imported by a supervisor while its job runs"


def imported_by(module):
    """The modules of ours that a module imports anywhere, but for types alone."""
    waiting = [ast.parse(Path(importlib.util.find_spec(module).origin).read_text())]
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.ImportFrom):
            names = (f"{node.module}.{alias.name}" for alias in node.names)
            yield from filter(is_ours, (node.module, *names))
        elif not (isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"):
            waiting += ast.iter_child_nodes(node)


def is_ours(name):
    with suppress(ModuleNotFoundError):  # what a module has may be no module
        return name.startswith("trainshed.") and importlib.util.find_spec(name) is not None
    return False
