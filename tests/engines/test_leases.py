"""An attempt gets all its devices or none, and nobody else has them while it lives."""

import fcntl
import json
import os
import random
import signal
import socket
import sys
from contextlib import closing, suppress
from functools import partial

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engines.support import Recorder, python_replica, sleeping, wait_until
from trainshed.engines.local.devices import find, leases
from trainshed.engines.local.devices import locks as device_locks
from trainshed.engines.local.devices.inventory import holder, leased_below, list_foreign_holders
from trainshed.engines.local.devices.leases import DeviceLeaser, DevicesHeld
from trainshed.engines.local.devices.locks import DeviceHolder
from trainshed.model.faults import EngineFault
from trainshed.model.roles import Role

ME = DeviceHolder(pid=os.getpid(), what="attempt 7/1", root="/data/jobs")
OTHER = DeviceHolder(pid=12, what="attempt 9/3", root="/elsewhere/jobs")


def wanting(*counts):
    return [python_replica(Role.WORKER, i, "", gpu_count=n) for i, n in enumerate(counts)]


@pytest.fixture
def locks(tmp_path):
    path = tmp_path / "locks"
    device_locks.prepare(path)
    return path


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    monkeypatch.setattr(leases, "_PAUSE_S", 0.005)


def leaser(locks, machine, note=pytest.fail, owner=ME, **more):
    look = partial(find.fake_devices, machine, **more)
    return DeviceLeaser(list_devices=look, holder=owner, note=note, aliases={}, lock_dir=locks)


def held(locks, machine):
    return [d.uuid for d in find.fake_devices(machine) if holder(d, locks) is not None]


def test_each_replica_gets_what_it_asks_for_and_counts_from_0(locks):
    with closing(leaser(locks, 4).lease(wanting(2, 0, 1))) as lease:
        two = "GPU-fake-0000,GPU-fake-0001"
        assert [share.env["CUDA_VISIBLE_DEVICES"] for share in lease.shares] == [
            two,
            "",
            "GPU-fake-0002",
        ]
        assert [share.env["NVIDIA_VISIBLE_DEVICES"] for share in lease.shares] == [
            two,
            "void",
            "GPU-fake-0002",
        ]
        assert lease.uuids == tuple(held(locks, 4))
    assert held(locks, 4) == []


def test_an_attempt_without_gpus_locks_nothing_and_sees_none(tmp_path):
    absent = tmp_path / "absent"
    assert [s.env for s in leaser(absent, 0).lease(wanting(0)).shares] == [{}]
    assert leaser(absent, 2).lease(wanting(0)).shares[0].env["CUDA_VISIBLE_DEVICES"] == ""
    assert not absent.exists()


def test_fewer_than_asked_for_is_none_and_the_fault_names_device_and_holder(locks):
    with (
        closing(leaser(locks, 3, owner=OTHER).lease(wanting(1, 1))),
        pytest.raises(DevicesHeld) as fault,
    ):
        leaser(locks, 3, note=str).lease(wanting(1, 1), wait_s=0.0)
    assert str(fault.value) == (
        "cannot get 2 GPU within 0 s: GPU-fake-0000 is held by process 12 (attempt 9/3); "
        "GPU-fake-0001 is held by process 12 (attempt 9/3)"
    )
    assert held(locks, 3) == []


def test_a_machine_with_too_few_says_what_it_has(locks):
    with pytest.raises(DevicesHeld, match="cannot get 3 GPU within 0 s: this machine has 1 NV"):
        leaser(locks, 1).lease(wanting(3), wait_s=0.0)
    with pytest.raises(DevicesHeld, match="this machine has none"):
        leaser(locks, 0).lease(wanting(1), wait_s=0.0)


def test_it_waits_for_a_lock_says_so_once_and_goes_on_when_it_is_free(locks):
    theirs = leaser(locks, 2, owner=OTHER).lease(wanting(2))
    recorder = Recorder()

    def note(text):
        recorder.note(text)
        theirs.close()

    with closing(leaser(locks, 2, note).lease(wanting(2))) as lease:
        assert len(lease.uuids) == 2
    who = "is held by process 12 (attempt 9/3)"
    assert recorder.notes == [f"waiting for 2 GPU: GPU-fake-0000 {who}; GPU-fake-0001 {who}"]


@pytest.fixture
def computing(tmp_path):
    """Lets a process compute on a fake device until it is killed, though nobody has locked it."""
    started = []

    def compute(number):
        process = sleeping()
        started.append(process)
        (tmp_path / f"GPU-fake-{number:04d}.pids").write_text(f"{process.pid}\n{2**22 + 1}\n")
        return process

    yield compute
    for process in started:
        process.kill()
        process.wait()


def test_it_waits_for_a_process_that_computes_whoever_has_the_lock(locks, tmp_path, computing):
    process = computing(0)
    recorder = Recorder()

    def note(text):
        recorder.note(text)
        process.kill()  # and not collected: one that is over does not count

    env = {find.FOLDER: str(tmp_path)}
    with closing(leaser(locks, 1, note, env=env).lease(wanting(1))):
        pass
    assert recorder.notes == [
        f"waiting for 1 GPU: GPU-fake-0000 is held by process {process.pid} (sleep)"
    ]


def test_a_process_that_begins_between_the_look_and_the_lock_is_seen(locks, tmp_path, computing):
    """As what a killed supervisor has left may: its lock is free before the device is."""
    env = {find.FOLDER: str(tmp_path)}
    looks = []

    def look():
        looks.append(True)
        if len(looks) == 2:
            computing(0)
        return find.fake_devices(1, env)

    asking = DeviceLeaser(list_devices=look, holder=ME, note=str, aliases={}, lock_dir=locks)
    with pytest.raises(DevicesHeld, match=r"held by process \d+ \(sleep\)"):
        asking.lease(wanting(1), wait_s=0.0)
    assert len(looks) == 3
    assert device_locks.holder_of(locks, "GPU-fake-0000") is None


def test_a_lock_that_cannot_be_used_is_a_fault_and_gives_the_others_back(locks):
    (locks / "GPU-fake-0001.lock").mkdir()
    with pytest.raises(DevicesHeld, match=r"GPU-fake-0001\.lock: Is a directory"):
        leaser(locks, 2).lease(wanting(2), wait_s=0.0)
    assert device_locks.holder_of(locks, "GPU-fake-0000") is None
    (locks / "file").touch()
    with pytest.raises(EngineFault, match="is not a directory"):
        leaser(locks / "file", 2).lease(wanting(2), wait_s=0.0)


def test_what_strangers_hold_is_told_and_what_is_ours_is_not(
    locks, tmp_path, computing, monkeypatch
):
    monkeypatch.setenv(find.FOLDER, str(tmp_path))
    process = computing(3)
    ours = leaser(locks, 4).lease(wanting(1))
    theirs = leaser(locks, 4, owner=OTHER).lease(wanting(1))
    with closing(ours), closing(theirs):
        devices = find.fake_devices(4)
        mine = leased_below("/data/jobs", devices, locks)
        assert mine == {"GPU-fake-0000"}
        assert list_foreign_holders(devices, mine, locks) == {
            "GPU-fake-0001": "process 12 (attempt 9/3)",
            "GPU-fake-0003": f"process {process.pid} (sleep)",
        }
    assert leased_below("/data/jobs", devices, locks) == frozenset()


class Worker:
    """A process of its own that leases devices when it is told to."""

    def __init__(self, locks, machine):
        self.locks, self.machine = locks, machine
        self.channel, theirs = socket.socketpair()
        self.pid = os.fork()
        if not self.pid:
            try:
                self.channel.close()
                self.obey(theirs)
            finally:
                os._exit(0)
        theirs.close()
        self.uuids = ()

    def obey(self, channel):
        lease = None
        while word := channel.recv(1000):
            counts = json.loads(word)
            if lease is not None:
                lease.close()
                lease = None
            if counts is not None:
                with suppress(DevicesHeld):
                    lease = leaser(self.locks, self.machine, str).lease(wanting(*counts), 0.0)
            shares = None if lease is None else [share.uuids for share in lease.shares]
            channel.send(json.dumps(shares).encode())

    def ask(self, counts):
        """The shares that it gets in the place of those it had; None when it gets none."""
        self.channel.send(json.dumps(counts).encode())
        shares = json.loads(self.channel.recv(10000))
        self.uuids = tuple(uuid for share in shares or () for uuid in share)
        return shares

    def kill(self):
        os.kill(self.pid, signal.SIGKILL)
        os.waitpid(self.pid, 0)
        self.channel.close()
        self.uuids = ()


counts = st.lists(st.integers(0, 3), min_size=1, max_size=3)
acts = st.lists(
    st.tuples(st.integers(0, 2), st.one_of(counts, st.sampled_from(["free", "kill"]))), max_size=12
)


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 5), acts)
def test_whatever_the_order_nobody_shares_and_who_can_be_served_is(
    tmp_path_factory, machine, steps
):
    locks = tmp_path_factory.mktemp("locks")
    workers = [Worker(locks, machine) for _ in range(3)]
    try:
        for number, act in steps:
            if act == "kill":
                workers[number].kill()
                workers[number] = Worker(locks, machine)
                continue
            rest = [w for w in workers if w is not workers[number]]
            free = machine - sum(len(w.uuids) for w in rest)
            shares = workers[number].ask(None if act == "free" else act)
            assert (shares is not None) == (act != "free" and sum(act) <= free)
            if shares is not None:
                assert [len(share) for share in shares] == act
            used = [uuid for worker in workers for uuid in worker.uuids]
            assert len(set(used)) == len(used)
            assert set(held(locks, machine)) == set(used)
    finally:
        for worker in workers:
            worker.kill()
    assert held(locks, machine) == []


MACHINE, ROUNDS, WORKERS, KILLS = 4, 12, 6, 15


def compete(locks, seed, enough):
    """Lease until it is enough; fails where somebody else had one of the devices at the time."""
    marks = {d.uuid: os.open(locks / d.uuid, os.O_RDWR | os.O_CREAT) for d in all_devices()}
    luck = random.Random(seed)  # noqa: S311 - a test draws, not a cipher
    rounds = 0
    while rounds < ROUNDS or not enough.exists():
        rounds += 1
        some = [luck.randint(0, 2) for _ in range(luck.randint(1, 2))]
        with closing(leaser(locks, MACHINE, str).lease(wanting(*some), 600.0)) as lease:
            for uuid in lease.uuids:  # of a killed process these locks go before those of the lease
                fcntl.lockf(marks[uuid], fcntl.LOCK_EX | fcntl.LOCK_NB)
            os.sched_yield()
            for uuid in lease.uuids:
                fcntl.lockf(marks[uuid], fcntl.LOCK_UN)


def all_devices():
    return find.fake_devices(MACHINE)


def competitor(locks, seed, enough):
    pid = os.fork()
    if not pid:
        code = 1
        try:
            compete(locks, seed, enough)
            code = 0
        except BaseException as error:  # noqa: BLE001 - a fork must not return
            sys.stderr.write(f"{error!r}\n")
        finally:
            os._exit(code)
    return pid


def test_many_at_once_never_share_also_when_they_are_killed(locks, tmp_path):
    luck = random.Random(4)  # noqa: S311 - a test draws, not a cipher
    enough = tmp_path / "enough"
    pids = [competitor(locks, seed, enough) for seed in range(WORKERS)]
    killed, codes = [], []
    try:
        for kill in range(KILLS):
            victim = luck.randrange(WORKERS)
            wait_until(lambda: held(locks, MACHINE), "somebody has a device")
            os.kill(pids[victim], signal.SIGKILL)
            killed.append(os.waitstatus_to_exitcode(os.waitpid(pids[victim], 0)[1]))
            pids[victim] = competitor(locks, 100 + kill, enough)
        enough.touch()
        codes = [os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) for pid in pids]
        pids = []
    finally:
        for pid in pids:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
            with suppress(ChildProcessError):
                os.waitpid(pid, 0)
    assert killed == [-signal.SIGKILL] * KILLS
    assert codes == [0] * WORKERS
    assert held(locks, MACHINE) == []


def test_a_closed_device_is_not_taken_and_who_waits_for_it_is_told_why(locks):
    closed = {"GPU-fake-0000": "Xid 79 since then"}
    noted = []
    asking = DeviceLeaser(
        list_devices=partial(find.fake_devices, 2), holder=ME, note=noted.append, aliases={},
        lock_dir=locks, closed=closed,
    )  # fmt: skip
    with closing(asking.lease(wanting(1))) as lease:
        assert lease.uuids == ("GPU-fake-0001",)
    with pytest.raises(DevicesHeld, match="GPU-fake-0000 is closed: Xid 79 since then"):
        asking.lease(wanting(2), wait_s=0.0)
