import os
import signal
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from engines.support import (
    FOREVER,
    Recorder,
    awaiting,
    cluster,
    plan_of,
    python_replica,
    run,
    run_replicas,
    touching,
    wait_until,
)
from trainshed.model.faults import EngineFault
from trainshed.model.launch_plan import Environment
from trainshed.model.roles import Role


def test_all_replicas_run_and_every_line_is_delivered_under_its_name(mark):
    code = "import os, sys; print('out', os.getpid()); print('err', file=sys.stderr)"
    outcome, recorder = run_replicas(cluster(code, code, code), mark)
    names = ["master-replica-0", "worker-replica-0", "worker-replica-1"]
    assert outcome.exit_code == 0
    assert [(e.task_name, e.exit_code, e.stopped_by_us) for e in outcome.replicas] == [
        (name, 0, False) for name in names
    ]
    assert all(recorder.texts(name)[0].startswith("out ") for name in names)
    assert all(recorder.texts(name, "stderr") == ["err"] for name in names)


def test_output_arrives_while_the_replica_still_runs(mark, tmp_path):
    """The primary goes on only after the sink, having seen its line, makes the file."""
    recorder = Recorder()

    class Answering(Recorder):
        def line(self, replica, text, stream):
            recorder.line(replica, text, stream)
            (tmp_path / "go").touch()

    code = "print('one')\n" + awaiting(tmp_path / "go") + "print('two')"
    outcome, _ = run_replicas(cluster(code), mark, sink=Answering())
    assert outcome.exit_code == 0
    assert recorder.texts("master-replica-0") == ["one", "two"]


def test_what_is_still_in_the_pipe_when_the_replica_has_long_ended_is_delivered(mark):
    """The sink is slow: it takes the second line when every process of the job is gone."""
    code = (
        "import fcntl, os\n"
        "fcntl.fcntl(1, fcntl.F_SETPIPE_SZ, 1 << 20)\n"
        "print(os.getppid())\n"
        "os.write(1, b'0123456\\n' * 100_000)\n"
    )

    class Slow(Recorder):
        def line(self, replica, text, stream):
            super().line(replica, text, stream)
            if len(self.lines) == 1:
                stat = Path(f"/proc/{text}/stat")
                wait_until(lambda: ") Z " in stat.read_text(), "the supervisor has ended")

    slow = Slow()
    outcome, _ = run_replicas(cluster(code), mark, sink=slow)
    assert outcome.exit_code == 0
    assert slow.texts("master-replica-0")[1:] == ["0123456"] * 100_000


def test_the_primary_s_exit_code_is_the_job_s(mark):
    outcome, _ = run_replicas(cluster("import sys; sys.exit(3)", FOREVER), mark)
    worker = outcome.replicas[1]
    assert outcome.exit_code == 3
    assert outcome.message.startswith("master-replica-0 exited with code 3 after ")
    assert (worker.signal, worker.stopped_by_us) == (signal.SIGTERM, True)


def test_a_primary_that_dies_of_a_signal_gives_128_plus_its_number(mark):
    outcome, _ = run_replicas(cluster("import os; os.kill(os.getpid(), 11)"), mark)
    assert outcome.exit_code == 128 + 11
    assert "master-replica-0 was killed by SIGSEGV" in outcome.message


def test_when_the_primary_ends_servers_and_workers_are_stopped(mark):
    replicas = [
        *cluster("print('done')", FOREVER),
        python_replica(Role.PARAMETER_SERVER, 0, FOREVER),
    ]
    outcome, _ = run_replicas(replicas, mark)
    assert outcome.exit_code == 0
    assert [e.stopped_by_us for e in outcome.replicas] == [False, True, True]


def test_workers_of_an_all_reduce_job_may_finish_their_last_lines_after_the_primary(mark, tmp_path):
    gone = "import os, time\nwhile os.path.exists('/proc/' + os.readlink(%r)): time.sleep(0.01)\n"
    link = str(tmp_path / "primary")
    primary = f"import os; os.symlink(str(os.getpid()), {link!r})"
    waiting = f"import os, time\nwhile not os.path.islink({link!r}): time.sleep(0.01)\n"
    worker = waiting + gone % link + "print('last')"
    outcome, recorder = run_replicas(cluster(primary, worker), mark, settle_s=60.0)
    assert recorder.texts("worker-replica-0") == ["last"]
    assert not outcome.replicas[1].stopped_by_us


def test_reducers_are_stopped_when_workers_that_use_them_have_finished(mark):
    """They would be waited for until the test's own time is over."""
    reducer = python_replica(Role.REDUCER, 0, FOREVER)
    outcome, recorder = run_replicas(
        [*cluster("", "print('last')"), reducer], mark, settle_s=3600.0
    )
    assert outcome.exit_code == 0
    assert recorder.texts("worker-replica-0") == ["last"]
    assert [e.stopped_by_us for e in outcome.replicas] == [False, False, True]


@pytest.mark.parametrize("role", [Role.WORKER, Role.PARAMETER_SERVER, Role.EVALUATOR])
def test_a_replica_that_fails_ends_the_job_with_its_code_and_is_named(role, mark):
    failing = "import sys; print('x'); print('no data', file=sys.stderr); sys.exit(7)"
    replicas = [*cluster(FOREVER, FOREVER), python_replica(role, 1, failing)]
    outcome, _ = run_replicas(replicas, mark)
    name = replicas[-1].task_name
    assert outcome.exit_code == 7
    assert outcome.message.startswith(f"{name} exited with code 7 after ")
    assert outcome.message.endswith(": no data")


def test_a_worker_that_ends_early_with_0_ends_nothing(mark, tmp_path):
    """The primary ends after it has seen the worker's process gone."""
    link = tmp_path / "worker"
    worker = f"import os; os.symlink(str(os.getpid()), {str(link)!r})"
    primary = (
        "import os, time\n"
        f"while not os.path.islink({str(link)!r}): time.sleep(0.01)\n"
        f"while os.path.exists('/proc/' + os.readlink({str(link)!r})): time.sleep(0.01)\n"
        "print('alone')"
    )
    outcome, recorder = run_replicas(cluster(primary, worker), mark)
    assert outcome.exit_code == 0
    assert recorder.texts("master-replica-0") == ["alone"]
    assert [e.stopped_by_us for e in outcome.replicas] == [False, False]


def test_a_replica_that_ignores_sigterm_is_killed_after_the_grace(mark, tmp_path):
    deaf = tmp_path / "deaf"
    worker = "import signal; signal.signal(15, signal.SIG_IGN)\n" + touching(deaf) + FOREVER
    replicas = cluster(awaiting(deaf), worker)
    outcome, _ = run_replicas(replicas, mark, grace_s=0.2, settle_s=0.0)
    assert outcome.exit_code == 0
    assert outcome.replicas[1].signal == signal.SIGKILL
    assert outcome.replicas[1].stopped_by_us


def test_a_replica_may_use_its_grace_to_save_and_what_it_says_is_delivered(mark, tmp_path):
    ready = tmp_path / "ready"
    worker = (
        "import signal, sys, time\n"
        "def save(*_): time.sleep(0.2); print('saved'); sys.exit(0)\n"
        "signal.signal(15, save)\n" + touching(ready) + FOREVER
    )
    outcome, recorder = run_replicas(cluster(awaiting(ready), worker), mark, settle_s=0.0)
    assert recorder.texts("worker-replica-0") == ["saved"]
    assert (outcome.replicas[1].exit_code, outcome.replicas[1].stopped_by_us) == (0, True)


def test_if_one_replica_cannot_be_started_none_goes_on_and_the_fault_says_why(mark):
    missing = replace(python_replica(Role.WORKER, 1, ""), argv=("no-such-program", "x"))
    with pytest.raises(
        EngineFault, match=r"worker-replica-1 cannot be started: no-such-program: No"
    ):
        run_replicas([*cluster(FOREVER, FOREVER), missing], mark)


def test_a_working_directory_that_does_not_exist_is_named():
    with pytest.raises(
        EngineFault, match=r"master-replica-0 cannot be started: /no/folder: No such"
    ):
        run(plan_of(cluster(""), cwd="/no/folder"), None)


def test_a_python_that_cannot_be_executed_is_named(tmp_path):
    python = tmp_path / "python"
    python.write_text("not a program")
    plan = replace(plan_of(cluster("")), environment=Environment(python=str(python)))
    with pytest.raises(EngineFault, match=f"cannot be started: {python}: Permission denied"):
        run(plan, None)


def test_a_module_that_does_not_import_tells_its_own_error_on_the_stream():
    module = replace(python_replica(Role.PRIMARY, 0, ""), argv=("python", "-m", "no_such_trainer"))
    outcome, recorder = run_replicas([module])
    own = f"{sys.executable}: No module named no_such_trainer"
    assert recorder.texts("master-replica-0", "stderr") == [own]
    assert outcome.exit_code == 1
    assert f": {own}" in outcome.message
    assert "\n" not in outcome.message


def test_a_sink_that_is_closed_ends_the_job_as_a_closed_pipe_does(mark):
    class Closed:
        def line(self, *_):
            raise BrokenPipeError

        def note(self, _text):
            raise BrokenPipeError

    outcome, _ = run_replicas(cluster("print('x'); " + FOREVER), mark, sink=Closed())
    assert outcome.exit_code == 128 + signal.SIGPIPE


def test_a_full_disk_under_the_output_is_called_that(mark):
    class Full:
        def line(self, _replica, text, _stream):
            os.write(descriptor, text.encode())

        def note(self, text):
            os.write(descriptor, text.encode())

    descriptor = os.open("/dev/full", os.O_WRONLY)
    try:
        outcome, _ = run_replicas(cluster("print('x'); " + FOREVER), mark, sink=Full())
    finally:
        os.close(descriptor)
    assert outcome.exit_code != 0
    assert outcome.message == (
        "the output cannot be written: No space left on device; the job was ended"
    )


def test_a_sink_with_a_bug_of_its_own_leaves_no_process_behind(mark):
    class Broken:
        def line(self, *_):
            raise ZeroDivisionError

        def note(self, _text):
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        run_replicas(cluster("print('x'); " + FOREVER), mark, sink=Broken())


def test_thirteen_replicas_run_at_once_and_none_of_their_lines_is_lost(mark, tmp_path):
    """Each ends, or the primary does, only when all thirteen have written everything."""
    files = [tmp_path / str(i) for i in range(13)]
    codes = ["for i in range(200): print(i)\n" + touching(f) + awaiting(*files) for f in files]
    replicas = [
        *cluster(*codes[:10]),
        *(python_replica(Role.PARAMETER_SERVER, i, code) for i, code in enumerate(codes[10:])),
    ]
    outcome, recorder = run_replicas(replicas, mark)
    assert outcome.exit_code == 0
    assert len(outcome.replicas) == 13
    for replica in replicas:
        assert recorder.texts(replica.task_name) == [str(i) for i in range(200)]


def test_what_the_plan_could_not_grant_is_said_before_anything_runs():
    recorder = Recorder()

    class Ordered(Recorder):
        def line(self, _replica, text, _stream):
            recorder.notes.append(text)

        def note(self, text):
            recorder.notes.append(text)

    run(plan_of(cluster("print('ran')"), notes=("no TPU",)), Ordered())
    assert recorder.notes == ["no TPU", "ran"]


def test_a_missing_package_is_told_with_the_python_that_lacks_it(mark):
    code = "raise ModuleNotFoundError(\"No module named 'xgboost'\")"
    outcome, recorder = run_replicas(cluster(code), mark)
    hint = f"runs in {sys.executable}, which has no xgboost; use --python, or [[environment]]"
    assert hint in outcome.message
    assert any(hint in note for note in recorder.notes)


def test_a_module_of_the_programs_own_gets_no_advice_on_interpreters(tmp_path):
    package = tmp_path / "trainer"
    package.mkdir()
    (package / "feature_helpers.py").touch()
    plan = replace(plan_of(cluster("import feature_helpers")), cwd=str(tmp_path))
    outcome = run(plan, Recorder())
    assert outcome.message.endswith("No module named 'feature_helpers'")
