"""The programs around the replicas: one that makes them complete, others that tidy up after."""

import os
import signal
import sys

import pytest

from engines.attempts import (
    KEY,
    ended,
    engine_at,
    folder,
    observe,
    order,
    record,
    supervisor,
    texts,
    until,
)
from engines.support import (
    FOREVER,
    MARK,
    awaiting,
    marked_processes,
    open_files,
    plan_of,
    python_replica,
    touching,
    wait_until,
)
from trainshed.engines.environments.job_python import JobPython
from trainshed.engines.local.attempts import plan_file
from trainshed.engines.local.attempts.plan_file import Preparation, ReplicaSite
from trainshed.engines.local.attempts.start import spawn, supervisor_argv
from trainshed.engines.local.devices.gpus import Share
from trainshed.engines.processes import tree
from trainshed.engines.supervise.helpers.helper import Helper
from trainshed.engines.supervise.kernel.spawn import raise_descriptor_limit
from trainshed.engines.supervise.loop import Children, Loop
from trainshed.engines.supervise.record.folder import AttemptFolder
from trainshed.model.attempt import Phase
from trainshed.model.roles import Role

ANSWER = """\
import json, os, socket, sys
def answer(**more):
    replicas = json.load(open({plan!r}))["replicas"]
    for replica in replicas:
        replica["argv"] = [sys.executable, "-c", {code!r}]
        replica["env"] = {{**replica["env"], {name!r}: {mark!r}}}
    data = json.dumps({{"replicas": replicas, **more}}).encode()
    with socket.socket(fileno=3) as channel:
        locks = [os.open({lock!r}, os.O_RDWR)]
        socket.send_fds(channel, [data[:1]], locks)
        channel.sendall(data[1:])
"""


@pytest.fixture
def site(root):
    attempt = AttemptFolder(folder(root))
    attempt.make()
    return ReplicaSite(key=KEY, folder=attempt)


def python(code):
    return (sys.executable, "-c", code)


def begin(site, mark, code="", *, prepare=None, count=1, **programs):
    """A supervisor that runs so many replicas, each with this code."""
    codes = [python_replica(Role.PRIMARY, 0, code)]
    codes += [python_replica(Role.WORKER, i, code) for i in range(count - 1)]
    plan = plan_of(codes, mark)
    if prepare is None:
        shares = (Share(),) * count
        replicas = plan_file.replicas_of(site, plan, JobPython(python=sys.executable), shares)
        cleanup = programs.get("cleanup", ())
        replicas = [replica._replace(cleanup=cleanup) for replica in replicas]
    else:
        replicas = plan_file.outlines_of(site, plan)
    spec = plan_file.spec_of(site, plan, replicas, prepare=prepare)
    spec = spec._replace(after=programs.get("after"))
    plan_file.write(site.folder.plan, spec, Preparation(plan=plan))
    spawn(supervisor_argv(site.folder.path), {**os.environ, MARK: mark}, site.folder.words)


def left_of(root, mark):
    """What lives of an attempt, but the supervisor itself."""
    return [pid for pid in marked_processes(mark) if pid != supervisor(root)]


def answering(site, mark, code, lock):
    lock.touch()
    return ANSWER.format(plan=site.folder.plan, code=code, name=MARK, mark=mark, lock=str(lock))


def test_a_preparer_completes_the_replicas_and_hands_over_its_locks(root, mark, site, tmp_path):
    lock, go, freed = tmp_path / "lock", tmp_path / "go", tmp_path / "freed"
    code = "print('complete', flush=True)\n" + awaiting(go)
    after = f"print('waited', {str(lock)!r} in str(open('/proc/self/environ')))\n" + touching(freed)
    prepare = answering(site, mark, code, lock) + (
        "print('installing', flush=True)\n" + f"answer(after=[sys.executable, '-c', {after!r}])"
    )
    begin(site, mark, prepare=python(prepare))
    engine = engine_at(root)
    wait_until(lambda: texts(root) == ["complete"], "the replica runs")
    assert lock in open_files(supervisor(root)), "the lock is held as long as the attempt lives"
    (replica,) = left_of(root, mark)
    assert lock not in open_files(replica)
    go.touch()
    assert ended(engine).outcome.exit_code == 0
    assert freed.exists()
    assert texts(root, "service") == ["installing", "waited False"]


def test_a_preparer_that_fails_fails_the_attempt_with_its_last_words(root, mark, site):
    code = "import sys; print('building'); sys.exit('no such package: x')"
    begin(site, mark, prepare=python(code))
    observation = ended(engine_at(root))
    assert observation.fault == "no such package: x"
    assert observation.outcome.exit_code == 1
    assert texts(root, "service") == ["building"]


def test_devices_that_others_have_are_the_machine_s_fault(root, mark, site):
    code = "import os, sys; sys.stderr.write('GPU-1 is held\\n'); sys.exit(os.EX_TEMPFAIL)"
    begin(site, mark, prepare=python(code))
    observation = until(engine_at(root), Phase.LOST)
    assert observation.fault == "GPU-1 is held"


@pytest.mark.parametrize(
    ("code", "fault"),
    [
        ("print('nothing')", "the preparer sent no answer"),
        ("import os; os.write(3, b'{')", "the preparer sent no answer"),
        ("import os; os.write(3, b'{}')", "cannot read the preparer's answer"),
        ("import os; os.kill(os.getpid(), 9)", "the preparer ended with status -9"),
        (None, "/no/such/program: No such file or directory"),
    ],
)
def test_an_answer_that_makes_no_sense_is_a_fault(root, mark, site, code, fault):
    begin(site, mark, prepare=python(code) if code else ("/no/such/program",))
    assert ended(engine_at(root)).fault.startswith(fault)


def test_an_attempt_that_is_stopped_while_it_is_prepared_never_starts(root, mark, site, tmp_path):
    child = tmp_path / "child"
    code = (
        "import os, signal, time\nsignal.signal(15, signal.SIG_IGN)\n"
        f"if os.fork() == 0:\n    os.setsid()\n    {touching(child)}    time.sleep(600)\n"
        "time.sleep(600)"
    )
    begin(site, mark, prepare=python(code))
    wait_until(child.exists, "it is being prepared")
    engine = engine_at(root)
    engine.stop(KEY, order(0.2))
    observation = ended(engine)
    assert observation.outcome.message == "stopped before it was started"
    assert observation.outcome.interrupted
    assert record(root, "Ready") is None
    assert not left_of(root, mark)


def test_what_a_replica_s_end_leaves_alive_is_ended_before_the_end_is_told(
    root, mark, site, tmp_path
):
    """As a container's client does, which the daemon outlives."""
    outsider = tmp_path / "outsider"
    outsider.touch()
    cleanup = (python(f"import os; os.unlink({str(outsider)!r})"), ("/no/such/runtime",))
    begin(site, mark, "pass", cleanup=cleanup)
    engine = engine_at(root)
    wait_until(lambda: observe(engine).phase is Phase.ENDED or outsider.exists(), "any")
    ended(engine)
    assert not outsider.exists()
    assert any(
        text.startswith("Cannot remove all containers of the job")
        for text in texts(root, "service")
    )


def test_a_helper_leaves_nothing_behind_either(root, mark, site, tmp_path):
    left = tmp_path / "left"
    code = (
        "import os, time\n"
        f"if os.fork() == 0:\n    os.setsid()\n    {touching(left)}    time.sleep(600)\n"
    )
    begin(site, mark, "pass", after=python(code + awaiting(left)))
    ended(engine_at(root))
    assert left.exists()
    assert not left_of(root, mark)


@pytest.mark.parametrize("how", [Helper.terminate, Helper.kill])
def test_one_that_has_only_just_been_forked_is_ended_too(mark, tmp_path, monkeypatch, how):
    """It leads no process group yet."""
    loop, children, ends = Loop(), Children(), []
    helper = Helper(
        loop,
        children,
        on_line=lambda *_: None,
        on_exit=ends.append,
        descriptors=raise_descriptor_limit(),
    )
    gate, opened = os.pipe()
    monkeypatch.setattr(tree, "die_with_parent", lambda _parent: os.read(gate, 1))
    helper.start(python(FOREVER), {**os.environ, MARK: mark}, str(tmp_path))
    how(helper)
    os.write(opened, b"x")
    wait_until(lambda: children.reap() or ends, "it has ended")
    loop.close()
    os.close(gate)
    os.close(opened)
    assert ends in ([-signal.SIGTERM], [-signal.SIGKILL])


def test_all_replicas_start_or_none(root, mark, site, tmp_path):
    ran = tmp_path / "ran"
    lock = tmp_path / "lock"
    code = (
        answering(site, mark, touching(ran) + FOREVER, lock).replace(
            "    data =", "    replicas[-1]['argv'] = ['/no/such/program']\n    data ="
        )
        + "answer()"
    )
    begin(site, mark, prepare=python(code), count=3)
    observation = ended(engine_at(root))
    assert observation.fault == (
        "worker-replica-1 cannot be started: /no/such/program: No such file or directory"
    )
    ends = {replica.signal for replica in observation.outcome.replicas[:2]}
    assert ends <= {signal.SIGTERM, signal.SIGKILL}
