"""The streams of all ranks, by a model with real bytes: each is summed once, none overwritten."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trainshed_trainer.reduction import ledger as ledgers
from trainshed_trainer.reduction.errors import ReductionError
from trainshed_trainer.reduction.frames import Dtype, Segment, aligned
from trainshed_trainer.reduction.ledger import Ledger

ONE = Segment(0, 16, Dtype.FLOAT32, average=False)
TWO = Segment(1, 16, Dtype.FLOAT32, average=False)


class Model:
    """A reducer and its workers without threads: every step is chosen from outside.

    The sum of bytes is modulo 251, so that one taken twice or from elsewhere shows.
    """

    def __init__(self, world, ring, segments):
        self.ledger = Ledger(world, ring)
        self.world = world
        self.ring = ring
        self.segments = segments
        self.starts, at = [], 0
        for segment in segments:
            self.starts.append(aligned(at))
            at = self.starts[-1] + segment.nbytes
        self.rings = [bytearray(ring) for _ in range(world + 1)]
        self.begun = [0] * world  # segments
        self.sent = [0] * world  # bytes of the current one
        self.queues = [[] for _ in range(world)]
        self.under_way = [None] * world
        self.received = [0] * world
        self.results = [bytearray() for _ in range(world)]
        self.summing = None

    def byte(self, rank, position):
        return (position * 7 + rank * 31 + position // 256) % 251

    def whole(self):
        """What every rank must get in the end."""
        total = bytearray()
        for start, segment in zip(self.starts, self.segments, strict=True):
            for position in range(start, start + segment.nbytes):
                total.append(sum(self.byte(rank, position) for rank in range(self.world)) % 251)
        return total

    def position(self, rank):
        return self.starts[self.begun[rank] - 1] + self.sent[rank]

    def send(self, rank, wish):
        """A piece of at most ``wish`` elements, as the credit allows; whether there was one."""
        if self.begun[rank] == 0 or self.sent[rank] == self.segments[self.begun[rank] - 1].nbytes:
            if self.begun[rank] == len(self.segments):
                return False
            self.ledger.announce(rank, self.segments[self.begun[rank]])
            self.begun[rank] += 1
            self.sent[rank] = 0
            return True
        segment = self.segments[self.begun[rank] - 1]
        credit = self.ring - (self.position(rank) - self.received[rank])
        nbytes = min(wish * segment.dtype.itemsize, segment.nbytes - self.sent[rank], credit)
        nbytes -= nbytes % segment.dtype.itemsize
        if nbytes <= 0:
            return False
        at = self.ledger.next_position(rank, nbytes)
        assert at == self.position(rank)
        for position in range(at, at + nbytes):
            self.rings[rank][position % self.ring] = self.byte(rank, position)
        self.sent[rank] += nbytes
        self.ledger.record_arrival(rank, nbytes)
        return True

    def sum(self):
        """Take the next stretch, or finish the one that was taken."""
        if self.summing is None:
            self.summing = self.ledger.next_stretch()
            return self.summing is not None
        stretch, self.summing = self.summing, None
        assert stretch.start % self.ring + stretch.end - stretch.start <= self.ring
        for position in range(stretch.start, stretch.end):
            place = position % self.ring
            total = sum(self.rings[rank][place] for rank in range(self.world))
            self.rings[self.world][place] = total % 251
        self.ledger.record_sum(stretch)
        for queue in self.queues:
            queue.append(stretch)
        return True

    def deliver(self, rank):
        """Begin to send results, or let what is on its way arrive: its bytes are read only then."""
        if self.under_way[rank] is None:
            if not self.queues[rank]:
                return False
            self.under_way[rank] = self.queues[rank].pop(0)
            self.ledger.record_sending(rank, self.under_way[rank].end)
            return True
        stretch, self.under_way[rank] = self.under_way[rank], None
        for position in range(stretch.start, stretch.end):
            self.results[rank].append(self.rings[self.world][position % self.ring])
        self.received[rank] = stretch.end
        return True


@st.composite
def models(draw):
    # in a ring of 64 the gap before a segment could leave no room for an element, for ever
    world, ring = draw(st.integers(1, 4)), draw(st.sampled_from([128, 192, 512]))
    kinds = st.tuples(st.integers(1, 200), st.sampled_from(Dtype), st.booleans())
    drawn = draw(st.lists(kinds, min_size=1, max_size=6))
    return Model(world, ring, [Segment(number, *kind) for number, kind in enumerate(drawn)])


@given(models(), st.data())
def test_whatever_comes_when_every_byte_is_summed_once_in_its_place(model, data):
    steps = [("sum", 0)] + [
        (act, rank) for act in ("send", "deliver") for rank in range(model.world)
    ]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ledgers, "STRETCH_MAX", data.draw(st.sampled_from([64, 128, 1 << 20])))
        order = data.draw(st.lists(st.sampled_from(steps), max_size=120))
        wishes = data.draw(st.lists(st.integers(1, 64), min_size=1, max_size=7))
        for number, (act, rank) in enumerate(order):
            take(model, act, rank, wishes[number % len(wishes)])
        moved = True
        while moved:  # and then each in turn until nobody can go on
            moved = sum(take(model, act, rank, wishes[0]) for act, rank in steps) > 0
    right = model.whole()
    assert all(results == right for results in model.results)
    assert model.ledger.next_stretch() is None
    for rank in range(model.world):
        model.ledger.leave(rank)
    assert model.ledger.have_all_left()


def take(model, act, rank, wish):
    if act == "sum":
        return model.sum()
    return model.send(rank, wish) if act == "send" else model.deliver(rank)


def ledger_of(world, *ranks, ring=128):
    """A ledger in which these ranks have announced the first segment."""
    ledger = Ledger(world, ring)
    for rank in ranks:
        ledger.announce(rank, ONE)
    return ledger


def test_another_segment_than_the_first_one_is_an_error_that_names_both():
    ledger = ledger_of(3, 1)
    with pytest.raises(ReductionError) as raised:
        ledger.announce(2, ONE._replace(count=17))
    assert raised.value.culprit == "worker 2"
    assert raised.value.round == 0
    assert str(raised.value) == (
        "worker 2 called all-reduce with round 0: 17 float32, sum, worker 1 with round 0: 16"
        " float32, sum: every rank must call the same ones in the same order"
    )


def test_a_rank_may_be_rounds_ahead_and_is_compared_with_who_comes_later():
    ledger = ledger_of(2, 0)
    ledger.record_arrival(0, ledger.next_position(0, 64) + 64)
    ledger.announce(0, TWO)
    ledger.announce(1, ONE)
    ledger.record_arrival(1, 64)
    with pytest.raises(ReductionError, match="worker 1 called all-reduce with round 1: 8"):
        ledger.announce(1, TWO._replace(count=8))


def test_a_segment_must_be_complete_before_the_next():
    ledger = ledger_of(1, 0)
    ledger.record_arrival(0, 32)
    with pytest.raises(ValueError, match="before the last one has ended"):
        ledger.announce(0, TWO)


@pytest.mark.parametrize(
    ("nbytes", "reason"),
    [(65, "more bytes than its segment"), (4 << 20, "more bytes than its segment"), (6, "element")],
)
def test_bytes_that_may_not_come_are_refused(nbytes, reason):
    with pytest.raises(ValueError, match=reason):
        ledger_of(1, 0).next_position(0, nbytes)


def test_bytes_without_a_segment_are_refused():
    with pytest.raises(ValueError, match="more bytes than its segment"):
        Ledger(1, 128).next_position(0, 4)


def test_bytes_beyond_the_credit_are_refused_until_results_are_sent():
    ledger = Ledger(1, 64)
    ledger.announce(0, ONE._replace(count=32))
    ledger.record_arrival(0, 64)
    with pytest.raises(ValueError, match="credit"):
        ledger.next_position(0, 4)
    stretch = ledger.next_stretch()
    ledger.record_sum(stretch)
    with pytest.raises(ValueError, match="credit"):
        ledger.next_position(0, 4)
    ledger.record_sending(0, stretch.end)
    assert ledger.next_position(0, 64) == 64


def test_who_leaves_while_others_are_in_a_round_is_an_error():
    ledger = ledger_of(2, 0)
    with pytest.raises(
        ReductionError, match="worker 1 has left the group before round 0"
    ) as raised:
        ledger.leave(1)
    assert raised.value.culprit == "worker 1"


def test_a_round_after_someone_left_is_an_error():
    ledger = Ledger(3, 128)
    ledger.leave(2)
    with pytest.raises(ReductionError, match="worker 2 has left") as raised:
        ledger.announce(0, ONE)
    assert (raised.value.culprit, raised.value.round) == ("worker 2", 0)


def test_nobody_leaves_with_bytes_owed_or_awaited():
    for arrived in (0, 32, 64):
        ledger = ledger_of(2, 0, 1)
        ledger.record_arrival(0, arrived)
        with pytest.raises(ValueError, match="goodbye in the middle"):
            ledger.leave(0)


def test_those_who_are_waited_for_are_those_who_are_behind():
    ledger = ledger_of(3, 0)
    assert (ledger.round_under_way(), ledger.list_slowest_ranks()) == (0, [1, 2])
    ledger.announce(1, ONE)
    assert ledger.list_slowest_ranks() == [2]
    ledger.announce(2, ONE)
    ledger.record_arrival(0, 64)
    ledger.record_arrival(2, 64)
    assert ledger.list_slowest_ranks() == [1]
    ledger.record_arrival(1, 64)
    ledger.record_sum(ledger.next_stretch())
    assert (ledger.round_under_way(), ledger.list_slowest_ranks()) == (None, [])
