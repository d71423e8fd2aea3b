"""What has changed between two looks, and when the next look is due."""

import pytest

from databases import new_database
from store.builders import add, go, place
from trainshed.model.explanation import Explanation, Reason
from trainshed.model.refusals import Refusal
from trainshed.model.resources import Node
from trainshed.model.status import JobState
from trainshed.service.changes import watches
from trainshed.service.changes.comparing import (
    LOOKING_SHARE,
    PAUSE_S_MAX,
    PAUSE_S_MIN,
    ChangedKeys,
    compare_marks,
    cost_of,
    count_states,
    pause_after,
)
from trainshed.service.changes.looks import ChangeLooks
from trainshed.service.changes.topics import Topic, TopicKind, TopicScope, parse_topic
from trainshed.service.changes.watches import JobWatch, NodesWatch, QueueWatch
from trainshed.service.jobs.story import Stories
from trainshed.service.nodes.node_service import NodeService
from trainshed.store.opening import open_store
from trainshed.store.records.jobs import JobKind

ALL = TopicScope(TopicKind.QUEUE, None)
MINE = TopicScope(TopicKind.QUEUE, "demo")


@pytest.fixture
def store(tmp_path):
    opened = open_store(new_database(tmp_path))
    yield opened
    opened.close()


@pytest.mark.parametrize(
    ("before", "now", "expected"),
    [
        ({}, {}, ChangedKeys([], [])),
        ({1: "a"}, {1: "a"}, ChangedKeys([], [])),
        ({}, {1: "a"}, ChangedKeys([1], [])),
        ({1: "a"}, {1: "b"}, ChangedKeys([1], [])),
        ({1: "a", 2: "b"}, {2: "b"}, ChangedKeys([], [1])),
        ({1: "a", 2: "b"}, {2: "c", 3: "d"}, ChangedKeys([2, 3], [1])),
    ],
)
def test_marks_are_compared_in_no_order(before, now, expected):
    assert compare_marks(before, now) == expected
    assert expected.every == (*expected.changed, *expected.left)


def test_states_are_counted_by_project():
    places = [("demo", "QUEUED"), ("demo", "RUNNING"), ("other", "RUNNING")]
    assert count_states(places, None) == {"QUEUED": 1, "RUNNING": 2}
    assert count_states(places, "demo") == {"QUEUED": 1, "RUNNING": 1}
    assert count_states(places, "none") == {}


@pytest.mark.parametrize("look_s", [0.0, 0.01, 0.05, 0.1, 0.3, 1.0, 60.0])
def test_looks_take_a_share_of_all_time_and_pauses_have_bounds(look_s):
    pause_s = pause_after(cost_of(look_s, look_s))
    assert PAUSE_S_MIN <= pause_s <= PAUSE_S_MAX
    if pause_s < PAUSE_S_MAX:
        assert look_s / (look_s + pause_s) <= LOOKING_SHARE + 1e-9


def test_a_look_that_waits_for_other_threads_does_not_cost_more():
    assert cost_of(wall_s=0.01, cpu_s=0.01) == 0.01
    assert cost_of(wall_s=0.014, cpu_s=0.01) == 0.014, "the database worked too"
    assert cost_of(wall_s=2.0, cpu_s=0.01) == pytest.approx(0.015)


@pytest.mark.parametrize(
    ("text", "topic"),
    [
        ("queue:demo", Topic(TopicKind.QUEUE, "demo")),
        ("queue:-", Topic(TopicKind.QUEUE, "-")),
        ("nodes", Topic(TopicKind.NODES)),
        ("job:example.com:demo/census_1", Topic(TopicKind.JOB, "example.com:demo", "census_1")),
        ("log:demo/tune/trials/3", Topic(TopicKind.LOG, "demo", "tune/trials/3")),
        ("study:demo/12", Topic(TopicKind.STUDY, "demo", "12")),
    ],
)
def test_topics_are_read(text, topic):
    assert parse_topic(text) == topic


@pytest.mark.parametrize(
    "text",
    ["", "queue", "queue:", "queue:a/b", "nodes:a", "job:a", "job:a/", "jobs:a/b", "a" * 5000],
)
def test_other_topics_are_refused_with_those_that_would_do(text):
    with pytest.raises(Refusal, match="topic must be one of queue:PROJECT, job:PROJECT/JOB, log:"):
        parse_topic(text)


def test_a_queue_is_told_once_of_each_change(store):
    watch = QueueWatch(store)
    add(store, project="demo")
    assert watch.look([ALL, MINE]) == {}, "what is there at first is remembered"
    mine = add(store, project="demo")
    add(store, project="other")
    changes = watch.look([ALL, MINE])
    assert [len(changes[scope].jobs) for scope in (ALL, MINE)] == [2, 1]
    assert [dict(changes[scope].counts) for scope in (ALL, MINE)] == [{"QUEUED": 3}, {"QUEUED": 2}]
    assert watch.look([ALL, MINE]) == {}
    go(store, mine.uid, JobState.CANCELLED)
    store.delete_job(mine.uid)
    assert watch.look([MINE])[MINE].gone == [str(mine.uid)]
    assert watch.look([]) == {}
    add(store, project="demo")
    assert watch.look([MINE]) == {}, "nothing is remembered of a time without pages"


def test_a_queue_is_not_told_of_another_sentence_with_the_same_reason(store):
    job = add(store, project="demo")
    watch = QueueWatch(store)
    watch.look([ALL])

    def explain(reason, message):
        store.explain({job.uid: Explanation(reason=reason, message=message)})
        return watch.look([ALL])

    assert ALL in explain(Reason.CAPACITY, "4 GPUs are in use")
    assert explain(Reason.CAPACITY, "3 GPUs are in use") == {}
    assert ALL in explain(Reason.QUOTA, "3 GPUs are in use")


def test_a_job_that_came_and_ended_between_two_looks_is_told_once(store):
    before = add(store, project="demo")
    go(store, before.uid, JobState.CANCELLED)
    watch = QueueWatch(store)
    assert watch.look([ALL]) == {}
    short = add(store, project="demo")
    go(store, short.uid, JobState.CANCELLED)
    [row] = watch.look([ALL])[ALL].jobs
    assert (row.uid, row.state) == (str(short.uid), JobState.CANCELLED)
    assert watch.look([ALL]) == {}


def test_a_job_that_comes_during_a_look_is_counted_until_it_ends(store, monkeypatch):
    watch = QueueWatch(store)
    came = []

    def read_places():
        came.append(add(store, project="demo"))
        return type(store).open_states(store)

    with monkeypatch.context() as during:
        during.setattr(store, "open_states", read_places)
        watch.look([ALL])
    go(store, came[0].uid, JobState.CANCELLED)
    assert dict(watch.look([ALL])[ALL].counts) == {}


def test_after_very_many_changes_pages_read_again(store, monkeypatch):
    monkeypatch.setattr(watches, "JOBS_MAX", 2)
    watch = QueueWatch(store)
    watch.look([ALL])
    jobs = [add(store, project="demo") for _ in range(3)]
    assert ChangeLooks({TopicKind.QUEUE: watch}).look([ALL, MINE]) == {ALL: None, MINE: None}
    place(store, jobs[0].uid)
    assert watch.look([MINE])[MINE].counts == {"QUEUED": 2, "PREPARING": 1}


def test_a_job_of_the_same_name_does_not_stand_in_for_a_deleted_one(store):
    watch = JobWatch(store, Stories(store))
    named = {"project": "demo", "kind": JobKind.ML_JOB, "job_id": "census"}
    first = add(store, **named)
    scope = TopicScope(TopicKind.JOB, "demo", "census", first.uid)
    watch.look([scope])
    go(store, first.uid, JobState.CANCELLED)
    assert watch.look([scope])[scope].summary.state is JobState.CANCELLED
    store.delete_job(first.uid)
    add(store, **named)
    assert watch.look([scope])[scope].summary is None
    assert watch.look([scope]) == {}


def test_nodes_are_told_when_they_change_and_not_when_they_report(store):
    now_s = [0.0]
    scope = TopicScope(TopicKind.NODES, None)
    watch = NodesWatch(NodeService(store=store), clock=lambda: now_s[0])

    def look():
        now_s[0] += watches.NODES_S
        return watch.look([scope])

    nodes = [Node(name=name, vcpus=4, memory_gb=8.0, slots=4) for name in ("n1", "n2")]
    store.see_nodes("local", nodes)
    assert look() == {}
    store.see_nodes("local", nodes)
    assert look() == {}, "they have only been seen again"
    store.see_nodes("local", nodes[:1])
    assert look()[scope].gone == ["n2"]
    store.see_nodes("local", [nodes[0], Node(name="n3", vcpus=8, memory_gb=8.0, slots=4)])
    assert watch.look([scope]) == {}, "it is too early"
    assert [node.name for node in look()[scope].nodes] == ["n3"]
