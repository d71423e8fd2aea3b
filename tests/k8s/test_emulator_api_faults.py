"""Trouble that tests order: refusals, cut connections, silence, restarts."""

import http.client
import threading
import time
from contextlib import suppress

import pytest

from k8s.emulator import faults
from k8s.emulator.api import start_api
from k8s.http_calls import DEADLINE_S, Caller, make_pod

PODS = "/api/v1/namespaces/default/pods"


@pytest.fixture
def api():
    with start_api() as running:
        yield running


@pytest.mark.parametrize(
    ("kind", "status", "reason"),
    [
        (faults.EXPIRED, 410, "Expired"),
        (faults.TOO_MANY, 429, "TooManyRequests"),
        (faults.SERVER_ERROR, 500, "InternalError"),
    ],
)
def test_the_next_requests_fail_and_then_no_more(api, kind, status, reason):
    api.faults.order(kind, 2, verbs=("list",), retry_after_s=3)
    caller = Caller(api)
    assert caller.call("GET", f"{PODS}/none").status == 404
    for _ in range(2):
        reply = caller.call("GET", PODS)
        assert (reply.status, reply.body["reason"]) == (status, reason)
        if kind == faults.TOO_MANY:
            assert reply.headers["retry-after"] == "3"
    assert caller.call("GET", PODS).status == 200


def test_a_gateway_in_between_answers_without_a_status(api):
    api.faults.order(faults.BAD_GATEWAY)
    reply = Caller(api).call("GET", PODS)
    assert (reply.status, reply.headers["content-type"]) == (502, "text/html")


def test_a_cut_connection_has_no_answer(api):
    api.faults.order(faults.CLOSED, path="/pods")
    with pytest.raises((http.client.HTTPException, ConnectionError)):
        Caller(api).call("GET", PODS)
    assert [row.code for row in api.server.audit] == [0]


def test_a_request_hangs_until_the_faults_are_cleared(api):
    api.faults.order(faults.HANG, path="/pods")
    outcomes = []

    def call():
        with pytest.raises((http.client.HTTPException, ConnectionError)) as error:
            Caller(api).call("GET", PODS)
        outcomes.append(error.type)

    thread = threading.Thread(target=call)
    thread.start()
    end = time.monotonic() + DEADLINE_S
    while api.faults.remaining and time.monotonic() < end:
        time.sleep(0.01)
    assert not outcomes
    api.faults.clear()
    thread.join(DEADLINE_S)
    assert len(outcomes) == 1
    assert Caller(api).call("GET", PODS).status == 200


def test_a_silent_watch_says_nothing_of_what_happens(api):
    api.faults.order(faults.SILENT)
    events = list(Caller(api).watch(PODS, timeoutSeconds="1"))
    api.store.create(make_pod())
    assert events == []


def test_a_watch_can_be_told_that_it_is_too_old(api):
    api.faults.order(faults.EXPIRED, verbs=("watch",))
    (event,) = Caller(api).watch(PODS)
    assert (event["type"], event["object"]["code"]) == ("ERROR", 410)


def test_open_watches_end_on_order(api):
    api.store.create(make_pod())
    events = Caller(api).watch(PODS)
    assert next(events)["type"] == "ADDED"
    api.server.end_watches()
    assert list(events) == []


def test_a_server_that_stops_cuts_watches_and_comes_back_on_its_port(api):
    api.store.create(make_pod())
    events = Caller(api).watch(PODS)
    next(events)
    port = api.server.port
    api.server.stop()
    with suppress(http.client.HTTPException, ConnectionError):
        assert list(events) == []
    with pytest.raises(ConnectionError):
        Caller(api).call("GET", PODS)
    api.server.start()
    assert api.server.port == port
    assert len(Caller(api).call("GET", PODS).body["items"]) == 1


def test_an_unknown_fault_is_a_mistake_of_the_test(api):
    with pytest.raises(ValueError, match="kind must be one of"):
        api.faults.order("flood")
