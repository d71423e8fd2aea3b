"""The preparer hands over complete replicas and the devices' locks, or says why it cannot."""

import json
import os
import signal
import socket
import subprocess
import sys
from contextlib import ExitStack, closing, suppress

import pytest

from engines.support import cluster, plan_of, python_replica, wait_until
from trainshed.engines.local.attempts import plan_file, start
from trainshed.engines.local.attempts.plan_file import Preparation, ReplicaSite
from trainshed.engines.local.devices import locks as device_locks
from trainshed.engines.local.devices.locks import DeviceHolder
from trainshed.engines.supervise.helpers import preparing
from trainshed.engines.supervise.kernel.spawn import ProcessSpec, Wiring, fork_exec
from trainshed.engines.supervise.kernel.spawn import raise_descriptor_limit as descriptor_limit
from trainshed.engines.supervise.record.folder import AttemptFolder
from trainshed.model.attempt import AttemptKey
from trainshed.model.roles import Role

STRANGER = DeviceHolder(pid=12, what="attempt 9/3", root="/elsewhere/jobs")
SOME = 1 << 16


@pytest.fixture
def locks(tmp_path, monkeypatch):
    path = tmp_path / "locks"
    device_locks.prepare(path)
    monkeypatch.setenv("TRAINSHED_LOCK_DIR", str(path))
    return path


def wanting(*counts):
    roles = (Role.PRIMARY, *[Role.WORKER] * len(counts))
    return [python_replica(roles[i], i, "", gpu_count=n) for i, n in enumerate(counts)]


class Run:
    """A run of the preparer, as a supervisor makes it."""

    def __init__(self, path, replicas, **more):
        self.folder = AttemptFolder(str(path / "jobs/7/1"))
        self.folder.make()
        plan = plan_of(replicas)
        spec = plan_file.spec_of(ReplicaSite(AttemptKey(7, 1), self.folder), plan, ())
        plan_file.write(self.folder.plan, spec, Preparation(plan=plan, **more))
        self.stdout, self.stderr = path / "stdout", path / "stderr"
        self.channel, theirs = socket.socketpair()
        with ExitStack() as files:
            files.enter_context(theirs)
            out = files.enter_context(self.stdout.open("wb")).fileno()
            err = files.enter_context(self.stderr.open("wb")).fileno()
            argv = (sys.executable, "-P", "-m", start.PREPARING, self.folder.path)
            command = ProcessSpec(argv, dict(os.environ), str(path))
            wiring = Wiring(out, err, theirs.fileno())
            self.pid = fork_exec(command, wiring, err, descriptors=descriptor_limit())

    def end(self):
        """The status, the answer and the descriptors that came with it."""
        data, locks = b"", []
        while True:
            flags = socket.MSG_CMSG_CLOEXEC
            part, descriptors, _, _ = socket.recv_fds(self.channel, SOME, 253, flags)
            locks += descriptors
            if not part:
                break
            data += part
        self.channel.close()
        status = os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])
        return status, json.loads(data) if data else None, locks

    def read_output(self):
        return self.stdout.read_text().splitlines(), self.stderr.read_text().splitlines()

    def close(self):
        """Leave nothing of it, also where a test has failed in its midst."""
        if self.channel.fileno() >= 0:
            with suppress(ProcessLookupError):
                os.kill(self.pid, signal.SIGKILL)
            for descriptor in self.end()[2]:
                os.close(descriptor)


@pytest.fixture
def prepare(tmp_path, locks):
    runs = []

    def begin(replicas, **more):
        runs.append(Run(tmp_path, replicas, **more))
        return runs[-1]

    assert locks.is_dir()
    yield begin
    for run in runs:
        run.close()


def holder(locks, number):
    return device_locks.holder_of(locks, f"GPU-fake-{number:04d}")


def test_the_locks_outlive_the_preparer_and_are_the_receiver_s(prepare, tmp_path, locks):
    run = prepare(wanting(1, 0, 2), fake_gpus=4)
    status, answer, handed = run.end()
    assert (status, run.read_output()) == (0, ([], []))
    uuids = [f"GPU-fake-000{n}" for n in range(3)]
    assert answer["devices"] == uuids
    visible = [replica["env"]["CUDA_VISIBLE_DEVICES"] for replica in answer["replicas"]]
    assert visible == [uuids[0], "", ",".join(uuids[1:])]
    assert answer["replicas"][0]["argv"][0] == sys.executable
    assert answer["after"][1:] == ["-P", "-m", "trainshed.engines.local.devices.wait", *uuids]
    mine = DeviceHolder(pid=os.getpid(), what="attempt 7/1", root=str(tmp_path / "jobs"))
    assert [holder(locks, n) for n in range(4)] == [mine, mine, mine, None]
    for descriptor in handed:
        os.close(descriptor)
    assert [holder(locks, n) for n in range(4)] == [None] * 4


def test_devices_of_others_are_not_the_program_s_fault(prepare, locks):
    with closing(device_locks.try_lock(locks, "GPU-fake-0001", STRANGER)):
        run = prepare(wanting(1, 1), fake_gpus=2, gpu_wait_s=0.0)
        assert run.end() == (preparing.HELD, None, [])
    why = "cannot get 2 GPU within 0 s: GPU-fake-0001 is held by process 12 (attempt 9/3)"
    assert run.read_output() == ([], [why])
    assert holder(locks, 0) is None


def test_it_says_what_it_waits_for_and_goes_on_when_that_is_free(prepare, locks):
    theirs = device_locks.try_lock(locks, "GPU-fake-0000", STRANGER)
    run = prepare(wanting(1), fake_gpus=1)
    notes = wait_until(lambda: run.read_output()[0], "it says that it waits")
    assert notes == ["waiting for 1 GPU: GPU-fake-0000 is held by process 12 (attempt 9/3)"]
    theirs.close()
    status, answer, handed = run.end()
    assert (status, answer["devices"]) == (0, ["GPU-fake-0000"])
    os.close(*handed)


def test_one_that_is_killed_while_it_waits_holds_nothing(prepare, locks):
    with closing(device_locks.try_lock(locks, "GPU-fake-0001", STRANGER)):
        run = prepare(wanting(2), fake_gpus=2)
        wait_until(lambda: run.read_output()[0], "it says that it waits")
        os.kill(run.pid, signal.SIGTERM)
        assert run.end() == (-signal.SIGTERM, None, [])
        assert holder(locks, 0) is None


@pytest.mark.parametrize("more", [{"uses_gpus": False, "fake_gpus": 4}, {}])
def test_where_no_gpus_are_given_none_are_locked(prepare, locks, more):
    status, answer, handed = prepare(wanting(0), **more).end()
    assert (status, answer["devices"], answer["after"], handed) == (0, [], None, [])
    assert not list(locks.iterdir())


def test_an_answer_of_any_length_comes_whole(prepare, locks):
    replicas = cluster("", *[""] * 30)
    for replica in replicas:
        replica.env["LONG"] = "x" * 100_000
    status, answer, _ = prepare(replicas).end()
    assert status == 0
    assert [len(launch["env"]["LONG"]) for launch in answer["replicas"]] == [100_000] * 31
    assert not list(locks.iterdir())


def test_what_keeps_it_from_preparing_is_one_line(prepare, locks, monkeypatch):
    (locks / "file").touch()
    monkeypatch.setenv("TRAINSHED_LOCK_DIR", str(locks / "file"))
    run = prepare(wanting(1), fake_gpus=1)
    assert run.end() == (1, None, [])
    assert run.read_output() == ([], [f"cannot lock a GPU: {locks}/file is not a directory"])


def test_a_fault_of_many_lines_is_whole_in_the_log(capsys):
    fault = preparing.EngineFault("the package does not build:\n  error: no compiler")
    assert preparing.say(fault, 1) == 1
    captured = capsys.readouterr()
    assert captured.out == "the package does not build:\n  error: no compiler\n"
    assert captured.err == "the package does not build: error: no compiler\n"


def test_packages_that_take_for_ever_are_given_up():
    """In a process of its own: the timer is the test runner's here."""
    code = (
        "import time\n"
        "from trainshed.engines.supervise.helpers import preparing as prepare\n"
        "try:\n"
        "    with prepare.at_most(0.36):\n"
        "        time.sleep(600)\n"
        "except prepare.EngineFault as fault:\n"
        "    print(fault)\n"
        "with prepare.at_most(0.01):\n"
        "    pass\n"
        "time.sleep(0.1)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "the packages were not installed within 0.0001 hours\n"
