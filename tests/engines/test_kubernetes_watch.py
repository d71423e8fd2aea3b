"""The list-and-watch loop, against a small API server with faults on order."""

import logging
import threading
import time
from functools import partial

import pytest

from engines.fake_kubernetes_api import EXPIRED, PODS, FakeApi, error, pod, status
from engines.kubernetes_clients import Clock, client_to
from engines.support import DEADLINE_S, wait_until
from trainshed.engines.kubernetes.api.progress import Pacing
from trainshed.engines.kubernetes.api.watch import Watcher
from trainshed.engines.kubernetes.state.objects import trim_object

trim_pod = partial(trim_object, "Pod")
_clients = []


def open_client(*args, **more):
    """A client that is closed after the test: its idle connection would stay."""
    _clients.append(client_to(*args, **more))
    return _clients[-1]


@pytest.fixture(autouse=True)
def _close_clients():
    yield
    while _clients:
        _clients.pop().close()


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def changes():
    return []


@pytest.fixture
def api():
    with FakeApi() as api:
        yield api


@pytest.fixture
def watcher(api, clock, changes):
    client = open_client(api.url, bytes_max=1 << 20)
    return Watcher(
        client, PODS, "a=b", trim_pod, changes.extend, pacing=Pacing(quick_s=0.0), now_s=clock
    )


def names(watcher):
    return sorted(value["metadata"]["name"] for value in watcher.objects.values())


def test_a_list_is_read_in_pages_and_watched_from_its_version(api, clock, changes):
    for number in range(5):
        api.put(pod(f"p{number}"))
    watcher = Watcher(
        open_client(api.url),
        PODS,
        "a=b",
        trim_pod,
        changes.extend,
        pacing=Pacing(page_objects=2),
        now_s=clock,
    )
    assert not watcher.is_synced
    assert watcher.step() == 0.0
    assert watcher.is_synced
    assert names(watcher) == ["p0", "p1", "p2", "p3", "p4"]
    assert len(changes) == 5
    watcher.step()
    lists, watches = api.queries(watches=False), api.queries(watches=True)
    assert [query["limit"] for query in lists] == ["2", "2", "2"]
    assert all(query["labelSelector"] == "a=b" for query in lists + watches)
    assert "continue" not in lists[0]
    assert watches[0]["resourceVersion"] == str(api.version)
    assert watches[0]["allowWatchBookmarks"] == "true"
    assert 1 <= int(watches[0]["timeoutSeconds"]) <= Pacing().floor_s


def test_events_change_the_objects_and_name_what_changed(api, watcher, changes):
    first, second = pod("first"), pod("second")
    api.put(first)
    watcher.step()
    changes.clear()
    api.put(second)
    api.put(pod("first", phase="Running"))
    api.remove(pod("first", phase="Failed"))
    watcher.step()
    assert names(watcher) == ["second"]
    assert [(change.uid, change.is_deleted) for change in changes] == [
        ("uid-second", False),
        ("uid-first", False),
        ("uid-first", True),
    ]
    assert changes[-1].value["status"]["phase"] == "Failed", "the last state of a deleted object"
    assert "managedFields" not in changes[0].value["metadata"]


def test_a_change_of_fields_that_nobody_reads_is_no_change(api, watcher, changes):
    api.put(pod("p"))
    watcher.step()
    changes.clear()
    value = pod("p", qosClass="Burstable")
    value["metadata"]["resourceVersion"] = "7"
    api.put(value)
    watcher.step()
    assert not changes
    api.expire()
    watcher.step()
    watcher.step()
    assert len(api.queries(watches=False)) == 1, "a version that was watched does not expire"


def test_a_bookmark_moves_the_version(api, watcher):
    watcher.step()
    api.bookmark()
    watcher.step()
    api.expire()
    watcher.step()
    versions = [query["resourceVersion"] for query in api.queries(watches=True)]
    assert versions == ["100", "101"]
    assert len(api.queries(watches=False)) == 1


@pytest.mark.parametrize("is_event", [True, False])
def test_an_expired_version_is_listed_anew_at_once(api, watcher, changes, is_event):
    stays, goes = pod("stays"), pod("goes")
    api.put(stays)
    api.put(goes)
    watcher.step()
    changes.clear()
    api.remove(goes)
    api.put(pod("new"))
    if is_event:
        api.expire()
    else:
        api.faults.append(error(410, EXPIRED))
    assert watcher.step() == 0.0, "the first list is due at once"
    assert names(watcher) == ["goes", "stays"], "nothing is gone before the list"
    assert watcher.away_since_s is None
    assert watcher.step() == 0.0, "and the watch after it"
    assert names(watcher) == ["new", "stays"]
    assert {(change.uid, change.is_deleted) for change in changes} == {
        ("uid-goes", True),
        ("uid-new", False),
    }
    watcher.step()
    assert api.queries(watches=True)[-1]["resourceVersion"] == str(api.version)


def test_a_list_finds_what_changed_since_the_last_one_and_nothing_else(
    api, watcher, changes, clock
):
    api.put(pod("same"))
    api.put(pod("changed"))
    watcher.step()
    same = watcher.objects["uid-same"]
    changes.clear()
    api.put(pod("changed", phase="Running"))
    clock.now_s += Pacing().floor_s
    watcher.step()
    assert [change.uid for change in changes] == ["uid-changed"]
    assert watcher.objects["uid-changed"]["status"]["phase"] == "Running"
    assert watcher.objects["uid-same"] is same, "equal objects are not stored twice"


def test_versions_that_expire_again_and_again_are_listed_more_and_more_slowly(api, watcher):
    watcher.step()
    pauses = []
    for _ in range(4):
        api.faults.append(error(410, EXPIRED))
        pauses.append(watcher.step())
        watcher.step()
    assert pauses[0] == 0.0
    assert 0.0 < pauses[1] <= 2.0 < pauses[3] <= 8.0


NO_LISTS = {
    "500": error(500, b"oops"),
    "500 with a status": error(500, status(500, "InternalError")),
    "429": error(429, status(429, "TooManyRequests"), Retry_After="1"),
    "401": error(401, status(401, "Unauthorized")),
    "403": error(403, status(403, "Forbidden")),
    "404": error(404, b"404 page not found\n"),
    "empty text": error(200, b""),
    "empty object": error(200, b"{}"),
    "list without a version": error(200, b'{"kind":"PodList","metadata":{},"items":[]}'),
    "list without items": error(200, b'{"metadata":{"resourceVersion":"7"},"items":{}}'),
    "no answer": lambda handler: handler.drop(),
    "half an answer": lambda handler: (
        handler.wfile.write(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{"),
        handler.drop(),
    ),
}


@pytest.mark.parametrize("fault", NO_LISTS.values(), ids=NO_LISTS)
def test_a_list_that_fails_leaves_the_objects_as_they_are(api, clock, changes, fault):
    client = open_client(api.url, pauses=[])
    watcher = Watcher(client, PODS, "", trim_pod, changes.extend, now_s=clock)
    api.put(pod("p"))
    watcher.step()
    changes.clear()
    clock.now_s += Pacing().floor_s
    api.faults.extend([fault] * 6)
    assert watcher.step() > 0.0
    assert names(watcher) == ["p"]
    assert not changes
    assert watcher.away_since_s is not None
    assert watcher.reason
    api.faults.clear()
    watcher.step()
    assert watcher.away_since_s is None
    assert watcher.reason == ""
    assert names(watcher) == ["p"]
    client.close()


def test_a_list_that_breaks_between_its_pages_is_not_believed(api, clock, changes):
    for number in range(4):
        api.put(pod(f"p{number}"))
    watcher = Watcher(
        open_client(api.url),
        PODS,
        "",
        trim_pod,
        changes.extend,
        pacing=Pacing(page_objects=2),
        now_s=clock,
    )
    api.faults.extend([None, error(410, EXPIRED)])
    assert watcher.step() == 0.0
    assert not watcher.is_synced
    assert not watcher.objects
    watcher.step()
    assert names(watcher) == ["p0", "p1", "p2", "p3"]
    assert "continue" not in api.queries(watches=False)[2], "from the first page"


def test_a_connection_that_breaks_within_a_line_loses_nothing(api, watcher, changes):
    watcher.step()
    api.put(pod("before"))
    api.after_events.append(
        lambda handler: (handler.write_chunk(b'{"type":"ADDED","object":{"meta'), handler.drop())
    )
    assert watcher.step() > 0.0, "a pause before the next try"
    assert names(watcher) == ["before"]
    assert watcher.away_since_s is None, "a watch may break; the API is there"
    api.put(pod("after"))
    watcher.step()
    assert names(watcher) == ["after", "before"]
    assert len(changes) == 2, "no event comes twice"
    assert len(api.queries(watches=False)) == 1


@pytest.mark.parametrize(
    "line",
    [
        b"no json\n",
        b"[]\n",
        b'{"type":"ADDED"}\n',
        b'{"type":"NEW","object":{}}\n',
        b'{"type":"ADDED","object":{}}\n',
        b'{"type":"ERROR","object":{}}\n',
        b'{"type":"ADDED","object":{"metadata":{"uid":"u"},"x":"' + b"x" * (11 << 20),
    ],
    ids=["text", "list", "no object", "type", "no metadata", "error", "huge"],
)
def test_a_line_that_is_no_event_ends_the_watch_and_not_the_watcher(api, watcher, line):
    watcher.step()
    api.after_events.append(lambda handler: (handler.write_chunk(line), handler.drop()))
    assert watcher.step() > 0.0
    api.put(pod("after"))
    watcher.step()
    assert names(watcher) == ["after"]


def test_an_error_event_that_is_not_about_the_version_is_listed_anew_later(api, watcher):
    watcher.step()
    line = b'{"type":"ERROR","object":' + status(500, "InternalError", "etcd is away") + b"}\n"
    api.after_events.append(lambda handler: (handler.write_chunk(line), handler.write_chunk(b"")))
    assert watcher.step() > 0.0
    assert watcher.reason == "etcd is away"
    watcher.step()
    assert watcher.away_since_s is None
    assert len(api.queries(watches=False)) == 2


def test_a_kind_that_is_refused_is_asked_for_slowly(api, watcher):
    api.faults.extend(
        [
            error(403, status(403, "Forbidden", "workloads is forbidden")),
            error(404, b"404 page not found\n"),
        ]
    )
    for reason in ("workloads is forbidden", "404 page not found"):
        assert watcher.step() >= 0.7 * Pacing().denied_s
        assert watcher.is_denied
        assert watcher.reason == reason
        assert not watcher.is_synced
    watcher.step()
    assert not watcher.is_denied
    assert watcher.is_synced


def test_a_list_is_due_after_some_time_although_the_watch_works(api, watcher, clock):
    watcher.step()
    api.objects["uid-lost"] = pod("lost")  # an event that the watch never brings
    clock.now_s += Pacing().floor_s / 2
    watcher.step()
    assert names(watcher) == []
    assert int(api.queries(watches=True)[0]["timeoutSeconds"]) == Pacing().floor_s / 2
    clock.now_s += Pacing().floor_s / 2
    watcher.step()
    assert names(watcher) == ["lost"]


def test_a_caller_that_fails_does_not_end_the_watcher(api, clock, caplog):
    def fail(_):
        raise ZeroDivisionError

    watcher = Watcher(open_client(api.url), PODS, "", trim_pod, fail, now_s=clock)
    api.put(pod("p"))
    watcher.step()
    assert names(watcher) == ["p"]
    assert "cannot act on changed objects" in caplog.text


def test_objects_that_the_caller_does_not_read_are_not_stored(api, clock, changes):
    def cut(value):
        return value if value["metadata"]["name"].startswith("ts-") else None

    watcher = Watcher(
        open_client(api.url),
        PODS,
        "",
        cut,
        changes.extend,
        fields="type=Warning",
        pacing=Pacing(quick_s=0.0),
        now_s=clock,
    )
    for name in ("ts-a", "other"):
        api.put(pod(name))
    watcher.step()
    for name in ("ts-b", "another"):
        api.put(pod(name))
    api.remove(pod("other"))
    watcher.step()
    assert names(watcher) == ["ts-a", "ts-b"]
    assert [change.uid for change in changes] == ["uid-ts-a", "uid-ts-b"]
    assert {query["fieldSelector"] for query in api.queries(watches=True)} == {"type=Warning"}


def test_an_object_that_the_caller_reads_no_more_is_gone_after_the_next_list(api, clock, changes):
    def cut(value):
        return value if value["metadata"]["name"].startswith("ts-") else None

    pacing = Pacing(quick_s=0.0)
    watcher = Watcher(
        open_client(api.url), PODS, "", cut, changes.extend, pacing=pacing, now_s=clock
    )
    api.put(pod("ts-a", "uid-a"))
    watcher.step()
    api.put(pod("other", "uid-a"))
    watcher.step()
    clock.now_s += 2 * pacing.floor_s
    watcher.step()
    assert not watcher.objects
    assert [change.is_deleted for change in changes] == [False, True]


def test_a_thread_follows_the_api_and_ends_at_once_when_it_is_closed(api, changes):
    api.ends_watches = False
    client = open_client(api.url)
    watcher = Watcher(client, PODS, "", trim_pod, changes.extend)
    watcher.start()
    watcher.start()
    assert watcher.wait_synced(DEADLINE_S)
    wait_until(lambda: api.queries(watches=True), "a watch")
    api.put(pod("p"))
    wait_until(lambda: watcher.objects, "the object")
    wait_until(lambda: changes, "the change")
    started_s = time.monotonic()
    watcher.close()
    threads = [thread for thread in threading.enumerate() if thread.name == "kubernetes-pods"]
    assert not threads, f"a silent watch ended only after {time.monotonic() - started_s} s"
    client.close()


def test_a_client_that_is_closed_ends_the_watch(api):
    api.ends_watches = False
    client = open_client(api.url)
    watcher = Watcher(client, PODS, "", trim_pod, print)
    watcher.start()
    wait_until(lambda: api.queries(watches=True), "a watch")
    client.close()
    watcher.close()
    assert not [t for t in threading.enumerate() if t.name == "kubernetes-pods"]


def test_a_watcher_of_a_closed_client_reports_no_trouble_of_the_api(api, caplog):
    client = open_client(api.url)
    watcher = Watcher(client, PODS, "", trim_pod, print)
    watcher.step()
    client.close()
    for _ in range(3):
        watcher.step()
    assert watcher.away_since_s is None
    assert not [record for record in caplog.records if record.levelno >= logging.INFO]
