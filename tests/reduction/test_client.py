"""What every rank gets from an all-reduce: the same bits as a sum in the order of the ranks."""

import itertools
import threading
import time
from functools import partial
from pathlib import Path

import pytest
import torch

from reduction.crew import (
    TOKEN,
    TORCH,
    Noticing,
    Wait,
    connecting,
    crew,
    drawn,
    expected,
    give,
    good,
    joined,
    probe_little,
    reducers,
    same_bits,
    soon,
    together,
)
from reduction.stage import FULL
from trainshed_trainer.reduction import reducer as reducing
from trainshed_trainer.reduction.client import Client
from trainshed_trainer.reduction.errors import Culprit, Kind, ReductionError
from trainshed_trainer.reduction.frames import Dtype
from trainshed_trainer.reduction.lanes import Lane
from trainshed_trainer.reduction.pacing import CREDIT_MIN, PIECE_MIN
from trainshed_trainer.reduction.shares import GRAIN, SHARE_MIN

RING = reducing.RING_MIN


@pytest.fixture(autouse=True)
def _quick(monkeypatch):
    probe_little(monkeypatch)


def around(*sizes):
    """Each size in elements of 4 bytes, one fewer and one more."""
    return [count for size in sizes for count in (size // 4 - 1, size // 4, size // 4 + 1)]


#: (workers, reducers, whether workers reduce too).
WORLDS = [
    (1, 1, False), (1, 0, True), (2, 1, False), (2, 0, True), (2, 1, True), (3, 2, True),
]  # fmt: skip
#: More of the same: five ranks compute for seconds.
LARGER = [(3, 3, False), (4, 4, False), (4, 2, False), (4, 1, True), (5, 3, True), (5, 0, True)]
WORLDS += [pytest.param(*world, marks=pytest.mark.full) for world in LARGER]


@pytest.mark.parametrize(("world", "pool", "hybrid"), WORLDS)
def test_all_ranks_get_the_bits_of_a_sum_in_the_order_of_ranks(world, pool, hybrid, monkeypatch):
    """All sizes, dtypes and operations under way at once, over rings that wrap many times."""
    monkeypatch.setattr(reducing, "RING_MAX", RING)
    places = pool + world * hybrid
    sizes = [0, 1, 2, 3, GRAIN - 1, GRAIN, GRAIN + 1, 777]
    sizes += around(PIECE_MIN, places * SHARE_MIN, places * RING)
    kinds = itertools.cycle(itertools.product(TORCH.values(), (False, True)))
    cases = zip(sizes * 2, kinds, strict=False)
    with crew(world, pool, hybrid=hybrid) as team:
        under_way = []
        for seed, (count, (dtype, average)) in enumerate(cases):
            tensors = [drawn(rank, count, dtype, seed) for rank in range(world)]
            right = expected(tensors, average=average)
            under_way.append((right, tensors, team.begin(tensors, average=average)))
        for right, tensors, waits in under_way:
            for tensor, wait in zip(tensors, waits, strict=True):
                wait.result()
                assert same_bits(tensor, right), (right.dtype, right.numel())


def test_a_large_tensor_over_the_largest_rings():
    with crew(3, 2) as team:
        tensors = [drawn(rank, 5_000_001, torch.float32) for rank in range(3)]
        right = expected(tensors)
        assert all(same_bits(total, right) for total in team.reduce(tensors))


def test_infinities_and_nan_come_through_as_pytorch_makes_them():
    inf, nan = float("inf"), float("nan")
    rows = [[inf, inf, nan, 6e4, -0.0, 3e38], [1.0, -inf, 1.0, 6e4, -0.0, 3e38]]
    with crew(2) as team:
        for dtype in TORCH.values():
            tensors = [torch.tensor(row).to(dtype) for row in rows]
            right = expected(tensors)
            for tensor in team.reduce(tensors):
                assert torch.equal(tensor.isnan(), right.isnan())
                assert torch.equal(tensor.nan_to_num(), right.nan_to_num())
                assert torch.equal(tensor.signbit()[4:5], right.signbit()[4:5])


def test_ranks_that_come_at_any_moment_get_the_same():
    """No rank waits for another before it gives the next tensor."""
    with crew(3, 2) as team:
        tensors = [[drawn(rank, 50_000, torch.float32, k) for k in range(8)] for rank in range(3)]
        right = [expected([tensors[rank][k] for rank in range(3)]) for k in range(8)]

        def give_all(rank):
            waits = []
            for tensor in tensors[rank]:
                time.sleep(0.01 * rank)
                waits.append(give(team.clients[rank], tensor))
            for wait in waits:
                wait.result()

        good(together([lambda rank=rank: give_all(rank) for rank in range(3)]))
        for rank, k in itertools.product(range(3), range(8)):
            assert same_bits(tensors[rank][k], right[k])


def test_credit_that_shrinks_below_a_piece_does_not_stop_the_sending():
    """A rank that waits with a large piece gets slower meanwhile, as after a long pause."""
    with crew(2) as team:
        tensors = [drawn(rank, 3 * 1024 * 1024, torch.float32) for rank in range(2)]
        right = expected(tensors)
        lane = team.clients[0]._lanes[0]
        lane.pace.credit = 4 << 20
        first = give(team.clients[0], tensors[0])
        soon(lane._inbox.empty)
        lane.pace.credit = CREDIT_MIN
        second = give(team.clients[1], tensors[1])
        for wait in (first, second):
            wait.result()
        assert all(same_bits(tensor, right) for tensor in tensors)


def faults(waits):
    errors = [wait.error() for wait in waits]
    assert all(isinstance(error, ReductionError) for error in errors)
    return errors


@pytest.mark.parametrize(
    ("other", "average", "words"),
    [
        (torch.ones(1001), False, "1001 float32, sum"),
        (torch.ones(2000, dtype=torch.float16), False, "2000 float16, sum"),
        (torch.ones(1000), True, "1000 float32, average"),
        (torch.ones(2_000_000), False, "float32, sum"),
    ],
)
def test_ranks_that_call_different_things_are_both_named_on_every_rank(other, average, words):
    with crew(3, 2) as team:
        mine = [give(client, torch.ones(1000)) for client in team.clients[:2]]
        theirs = give(team.clients[2], other, average=average)
        for error in faults([*mine, theirs]):
            assert "worker 2 called all-reduce" in str(error) or "worker 2 with" in str(error)
            assert words in str(error)
            assert "1000 float32, sum" in str(error)
            assert error.round is not None


def test_an_empty_tensor_on_one_rank_alone_is_no_sum_of_different_rounds():
    with crew(2) as team:
        ones = [torch.ones(100), torch.ones(100)]
        give(team.clients[0], torch.ones(0)).result()
        waits = [give(client, tensor) for client, tensor in zip(team.clients, ones, strict=True)]
        assert all("every rank must call the same" in str(error) for error in faults(waits))


@pytest.mark.parametrize(
    ("buffer", "reason"),
    [
        (memoryview(bytearray(6)), "whole float32 elements"),
        (memoryview(bytes(8)), "must be writable"),
        (memoryview(bytearray(8)).cast("f"), "must be writable"),
        (memoryview(bytearray(16))[::2], "must be writable"),
    ],
)
def test_nothing_is_reduced_that_cannot_be(buffer, reason):
    """It is refused before any other rank hears of it."""
    with crew(1) as team:
        with pytest.raises(ValueError, match=reason):
            team.clients[0].allreduce(buffer, Dtype.FLOAT32, average=False, done=Wait())
        team.reduce([torch.ones(4)])


def test_a_caller_that_cannot_take_its_sum_ends_the_group_and_is_named():
    """The thread that called it would be gone, and with it every later round."""
    with crew(2) as team:

        def broken(_):
            raise ValueError("no such step")

        buffer = memoryview(bytearray(8))
        team.clients[0].allreduce(buffer, Dtype.FLOAT32, average=False, done=broken)
        waits = [give(team.clients[1], torch.ones(2))]
        soon(team.clients[0].failed)
        waits.append(give(team.clients[1], torch.ones(2)))
        assert waits[-1].error().culprit == "worker 0"
        assert "no such step" in str(waits[-1].error())


@pytest.mark.parametrize("gives_first", [True, False])
def test_a_rank_that_leaves_while_others_go_on_is_named(gives_first):
    """Whether it closes before or after the others begin a round that it does not take part in."""
    with crew(3) as team:
        team.reduce([torch.ones(10) for _ in range(3)])
        if gives_first:
            waits = [give(client, torch.ones(10)) for client in team.clients[:2]]
            soon(lambda: team.reducers[0]._epoch._ledger._segments)
            team.clients[2].close()
        else:
            team.clients[2].close()
            waits = [give(client, torch.ones(10)) for client in team.clients[:2]]
        for error in faults(waits):
            assert error.culprit == "worker 2"
            assert "worker 2 has left" in str(error)


def test_a_rank_that_closes_in_the_middle_of_a_round_is_named():
    with crew(2) as team:
        mine = give(team.clients[0], torch.ones(1_000_000))
        soon(lambda: team.reducers[0]._epoch._ledger._segments)
        team.clients[0].close()
        assert mine.error().culprit == "worker 0"
        theirs = give(team.clients[1], torch.ones(1_000_000)).error()
        assert (theirs.culprit, "has left" in str(theirs)) == ("worker 0", True)


def test_after_an_error_nothing_is_written_into_the_callers_memory():
    """Its owner may have put something else there: a restored checkpoint, the next step."""
    with crew(2, 2) as team:
        client, other = team.clients
        for lane in client._lanes:
            lane.pace.credit = 4 << 20
        tensor = torch.ones(4_000_000)
        wait = give(client, tensor)
        give(other, torch.ones(4_000_000))
        client._fail(ReductionError("enough"))
        wait.error()
        tensor.fill_(7.0)
        team.close()
        assert bool((tensor == 7.0).all())


def test_after_an_error_every_call_fails_at_once_and_each_is_told_once():
    with crew(2) as team:
        waits = [give(team.clients[0], torch.ones(10)) for _ in range(5)]
        team.clients[1].close()
        waits += [give(team.clients[0], torch.ones(10)) for _ in range(5)]
        assert {str(error) for error in faults(waits)} == {str(team.clients[0].failed())}
        team.close()
        assert all(len(wait.calls) == 1 for wait in waits)


LOST = ReductionError("worker 2 is lost", blame=Culprit(Kind.WORKER, 2))


def before_reducers_hear(client, monkeypatch, act):
    """Let ``act`` come between the error of a client and each word of it to a reducer."""

    def notify(lane, error):
        act()
        Lane.notify(lane, error)

    for lane in client._lanes:
        monkeypatch.setattr(lane, "notify", partial(notify, lane))


def test_a_trainer_that_ends_with_an_error_of_others_is_not_blamed_for_its_end(monkeypatch):
    """It may meet the error at its next call, in the midst of our words to the reducers."""
    with crew(3, 2) as team:
        client, other = team.clients[:2]

        def next_step():
            if client.failed() or give(client, torch.ones(0)).calls:
                for lane in client._lanes:
                    lane._link.shutdown()  # as its process ends

        before_reducers_hear(client, monkeypatch, next_step)
        client._fail(LOST)
        assert give(client, torch.ones(10)).error() is client.failed() is LOST
        assert give(other, torch.ones(10)).error().culprit == "worker 2"


def test_a_trainer_that_closes_meanwhile_has_not_left_in_peace(monkeypatch):
    with crew(3, 2) as team:
        client, other = team.clients[:2]
        client._over = Noticing()
        closing = threading.Thread(target=client.close)

        def close():
            if not closing.ident:
                closing.start()
                soon(lambda: client._over.waited_for or not closing.is_alive())

        before_reducers_hear(client, monkeypatch, close)
        client._fail(LOST)
        closing.join()
        assert give(other, torch.ones(10)).error().culprit == "worker 2"


def test_a_closed_client_reduces_nothing():
    with crew(1) as team:
        team.clients[0].close()
        wait = give(team.clients[0], torch.ones(4))
        assert "closed" in str(wait.error())


def test_a_group_needs_a_reducer():
    with pytest.raises(ReductionError, match="needs a reducer"):
        Client.connect([], rank=0, world=1, epoch=1, token=TOKEN)


def test_a_reducer_that_is_not_there_is_named_when_the_time_is_over():
    with reducers(1) as pool:
        pass
    error = together([connecting(pool, 0, 1, epoch=1, join_timeout=0.3)])[0]
    assert error.culprit == "reducer 0"
    assert "cannot reach reducer 0" in str(error)


def test_a_worker_that_comes_late_is_waited_for_longer_than_silence_would_be():
    """Who has come says so again and again while the others are still on their way."""
    with reducers(2) as pool:
        epoch = time.time_ns()
        calls = [connecting(pool, rank, 2, epoch=epoch, timeout=4.0) for rank in range(2)]

        def late():
            time.sleep(5.0)
            return calls[1]()

        clients = good(together([calls[0], late]))
        tensors = [torch.ones(100), torch.ones(100)]
        waits = [give(client, tensor) for client, tensor in zip(clients, tensors, strict=True)]
        for wait in waits:
            wait.result()
        together([client.close for client in clients])


def test_a_worker_that_cannot_reach_one_reducer_ends_the_group_at_the_others():
    """They are told why at once, not when their own time is over."""
    with reducers(1) as pool, reducers(1) as gone:
        gone[0].close()
        epoch = time.time_ns()
        calls = [
            connecting([*pool, *gone], 0, 2, epoch=epoch, join_timeout=3.0),
            connecting(pool, 1, 2, epoch=epoch),
        ]
        lost, relayed = together(calls)
        assert lost.culprit == relayed.culprit == "reducer 1"


def test_a_group_may_fail_while_its_connections_are_begun(monkeypatch):
    """One has failed before the next has its threads."""
    plain, failing, faults = Lane.start, [], []

    def start(lane):
        def fail():
            try:
                lane._fail(ReductionError("a reducer was lost"))
            except Exception as error:  # noqa: BLE001 - checked below
                faults.append(error)

        failing.append(threading.Thread(target=fail))
        failing[-1].start()
        failing[-1].join(0.2)
        plain(lane)

    monkeypatch.setattr(Lane, "start", start)
    with reducers(2) as pool:
        connect = connecting(pool, 0, 1, epoch=1)
        with pytest.raises(ReductionError, match="a reducer was lost"):
            connect()
        for thread in failing:
            thread.join()
    assert faults == []


def test_who_waits_for_others_in_vain_is_told_so():
    with reducers(1) as pool:
        error = together([connecting(pool, 0, 2, epoch=1, join_timeout=0.3)])[0]
        assert "not every worker has connected to reducer 0 within 0.3 s" in str(error)


def count_of_descriptors():
    return len(list(Path("/proc/self/fd").iterdir()))


def test_many_groups_leave_neither_threads_nor_descriptors():
    with reducers(1) as pool:
        for cycle in range(200 if FULL else 60):
            with joined(pool, 2) as team:
                team.reduce([torch.ones(50) for _ in range(2)])
            if cycle == 10:
                soon(lambda: pool[0].wait_over(0))
                threads, descriptors = threading.active_count(), count_of_descriptors()
        soon(lambda: threading.active_count() <= threads)
        soon(lambda: count_of_descriptors() <= descriptors)


def test_close_returns_with_its_threads_gone():
    with reducers(2) as pool:
        before = threading.active_count()
        with joined(pool, 1) as team:
            lanes = team.clients[0]._lanes
            assert threading.active_count() > before
        assert not any(thread.is_alive() for lane in lanes for thread in lane._threads)


def test_goodput_and_rates_are_those_of_the_links(monkeypatch):
    monkeypatch.undo()  # measured as in earnest
    with crew(2, 2) as team:
        first, second = team.clients
        assert first.rates == second.rates
        assert first.shares == second.shares == [0.5, 0.5]
        assert len(first.rates.reducers) == 2
        assert min(first.rates.worker, *first.rates.reducers) > 0
        assert first.goodput > 0
