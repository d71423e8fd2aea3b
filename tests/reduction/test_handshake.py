"""Who has the token gets in, who has not learns nothing and disturbs nobody."""

import contextlib
import time

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from reduction.crew import (
    TOKEN,
    connecting,
    crew,
    drawn,
    expected,
    joined,
    probe_little,
    reducers,
    same_bits,
    soon,
    together,
)
from reduction.strangers import (
    admitted,
    challenged,
    closed,
    connected,
    exactly,
    hello,
    impostor,
    next_frame,
    serving,
)
from trainshed_trainer.reduction import handshake
from trainshed_trainer.reduction import reducer as reducing
from trainshed_trainer.reduction.errors import ReductionError
from trainshed_trainer.reduction.frames import Frame
from trainshed_trainer.reduction.handshake import Challenge, Hello

HELLOS = st.builds(
    lambda world, rank, **rest: Hello(world=world, rank=rank % world, **rest),
    index=st.integers(0, (1 << 16) - 1),
    epoch=st.integers(0, (1 << 64) - 1),
    rank=st.integers(0, handshake.WORLD_MAX),
    world=st.integers(1, handshake.WORLD_MAX),
    timeout_ms=st.integers(*handshake.TIMEOUT_MS),
    nonce=st.binary(min_size=16, max_size=16),
)
CHALLENGES = st.builds(
    Challenge, st.integers(0, (1 << 32) - 1), st.binary(min_size=16, max_size=16)
)


@pytest.fixture(autouse=True)
def _quick(monkeypatch):
    probe_little(monkeypatch)


def sums_are_right(team, seed=0):
    tensors = [drawn(rank, 10_000, torch.float32, seed) for rank in range(len(team.clients))]
    right = expected(tensors)
    return all(same_bits(tensor, right) for tensor in team.reduce(tensors))


def test_messages_are_short():
    """docs/sources/reduction.md 6: a stranger is heard for fewer than 128 bytes."""
    answer = handshake.CHALLENGE.size + handshake.PROOF_SIZE
    assert max(handshake.HELLO.size, answer, handshake.PROOF_SIZE) < 128


@given(HELLOS, CHALLENGES)
def test_messages_are_read_as_they_were_written(greeting, challenge):
    assert handshake.parse_hello(greeting.pack()) == greeting
    assert handshake.parse_challenge(challenge.pack()) == challenge


@given(st.binary(min_size=handshake.HELLO.size, max_size=handshake.HELLO.size), st.booleans())
def test_arbitrary_bytes_are_a_greeting_or_a_value_error(data, begins_well):
    if begins_well:
        data = hello().pack()[:6] + data[6:]
    with contextlib.suppress(ValueError):
        greeting = handshake.parse_hello(data)
        assert 0 <= greeting.rank < greeting.world <= handshake.WORLD_MAX


@given(st.binary(min_size=handshake.CHALLENGE.size, max_size=handshake.CHALLENGE.size))
def test_arbitrary_bytes_are_a_challenge_or_no_reducer_of_ours(data):
    with contextlib.suppress(ReductionError):
        handshake.parse_challenge(data)


@given(HELLOS, CHALLENGES, st.data())
def test_a_proof_is_for_one_side_of_one_connection(greeting, challenge, data):
    """A bit changed anywhere, on either side, in either message or in the token, and it is none."""
    given_ = handshake.proof(TOKEN, b"worker", greeting, challenge)
    assert handshake.proves(TOKEN, b"worker", greeting, challenge, given_)
    assert not handshake.proves(TOKEN, b"reducer", greeting, challenge, given_)
    assert not handshake.proves(TOKEN + b"0", b"worker", greeting, challenge, given_)
    place = data.draw(st.integers(0, 8 * len(given_) - 1))
    other = bytearray(given_)
    other[place // 8] ^= 1 << place % 8
    assert not handshake.proves(TOKEN, b"worker", greeting, challenge, bytes(other))
    for field in ("index", "epoch", "rank", "world", "timeout_ms"):
        changed = greeting._replace(**{field: getattr(greeting, field) ^ 1})
        assert not handshake.proves(TOKEN, b"worker", changed, challenge, given_)
    changed = challenge._replace(ring=challenge.ring ^ 1)
    assert not handshake.proves(TOKEN, b"worker", greeting, changed, given_)


def test_a_worker_with_another_token_is_refused_and_the_group_goes_on():
    with crew(2) as team:
        wrong = {"token": b"another" * 8, "epoch": team.epoch + 1}
        error = together([connecting(team.reducers, 0, 2, **wrong)])[0]
        assert isinstance(error, ReductionError)
        assert "does not hold this job's token" in str(error)
        assert error.culprit == "reducer 0"
        assert sums_are_right(team)


def test_a_stranger_whose_proof_is_wrong_is_told_nothing_and_disturbs_nobody():
    with crew(2) as team, connected(team.reducers[0].address) as sock:
        challenged(sock, hello(epoch=team.epoch + 1, world=2))
        sock.sendall(bytes(handshake.PROOF_SIZE))
        assert closed(sock)
        assert sums_are_right(team)


def test_a_worker_says_nothing_to_a_reducer_that_does_not_hold_the_token():
    received = []
    with serving(impostor(received)) as address, reducers(1) as pool:
        pool[0].address, own = address, pool[0].address
        error = together([connecting(pool, 0, 1, epoch=1)])[0]
        pool[0].address = own
    assert "does not hold this job's token" in str(error)
    assert not received


def test_a_proof_that_was_overheard_opens_nothing():
    with reducers(1) as pool:
        greeting = hello()
        with connected(pool[0].address) as first, connected(pool[0].address) as second:
            challenge, _ = challenged(first, greeting)
            overheard = handshake.proof(TOKEN, b"worker", greeting, challenge)
            challenged(second, greeting)
            second.sendall(overheard)
            assert closed(second)
            first.sendall(overheard)
            assert next_frame(first)[0] is Frame.READY


def test_versions_that_differ_are_told_to_the_worker():
    received = []
    with serving(impostor(received, version=7)) as address, reducers(1) as pool:
        pool[0].address, own = address, pool[0].address
        error = together([connecting(pool, 0, 1, epoch=1)])[0]
        pool[0].address = own
    assert "the reducer has protocol version 7, this worker 1" in str(error)


def test_a_worker_of_another_version_learns_the_reducer_s():
    with reducers(1) as pool, connected(pool[0].address) as sock:
        greeting = bytearray(hello().pack())
        greeting[4] = 7
        sock.sendall(greeting)
        answer = exactly(sock, handshake.CHALLENGE.size + handshake.PROOF_SIZE)
        assert handshake.parse_challenge(answer[: handshake.CHALLENGE.size]).ring == 0
        assert closed(sock)


def test_what_is_no_reducer_at_all_is_named():
    def answer(sock):
        sock.recv(100)
        sock.sendall(b"HTTP/1.1 400 Bad Request\r\n" * 10)

    with serving(answer) as address, reducers(1) as pool:
        pool[0].address, own = address, pool[0].address
        error = together([connecting(pool, 0, 1, epoch=1)])[0]
        pool[0].address = own
    assert "not a Trainshed reducer" in str(error)


@pytest.mark.parametrize("nbytes", [0, 1, handshake.HELLO.size - 1, handshake.HELLO.size])
def test_a_stranger_that_takes_too_long_is_left(nbytes, monkeypatch):
    """Whatever it has said so far, and however regularly it says a bit more."""
    monkeypatch.setattr(handshake, "DEADLINE_S", 0.3)
    with reducers(1) as pool, connected(pool[0].address) as sock:
        sock.sendall(hello().pack()[:nbytes])
        with contextlib.suppress(ConnectionResetError):
            while sock.recv(1 << 10):
                pass
        soon(lambda: not pool[0]._pending)


def test_a_stranger_that_drips_bytes_gets_no_more_time(monkeypatch):
    monkeypatch.setattr(handshake, "DEADLINE_S", 0.5)
    with reducers(1) as pool, connected(pool[0].address) as sock:
        began = time.monotonic()
        with contextlib.suppress(OSError):
            for byte in hello().pack():
                sock.sendall(bytes([byte]))
                time.sleep(0.1)
        soon(lambda: not pool[0]._pending)
        assert time.monotonic() - began < len(hello().pack()) * 0.1


def test_more_strangers_than_may_be_pending_disturb_no_group(monkeypatch):
    """Those beyond are turned away, and a worker among them comes again."""
    monkeypatch.setattr(handshake, "DEADLINE_S", 3.0)
    monkeypatch.setattr(reducing, "PENDING_MAX", 4)
    with contextlib.ExitStack() as stack:
        team = stack.enter_context(crew(2))
        address, pending = team.reducers[0].address, team.reducers[0]._pending

        def crowded():
            stack.enter_context(connected(address))
            return len(pending) == 4

        soon(crowded)
        assert closed(stack.enter_context(connected(address)))
        assert sums_are_right(team)
        soon(crowded)
        with joined(team.reducers, 1, epoch=team.epoch + 1) as later:
            assert sums_are_right(later)


def test_the_token_is_on_no_wire():
    received = []

    def listen(sock):
        with contextlib.suppress(OSError):
            while more := sock.recv(1 << 10):
                received.append(more)
                sock.sendall(bytes(100))

    with serving(listen) as address, reducers(1) as pool:
        pool[0].address, own = address, pool[0].address
        together([connecting(pool, 0, 1, epoch=1)])
        pool[0].address = own
    assert received
    assert TOKEN not in b"".join(received)


def test_nothing_is_taken_for_a_worker_that_has_only_greeted():
    """Memory and a place in a group are for who has proved itself."""
    with reducers(1) as pool, connected(pool[0].address) as sock:
        challenged(sock, hello(world=4000))
        assert pool[0]._epoch is None
        with admitted(pool[0].address) as member:
            assert next_frame(member)[0] is Frame.READY
