"""A reducer and its groups: who may come, who is told what, and what ends a group."""

import contextlib
import threading
import time

import pytest
import torch

from reduction.crew import (
    TOKEN,
    connecting,
    crew,
    drawn,
    expected,
    give,
    good,
    joined,
    listener,
    probe_little,
    reducers,
    same_bits,
    soon,
    together,
)
from reduction.strangers import admitted, challenged, connected, error_of, hello, next_frame
from trainshed_trainer.reduction import epoch as epochs
from trainshed_trainer.reduction import frames, handshake
from trainshed_trainer.reduction import reducer as reducing
from trainshed_trainer.reduction.errors import Culprit, Kind, ReductionError
from trainshed_trainer.reduction.frames import Dtype, Frame, Segment
from trainshed_trainer.reduction.reducer import Reducer

ONE = Segment(0, 16, Dtype.FLOAT32, average=False)


@pytest.fixture(autouse=True)
def _quick(monkeypatch):
    probe_little(monkeypatch)


def sums_are_right(team, seed=0):
    tensors = [drawn(rank, 10_000, torch.float32, seed) for rank in range(len(team.clients))]
    right = expected(tensors)
    return all(same_bits(tensor, right) for tensor in team.reduce(tensors))


def alone(pool, rank, world, epoch, **settings):
    """What one rank gets that joins now."""
    settings = {"epoch": epoch, "join_timeout": 5.0, **settings}
    return together([connecting(pool, rank, world, **settings)])[0]


def test_a_newer_epoch_ends_the_older():
    with crew(2) as team:
        waits = [give(team.clients[0], torch.ones(10))]
        with joined(team.reducers, 3, epoch=team.epoch + 1) as newer:
            assert "a newer epoch of this job has begun" in str(waits[0].error())
            assert sums_are_right(newer)
            for client in team.clients:
                soon(client.failed)


def test_an_older_epoch_is_refused_and_the_newer_goes_on():
    with crew(2) as team:
        error = alone(team.reducers, 0, 2, team.epoch - 1)
        assert "a newer epoch of this job has begun" in str(error)
        assert sums_are_right(team)


def test_a_rank_that_is_there_already_is_refused_and_the_group_goes_on():
    with crew(2) as team:
        error = alone(team.reducers, 1, 2, team.epoch)
        assert "worker 1 is already connected" in str(error)
        assert sums_are_right(team)


def test_who_comes_late_to_a_group_that_has_failed_is_told_why():
    with reducers(1) as pool:
        with joined(pool, 2) as team:
            team.clients[0]._fail(ReductionError("a disk is full", blame=Culprit(Kind.WORKER, 0)))
            soon(team.clients[1].failed)
            error = alone(pool, 1, 2, team.epoch)
        assert (str(error), error.culprit) == ("a disk is full", "worker 0")


def test_who_comes_to_a_group_that_is_over_is_told_so():
    with reducers(1) as pool:
        with joined(pool, 1) as team:
            pass
        soon(lambda: pool[0].wait_over(0))
        assert "this epoch is over" in str(alone(pool, 0, 1, team.epoch))


def test_a_stray_worker_that_counts_others_does_not_end_a_group_at_work():
    with crew(2) as team:
        error = alone(team.reducers, 2, 3, team.epoch)
        assert "worker 2 has a group of 3 workers" in str(error)
        assert sums_are_right(team)


def test_workers_that_count_each_other_differently_all_hear_of_it():
    with reducers(1) as pool:
        epoch = time.time_ns()
        calls = [connecting(pool, 0, 3, epoch=epoch), connecting(pool, 1, 2, epoch=epoch)]
        errors = together(calls)
        assert all("workers with this reducer at index 0" in str(error) for error in errors)


def test_workers_that_list_the_reducers_in_another_order_all_hear_of_it():
    """Each would send the other's part: sums of different elements, and nobody would see it."""
    with reducers(2) as pool:
        epoch = time.time_ns()
        calls = [
            connecting(pool, 0, 2, epoch=epoch),
            connecting(pool[::-1], 1, 2, epoch=epoch),
        ]
        errors = together(calls)
        assert all(isinstance(error, ReductionError) for error in errors)
        assert all("at index" in str(error) for error in errors)


def test_a_world_that_memory_does_not_suffice_for_is_refused_before_any_is_taken(monkeypatch):
    allocations = []
    monkeypatch.setattr(epochs, "_rings", lambda *_: allocations.append(1))
    with reducers(1, max_memory=3 * reducing.RING_MIN - 1) as pool:
        error = alone(pool, 0, 2, 1)
        assert str(error) == (
            f"reducer 0 has {3 * reducing.RING_MIN - 1} bytes of memory, and 2 workers need at"
            f" least {3 * reducing.RING_MIN}: raise --max-memory"
        )
        assert error.culprit == "reducer 0"
    assert not allocations


def test_rings_share_the_memory_that_is_allowed():
    with reducers(1, max_memory=4 << 20) as pool, joined(pool, 3) as team:
        rings = pool[0]._epoch._rings
        assert rings.nbytes <= 4 << 20
        assert rings.shape[1] % frames.ALIGNMENT == 0
        assert sums_are_right(team)


def test_memory_that_is_not_to_be_had_is_said_to_every_worker(monkeypatch):
    def nothing(*_):
        raise OSError("no more")

    monkeypatch.setattr(epochs, "_rings", nothing)
    with reducers(1) as pool:
        epoch = time.time_ns()
        errors = together([connecting(pool, rank, 2, epoch=epoch) for rank in range(2)])
        assert {str(error) for error in errors} == {
            "reducer 0 has no memory for 2 workers: no more"
        }
        assert {error.culprit for error in errors} == {"reducer 0"}


def test_the_memory_of_a_group_is_given_back():
    with crew(1) as team:
        assert sums_are_right(team)
        team.close()
        soon(lambda: team.reducers[0]._epoch._rings is None)


def test_a_newer_group_begins_when_the_memory_of_the_older_is_free(monkeypatch):
    """Together they may be more than is allowed; who hangs on to the older is cut off."""
    monkeypatch.setattr(epochs, "TELL_S", 0.2)
    with reducers(1) as pool, admitted(pool[0].address, epoch=1) as first:
        assert next_frame(first)[0] is Frame.READY
        older = pool[0]._epoch
        assert older._rings is not None
        with admitted(pool[0].address, epoch=2) as second:
            assert next_frame(second)[0] is Frame.READY
            assert older._rings is None
        assert "a newer epoch of this job has begun" in str(error_of(first))


def test_a_worker_that_reads_late_still_hears_why_its_group_has_ended(monkeypatch):
    """Closed at once, with bytes of it unread, its connection would be reset and the word lost."""
    monkeypatch.setattr(epochs, "TELL_S", 30.0)
    with reducers(1) as pool, connected(pool[0].address, receives=8 << 10) as sock:
        greeting = hello()
        challenge, _ = challenged(sock, greeting)
        sock.sendall(handshake.proof(TOKEN, b"worker", greeting, challenge))
        assert next_frame(sock)[0] is Frame.READY
        epoch, piece = pool[0]._epoch, 1 << 20
        sock.sendall(frames.segment_frame(ONE._replace(count=piece // 4)))
        sock.sendall(frames.head(Frame.DATA, piece) + bytes(piece))
        sock.sendall(b"\xff" * 1000)
        assert not epoch._no_receivers.wait(0.5)
        assert "worker 0 broke the protocol" in str(error_of(sock))


def test_a_reducer_that_is_told_to_end_names_itself():
    with crew(2, 2) as team:
        wait = give(team.clients[0], torch.ones(100_000))
        team.reducers[1].close()
        soon(team.clients[1].failed)
        for error in (wait.error(), team.clients[1].failed()):
            assert error.culprit == "reducer 1"
            assert "reducer 1 was asked to end" in str(error)


def test_a_fault_in_a_sum_ends_the_group_instead_of_leaving_it_waiting(monkeypatch):
    with crew(2) as team:

        def broken(*_, **__):
            raise FloatingPointError("a bug")

        monkeypatch.setattr(epochs.sums, "add", broken)
        waits = [give(client, torch.ones(10)) for client in team.clients]
        for wait in waits:
            assert wait.error().culprit == "reducer 0"
            assert "a bug" in str(wait.error())


def test_whoever_is_waited_for_is_reported(monkeypatch):
    """To the reducer's log and to rank 0's, by name; nobody is blamed for being slow."""
    monkeypatch.setattr(epochs, "STRAGGLER_S", 0.3)
    monkeypatch.setattr(reducing, "WATCH_S", 0.1)
    log, first = [], []
    with reducers(1, report=log.append) as pool:
        settings = {"epoch": time.time_ns(), "report": first.append}
        clients = good(together([connecting(pool, rank, 3, **settings) for rank in range(3)]))
        begins, ends = f"round {clients[0]._round} has waited", "for worker 1"
        waits = [give(clients[rank], torch.ones(10)) for rank in (0, 2)]
        soon(lambda: any(text.startswith(begins) and text.endswith(ends) for text in first))
        assert set(first) <= set(log)
        waits.append(give(clients[1], torch.ones(10)))
        for wait in waits:
            wait.result()
        together([client.close for client in clients])


def test_whoever_has_not_come_is_reported(monkeypatch):
    monkeypatch.setattr(epochs, "STRAGGLER_S", 0.3)
    monkeypatch.setattr(reducing, "WATCH_S", 0.1)
    log = []
    with reducers(1, report=log.append) as pool, admitted(pool[0].address, rank=1, world=4):
        soon(lambda: log)
    assert log[0].startswith("the group has waited")
    assert log[0].endswith("for worker 0, worker 2, worker 3")


def test_a_group_that_has_failed_waits_for_nobody(monkeypatch):
    monkeypatch.setattr(epochs, "STRAGGLER_S", 0.0)
    with crew(2) as team:
        epoch = team.reducers[0]._epoch
        wait = give(team.clients[0], torch.ones(10))
        soon(lambda: epoch._ledger.list_slowest_ranks() == [1])
        team.clients[1].close()
        wait.error()
        assert epoch._ledger.list_slowest_ranks() == [1]
        assert epoch.describe_stragglers() is None


def test_the_first_round_has_waited_since_its_first_rank_came():
    with contextlib.ExitStack() as stack:
        pool = stack.enter_context(reducers(1))
        socks = [
            stack.enter_context(admitted(pool[0].address, rank=rank, world=3)) for rank in range(3)
        ]
        assert next_frame(socks[2])[0] is Frame.READY
        epoch = pool[0]._epoch  # there is one when all have come
        socks[0].sendall(frames.segment_frame(ONE))
        soon(lambda: epoch._ledger.list_slowest_ranks() == [1, 2])
        moved = epoch._progressed_at
        socks[1].sendall(frames.segment_frame(ONE))
        soon(lambda: epoch._ledger.list_slowest_ranks() == [2])
        assert epoch._progressed_at == moved


def test_the_end_of_a_group_is_said_once_with_its_reason():
    log = []
    with reducers(1, report=log.append) as pool:
        with joined(pool, 2) as team:
            pass
        soon(lambda: log)
        with joined(pool, 2, epoch=team.epoch + 1) as team:
            team.clients[0]._fail(ReductionError("a disk is full"))
        soon(lambda: len(log) == 2)
    assert log == [
        "the group of 2 workers has ended",
        "the group of 2 workers has ended: a disk is full",
    ]


def out_of_place():
    """Frames of a worker that holds the token and breaks the protocol, and what is said of each."""
    data = frames.head(Frame.DATA, 64) + bytes(64)
    yield "data before all have come", 2, data, "DATA frame before all"
    yield "much data before all have come", 2, frames.head(Frame.DATA, 4 << 20), "before all"
    yield "a segment before all have come", 2, frames.segment_frame(ONE), "SEGMENT frame before"
    yield "data without a segment", 1, data, "more bytes than its segment has"
    yield "a reducer's word", 1, frames.head(Frame.READY), "an unexpected READY frame"
    yield "no frame", 1, b"\xff" * 8, "255 is not a valid Frame"
    yield "reserved bytes", 1, frames.HEAD.pack(Frame.DATA, 1, 0, 64), "reserved bytes"
    yield (
        "an endless frame",
        1,
        frames.HEAD.pack(Frame.DATA, 0, 0, 1 << 31),
        "a DATA frame must have",
    )
    yield "no elements", 1, frames.segment_frame(ONE._replace(count=0)), "elements, got 0"
    far = frames.HEAD.pack(Frame.SEGMENT, 0, 0, frames.SEGMENT.size)
    far += frames.SEGMENT.pack((1 << 64) - 1, 16, Dtype.FLOAT32, 0)
    yield "a round that no error could name", 1, far, "got 18446744073709551615"
    half = frames.segment_frame(ONE) + frames.head(Frame.DATA, 6) + bytes(6)
    yield "half an element", 1, half, "within an element"
    late = frames.segment_frame(ONE) + frames.head(Frame.GOODBYE)
    yield "a goodbye in a round", 1, late, "a goodbye in the middle"
    bad = frames.head(Frame.ERROR, frames.ERROR.size) + frames.ERROR.pack(9, 0, 0)
    yield "an error of nobody known", 1, bad, "9 is not a valid Kind"


@pytest.mark.parametrize(
    ("world", "sent", "reason"), [pytest.param(*rest, id=name) for name, *rest in out_of_place()]
)
def test_whoever_breaks_the_protocol_is_told_how_and_blamed(world, sent, reason):
    with reducers(1) as pool, admitted(pool[0].address, world=world) as sock:
        if world == 1:
            assert next_frame(sock)[0] is Frame.READY
        sock.sendall(sent)
        error = error_of(sock)
        assert "worker 0 broke the protocol" in str(error)
        assert reason in str(error)
        assert error.culprit == "worker 0"


def test_nobody_sends_more_than_its_credit():
    with contextlib.ExitStack() as stack:
        pool = stack.enter_context(reducers(1))
        socks = [
            stack.enter_context(admitted(pool[0].address, rank=rank, world=2)) for rank in range(2)
        ]
        assert [next_frame(sock)[0] for sock in socks] == [Frame.READY] * 2
        ring = pool[0]._epoch._ledger.ring
        socks[0].sendall(frames.segment_frame(ONE._replace(count=ring)))
        piece = frames.head(Frame.DATA, ring // 4) + bytes(ring // 4)
        socks[0].sendall(piece * 4 + frames.head(Frame.DATA, 4) + bytes(4))
        for sock in socks:
            assert "more bytes than its credit allows" in str(error_of(sock))


def test_a_group_that_nobody_uses_any_more_lets_the_reducer_end():
    with crew(1) as team:
        pool = team.reducers
        over = threading.Thread(target=pool[0].wait_idle, args=(0.2,))
        over.start()
        over.join(1.0)
        assert over.is_alive()
        team.close()
        over.join(60)
        assert not over.is_alive()


def test_close_ends_its_threads_and_lets_its_port_go():
    before = threading.active_count()
    reducer = Reducer(listener(), TOKEN)
    reducer.start()
    with contextlib.closing(admitted(reducer.address)) as sock:
        assert next_frame(sock)[0] is Frame.READY
        closing = threading.Thread(target=reducer.close)
        closing.start()
        assert error_of(sock).blame.kind is Kind.REDUCER
    closing.join(60)
    soon(lambda: threading.active_count() <= before)
    with contextlib.closing(listener()) as again:
        assert again.getsockname() != reducer.address
    error = alone([reducer], 0, 1, 2, join_timeout=0.2)
    assert "cannot reach" in str(error)
