"""How many attempts a round of the thread of orders checks, and what it never leaves out."""

from pathlib import Path

import pytest

from trainshed.engines.attempt_table import AttemptTable
from trainshed.engines.kubernetes import options
from trainshed.engines.kubernetes.api.errors import ApiAway, ApiRefused
from trainshed.engines.kubernetes.attempt import KubernetesAttempt
from trainshed.engines.kubernetes.attempt_files import SubmissionRecord
from trainshed.engines.kubernetes.orders import ClusterOrders
from trainshed.engines.kubernetes.state.facts import JobSetFacts
from trainshed.engines.kubernetes.turns import Turns
from trainshed.engines.spool import Spool
from trainshed.engines.supervise.record.folder import Order
from trainshed.model.attempt import AttemptKey, Observation, Phase

MANY = 200
#: Rounds within which every attempt was checked.
CYCLE = 40


class FakeCluster:
    """JobSets of attempts; ``deleted`` are the uids of those that the engine deleted."""

    def __init__(self):
        self.jobsets, self.deleted, self.is_away, self.fails = {}, [], False, False
        self.deleted_secrets, self.refuses = [], False

    def list_keys(self):
        return set(self.jobsets)

    def list_jobsets(self, key):
        return self.jobsets.get(key, [])

    def delete(self, path, body=None):
        if self.fails:
            raise ApiAway("no answer")
        if self.refuses and "/jobsets/" in path:
            raise ApiRefused(403, "Forbidden", "a policy forbids it")
        if "/jobsets/" not in path:
            self.deleted_secrets.append(path.rpartition("/")[2])
            return
        self.deleted.append(body["preconditions"]["uid"])


class CountingSpool(Spool):
    checks = 0

    def check(self, key):
        self.checks += 1
        super().check(key)


@pytest.fixture
def cluster():
    return FakeCluster()


@pytest.fixture
def spool(tmp_path):
    spool = CountingSpool(str(tmp_path), "/pods", "inst")
    spool.open()
    return spool


@pytest.fixture
def attempts(spool):
    settings = options.read({"spool": "/s", "claim": "c"})
    return AttemptTable(
        lambda key: KubernetesAttempt(key, spool.folder(key), "k", settings),
        lambda attempt: Observation(key=attempt.key, phase=Phase.READY),
        is_over=lambda attempt: attempt.final is not None,
    )


@pytest.fixture
def clock(monkeypatch):
    clock = [100.0]
    monkeypatch.setattr("time.monotonic", lambda: clock[0])
    return clock


@pytest.fixture
def work(attempts, spool, cluster, clock):
    """One round, 0.2 s after the last."""
    orders = ClusterOrders(
        attempts, spool, cluster, cluster, namespace="default", installation="inst"
    )
    for uid in range(MANY):
        key = AttemptKey(uid, 1)
        spool.make(key)
        attempts.get(key)
        cluster.jobsets[key] = [JobSetFacts(f"ts-inst-{uid}-1", f"uid-{uid}")]

    def work():
        clock[0] += 0.2
        orders._work()

    work.orders = orders
    return work


def test_a_round_checks_a_part_of_many_attempts_and_a_cycle_all(work, spool):
    spool.checks = 0
    work()
    assert 0 < spool.checks <= 20
    for _ in range(CYCLE):
        work()
    assert spool.checks >= MANY


def test_an_order_that_another_server_gave_is_read_in_its_turn(work, spool, cluster):
    spool.folder(AttemptKey(7, 1)).give_order(Order(1.0))
    for _ in range(CYCLE):
        work()
    assert set(cluster.deleted) == {"uid-7"}


def test_an_order_of_this_server_is_carried_out_in_the_next_round(work, spool, cluster):
    spool.folder(AttemptKey(7, 1)).give_order(Order(1.0))
    work.orders.add([AttemptKey(7, 1)])
    work()
    assert cluster.deleted == ["uid-7"]


@pytest.mark.parametrize("trouble", ["fails", "is_away"])
def test_a_deletion_that_failed_is_repeated_soon(work, spool, cluster, clock, trouble):
    spool.folder(AttemptKey(7, 1)).give_order(Order(1.0))
    setattr(cluster, trouble, True)
    work.orders.add([AttemptKey(7, 1)])
    work()
    assert not cluster.deleted
    setattr(cluster, trouble, False)
    clock[0] += 10.0  # a deletion is not repeated sooner
    for _ in range(2):
        work()
    assert cluster.deleted == ["uid-7"]


def test_a_refused_deletion_is_logged_once_and_repeated(work, spool, cluster, caplog):
    spool.folder(AttemptKey(7, 1)).give_order(Order(1.0))
    cluster.refuses = True
    work.orders.add([AttemptKey(7, 1)])
    for _ in range(CYCLE):
        work()
    assert caplog.text.count("a policy forbids it; retrying") == 1
    cluster.refuses = False
    for _ in range(CYCLE):
        work()
    assert cluster.deleted == ["uid-7"]


def test_the_jobset_of_an_attempt_that_ended_is_deleted_soon(work, attempts, cluster):
    attempts.get(AttemptKey(190, 1)).must_end = True
    for _ in range(6):
        work()
    assert cluster.deleted == ["uid-190"]


def test_a_copy_of_a_jobset_by_others_costs_the_attempt_nothing(work, spool, attempts, cluster):
    key, name = AttemptKey(7, 1), "ts-inst-7-1"
    attempts.get(key).submitted = SubmissionRecord(1.0, name, "uid-7")
    cluster.jobsets[key].append(JobSetFacts("copy", "uid-of-copy"))
    work.orders.add([key])
    work()
    assert (cluster.deleted, cluster.deleted_secrets) == ([], [])
    spool.folder(key).give_order(Order(1.0))
    work.orders.add([key])
    work()
    assert (cluster.deleted, cluster.deleted_secrets) == (["uid-7"], [name])


def test_events_of_a_forgotten_attempt_make_no_entry(work, attempts):
    work.orders.add([AttemptKey(MANY, 1)])
    work()
    assert attempts.peek(AttemptKey(MANY, 1)) is None


def test_records_that_grow_are_reported_within_a_second(work, spool):
    for _ in range(5):
        work()
    reported = []
    work.orders.callback = reported.extend
    Path(spool.folder(AttemptKey(190, 1)).records).write_text("{}\n")
    for _ in range(5):
        work()
    assert AttemptKey(190, 1) in reported


def test_turns_go_through_all_values_and_begin_again_after_the_time():
    turns = Turns[int](2, cycle_s=1.0)
    taken = [turns.take(lambda: range(5), now_s) for now_s in (0.0, 0.1, 0.2, 0.3, 0.9, 1.0)]
    assert taken == [[0, 1], [2, 3], [4], [], [], [0, 1]]
