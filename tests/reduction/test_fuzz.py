"""A reducer on a hostile network: thousands of broken greetings and frames change nothing.

``make test`` sends 3,000 to real reducer processes, half of them greetings, half frames of workers
that hold the token; ``TRAINSHED_CHAOS=full`` sends 100,000.  The seed is in the output,
and ``TRAINSHED_CHAOS_SEED`` repeats it.
"""

import contextlib
import random
import signal
import socket
import struct
import sys
import threading
import time

import psutil
import pytest

from reduction.actor import GOING
from reduction.crew import soon, together
from reduction.reducer_process import HOST, TOKEN, ReducerProcess
from reduction.stage import FULL, cast_at, nursery, some_random
from reduction.strangers import challenged, closed, connected, hello
from trainshed_trainer.reduction import frames, handshake
from trainshed_trainer.reduction.errors import Culprit, Kind, ReductionError
from trainshed_trainer.reduction.frames import Dtype, Frame, Segment

pytestmark = pytest.mark.slow

MUTATIONS = 100_000 if FULL else 1_000
#: So many come before a reducer is measured: its arenas and stacks are there then.
BEFORE = 5_000 if FULL else 200
#: What a process may vary by without growing: buffers, arenas, its list of threads.
NOISE = 6 << 20


@pytest.fixture(scope="module")
def fork():
    with nursery() as parent:
        yield parent.fork


@pytest.fixture
def chance():
    return some_random()


class Size:
    """What a process takes when it has nothing to do."""

    def __init__(self, reducer):
        self._process = psutil.Process(reducer.process.pid)

    def now(self):
        return (
            self._process.num_threads(),
            self._process.num_fds(),
            self._process.memory_info().rss,
        )

    def check_against(self, before):
        def no_larger():
            threads, fds, rss = self.now()
            return threads <= before[0] and fds <= before[1] and rss <= before[2] + NOISE

        try:
            soon(no_larger, 60)
        except AssertionError:
            raise AssertionError(f"{before} has become {self.now()}") from None
        sys.stdout.write(f"threads, descriptors, bytes: {before}, then {self.now()}\n")


def mutated(chance, data):
    """One or a few of the things that may happen to bytes."""
    data = bytearray(data)
    for _ in range(chance.choice([1, 1, 1, 2, 5])):
        place = chance.randrange(len(data) + 1)
        act = chance.randrange(7)
        if act == 0 and data:
            data[place % len(data)] ^= 1 << chance.randrange(8)
        elif act == 1 and data:
            data[place % len(data)] = chance.choice([0, 1, 0x7F, 0x80, 0xFF])
        elif act == 2:
            del data[place:]
        elif act == 3:
            del data[place : place + chance.randrange(9)]
        elif act == 4:
            data[place:place] = chance.randbytes(chance.randrange(1, 9))
        elif act == 5:
            other = chance.randrange(len(data) + 1)
            data[place:place] = data[other : other + 16]
        elif len(data) >= 4:
            value = chance.choice([0, 1, 0xFFFF, 1 << 31, (1 << 32) - 1, 4 << 20])
            struct.pack_into("<I", data, place % (len(data) - 3), value)
    return bytes(data)


def send(sock, data):
    """Say all, and hear the reducer out."""
    with contextlib.suppress(OSError):
        sock.sendall(data)
        sock.shutdown(socket.SHUT_WR)
        while sock.recv(1 << 14):
            pass


def script(chance):
    """What a worker says that does everything well, in one of several orders."""
    data, number = b"", 0
    for _ in range(chance.randrange(1, 5)):
        segment = Segment(number, chance.randrange(1, 200), chance.choice(list(Dtype)), number % 2)
        data += frames.segment_frame(segment)
        left = segment.nbytes
        while left:
            piece = min(left, chance.choice([4, 64, 400]))
            data += frames.head(Frame.DATA, piece) + chance.randbytes(piece)
            left -= piece
        number += 1
        if chance.random() < 0.3:
            data += frames.head(Frame.HEARTBEAT, 5) + b"hello"
    blame = Culprit(Kind.WORKER, chance.randrange(9))
    error = ReductionError("a disk is full", blame=blame, round_=number)
    return data + chance.choice([b"", frames.head(Frame.GOODBYE), frames.error_frame(error)])


def greet_badly(chance, address):
    """One broken greeting, or a good one with a broken proof."""
    with connected(address) as sock:
        if chance.random() < 0.7:
            send(sock, mutated(chance, hello(epoch=chance.randrange(1 << 64)).pack()))
            return
        greeting = hello(epoch=chance.randrange(1 << 64), world=chance.randrange(1, 4096))
        challenge, _ = challenged(sock, greeting)
        proof = handshake.proof(TOKEN.encode(), b"worker", greeting, challenge)
        wrong = mutated(chance, proof)
        send(sock, bytes(32) if wrong[:32] == proof else wrong)


def speak_badly(chance, address, greeting):
    """Broken frames after a good greeting, in a group that has this worker alone."""
    with connected(address) as sock, contextlib.suppress(ConnectionError):
        challenge, _ = challenged(sock, greeting)
        proof = handshake.proof(TOKEN.encode(), b"worker", greeting, challenge)
        sock.sendall(proof)
        if chance.random() < 0.5:
            sock.recv(frames.HEAD.size)  # READY
        send(sock, mutated(chance, script(chance)))


def by_two(count, act, chance):
    """Do it so often, from two threads that each have numbers of their own."""

    def many(own):
        for _ in range(count // 2):
            act(own)

    seeds = [random.Random(chance.randrange(1 << 62)) for _ in range(2)]  # noqa: S311 - the same
    for answer in together([lambda own=own: many(own) for own in seeds], seconds=1000):
        if isinstance(answer, Exception):
            raise answer


def sums_are_right(fork, reducer):
    stage = cast_at(fork, [(HOST, reducer.port)], TOKEN, 2, sizes=[1, 70_000], rounds=20)
    with contextlib.closing(stage):
        ends = stage.ends()
    return all((end["error"], end["wrong"]) == (None, 0) for end in ends.values())


def at_work(fork, reducer):
    """A group that sums until it is told otherwise.

    Its first rounds fill its rings (4 MB), so that no memory comes to them later.
    """
    sizes = [1, 1000, 1_100_000]
    return cast_at(fork, [(HOST, reducer.port)], TOKEN, 2, sizes=sizes, rounds=10**9).going()


def check_its_sums(stage):
    """End it; all its sums were right."""
    lost, left = stage.workers
    lost.signal(signal.SIGKILL)
    end = left.until("error")
    assert (end["culprit"], end["wrong"]) == (lost.name, 0)
    assert end["rounds"] > GOING
    stage.close()


def test_broken_greetings_disturb_neither_a_group_at_work_nor_the_reducer(fork, chance):
    with ReducerProcess() as reducer:
        address = (HOST, reducer.port)
        by_two(BEFORE, lambda own: greet_badly(own, address), chance)
        stage = at_work(fork, reducer)
        before = settled(Size(reducer))
        by_two(MUTATIONS // 2, lambda own: greet_badly(own, address), chance)
        Size(reducer).check_against(before)
        check_its_sums(stage)
        assert sums_are_right(fork, reducer)
        assert not complaints(reducer)


def complaints(reducer):
    """What a program says that has met what it did not expect."""
    return [line for line in reducer.lines if "Traceback" in line or "Exception" in line]


def settled(size):
    """Its size when the threads of those who came before are gone."""
    sizes = size.now()
    while True:
        time.sleep(0.3)
        again = size.now()
        if again[:2] == sizes[:2]:
            return again
        sizes = again


def test_broken_frames_of_workers_that_hold_the_token_harm_only_their_own_group(fork, chance):
    with ReducerProcess() as reducer:
        address, epochs = (HOST, reducer.port), Epochs()
        by_two(BEFORE, lambda own: speak_badly(own, address, epochs.next()), chance)
        before = settled(Size(reducer))
        by_two(MUTATIONS // 2, lambda own: speak_badly(own, address, epochs.next()), chance)
        Size(reducer).check_against(before)
        assert sums_are_right(fork, reducer)
        assert not complaints(reducer)


class Epochs:
    """Greetings of ever newer groups, which no group that was there before survives."""

    def __init__(self):
        self._lock = threading.Lock()
        self._number = 0

    def next(self):
        with self._lock:
            self._number += 1
            return hello(epoch=self._number)


def test_strangers_that_only_stand_there_are_let_go(fork):
    """As many as may be pending and more; the group at work does not notice."""
    with ReducerProcess() as reducer, contextlib.ExitStack() as stack:
        stage = at_work(fork, reducer)
        address = (HOST, reducer.port)

        def stand_there():
            socks = [stack.enter_context(connected(address)) for _ in range(200)]
            assert all(closed(sock) for sock in socks)

        stand_there()  # the stacks of threads that have ended are kept for the next
        before = settled(Size(reducer))
        stand_there()
        Size(reducer).check_against(before)
        check_its_sums(stage)
