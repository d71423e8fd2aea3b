"""Whose fault the end of a connection was: what was said there counts, not who notices first."""

import contextlib
import socket
import threading

import pytest

from reduction.crew import DEADLINE_S, HOST, Noticing, Wait, soon
from trainshed_trainer.reduction import client as clients
from trainshed_trainer.reduction import lanes
from trainshed_trainer.reduction.client import Client
from trainshed_trainer.reduction.epoch import Epoch
from trainshed_trainer.reduction.errors import Culprit, Kind, ReductionError
from trainshed_trainer.reduction.frames import Dtype, Frame, Segment, error_frame, head
from trainshed_trainer.reduction.joining import Group, ReducerConnection
from trainshed_trainer.reduction.lanes import Lane, Part
from trainshed_trainer.reduction.links import Link
from trainshed_trainer.reduction.members import HeartbeatNote

HERE = Culprit(Kind.REDUCER, 0)
ELSEWHERE = ReductionError("worker 7 is lost", blame=Culprit(Kind.WORKER, 7))


@pytest.fixture
def ends():
    """Both ends of a TCP connection."""
    with contextlib.ExitStack() as stack:
        server = stack.enter_context(socket.create_server((HOST, 0)))
        ours = stack.enter_context(socket.create_connection(server.getsockname()))
        yield ours, stack.enter_context(server.accept()[0])


def lane_on(sock, fail):
    return Lane(ReducerConnection(Link(sock, 60.0), 1 << 20, HERE), 60.0, fail, print)


def reset(sock, *messages):
    """Say something and end with a reset, as a process does that dies with bytes unread."""
    sock.sendall(b"".join(messages))
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
    sock.close()


def test_a_reducer_s_last_word_is_heard_by_who_cannot_send_to_it_any_more(ends):
    ours, theirs = ends
    failures = []
    lane = lane_on(ours, failures.append)
    theirs.sendall(error_frame(ELSEWHERE))
    reset(theirs)
    sender, receiver = lane._threads
    sender.start()
    view = memoryview(bytearray(1 << 20))
    for number in range(8):
        lane.put(Part(Segment(number, 1 << 17, Dtype.FLOAT32, average=False), view, print))
    sender.join(DEADLINE_S)
    assert not sender.is_alive()
    assert not failures
    receiver.start()
    receiver.join(DEADLINE_S)
    assert [(str(error), error.culprit) for error in failures] == [("worker 7 is lost", "worker 7")]


def test_a_worker_s_last_word_is_heard_by_a_reducer_that_cannot_send_to_it_any_more(ends):
    ours, theirs = ends
    epoch = Epoch(1, 1, 0, 1 << 20, 60.0)
    member = epoch.join(0, Link(ours, 60.0))
    theirs.sendall(error_frame(ELSEWHERE))
    reset(theirs)
    soon(lambda: member.put(HeartbeatNote("are you there")) or member.broken)
    assert epoch.error is None
    epoch.receive(member)
    assert epoch.error.culprit == "worker 7"


def receiving(lane):
    thread = threading.Thread(target=lane._receive)
    thread.start()
    return thread


def test_a_closed_connection_is_no_loss_where_another_fault_is_told_of(ends, monkeypatch):
    """A worker that was told elsewhere may end, and its own reducer with it, before we are told."""
    monkeypatch.setattr(lanes, "OTHER_ERROR_S", 60.0)
    ours, theirs = ends
    failures = []
    lane = lane_on(ours, failures.append)
    lane._has_other_error = Noticing()
    thread = receiving(lane)
    theirs.close()
    soon(lambda: lane._has_other_error.waited_for or failures)
    lane.notify(ELSEWHERE)
    thread.join(DEADLINE_S)
    assert not thread.is_alive()
    assert not failures


def test_a_closed_connection_is_a_loss_where_nobody_tells_more(ends):
    ours, theirs = ends
    failures = []
    thread = receiving(lane_on(ours, failures.append))
    theirs.close()
    thread.join(DEADLINE_S)
    assert [error.culprit for error in failures] == ["reducer 0"]
    assert "is lost: its connection was closed" in str(failures[0])


def test_a_caller_hears_of_an_error_when_the_reducers_have_answered(ends, monkeypatch):
    """Sent is not heard: what still waits to be sent is lost when a process ends."""
    monkeypatch.setattr(clients, "TELL_S", 60.0)
    ours, theirs = ends
    client, wait = Client(Group(0, 2, 1, b"", 60.0, 60.0), 1), Wait()
    client._lanes, client._pending = [lane_on(ours, client._fail)], {0: wait}
    client._lanes[0].start()
    failing = threading.Thread(target=client._fail, args=(ELSEWHERE,))
    failing.start()
    while theirs.recv(1 << 16):
        pass  # up to our end: all is sent
    failing.join(0.3)  # nothing happens meanwhile that could be waited for
    assert not wait.calls
    theirs.close()
    assert wait.error() is ELSEWHERE
    failing.join(DEADLINE_S)
    client.close()


def test_after_leaving_a_closed_connection_is_as_it_should_be(ends):
    ours, theirs = ends
    failures = []
    lane = lane_on(ours, failures.append)
    lane.start()
    lane.leave()
    lane.join_sender(DEADLINE_S)
    theirs.close()
    lane.close(DEADLINE_S)
    assert not failures


def test_silence_is_called_so(ends):
    ours, _ = ends
    failures = []
    lane = Lane(ReducerConnection(Link(ours, 0.1), 1 << 20, HERE), 0.1, failures.append, print)
    receiving(lane).join(DEADLINE_S)
    assert str(failures[0]) == "reducer 0 has been silent for 0.1 s"


@pytest.mark.parametrize(
    ("sent", "reason"),
    [
        (head(Frame.DATA, 64) + bytes(64), "results without a matching segment"),
        (head(Frame.SEGMENT, 24) + bytes(24), "an unexpected SEGMENT frame"),
        (head(Frame.READY) * 2, "an unexpected READY frame"),
        (b"\xff" * 8, "255 is not a valid Frame"),
    ],
)
def test_a_reducer_that_breaks_the_protocol_is_blamed(ends, sent, reason):
    ours, theirs = ends
    failures = []
    thread = receiving(lane_on(ours, failures.append))
    theirs.sendall(sent)
    thread.join(DEADLINE_S)
    assert reason in str(failures[0])
    assert failures[0].culprit == "reducer 0"


def test_results_that_come_after_the_end_are_written_nowhere(ends):
    """What has begun ends first; `release_memory` returns only then."""
    ours, theirs = ends
    lane = lane_on(ours, print)
    buffer = bytearray(8)
    lane.put(Part(Segment(0, 2, Dtype.FLOAT32, average=False), memoryview(buffer), print))
    lane.start()
    theirs.sendall(head(Frame.DATA, 4) + b"aa")
    soon(lambda: bytes(buffer[:2]) == b"aa")
    lane.notify(ELSEWHERE)
    letting = threading.Thread(target=lane.release_memory, args=(60.0,))
    letting.start()
    theirs.sendall(b"aa" + head(Frame.DATA, 4) + b"bbbb")
    letting.join(DEADLINE_S)
    assert not letting.is_alive()
    theirs.close()
    lane.close(DEADLINE_S)
    assert bytes(buffer) == b"aaaa\0\0\0\0"


def test_results_that_do_not_come_are_not_waited_for(ends):
    """The piece under way is cut off: its memory is the caller's again."""
    ours, theirs = ends
    lane = lane_on(ours, print)
    buffer = bytearray(8)
    lane.put(Part(Segment(0, 2, Dtype.FLOAT32, average=False), memoryview(buffer), print))
    lane.start()
    theirs.sendall(head(Frame.DATA, 8) + b"aa")
    soon(lambda: bytes(buffer[:2]) == b"aa")
    lane.notify(ELSEWHERE)
    lane.release_memory(0.1)
    assert not lane._is_writing
    with contextlib.suppress(OSError):
        theirs.sendall(b"bbbbbb")
    lane.close(DEADLINE_S)
    assert bytes(buffer) == b"aa\0\0\0\0\0\0"
