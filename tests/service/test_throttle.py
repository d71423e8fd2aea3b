"""Whoever tries tokens is slowed down, and nobody beside him is."""

import pytest

from trainshed.model.refusals import Code, Refusal, Throttled
from trainshed.service.auth import throttle as module
from trainshed.service.auth import tokens
from trainshed.service.auth.access import Access
from trainshed.service.auth.throttle import KEYS_MAX, Throttle

HERE, THERE = "192.0.2.1", "192.0.2.2"


@pytest.fixture
def access(store, clock):
    return Access(store, anonymous=False, clock=clock, failures_a_minute=3)


def refusal(access, text, address):
    with pytest.raises(Refusal) as error:
        access.caller(f"Bearer {text}", loopback=False, address=address)
    return error.value


def test_after_so_many_failures_an_address_is_told_when_to_come_again(access, clock):
    codes = [refusal(access, f"{n}-wrong-token", HERE).code for n in range(5)]
    assert codes == [Code.UNAUTHENTICATED] * 3 + [Code.RESOURCE_EXHAUSTED] * 2
    refused = refusal(access, "another", HERE)
    assert isinstance(refused, Throttled)
    assert 1 <= refused.retry_after_s <= 20
    assert f"try again in {refused.retry_after_s} s" in refused.message
    assert refusal(access, "yet-another", THERE).code is Code.UNAUTHENTICATED
    clock.now += refused.retry_after_s
    assert refusal(access, "later", HERE).code is Code.UNAUTHENTICATED


def test_tokens_that_begin_alike_count_together_wherever_they_come_from(access):
    codes = [refusal(access, f"tsd_abcd{n}", f"192.0.2.{n}").code for n in range(4)]
    assert codes == [Code.UNAUTHENTICATED] * 3 + [Code.RESOURCE_EXHAUSTED]


def test_a_right_token_is_let_in_whatever_was_tried_from_its_address(access, store):
    text = tokens.create(store, {"name": "laptop"}).token
    for n in range(10):
        refusal(access, f"{n}-wrong-token", HERE)
    assert access.caller(f"Bearer {text}", loopback=False, address=HERE).name == "laptop"


def test_a_wrong_assertion_counts_as_well(access):
    for _ in range(3):
        with pytest.raises(Refusal) as error:
            access.exchange("a.b.c", HERE)
        assert error.value.code is Code.UNAUTHENTICATED
    with pytest.raises(Throttled):
        access.exchange("a.b.c", HERE)


def test_without_credentials_nothing_was_tried(access):
    for _ in range(10):
        with pytest.raises(Refusal) as error:
            access.caller(None, loopback=False, address=HERE)
        assert error.value.code is Code.PERMISSION_DENIED


def test_what_is_remembered_is_bounded(clock):
    throttle = Throttle(3, clock)
    for n in range(KEYS_MAX):
        throttle.count(f"address {n}", f"{n:08}")
    assert len(throttle._levels) == KEYS_MAX


def test_a_clock_that_is_set_back_locks_nobody_out_for_longer(clock):
    throttle = Throttle(3, clock)
    for _ in range(3):
        throttle.count(HERE, "")
    clock.now -= 3600
    with pytest.raises(Throttled) as error:
        throttle.count(HERE, "")
    assert error.value.retry_after_s <= module._MINUTE_S
