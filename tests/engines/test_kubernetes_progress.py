"""What the list-and-watch loop does next, which fields stay, and what many objects cost."""

import json
import sys
import time
import tracemalloc
from functools import partial

import pytest

from engines.fake_kubernetes_api import EXPIRED, PODS, FakeApi, error, pod
from engines.kubernetes_clients import Clock, client_to
from trainshed.engines.kubernetes.api import objects
from trainshed.engines.kubernetes.api.progress import (
    Pacing,
    StepOutcome,
    WatchProgress,
    note_break,
    note_end,
    note_failure,
    note_list,
    plan_pause_s,
    plan_watch_s,
)
from trainshed.engines.kubernetes.api.watch import Watcher
from trainshed.engines.kubernetes.state.objects import trim_object

PACING = Pacing(pause_s_first=1.0, pause_s_max=30.0)


def test_pauses_double_up_to_their_limit_and_vary_by_half():
    progress, pauses = WatchProgress(), []
    for _ in range(40):
        progress = note_failure(progress, StepOutcome.FAILED)
        pauses.append([plan_pause_s(progress, random, PACING) for random in (0.0, 1.0)])
    assert pauses[:6] == [[0.5, 1], [1, 2], [2, 4], [4, 8], [8, 16], [15, 30]]
    assert pauses[-1] == [15, 30]


def test_a_list_alone_does_not_end_the_pauses_and_a_watch_that_worked_does():
    failing = WatchProgress(version="7", failures=5)
    listed = note_list(note_failure(failing, StepOutcome.EXPIRED), "9", 10.0, 250)
    assert (listed.failures, listed.objects) == (6, 250)
    assert plan_pause_s(listed, 1.0, PACING) == 0.0, "the watch begins at once"
    assert plan_pause_s(note_failure(listed, StepOutcome.EXPIRED), 1.0, PACING) == 30.0
    assert note_end(listed, 60.0, PACING).failures == 0
    assert note_end(listed, 0.1, PACING).failures == 7, "a watch that ends at once has not worked"
    assert note_break(listed, 60.0, PACING).failures == 1
    assert note_break(listed, 0.1, PACING).failures == 7


@pytest.mark.parametrize(
    ("progress", "now_s", "watch_s"),
    [
        (WatchProgress(), 0.0, None),
        (WatchProgress(version="7", listed_s=0.0), 0.0, 120.0),
        (WatchProgress(version="7", listed_s=0.0), 100.0, 20.0),
        (WatchProgress(version="7", listed_s=0.0), 119.5, None),
        (WatchProgress(version="7", listed_s=0.0), 500.0, None),
        (WatchProgress(version="", listed_s=0.0), 1.0, None),
        (WatchProgress(version="7", listed_s=0.0, objects=4000), 0.0, 120.0),
        (WatchProgress(version="7", listed_s=0.0, objects=4000), 130.0, 110.0),
        (WatchProgress(version="7", listed_s=0.0, objects=4000), 240.0, None),
    ],
)
def test_a_watch_lasts_until_the_next_list_is_due(progress, now_s, watch_s):
    assert plan_watch_s(progress, now_s, PACING) == watch_s


LARGE_POD = {
    "metadata": {
        "labels": {f"trainshed.dev/label-{number}": f"value {number}" for number in range(12)},
        "annotations": {"example.com/networks": "x" * 2000},
        "ownerReferences": [{"kind": "Job", "name": "ts-prod-1-0-worker-0", "uid": "u" * 36}],
        "managedFields": [{"manager": "kubelet", "fieldsV1": {f"f:{n}": {} for n in range(100)}}],
    },
    "spec": {
        "nodeName": "gpu-node-a",
        "containers": [
            {"name": "main", "env": [{"name": f"E{n}", "value": "v" * 30} for n in range(40)]}
        ],
    },
    "status": {
        "phase": "Running",
        "podIP": "10.0.0.1",
        "conditions": [
            {"type": f"Condition{number}", "status": "True", "lastProbeTime": None}
            for number in range(5)
        ],
        "containerStatuses": [
            {"name": name, "ready": True, "state": {"running": {"startedAt": "2026-01-01"}}}
            for name in ("main", "launcher")
        ],
    },
}


def large_pods(number_of_pods):
    for number in range(number_of_pods):
        metadata = {**LARGE_POD["metadata"], "name": f"pod-{number}", "uid": f"{number:036}"}
        yield {**LARGE_POD, "metadata": metadata}


def fill_and_measure(number_of_pods):
    """The seconds of a list after 410, and the bytes that the objects take."""
    with FakeApi() as api:
        for value in large_pods(number_of_pods):
            api.put(value)
        client = client_to(api.url, bytes_max=64 << 20)
        watcher = Watcher(
            client, PODS, "", partial(trim_object, "Pod"), lambda _: None, now_s=Clock()
        )
        tracemalloc.start()
        before = tracemalloc.take_snapshot()
        watcher.step()
        after = tracemalloc.take_snapshot()
        tracemalloc.stop()
        mine = [tracemalloc.Filter(True, "*/objects.py")]
        differences = after.filter_traces(mine).compare_to(before.filter_traces(mine), "filename")
        api.faults.append(error(410, EXPIRED))
        started_s = time.monotonic()
        while watcher.step() == 0.0 and len(api.queries(watches=True)) < 2:
            continue
        seconds = time.monotonic() - started_s
        assert len(watcher.objects) == number_of_pods
        client.close()
        return seconds, sum(difference.size_diff for difference in differences)


@pytest.mark.parametrize(
    "number_of_pods", [200, pytest.param(5000, marks=pytest.mark.full)], ids=str
)
def test_an_object_takes_few_bytes(number_of_pods, record_property):
    seconds, size = fill_and_measure(number_of_pods)
    record_property("megabytes", size / 1e6)
    record_property("list_after_410_s", seconds)
    sys.stdout.write(
        f"{number_of_pods} objects: {size / 1e6:.1f} MB, list after 410: {seconds:.2f} s\n"
    )
    assert size / number_of_pods < 8000


def test_equal_short_texts_of_objects_are_stored_once():
    values = [json.loads('{"a": ["same", {"b": null, "c": 1}], "d": "%s"}' % ("x" * 99))] * 2
    first, second = (objects.share_texts(value) for value in values)
    assert first == second == values[0]
    assert first["a"][0] is second["a"][0]
    assert first["a"] is not second["a"]


def test_all_kinds_keep_their_names_and_drop_managed_fields_and_versions():
    value = pod("p")
    value["metadata"]["resourceVersion"] = "7"
    for kind in ("JobSet", "Pod", "Event", "Workload", "Node"):
        assert trim_object(kind, value)["metadata"].keys() == {"name", "uid"}
