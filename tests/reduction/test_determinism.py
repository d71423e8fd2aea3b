"""The same inputs give the same bits, whoever comes when and whatever the pieces are."""

import hashlib
import itertools
import time

import pytest
import torch

from reduction.crew import bytes_of, crew, drawn, give, good, probe_little, together
from reduction.stage import FULL
from trainshed_trainer.reduction import pacing

pytestmark = pytest.mark.slow

WORLD = 3
RUNS = 10 if FULL else 1
#: What each rank waits, in seconds, before it gives its next tensor.
DELAYS = {
    "at once": (0.0, 0.0, 0.0),
    "the first is last": (0.01, 0.0, 0.005),
    "the last is last": (0.0, 0.003, 0.01),
}
PIECES = (1 << 10, 48 << 10)


@pytest.fixture(autouse=True)
def _quick(monkeypatch):
    probe_little(monkeypatch)


def tensors_of(rank):
    return [
        drawn(rank, 200_001, torch.float32, 1),
        drawn(rank, 777, torch.bfloat16, 2),
        drawn(rank, 100_003, torch.float16, 3),
    ]


def hashes(team, delays):
    """What every rank holds in the end, as one hash a rank."""

    def one(rank):
        held, waits = tensors_of(rank), []
        for tensor in held:
            time.sleep(delays[rank])
            waits.append(give(team.clients[rank], tensor, average=tensor.dtype == torch.float16))
        for wait in waits:
            wait.result()
        return hashlib.sha256(b"".join(bytes_of(tensor) for tensor in held)).hexdigest()

    return set(good(together([lambda rank=rank: one(rank) for rank in range(WORLD)])))


def test_runs_of_three_delays_and_two_sizes_of_pieces_have_one_hash(monkeypatch):
    digests = set()
    for piece, delays in itertools.product(PIECES, DELAYS.values()):
        monkeypatch.setattr(pacing, "PIECE_MIN", piece)
        monkeypatch.setattr(pacing, "PIECE_MAX", piece)
        for _ in range(RUNS):
            with crew(WORLD, 2) as team:
                assert team.clients[0]._lanes[0].pace.piece <= piece
                digests |= hashes(team, delays)
    assert len(digests) == 1


def test_neither_do_they_depend_on_the_reducers():
    digests = set()
    for pool, hybrid in [(1, False), (2, False), (3, False), (0, True), (2, True)]:
        with crew(WORLD, pool, hybrid=hybrid) as team:
            digests |= hashes(team, DELAYS["at once"])
    assert len(digests) == 1


def test_other_inputs_have_other_bits():
    """Otherwise one hash would prove nothing."""
    with crew(WORLD) as team:
        one = hashes(team, DELAYS["at once"])
        assert len(one) == 1
        changed = [drawn(rank, 200_001, torch.float32, 1) for rank in range(WORLD)]
        changed[0][-1] += 1.0
        before = [tensor.clone() for tensor in changed]
        team.reduce(changed)
        assert not torch.equal(changed[0], before[0])
