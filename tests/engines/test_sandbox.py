"""Behind bubblewrap a replica hears, ends and is ended as without it."""

import os
import signal
from pathlib import Path

import pytest

from engines.attempts import KEY, ended, engine_at, marked, order, supervisor, texts, until
from engines.support import FOREVER, assert_no_survivor, wait_until
from trainshed.engines.isolation import mounts, sandbox
from trainshed.engines.isolation.choose import try_isolation
from trainshed.engines.isolation.compose import Isolation
from trainshed.engines.isolation.modes import SANDBOX
from trainshed.engines.isolation.view import Mounts, ReplicaView
from trainshed.engines.processes import tree
from trainshed.model.attempt import Phase

#: Ends well when it is asked to, and not at once.
SAVES = """
import signal, time
def save(*_):
    time.sleep(0.3)
    print("saved", flush=True)
    raise SystemExit(0)
signal.signal(signal.SIGTERM, save)
print("ready", flush=True)
time.sleep(600)
"""
DEAF = """
import signal, time
signal.signal(signal.SIGTERM, lambda *_: print("asked", flush=True))
print("ready", flush=True)
while True:
    time.sleep(0.1)
"""
#: Leaves the session, loses its parents, forgets its environment, closes what it has open.
STRANGER = """
import os, time
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        os.closerange(0, 64)
        os.execve("/bin/sleep", [WORD, "600"], {})
    os._exit(0)
os.wait()
print("ready", flush=True)
time.sleep(600)
"""


@pytest.fixture
def run(root, mark):
    """Starts a program in a sandbox."""
    if why_not := try_isolation(SANDBOX, os.getuid()):
        pytest.skip(f"no sandbox here: {why_not}")

    def begin(code):
        engine = engine_at(root, isolation=Isolation(SANDBOX, hides=(str(root),)))
        engine.launch(KEY, marked(mark, code), ())
        return engine

    return begin


def ready(root):
    wait_until(lambda: "ready" in texts(root), "it is ready")


@pytest.mark.parametrize(
    ("code", "exit_code", "signum"),
    [
        ("raise SystemExit(7)", 7, None),
        ("import os; os.kill(os.getpid(), 9)", None, signal.SIGKILL),
        ("import os; os.kill(os.getpid(), 11)", None, signal.SIGSEGV),
    ],
)
def test_its_end_is_told_as_it_was(run, code, exit_code, signum):
    (replica_exit,) = ended(run(code)).outcome.replicas
    assert (replica_exit.exit_code, replica_exit.signal) == (exit_code, signum)
    assert not replica_exit.stopped_by_us


def test_it_hears_that_it_is_to_end_and_has_its_grace(run, root):
    engine = run(SAVES)
    ready(root)
    engine.stop(KEY, order(60.0))
    (replica_exit,) = ended(engine).outcome.replicas
    assert (replica_exit.exit_code, replica_exit.killed) == (0, False)
    assert "saved" in texts(root)


def test_one_who_does_not_end_is_killed_when_the_grace_is_over_and_not_before(run, root, mark):
    engine = run(DEAF)
    ready(root)
    engine.stop(KEY, order(1.5))
    (replica_exit,) = ended(engine).outcome.replicas
    assert replica_exit.killed
    assert texts(root).count("asked") == 1
    assert_no_survivor(mark)


def test_a_killed_supervisor_leaves_nothing_whatever_it_has_forked(run, root, mark):
    engine = run(STRANGER.replace("WORD", repr(mark)))
    ready(root)
    wait_until(lambda: named(mark), "what it has forked has its own name")
    os.kill(supervisor(root), signal.SIGKILL)
    wait_until(lambda: not named(mark), "the kernel has ended it")
    until(engine, Phase.LOST)


def named(word):
    """Processes whose first word it is."""
    paths = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            paths += [path] if path.read_bytes().split(b"\0")[0] == word.encode() else []
        except OSError:
            continue
    return paths


def test_bubblewrap_itself_has_none_of_the_jobs_variables(run, root, mark):
    says = "import os; print(*os.environ, flush=True); print('ready', flush=True)\n"
    engine = run(says + FOREVER)
    ready(root)
    (bubblewrap,) = tree.children(supervisor(root))
    assert Path(f"/proc/{bubblewrap}/environ").read_bytes() == b""
    assert mark.encode() not in Path(f"/proc/{bubblewrap}/cmdline").read_bytes()
    assert "TRAINSHED_JOB" in " ".join(texts(root)).split()
    engine.stop(KEY, order(0.0))
    ended(engine)


def test_a_program_starts_where_the_machine_has_no_resolv_conf(monkeypatch, tmp_path):
    """Bubblewrap ended: it cannot make a file to mount on in /etc, which is closed for writing."""
    monkeypatch.setattr(mounts, "RESOLVER", str(tmp_path / "resolv.conf"))
    more = mounts.NO_FOLDERS._replace(resolver="/attempt/resolv.conf")
    assert "/attempt/resolv.conf" not in list(
        sandbox.orders(ReplicaView(SANDBOX), Mounts(more=more), {})
    )
