"""A host's ranks are one worker to the reducers: two ranks in threads here, on real gloo."""

import queue
import threading
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta

import pytest
import torch
from torch import distributed as dist

from trainshed_trainer.reduction.errors import Culprit, Kind, ReductionError
from trainshed_trainer.reduction.torch_hosts import Layout, local_groups
from trainshed_trainer.reduction.torch_relay import Leader, Member
from trainshed_trainer.reduction.torch_work import ReductionWork

PATIENCE = timedelta(seconds=100)
#: Ranks 1 and 4 share a host; ranks 0, 2 and 3 are elsewhere.
LAYOUT = Layout([[0], [1, 4], [2, 3]])


class Upstream:
    """What reduces over hosts; it answers when it is told to."""

    def __init__(self):
        self.came = queue.SimpleQueue()
        self.error = None
        self.closed = threading.Event()

    def allreduce(self, tensor, *, average, done):
        assert not average, "the number of hosts is not that of ranks"
        self.came.put((tensor, done))

    def take(self):
        return self.came.get(timeout=PATIENCE.total_seconds())

    def failed(self):
        return self.error

    def close(self):
        self.closed.set()


class Host:
    """A leader and a member, each with its relay."""

    def __init__(self):
        self.upstream = Upstream()
        store = dist.HashStore()
        with ThreadPoolExecutor(2) as pool:
            futures = [pool.submit(local_groups, store, [1, 4], rank, PATIENCE) for rank in (1, 4)]
            self.groups = [future.result() for future in futures]
        self.leader = Leader(self.groups[0], self.upstream, LAYOUT)
        self.member = Member(self.groups[1], 1)

    def begin(self, *values, average=False, size=1000):
        """An all-reduce of both; ``values`` are what each gives."""
        works = []
        for relay, value in zip((self.leader, self.member), values, strict=False):
            work = ReductionWork([torch.full((size,), float(value))], PATIENCE)
            relay.allreduce(work.result()[0], average=average, done=work.finish)
            works.append(work)
        return works

    def begin_on_member(self, value):
        work = ReductionWork([torch.full((1000,), float(value))], PATIENCE)
        self.member.allreduce(work.result()[0], average=False, done=work.finish)
        return work

    def close(self):
        with ThreadPoolExecutor(2) as pool:
            for future in (pool.submit(self.leader.close), pool.submit(self.member.close)):
                future.result()
        vars(self).clear()  # pytest keeps the host; gloo's connections end with the last reference


@pytest.fixture
def host():
    host = Host()
    yield host
    host.close()


def values_of(works):
    for work in works:
        work.wait()
    return [work.result()[0].unique().tolist() for work in works]


def errors_of(works):
    errors = []
    for work in works:
        with pytest.raises(ReductionError) as raised:
            work.wait()
        errors.append(raised.value)
    return errors


def test_a_host_gives_one_sum_and_all_of_its_ranks_get_the_result(host):
    works = host.begin(1, 2)
    tensor, done = host.upstream.take()
    assert tensor.unique().tolist() == [3.0]
    tensor.fill_(10.0)
    done(None)
    assert values_of(works) == [[10.0], [10.0]]
    assert host.upstream.came.empty()


def test_an_average_is_over_ranks_and_not_over_hosts(host):
    works = host.begin(1, 2, average=True)
    tensor, done = host.upstream.take()
    assert tensor[0].item() == pytest.approx(3 / 5)
    done(None)
    assert values_of(works)[0] == values_of(works)[1]


def test_rounds_that_end_in_another_order_arrive_in_theirs(host):
    """One reducer may be ahead of another, but a host's broadcasts must be in one order."""
    first, second = host.begin(1, 1, size=70_000), host.begin(2, 2, size=10)
    (one, one_is_done), (two, two_is_done) = host.upstream.take(), host.upstream.take()
    two.fill_(40.0)
    two_is_done(None)
    one.fill_(20.0)
    one_is_done(None)
    assert values_of(second) == [[40.0], [40.0]]
    assert values_of(first) == [[20.0], [20.0]]


def test_the_next_sum_of_a_host_does_not_wait_for_the_last_result(host):
    first, second = host.begin(1, 1), host.begin(2, 2)
    (_, one_is_done), (_, two_is_done) = host.upstream.take(), host.upstream.take()
    assert not any(work.is_completed() for work in (*first, *second))
    one_is_done(None)
    two_is_done(None)
    assert values_of(first) == [[2.0], [2.0]]
    assert values_of(second) == [[4.0], [4.0]]


def test_an_error_is_told_to_every_rank_and_names_a_rank(host):
    works, later = host.begin(1, 2), host.begin(3, 4)
    _, done = host.upstream.take()
    done(ReductionError("worker 2 is lost", blame=Culprit(Kind.WORKER, 2), round_=7))
    host.upstream.take()[1](ReductionError("worker 2 is lost"))
    for error in errors_of(works) + errors_of(later):
        assert str(error) == "worker 2 is lost (worker 2 is the host of rank 2)"
        assert (error.culprit, error.round) == ("worker 2", 7)
    for relay in (host.leader, host.member):
        assert "worker 2 is lost" in str(relay.failed())


def test_a_worker_in_an_error_is_named_by_its_rank_not_by_its_host(host):
    works = host.begin(1, 2)
    host.upstream.take()[1](ReductionError("gone", blame=Culprit(Kind.WORKER, 1)))
    assert [error.culprit for error in errors_of(works)] == ["worker 1"] * 2
    reducer = ReductionError("gone", blame=Culprit(Kind.REDUCER, 0))
    assert host.leader._by_rank(reducer) is reducer


def test_an_error_between_rounds_reaches_a_rank_that_begins_the_next(host):
    """The leader raises at once and reduces no more; the member has begun, and must not wait."""
    host.upstream.error = ReductionError("reducer 0 is lost", blame=Culprit(Kind.REDUCER, 0))
    work = host.begin_on_member(1)
    assert host.leader.failed() is host.upstream.error
    assert host.leader.failed() is host.upstream.error
    (error,) = errors_of([work])
    assert (str(error), error.culprit) == ("reducer 0 is lost", "reducer 0")
    assert str(host.member.failed()) == "reducer 0 is lost"
