"""Whole attempts whose replicas are behind wardens: their lines, their ends, their orders."""

import dataclasses
import json
import os
import signal
import sys
import time
from pathlib import Path

import pytest

from trainshed.engines.base import ReplicaShape
from trainshed.engines.processes import tree
from trainshed.engines.supervise.leftovers import list_marked
from trainshed.engines.supervise.record.folder import TIME_IS_OVER
from trainshed.engines.supervise.record.observe import measured
from trainshed.engines.supervise.record.spec import HangRule, StepRule
from trainshed.engines.warden.compose import KEEPS
from trainshed.model.attempt import MetricsPlan
from trainshed.model.roles import Role
from warden.attempts import KEY, addresses, eventually, plan_of, replica, step, wardens, workers

OLD = Path.home() / ".pyenv/versions/3.9.18/bin/python"
FOREVER = "import time\nprint('runs', flush=True)\ntime.sleep(600)"
#: Writes down its notice when it is asked to end.
OBEYS = """
import os, signal, sys, time
def end(signum, frame):
    print("notice", open(os.environ["TRAINSHED_NOTICE_FILE"]).read(), flush=True)
    sys.exit(4)
signal.signal(signal.SIGTERM, end)
print("runs", flush=True)
while True:
    time.sleep(0.05)
"""
#: Leaves its session twice, and ignores what can be ignored.
ESCAPES = """
import os, signal, subprocess, sys, time
code = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); time.sleep(600)"
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        os.execv(sys.executable, [sys.executable, "-c", code])
    os._exit(0)
subprocess.Popen([sys.executable, "-c", code], start_new_session=True)
print("runs", flush=True)
time.sleep(600)
"""


def runs(attempt, count=1):
    return attempt.until(
        lambda: attempt.texts().count("runs") == count and attempt.records().ready, "they run"
    )


def notice_in(attempt, task):
    line = next(text for text in attempt.texts(task) if text.startswith("notice "))
    return json.loads(line.partition(" ")[2])


def outcome_of(ended):
    return [
        (replica_exit.task_name, replica_exit.exit_code, replica_exit.signal)
        for replica_exit in ended.outcome.replicas
    ]


def test_replicas_run_and_their_lines_exits_and_records_are_those_of_any_attempt(launchers):
    code = (
        "import os, sys, time\n"
        "name = os.environ['TRAINSHED_TASK']\n"
        "print('out', name, os.getcwd(), sys.stdin.read() == '', flush=True)\n"
        "print('err', file=sys.stderr, flush=True)\n"
        "open(name, 'w').close()\n"
        "while name != 'worker-0' or len(os.listdir('.')) < 3: time.sleep(0.02)\n"
        "sys.exit(42)\n"
    )
    attempt = launchers.begin(plan_of(workers(code, 3)))
    ended = attempt.ended()
    assert ended.outcome.exit_code == 42
    assert not ended.lost
    assert outcome_of(ended) == [
        ("primary-0", None, 15), ("worker-0", 42, None), ("worker-1", None, 15),
    ]  # fmt: skip
    for name in ("primary-0", "worker-0", "worker-1"):
        lines = attempt.lines(name)
        assert {(line.text, line.stream) for line in lines} == {
            (f"out {name} {attempt.folder.work} True", "stdout"), ("err", "stderr"),
        }  # fmt: skip
    stamps = [line.stamp_ns for line in attempt.lines()]
    assert stamps == sorted(set(stamps))
    exits = sorted(Path(attempt.folder.path).glob("exit-*.json"))
    assert [path.name for path in exits] == [
        "exit-primary-0.json", "exit-worker-0.json", "exit-worker-1.json",
    ]  # fmt: skip
    assert attempt.records().ready.task_names == ("primary-0", "worker-0", "worker-1")


def test_the_primary_decides_and_a_signal_is_one(launchers):
    first = replica("import os; os.kill(os.getpid(), 11)")
    server = replica(FOREVER, Role.PARAMETER_SERVER)
    ended = launchers.begin(plan_of((first, server))).ended()
    assert ended.outcome.exit_code == 128 + signal.SIGSEGV
    assert outcome_of(ended)[0] == ("primary-0", None, signal.SIGSEGV)
    assert ended.outcome.replicas[1].stopped_by_us


@pytest.mark.parametrize(
    "python",
    [
        pytest.param(
            str(OLD),
            marks=pytest.mark.skipif(not OLD.exists(), reason="install Python 3.9 with pyenv"),
        )
    ],
)
def test_a_node_needs_python_3_9_and_nothing_else(launchers, python):
    code = "import sys; print('runs', sys.version_info[:2]); sys.exit(0)"
    attempt = launchers.begin(plan_of(workers(code, 2)), python=python)
    assert attempt.ended().outcome.exit_code == 0
    assert attempt.texts("worker-0") == [f"runs {tuple(sys.version_info[:2])}"]


def test_what_stands_for_addresses_becomes_those_that_the_wardens_have(launchers):
    shape = [ReplicaShape(Role.PRIMARY, 0), ReplicaShape(Role.WORKER, 0, 3)]
    at = addresses(shape)
    first, second = at[Role.PRIMARY, 0], at[Role.WORKER, 0]
    env = {
        "CLUSTER": json.dumps({"chief": [first.text], "worker": [second.text]}),
        "NEXT": f"{second.host}:{second.port + 2}",
        "MASTER_PORT": str(first.rendezvous_port),
        "OTHER": f"x{first.host}y 14000000100 4999999999",
    }
    code = (
        "import os, json, sys\n"
        "found = {k: os.environ[k] for k in ('CLUSTER', 'NEXT', 'MASTER_PORT', 'OTHER')}\n"
        "print(json.dumps({**found, 'argv': sys.argv[1]}))"
    )
    replicas = [
        dataclasses.replace(worker, argv=(*worker.argv, f"--at={second.text}"))
        for worker in workers(code, 2, env=env)
    ]
    attempt = launchers.begin(plan_of(replicas))
    assert attempt.ended().outcome.exit_code == 0
    (text,), (other,) = attempt.texts("primary-0"), attempt.texts("worker-0")
    assert text == other
    values = json.loads(text)
    cluster = json.loads(values["CLUSTER"])
    host, _, port = cluster["worker"][0].partition(":")
    assert host == "127.0.0.1"
    assert values["argv"] == f"--at=127.0.0.1:{port}"
    assert values["NEXT"] == f"127.0.0.1:{int(port) + 2}"
    own = cluster["chief"][0].partition(":")[2]
    assert len({own, port, values["MASTER_PORT"]}) == 3
    assert values["OTHER"] == "x127.0.0.1y 14000000100 4999999999"


@pytest.mark.parametrize("owner", ["warden", "launcher"])
def test_an_environment_and_a_command_arrive_byte_for_byte(launchers, owner):
    odd = {
        "QUOTES": "a'b\"c`d", "DOLLAR": "$HOME ${PATH} $(id)", "LINES": "a\nb\r\n\tc\\n",
        "WORDS": "Grüße 世界 🚀", "LONG": "x" * 100_000, "EMPTY": "",
    }  # fmt: skip
    code = (
        "import os, json, sys\n"
        "open(sys.argv[1], 'w').write(json.dumps([dict(os.environ), sys.argv[2:]]))\n"
    )
    words = ("it's", '"$x"', "a\nb", "", "ü")
    path = str(launchers.root / "said")
    one = replica(code, env={**odd, "CUDA_VISIBLE_DEVICES": "9"})  # its node knows better
    one = dataclasses.replace(one, argv=(*one.argv, path, *words))
    attempt = launchers.begin(
        plan_of([one]),
        env={
            "SLURM_JOB_ID": "7", "PMI_RANK": "1", "SRUN_DEBUG": "3", "SECRET_OF_SITE": "s",
            "CUDA_VISIBLE_DEVICES": "2,3", "TMPDIR": str(launchers.root), "TZ": "UTC",
        },
        keeps=KEEPS,
        steps=(step(launchers.archive, 0, 1),) if owner == "warden" else (),
    )  # fmt: skip
    assert attempt.ended().outcome.exit_code == 0, attempt.words()
    env, argv = json.loads(Path(path).read_text())
    assert {name: env[name] for name in odd} == odd
    assert tuple(argv) == words
    assert env["CUDA_VISIBLE_DEVICES"] == "2,3"
    assert env["TMPDIR"] == str(launchers.root)
    assert env["TZ"] == "UTC"
    assert not [name for name in env if name.startswith(("SLURM", "PMI", "SRUN", "SECRET"))]
    assert not [name for name in env if name.startswith("TRAINSHED_LAUNCHER")]


def test_an_order_gives_notice_then_asks_and_leaves_time(launchers):
    attempt = launchers.begin(plan_of(workers(OBEYS, 2)))
    runs(attempt, 2)
    before = time.time()
    attempt.stop(30.0, "timeout")
    ended = attempt.ended()
    assert ended.outcome.interrupted
    assert outcome_of(ended) == [("primary-0", 4, None), ("worker-0", 4, None)]
    notice = notice_in(attempt, "worker-0")
    assert notice["reason"] == "timeout"
    assert notice["message"] == "it was asked for"
    assert before + 30 <= notice["until"] <= time.time() + 30
    assert all(
        replica_exit.stopped_by_us and replica_exit.notice_s is not None
        for replica_exit in ended.outcome.replicas
    )


def test_an_order_that_nobody_announces_is_found(launchers):
    attempt = launchers.begin(plan_of([replica(OBEYS)]))
    runs(attempt)
    attempt.stop(signals=False)
    assert attempt.ended().outcome.interrupted


def test_what_leaves_its_session_and_ignores_its_order_is_killed(launchers):
    attempt = launchers.begin(plan_of(workers(ESCAPES, 2)))
    runs(attempt, 2)
    attempt.until(lambda: len(list_marked(str(KEY))) >= 6, "all have left their sessions")
    attempt.stop(0.3)
    ended = attempt.ended()
    assert ended.outcome.interrupted
    assert not list_marked(str(KEY))


def test_one_that_was_ordered_to_stop_before_it_began_starts_nothing(launchers):
    folder = launchers.folder()
    folder.give_order(launchers.order())
    attempt = launchers.begin(plan_of([replica(FOREVER)]))
    ended = attempt.ended()
    assert ended.outcome.message == "stopped before it was started"
    assert not attempt.texts("primary-0")


def test_the_end_of_its_time_is_kept_with_nobody_there(launchers):
    attempt = launchers.begin(plan_of([replica(OBEYS)]), ends_s=3.0, grace_s=20.0)
    ended = attempt.ended()
    assert ended.outcome.interrupted
    assert ended.outcome.message == f"{TIME_IS_OVER} for 3 s"


def test_the_end_of_its_time_is_said_also_while_packages_are_installed(launchers):
    """Slurm's partition decides; the next attempt would have no more time than this one."""
    installs = StepRule(argv=("sleep", "600"), first=0, tasks=2)
    attempt = launchers.begin(plan_of(workers(FOREVER, 2)), steps=(installs,), ends_s=0.5)
    ended = attempt.ended()
    assert ended.outcome.interrupted
    assert ended.outcome.message == f"{TIME_IS_OVER} for 0.5 s"


@pytest.mark.parametrize("heard_by", ["warden", "what stands behind it"])
def test_a_node_that_is_to_be_left_gives_notice_to_all(launchers, heard_by):
    attempt = launchers.begin(plan_of(workers(OBEYS, 3)), grace_s=20.0)
    runs(attempt, 3)
    warden = wardens(attempt)[-1]
    # Slurm tells the task alone, which is the process that the warden has forked from
    os.kill(warden if heard_by == "warden" else tree.parent_of(warden), signal.SIGTERM)
    ended = attempt.ended()
    assert ended.outcome.interrupted
    assert {
        notice_in(attempt, replica_exit.task_name)["reason"]
        for replica_exit in ended.outcome.replicas
    } == {"maintenance"}
    assert [code for _, code, _ in outcome_of(ended)] == [4, 4, 4]


def test_a_warden_that_is_killed_is_a_lost_attempt_and_leaves_nothing(
    launchers, tmp_path, monkeypatch
):
    # its folder on the node stays behind, as whatever a killed process has in /tmp
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setenv("SLURMD_NODENAME", "n7")
    attempt = launchers.begin(plan_of(workers(ESCAPES, 2)), grace_s=0.5)
    runs(attempt, 2)
    os.kill(wardens(attempt)[0], signal.SIGKILL)
    ended = attempt.ended()
    assert (ended.lost, ended.nodes) == (True, ("n7",))
    assert "is lost: its warden on n7 closed the connection" in ended.fault
    assert not list_marked(str(KEY))


def test_replicas_that_slurm_kills_for_their_memory_are_an_end_of_the_program(
    launchers, tmp_path, monkeypatch
):
    """With OverMemoryKill Slurm kills a step with its wardens, and srun prints why."""
    monkeypatch.setenv("TMPDIR", str(tmp_path))  # as above
    words = "StepId=3.0 exceeded memory limit (481468416 > 209715200), being killed"
    wrapper = f'"$@"; echo "slurmstepd-n7: error: {words}" >&2; echo "srun: error: Killed" >&2'
    argv = ("sh", "-c", wrapper, "sh", *step(launchers.archive, 0, 2).argv)
    command = StepRule(argv=argv, first=0, tasks=2)
    attempt = launchers.begin(plan_of(workers(FOREVER, 2)), steps=(command,))
    runs(attempt, 2)
    os.kill(wardens(attempt)[0], signal.SIGKILL)
    ended = attempt.ended()
    assert (ended.lost, ended.fault, ended.nodes, ended.outcome.exit_code) == (False, None, (), 137)
    assert ended.outcome.message.endswith(f"out of memory (the cluster says {words})")


def test_a_launcher_that_is_killed_takes_everything_with_it(launchers):
    attempt = launchers.begin(plan_of(workers(ESCAPES, 2)))
    runs(attempt, 2)
    attended = wardens(attempt)
    attempt.launcher.kill()
    eventually(lambda: not list_marked(str(KEY)), "nothing lives")
    eventually(lambda: not any(Path(f"/proc/{pid}").exists() for pid in attended), "no wardens")
    assert attempt.records().ended is None
    assert not attempt.folder.is_held()


def test_what_cannot_be_started_says_why(launchers):
    one = replica("")
    one = dataclasses.replace(one, argv=("/no/such/program",))
    ended = launchers.begin(plan_of([one])).ended()
    assert ended.fault == "primary-0 cannot be started: /no/such/program: No such file or directory"
    assert not ended.lost


def test_a_command_that_brings_no_wardens_is_told_with_its_last_words(launchers):
    bad = StepRule(argv=("sh", "-c", "echo node n3 is down >&2; exit 9"), first=0, tasks=2)
    ended = launchers.begin(plan_of(workers(FOREVER, 2)), steps=(bad,)).ended()
    assert ended.lost
    assert ended.fault == (
        "primary-0, worker-0 did not come up: the command that starts the wardens ended with "
        "status 9: "
        "node n3 is down"
    )


def test_wardens_that_do_not_come_are_named_and_no_program_runs(launchers, monkeypatch):
    monkeypatch.setenv("SLURMD_NODENAME", "n7")
    some = step(launchers.archive, 0, 1)
    none = StepRule(argv=("sleep", "600"), first=1, tasks=1)
    attempt = launchers.begin(plan_of(workers(FOREVER, 2)), steps=(some, none), start_timeout_s=3.0)
    ended = attempt.ended()
    assert (ended.lost, ended.nodes, ended.reached) == (True, (), ("n7",))
    assert ended.fault.endswith("worker-0 did not come up within 3 s")
    assert not attempt.texts("primary-0")


def test_several_commands_start_the_replicas_of_one_attempt(launchers):
    steps = (step(launchers.archive, 0, 1), step(launchers.archive, 1, 2))
    attempt = launchers.begin(plan_of(workers("print('here')", 3)), steps=steps)
    assert attempt.ended().outcome.exit_code == 0
    assert [line.task_name for line in attempt.lines() if line.text == "here"].__len__() == 3


def test_the_last_words_of_a_program_are_all_there(launchers):
    code = (
        "import os, sys\n"
        "sys.stdout.write(''.join(f'line {i}\\n' for i in range(10_000)))\n"
        "sys.stdout.flush()\n"
        "os.write(2, b'\\xff\\xfe odd \\x00\\n' + b'y' * 200_000 + b'\\nno newline')\n"
        "os._exit(0)\n"
    )
    attempt = launchers.begin(plan_of(workers(code, 2)))
    assert attempt.ended().outcome.exit_code == 0
    for name in ("primary-0", "worker-0"):
        lines = [line.text for line in attempt.lines(name) if line.stream == "stdout"]
        assert lines == [f"line {i}" for i in range(10_000)]
        odd = [line.text for line in attempt.lines(name) if line.stream == "stderr"]
        assert odd[0] == "\ufffd\ufffd odd \0"
        assert "".join(odd[1:-1]) == "y" * 200_000
        assert odd[-1] == "no newline"


def test_a_trial_s_metrics_of_its_last_instant_are_read(launchers):
    path = launchers.folder().metrics + "/output.metrics"
    code = (
        "import json, os\n"
        f"file = open({path!r}, 'a')\n"
        "for step in range(100):\n"
        "    file.write(json.dumps({'global_step': str(step), 'loss': step / 2, "
        "'timestamp': 1.0, 'trial': '1'}) + '\\n')\n"
        "file.flush()\n"
        "os._exit(0)\n"
    )
    plan = plan_of([replica(code)], metrics=MetricsPlan(files=(path,), tags=("loss",)))
    attempt = launchers.begin(plan)
    assert attempt.ended().outcome.exit_code == 0
    assert len(measured(attempt.folder, 0).reports) == 100


def test_a_replica_that_hangs_is_told_with_its_stacks_and_a_heartbeat_is_a_sign(
    launchers, tmp_path
):
    tool = tmp_path / "bin" / "py-spy"
    tool.parent.mkdir()
    tool.write_text("#!/bin/sh\necho 'Thread 1 (idle)'\n")
    tool.chmod(0o755)
    beats = (
        "import os, time\n"
        "while True:\n"
        "    open(os.environ['TRAINSHED_PROGRESS_FILE'], 'w').write('{}')\n"
        "    time.sleep(0.1)\n"
    )
    plan = plan_of((replica(beats), replica(FOREVER, Role.WORKER)))
    attempt = launchers.begin(
        plan, hang=HangRule(3.0), env={"PATH": f"{tool.parent}:{os.environ['PATH']}"}
    )
    hang = attempt.until(lambda: attempt.records().hung.get("worker-0"), "it hangs")
    assert hang.stacks == "Thread 1 (idle)"
    assert Path(attempt.folder.progress("primary-0")).exists()
    attempt.stop(0.0)
    attempt.ended()


def test_a_plan_that_cannot_be_read_is_the_launcher_s_fault(launchers):
    attempt = launchers.begin(plan_of([replica(FOREVER)]), plan_text="{")
    ended = attempt.ended()
    assert ended.fault.startswith("the launcher failed: ")
