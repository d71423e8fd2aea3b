"""A single replica, which its launcher runs itself: no warden, no connection, the same promises."""

import dataclasses
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from engines.wheels import make_wheel
from trainshed.engines.base import ReplicaShape
from trainshed.engines.container_runtime import Runtime
from trainshed.engines.processes import tree
from trainshed.engines.supervise.leftovers import list_marked
from trainshed.engines.warden import compose
from trainshed.engines.warden.archive_words import archive_words
from trainshed.engines.warden.hold import hold_seconds
from trainshed.model.attempt import AttemptKey
from trainshed.model.launch_plan import ContainerPlan, Environment
from trainshed.model.roles import Role
from warden.attempts import KEY, addresses, eventually, plan_of, replica, wardens
from warden.stand_in import apptainer, read_calls
from warden.test_attempts import ESCAPES, OBEYS, OLD, notice_in, outcome_of, runs


def test_the_launcher_is_its_parent_and_fills_in_its_address(launchers):
    address = addresses([ReplicaShape(Role.PRIMARY, 0, 2)])[Role.PRIMARY, 0]
    env = {"CLUSTER": address.text, "MASTER_PORT": str(address.rendezvous_port)}
    code = (
        "import os, sys, socket\n"
        "for port in (os.environ['CLUSTER'].rpartition(':')[2], os.environ['MASTER_PORT']):\n"
        "    socket.socket().bind(('127.0.0.1', int(port)))\n"
        "print(os.environ['CLUSTER'].partition(':')[0], os.getppid(), sys.stdin.read() == '')\n"
        "print('err', file=sys.stderr)\n"
        "sys.exit(42)\n"
    )
    attempt = launchers.begin(plan_of([replica(code, env=env)]))
    ended = attempt.ended()
    assert outcome_of(ended) == [("primary-0", 42, None)]
    assert ended.outcome.replicas[0].peak_memory_bytes > 1 << 20
    launcher = int(attempt.records().began.pid)
    assert [line.text for line in attempt.lines("primary-0") if line.stream == "stdout"] == [
        f"127.0.0.1 {launcher} True"
    ]
    assert "err" in attempt.texts("primary-0")
    assert attempt.records().ready.task_names == ("primary-0",)


def test_an_order_gives_notice_then_asks_and_leaves_time(launchers):
    attempt = launchers.begin(plan_of([replica(OBEYS)]))
    runs(attempt)
    assert not wardens(attempt)
    attempt.stop(30.0, "timeout")  # Slurm signals the process that it has started, the reaper
    ended = attempt.ended()
    assert ended.outcome.interrupted
    assert outcome_of(ended) == [("primary-0", 4, None)]
    assert notice_in(attempt, "primary-0")["reason"] == "timeout"


def test_a_node_that_is_to_be_left_gives_notice(launchers, monkeypatch):
    monkeypatch.setenv("SLURMD_NODENAME", "n7")
    attempt = launchers.begin(plan_of([replica(OBEYS)]), grace_s=20.0)
    runs(attempt)
    attempt.launcher.send_signal(signal.SIGTERM)
    ended = attempt.ended()
    assert outcome_of(ended) == [("primary-0", 4, None)]
    assert notice_in(attempt, "primary-0")["reason"] == "maintenance"
    assert ended.outcome.message == "n7 is ending its processes"


@pytest.mark.parametrize("victim", ["launcher", "what stands behind it"])
def test_a_launcher_that_is_killed_takes_everything_with_it(launchers, victim):
    attempt = launchers.begin(plan_of([replica(ESCAPES)]))
    runs(attempt)
    attempt.until(lambda: len(list_marked(str(KEY))) >= 3, "all have left their sessions")
    launcher = int(attempt.records().began.pid)
    if victim == "launcher":
        os.kill(launcher, signal.SIGKILL)
        assert attempt.launcher.wait(60) == 128 + signal.SIGKILL
        assert not list_marked(str(KEY))
    else:  # Slurm kills the rest by the job's cgroup
        pids = [child for _, child in tree.descendants(attempt.launcher.pid)]
        attempt.launcher.kill()
        eventually(lambda: not Path(f"/proc/{launcher}").exists(), "the launcher has ended")
        for pid in pids:
            tree.send(pid, (1, os.getpid()), signal.SIGKILL)
    eventually(lambda: not list_marked(str(KEY)), "nothing lives")
    assert attempt.records().ended is None


def test_the_nodes_are_kept_for_the_next_attempt_after_its_failure(launchers):
    attempt = launchers.begin(plan_of([replica("import sys; sys.exit(137)")]), hold_s=0.5)
    Path(attempt.folder.path, "claim").write_text("812 n1")
    ended = attempt.ended()
    assert ended.outcome.exit_code == 137
    assert hold_seconds(attempt.folder) == 0.5
    assert json.loads(Path(attempt.folder.path, "held").read_text())["job"] == "812"
    assert Path(attempt.folder.path, "release").exists()


@pytest.mark.parametrize("python", [sys.executable, OLD], ids=["ours", "3.9"])
def test_its_packages_are_installed_first(launchers, tmp_path, python):
    if not Path(python).exists():
        pytest.skip("no Python 3.9 is here: install it with pyenv")
    wheel = make_wheel(tmp_path, "greeting", "1.0")
    code = "import greeting; print('at', greeting.__file__)"
    one = replica(code)
    plan = plan_of(
        [dataclasses.replace(one, argv=("python", *one.argv[1:]))],
        environment=Environment(python=str(python), packages=(str(wheel),)),
    )
    attempt = launchers.begin(
        plan,
        python=str(python),
        cache=str(tmp_path / "cache"),
        env={"PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"},  # for uv
    )
    assert attempt.ended().outcome.exit_code == 0, attempt.words()
    assert attempt.texts("primary-0")[0].startswith(f"at {tmp_path}/cache/")


def test_packages_that_cannot_be_had_fail_the_job(launchers, tmp_path):
    environment = Environment(python=sys.executable, packages=(str(tmp_path / "none.whl"),))
    plan = plan_of([replica("print('runs')")], environment=environment)
    ended = launchers.begin(plan, cache=str(tmp_path / "cache")).ended()
    assert "none.whl" in ended.fault
    assert not ended.lost


def test_it_runs_in_its_image_with_the_devices_of_the_node(launchers, tmp_path):
    program = apptainer(tmp_path / "runtime")
    one = replica("", container=ContainerPlan("host/train:1", ("printenv", "NAME"), ()))
    one = dataclasses.replace(one, argv=(), env={"NAME": "of the job"})
    attempt = launchers.begin(
        plan_of([one]),
        runtime=Runtime("apptainer", str(program), "of the nodes", None),
        env={"CUDA_VISIBLE_DEVICES": "MIG-1", "SLURM_JOB_ID": "9"},
    )
    assert attempt.ended().outcome.exit_code == 0, attempt.words()
    assert attempt.texts("primary-0") == ["of the job"]
    (call,) = read_calls(program.parent)
    assert call["env"]["APPTAINERENV_CUDA_VISIBLE_DEVICES"] == "MIG-1"
    assert "SLURM_JOB_ID" not in call["env"]
    shared = f"type=bind,source={attempt.folder.shared},target={attempt.folder.shared}"
    assert call["words"].count(shared) == 1
    assert not [word for word in call["words"] if word.startswith("{")]


#: The most modules of Trainshed that a launcher imports for one replica.
MODULES_MAX = 86
#: What a launcher of one replica has no use for, each with a millisecond or more of import.
UNUSED = {
    "dataclasses", "inspect", "shutil", "socket", "subprocess",
    "trainshed.engines.isolation.mounts", "trainshed.engines.warden.gang",
    "trainshed.engines.warden.protocol", "trainshed.model.launch_plan",
}  # fmt: skip


def test_it_imports_little(launchers):
    folder = launchers.folder()
    address = addresses([ReplicaShape(Role.PRIMARY, 0)])[Role.PRIMARY, 0]
    plan = plan_of([replica("", env={"CLUSTER_SPEC": address.text})])
    compose.write(folder, compose.spec_of(plan, KEY, folder))
    launchers.begin(plan_of([replica("")]), key=AttemptKey(KEY.uid, 2)).ended()  # compiles
    command = [sys.executable, "-X", "importtime", *archive_words("", launchers.archive)[1:]]
    words = subprocess.run(
        [*command, "attempt", folder.path], capture_output=True, text=True, check=True
    ).stderr
    modules = [line.rpartition("|")[2].strip() for line in words.splitlines() if "|" in line]
    assert not UNUSED.intersection(modules)
    assert sum(name.startswith("trainshed") for name in modules) <= MODULES_MAX
