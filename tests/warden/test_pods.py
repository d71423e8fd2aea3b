"""Whole attempts whose launcher and wardens a cluster has started, without commands of the plan."""

import dataclasses
import json
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from trainshed.engines.base import ReplicaShape
from trainshed.engines.processes import tree
from trainshed.engines.supervise.leftovers import list_marked
from trainshed.engines.supervise.record.folder import ENDS_PROCESSES
from trainshed.engines.supervise.record.observe import steps_of
from trainshed.engines.warden.launcher_variables import LAUNCHER, SECRET
from trainshed.model.launch_plan import ContainerPlan
from trainshed.model.roles import Role
from warden.attempts import DEADLINE_S, KEY, addresses, eventually, plan_of, replica, workers
from warden.pods import UID
from warden.test_attempts import ESCAPES, FOREVER, OBEYS, notice_in, outcome_of, runs

#: Those of the root of a container, by default.
CAPABILITIES = (
    "chown", "dac_override", "fowner", "fsetid", "kill", "setgid", "setuid", "setpcap",
    "net_bind_service", "net_raw", "sys_chroot", "mknod", "audit_write", "setfcap",
)  # fmt: skip
#: Starts a command as the first process of a container, with these capabilities.
FIRST_PROCESS = (
    "unshare", "--pid", "--fork", "--mount-proc", "--kill-child", "setpriv",
    "--bounding-set=-all,+" + ",+".join(CAPABILITIES),
)  # fmt: skip


def can_make_containers() -> bool:
    if not (shutil.which("unshare") and shutil.which("setpriv")):
        return False
    return (
        subprocess.run([*FIRST_PROCESS, "true"], capture_output=True, check=False).returncode == 0
    )


def in_image(code: str, role: Role = Role.PRIMARY, index: int = 0, **more):
    """A replica whose container has an image of its own."""
    container = ContainerPlan(image="host/train:1", command=(sys.executable,), args=("-c", code))
    return dataclasses.replace(replica(code, role, index, **more), container=container)


def gang_in_images(code: str, count: int, **more):
    others = (in_image(code, Role.WORKER, i, **more) for i in range(count - 1))
    return (in_image(code, **more), *others)


def send_to_all(attempt, signum):
    for process in (attempt.launcher, *attempt.wardens.values()):
        process.send_signal(signum)


def test_programs_get_the_environment_and_the_folder_of_their_images(pods):
    shape = [ReplicaShape(Role.PRIMARY, 0), ReplicaShape(Role.WORKER, 0)]
    peer = addresses(shape)[Role.WORKER, 0]
    code = "import os, json; print(json.dumps([os.getcwd(), dict(os.environ)]))"
    plan = plan_of(
        gang_in_images(code, 2, env={"PEER": peer.text, "OF_BOTH": "of the job"}),
        cwd="/of/the/server",
        binds=(("/of/the/server", "/gcs/b"),),
        unset_env=("OF_IMAGE",),
    )
    of_image = {
        "OF_IMAGE": "Grüße\n", "OF_BOTH": "of the image", "PGPASSWORD": "x", "EMPTY": "",
        "CUDA_VISIBLE_DEVICES": "7", "KUBERNETES_PORT": "tcp://10.0.0.1", "TMPDIR": str(pods.root),
    }  # fmt: skip
    attempt = pods.begin(plan, env=of_image)
    assert attempt.ended().outcome.exit_code == 0, attempt.words()
    assert attempt.statuses() == [0, 0]
    for index, task in enumerate(("primary-0", "worker-0")):
        (text,) = attempt.texts(task)
        cwd, env = json.loads(text)
        assert cwd == str(pods.root / f"container-{index}")
        host, _, port = env["PEER"].partition(":")
        assert (host, int(port) < peer.port) == ("127.0.0.1", True)
        own = {name: env.get(name) for name in of_image}
        assert own == {**of_image, "OF_BOTH": "of the job", "KUBERNETES_PORT": None}
        assert not {LAUNCHER, SECRET} & set(env)
        assert env["TRAINSHED_TASK"] == task
        assert attempt.output(index).splitlines()[-1] == text


def test_a_variable_that_python_sets_is_not_one_of_the_image(pods, monkeypatch):
    for name in ("LANG", "LC_ALL", "LC_CTYPE", "PYTHONCOERCECLOCALE", "PYTHONUTF8"):
        monkeypatch.delenv(name, raising=False)
    program = ContainerPlan(image="i", command=("env",))
    attempt = pods.begin(plan_of([dataclasses.replace(in_image(""), container=program)]))
    assert attempt.ended().outcome.exit_code == 0, attempt.words()
    names = {text.partition("=")[0] for text in attempt.texts("primary-0")}
    assert "TRAINSHED_TASK" in names
    assert "LC_CTYPE" not in names


def test_a_launcher_leaves_its_claim_and_wardens_write_nothing_beside_it(pods):
    code = (
        "import os; open(os.environ['TRAINSHED_STEPS_FILE'], 'w').write("
        '\'{"steps": 3, "seconds": 1.5}\')'
    )
    attempt = pods.begin(plan_of([in_image(code)]))
    assert attempt.ended().outcome.exit_code == 0, attempt.words()
    folder = Path(attempt.folder.path)
    assert (folder / "claim").read_text() == UID
    assert not list(folder.glob("exit-*"))
    steps_file = Path(attempt.folder.steps("primary-0"))
    assert json.loads(steps_file.read_text()) == {"steps": 3, "seconds": 1.5}
    assert steps_of(attempt.folder, "worker-0") is None


def test_a_second_start_with_a_claim_starts_nothing(pods):
    attempt = pods.begin(plan_of([in_image(FOREVER)]))
    runs(attempt)
    assert pods.start_launcher("another-uid").wait(DEADLINE_S) == 0
    attempt.launcher.kill()
    assert attempt.statuses() != [0]
    before = Path(attempt.folder.records).read_bytes()
    assert pods.start_launcher().wait(DEADLINE_S) == 0
    assert pods.start_launcher("another-uid").wait(DEADLINE_S) == 0
    assert Path(attempt.folder.records).read_bytes() == before
    assert (Path(attempt.folder.path) / "claim").read_text() == UID
    assert "has a claim already" in (pods.root / "launcher.out").read_text()


def test_a_cancel_with_a_signal_to_all_at_once_is_told_as_one(pods):
    attempt = pods.begin(plan_of(gang_in_images(OBEYS, 3)))
    runs(attempt, 3)
    attempt.stop(20.0, "cancel", signals=False)
    send_to_all(attempt, signal.SIGTERM)
    ended = attempt.ended()
    assert ended.outcome.interrupted
    assert ended.outcome.message == "it was asked for"
    tasks = ("primary-0", "worker-0", "worker-1")
    assert {notice_in(attempt, task)["reason"] for task in tasks} == {"cancel"}
    assert attempt.statuses() == [4, 4, 4]


def test_a_cancel_whose_signal_reaches_one_warden_is_told_as_one(pods):
    attempt = pods.begin(plan_of(gang_in_images(OBEYS, 3)))
    runs(attempt, 3)
    attempt.stop(20.0, "cancel", signals=False)
    attempt.wardens[2].send_signal(signal.SIGTERM)
    assert attempt.ended().outcome.message == "it was asked for"
    assert notice_in(attempt, "worker-0")["reason"] == "cancel"


@pytest.mark.parametrize("signalled", ["a warden", "the launcher"])
def test_a_signal_without_an_order_gives_notice_of_maintenance_to_all(pods, signalled):
    attempt = pods.begin(plan_of(gang_in_images(OBEYS, 3)), grace_s=20.0)
    runs(attempt, 3)
    process = attempt.wardens[2] if signalled == "a warden" else attempt.launcher
    process.send_signal(signal.SIGTERM)
    ended = attempt.ended()
    assert ended.outcome.interrupted
    assert ended.outcome.message.endswith(ENDS_PROCESSES)
    tasks = ("primary-0", "worker-0", "worker-1")
    assert {notice_in(attempt, task)["reason"] for task in tasks} == {"maintenance"}
    assert [code for _, code, _ in outcome_of(ended)] == [4, 4, 4]
    assert attempt.statuses() == [4, 4, 4]


def test_a_killed_launcher_takes_everything_with_it(pods):
    attempt = pods.begin(plan_of(gang_in_images(ESCAPES, 2)))
    runs(attempt, 2)
    attempt.launcher.kill()
    assert attempt.statuses() == [1, 1]
    eventually(lambda: not list_marked(str(KEY)), "nothing lives")
    assert "the launcher" in attempt.output(1)


def test_a_killed_warden_is_a_lost_attempt_and_its_peers_end(pods, tmp_path, monkeypatch):
    monkeypatch.setenv("TMPDIR", str(tmp_path))  # a killed warden leaves its folder
    attempt = pods.begin(plan_of(gang_in_images(ESCAPES, 2)), grace_s=0.5)
    runs(attempt, 2)
    (child,) = tree.children(attempt.wardens[1].pid)
    os.kill(child, signal.SIGKILL)
    ended = attempt.ended()
    assert ended.lost
    assert "worker-0 is lost: its warden on" in ended.fault
    assert attempt.wardens[1].wait(DEADLINE_S) == 128 + signal.SIGKILL
    assert attempt.statuses()[0] != 0


def test_a_missing_warden_is_named_and_no_program_runs(pods):
    attempt = pods.begin(plan_of(gang_in_images(FOREVER, 3)), indexes=(0, 2), start_timeout_s=3.0)
    ended = attempt.ended()
    assert ended.lost
    assert ended.fault == "worker-0 did not come up within 3 s"
    assert not attempt.texts("primary-0")
    assert attempt.statuses() == [1, 1]
    late = pods.start_warden(1, attempt)
    late.send_signal(signal.SIGTERM)
    assert late.wait(DEADLINE_S) in {128 + signal.SIGTERM, -signal.SIGTERM}


@pytest.mark.parametrize(
    ("first", "others", "statuses"),
    [
        # a job that fails: the program that failed, and those that were stopped for it
        (FOREVER, "raise SystemExit(3)", [143, 3]),
        ("import os; os.kill(os.getpid(), 11)", FOREVER, [139, 143]),
        # a job that succeeds: what was stopped at its end has not failed
        ("print('done')", FOREVER, [0, 0]),
    ],
)
def test_the_status_of_a_warden_is_that_of_its_program(pods, first, others, statuses):
    replicas = (in_image(first), in_image(others, Role.PARAMETER_SERVER))
    attempt = pods.begin(plan_of(replicas))
    attempt.ended()
    assert attempt.statuses() == statuses


def test_the_status_of_a_warden_without_a_program_is_a_failure(pods):
    bad = dataclasses.replace(
        in_image(""), container=ContainerPlan(image="i", command=("/no/such/program",))
    )
    attempt = pods.begin(plan_of((bad, *gang_in_images(FOREVER, 2)[1:])))
    ended = attempt.ended()
    assert ended.fault == "primary-0 cannot be started: /no/such/program: No such file or directory"
    assert attempt.statuses()[0] == 127
    assert 0 not in attempt.statuses()


def test_the_secret_must_be_that_of_the_launcher(pods):
    attempt = pods.begin(
        plan_of(workers("print('runs')", 1)), env={SECRET: "another"}, start_timeout_s=2.0
    )
    assert attempt.ended().fault == "primary-0 did not come up within 2 s"
    attempt.wardens[0].send_signal(signal.SIGTERM)
    assert attempt.statuses() == [128 + signal.SIGTERM]


def test_a_launcher_without_its_secret_says_so(pods, monkeypatch):
    monkeypatch.setattr(pods, "secret", "")
    attempt = pods.begin(plan_of([in_image(FOREVER)]), indexes=())
    assert attempt.ended().fault == (f"cannot listen for wardens: {SECRET} must have 1 to 64 bytes")


def test_output_without_a_reader_holds_up_neither_the_program_nor_the_launcher(pods):
    code = "for i in range(60_000): print(f'{i:07d}', 'x' * 50)"
    reader, writer = os.pipe()
    try:
        attempt = pods.begin(plan_of([in_image(code)]), stdout=writer)
        ended = attempt.ended()
        assert ended.outcome.exit_code == 0, attempt.words()
        assert [int(text[:7]) for text in attempt.texts("primary-0")] == list(range(60_000))
        assert attempt.statuses() == [0]
    finally:
        os.close(writer)
        os.close(reader)


def test_programs_without_an_image_get_what_they_get_on_a_node(pods):
    code = "import os; print(os.getcwd(), os.environ['CUDA_VISIBLE_DEVICES'])"
    attempt = pods.begin(
        plan_of(workers(code, 2, env={"CUDA_VISIBLE_DEVICES": "of the job"})),
        env={"CUDA_VISIBLE_DEVICES": "of the image"},
        keeps=("*",),
    )
    assert attempt.ended().outcome.exit_code == 0, attempt.words()
    assert attempt.texts("worker-0") == [f"{pods.root}/container-1 of the job"]


def test_what_programs_write_is_open_to_their_group(pods):
    code = "import os; mask = os.umask(0); print(f'{mask:03o}', flush=True)"
    attempt = pods.begin(plan_of(gang_in_images(code, 2)))
    assert attempt.ended().outcome.exit_code == 0, attempt.words()
    assert attempt.texts("primary-0") == attempt.texts("worker-0") == ["002"]


@pytest.mark.skipif(not can_make_containers(), reason="run as root: makes namespaces")
def test_the_first_process_of_a_container_hides_its_secret_and_collects_orphans(pods):
    code = (
        "import os, subprocess, sys, time\n"
        "for pid in ('1', str(os.getppid())):\n"
        "    for name in ('environ', 'mem', 'maps'):\n"
        "        try:\n"
        "            open(f'/proc/{pid}/{name}', 'rb').read(1)\n"
        "            print(pid, name, 'is readable')\n"
        "        except PermissionError:\n"
        "            pass\n"
        "subprocess.run(['sh', '-c', 'true & sleep 0.1 & exit'])\n"
        "def zombies():\n"
        "    pids = [pid for pid in os.listdir('/proc') if pid.isdecimal()]\n"
        "    return [pid for pid in pids if ') Z ' in read(f'/proc/{pid}/stat')]\n"
        "def read(path):\n"
        "    try:\n"
        "        return open(path).read()\n"
        "    except OSError:\n"
        "        return ''\n"
        "while zombies(): time.sleep(0.02)\n"
        "print('first', os.getpid() < 10, flush=True)\n"
        "import signal\n"
        "signal.signal(signal.SIGTERM, lambda *_: sys.exit(5))\n"
        "print('runs', flush=True)\n"
        "while True: time.sleep(0.05)\n"
    )
    attempt = pods.begin(plan_of([in_image(code)]), before=FIRST_PROCESS, grace_s=20.0)
    runs(attempt)
    assert attempt.texts("primary-0") == ["first True", "runs"]
    (first,) = tree.children(attempt.wardens[0].pid)
    os.kill(first, signal.SIGTERM)
    assert attempt.ended().outcome.message.endswith(ENDS_PROCESSES)
    assert attempt.statuses() == [5]
