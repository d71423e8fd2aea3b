"""How much is under way: never more than a ring, never so little that nothing moves."""

from hypothesis import example, given
from hypothesis import strategies as st

from trainshed_trainer.reduction import pacing
from trainshed_trainer.reduction.frames import ALIGNMENT
from trainshed_trainer.reduction.pacing import Goodput, SendWindow
from trainshed_trainer.reduction.reducer import RING_MAX, RING_MIN

RINGS = st.integers(RING_MIN, RING_MAX).map(lambda ring: ring // ALIGNMENT * ALIGNMENT)
RATES = st.floats(0, 1e12)


@given(RINGS, st.lists(RATES, max_size=5))
def test_credit_lies_between_the_least_and_the_ring(ring, rates):
    pace = SendWindow(ring)
    for rate in [None, *rates]:
        if rate is not None:
            pace.follow(rate)
        assert pacing.CREDIT_MIN <= pace.credit <= ring
        assert pace.credit % ALIGNMENT == 0


@given(RINGS, RATES)
def test_two_pieces_at_least_are_under_way(ring, rate):
    pace = SendWindow(ring)
    pace.follow(rate)
    assert 0 < pace.piece <= pace.credit // 2
    assert pace.piece % ALIGNMENT == 0
    assert pace.piece <= pacing.PIECE_MAX


@given(RINGS, RATES, RATES)
def test_more_goodput_never_means_less_credit(ring, one, other):
    windows = []
    for rate in sorted((one, other)):
        pace = SendWindow(ring)
        pace.follow(rate)
        windows.append(pace.credit)
    assert windows == sorted(windows)


def test_credit_is_what_moves_in_forty_milliseconds():
    pace = SendWindow(RING_MAX)
    pace.follow(25e6)
    assert pace.credit == 1_000_000 // ALIGNMENT * ALIGNMENT


def test_goodput_is_bytes_over_the_time_of_their_own():
    """A tensor that waited for another has not been slow."""
    goodput = Goodput()
    assert goodput.rate == 0
    assert goodput.learn(10 << 20, begun=0.0, now=1.0)
    assert goodput.rate == 10 << 20
    assert goodput.learn(10 << 20, begun=0.0, now=2.0)
    assert goodput.rate == 10 << 20


def test_short_tensors_say_nothing_of_it_but_take_time():
    goodput = Goodput()
    goodput.learn(pacing.SAMPLE_BYTES_MIN, begun=0.0, now=1.0)
    assert not goodput.learn(pacing.SAMPLE_BYTES_MIN - 1, begun=1.0, now=50.0)
    goodput.learn(pacing.SAMPLE_BYTES_MIN, begun=0.0, now=51.0)
    assert goodput.rate == pacing.SAMPLE_BYTES_MIN


@given(
    st.lists(st.tuples(st.integers(1, 1 << 30), st.floats(0, 10), st.floats(0, 10)), max_size=20)
)
@example([(pacing.SAMPLE_BYTES_MIN, 0.0, 5e-324)])
def test_goodput_stays_within_what_was_measured(tensors):
    goodput, now = Goodput(), 0.0
    for nbytes, begun, took in tensors:
        now += took
        goodput.learn(nbytes, begun, now)
        assert goodput.rate >= 0
    assert goodput.rate < float("inf")


def test_a_change_is_followed_by_halves():
    goodput = Goodput()
    goodput.learn(8 << 20, begun=0.0, now=1.0)
    goodput.learn(4 << 20, begun=1.0, now=2.0)
    assert goodput.rate == 6 << 20
