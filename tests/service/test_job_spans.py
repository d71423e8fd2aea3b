"""The spans of a job's life: one for each phase, made again by any server and with equal ids."""

from itertools import accumulate

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trainshed.observability.spans import attempt_parent, job_trace_id
from trainshed.service.goodput.facts import list_attempt_times
from trainshed.service.traces.job_spans import (
    ENDING_KINDS,
    ENDS,
    EVENTS_MAX,
    NAMES,
    PHASES,
    TracedJob,
    job_spans,
)
from trainshed.store.records.steps import StoredEvent

S = 1_000_000_000
JOB = TracedJob(installation=5, uid=77, attributes={"trainshed.job.id": "demo"})


def events(*rows):
    """Events of (second, attempt, kind[, data]); the seq leaves room for those of other jobs."""
    return [
        StoredEvent(
            seq=10 * number,
            uid=77,
            attempt=attempt,
            stamp_ns=second * S,
            kind=kind,
            message=f"{kind}.",
            data=data[0] if data else {},
        )
        for number, (second, attempt, kind, *data) in enumerate(rows, 1)
    ]


RESTARTED = events(
    (0, 0, "ACCEPTED"),
    (60, 1, "PLACED", {"nodes": {"n1": 2, "n2": 1}}),
    (60, 1, "PREPARING"),
    (120, 1, "RUNNING"),
    (900, 1, "HUNG"),
    (3720, 1, "RESTARTING"),
    (3780, 2, "PLACED", {"nodes": {"n3": 3}}),
    (3780, 2, "PREPARING"),
    (3840, 2, "RUNNING"),
    (10860, 2, "REPLICA_ENDED", {"task_name": "workerpool0-0", "exit_code": 0, "signal": None}),
    (10860, 2, "SUCCEEDED"),
    (10861, 2, "OUTCOME"),
    (10863, 2, "GOODPUT", {"goodput": 0.9, "at_most": None}),
)


def times(spans):
    return [(span.name, span.start_ns // S, span.end_ns // S) for _, span in spans]


def test_a_job_that_restarted_once_has_a_span_for_each_phase_and_attempt():
    spans = job_spans(JOB, RESTARTED)
    assert times(spans) == [
        ("job.queued", 0, 60),
        ("job.preparing", 60, 120),
        ("job.running", 120, 3720),
        ("job.attempt", 60, 3720),
        ("job.queued", 3720, 3780),
        ("job.preparing", 3780, 3840),
        ("job.running", 3840, 10860),
        ("replica", 3840, 10860),
        ("job.attempt", 3780, 10860),
        ("job", 0, 10860),
    ]


def test_phases_are_below_their_attempt_and_attempts_below_the_job():
    spans = [ended.span for ended in job_spans(JOB, RESTARTED)]
    root = spans[-1]
    assert root.parent_id is None
    assert {span.trace_id for span in spans} == {job_trace_id(5, 77)}
    first, second = (span for span in spans if span.name == "job.attempt")
    assert (first.parent_id, second.parent_id) == (root.span_id, root.span_id)
    assert (first.span_id, second.span_id) == tuple(
        attempt_parent(5, 77, number).span_id for number in (1, 2)
    )
    parents = [span.parent_id for span in spans if span.name == "job.running"]
    assert parents == [first.span_id, second.span_id]
    assert {span.parent_id for span in spans if span.name == "job.queued"} == {root.span_id}


def test_spans_say_what_happened():
    running, attempt = (ended.span for ended in job_spans(JOB, RESTARTED)[2:4])
    root = job_spans(JOB, RESTARTED)[-1].span
    assert [(event.name, event.at_ns // S) for event in running.events] == [("hung", 900)]
    assert attempt.attributes["trainshed.nodes"] == ("n1", "n2")
    assert attempt.attributes["trainshed.attempt.end"] == "RESTARTING"
    assert attempt.error == "RESTARTING."
    assert root.attributes == {
        "trainshed.job.id": "demo",
        "trainshed.job.state": "SUCCEEDED",
        "trainshed.job.attempts": 2,
        "trainshed.job.restarts": 1,
        "trainshed.job.goodput": 0.9,
    }


def test_a_job_that_failed_has_an_error_and_its_replica_too():
    failed = events(
        (0, 0, "ACCEPTED", {"trace": f"00-{7:032x}-{8:016x}-01"}),
        (1, 1, "PREPARING"),
        (
            2,
            1,
            "REPLICA_ENDED",
            {"task_name": "a", "exit_code": 1, "node": "n7"},
        ),
        (2, 1, "REPLICA_ENDED", {"task_name": "b", "signal": 15, "notice_honoured": True}),
        (2, 1, "REPLICA_ENDED"),
        (2, 1, "FAILED"),
        (3, 1, "GOODPUT", {"goodput": None, "at_most": 0.5}),
    )
    spans = [ended.span for ended in job_spans(JOB, failed)]
    assert [(span.name, bool(span.error)) for span in spans] == [
        ("job.queued", False),
        ("job.preparing", False),
        ("replica", True),
        ("replica", False),
        ("job.attempt", True),
        ("job", True),
    ]
    assert spans[2].attributes["process.exit.code"] == 1
    assert spans[2].attributes["host.name"] == "n7"
    assert spans[-1].attributes["trainshed.job.goodput.at_most"] == 0.5
    assert spans[-1].attributes["error.type"] == "FAILED"
    assert [(link.trace_id, link.span_id) for link in spans[-1].links] == [(7, 8)]


def test_a_job_that_was_cancelled_in_the_queue_never_had_an_attempt():
    spans = job_spans(JOB, events((0, 0, "ACCEPTED"), (5, 0, "CANCELLED")))
    assert times(spans) == [("job.queued", 0, 5), ("job", 0, 5)]


def test_the_queue_of_a_cluster_is_a_phase_of_the_attempt():
    rows = events(
        (0, 0, "ACCEPTED"),
        (1, 1, "HANDED_OVER"),
        (9, 1, "REFUSED"),
        (20, 2, "HANDED_OVER"),
        (30, 2, "PREPARING"),
        (31, 2, "CANCELLING"),
        (33, 2, "CANCELLED"),
        (34, 2, "GOODPUT"),
    )
    assert times(job_spans(JOB, rows)) == [
        ("job.queued", 0, 1),
        ("job.enqueued", 1, 9),
        ("job.attempt", 1, 9),
        ("job.queued", 9, 20),
        ("job.enqueued", 20, 30),
        ("job.preparing", 30, 31),
        ("job.cancelling", 31, 33),
        ("job.attempt", 20, 33),
        ("job", 0, 33),
    ]


def test_a_study_has_spans_of_its_searches_and_its_trials():
    rows = events(
        (0, 0, "ACCEPTED"),
        (3, 0, "TRIAL_CREATED", {"trial": 1, "suggest_s": 2.0}),
        (3, 0, "TRIAL_CREATED", {"trial": 2}),
        (4, 0, "TRIAL_STOPPED_EARLY", {"trial": 2}),
        (5, 0, "TRIAL_ENDED", {"trial": 2}),
        (8, 0, "TRIAL_ENDED", {"trial": 1}),
        (8, 0, "TRIAL_ENDED"),
        (9, 0, "STUDY_ENDED"),
    )
    study = TracedJob(installation=5, uid=77, is_study=True, trial_uids={2: 99})
    spans = job_spans(study, rows)
    assert times(spans) == [
        ("study.suggest", 1, 3),
        ("trial", 3, 5),
        ("trial", 3, 8),
        ("study", 0, 9),
    ]
    second, first, root = (ended.span for ended in spans[1:])
    assert second.attributes["trainshed.trial"] == "2"
    assert second.parent_id == root.span_id
    assert [link.trace_id for link in second.links] == [job_trace_id(5, 99)]
    assert first.links == ()


def test_a_phase_keeps_only_so_many_of_its_events():
    many = [(2, 1, "ENGINE_RETRIED")] * (EVENTS_MAX + 5)
    rows = events((0, 0, "ACCEPTED"), *many, (9, 0, "CANCELLED"))
    assert len(job_spans(JOB, rows)[0].span.events) == EVENTS_MAX


def test_an_attempt_ends_at_its_end_although_no_server_ran_then():
    """Servers were away from 300 to 900, and from 1000 to 5000."""
    rows = events(
        (0, 0, "ACCEPTED"),
        (60, 1, "PLACED"),
        (60, 1, "PREPARING"),
        (120, 1, "RUNNING"),
        (900, 1, "RESTARTING", {"ended_s": 310.5, "skew_s": 10.5}),
        (910, 2, "PREPARING"),
        (920, 2, "RUNNING"),
        (5000, 2, "REPLICA_ENDED", {"task_name": "a", "seconds": 50.0}),
        (5000, 2, "REPLICA_ENDED", {"task_name": "b", "seconds": 5000.0}),
        (5000, 2, "SUCCEEDED", {"ended_s": 1000.0}),
        (5002, 2, "GOODPUT"),
    )
    spans = job_spans(JOB, rows)
    assert times(spans) == [
        ("job.queued", 0, 60),
        ("job.preparing", 60, 120),
        ("job.running", 120, 300),
        ("job.attempt", 60, 300),
        ("job.queued", 300, 910),
        ("job.preparing", 910, 920),
        ("job.running", 920, 1000),
        ("replica", 920, 970),
        ("replica", 920, 1000),
        ("job.attempt", 910, 1000),
        ("job", 0, 1000),
    ]
    goodput = list_attempt_times(rows)
    attempts = [span for _, span in spans if span.name == "job.attempt"]
    assert [(span.start_ns, span.end_ns) for span in attempts] == [
        (one.placed_s * S, one.ended_s * S) for one in goodput
    ]


def test_a_time_outside_of_its_attempt_does_not_count():
    rows = events((0, 0, "ACCEPTED"), (5, 1, "PREPARING"), (9, 1, "FAILED", {"ended_s": 1.0}))
    assert times(job_spans(JOB, rows))[-1] == ("job.attempt", 5, 9)


def test_the_root_of_a_job_with_machines_waits_for_its_goodput():
    assert [span.name for _, span in job_spans(JOB, RESTARTED[:-1])][-1] == "job.attempt"
    early = [*RESTARTED[:-3], RESTARTED[-1], RESTARTED[-3]]
    assert job_spans(JOB, early)[-1].span == job_spans(JOB, RESTARTED)[-1].span


KINDS = sorted({*PHASES, *ENDS, "PLACED", "REPLICA_ENDED", "HUNG", "GOODPUT"})


@given(st.lists(st.sampled_from(KINDS), max_size=25))
def test_whatever_was_read_until_a_kill_the_rest_completes_it_without_a_span_twice(kinds):
    attempts = accumulate((PHASES.get(kind) == "queued" for kind in kinds), initial=0)
    pairs = enumerate(zip(attempts, kinds, strict=False))
    rows = events(*((n, attempt, kind, {"task_name": str(n)}) for n, (attempt, kind) in pairs))
    whole = job_spans(JOB, rows)
    assert len({ended.span.span_id for ended in whole}) == len(whole)
    assert {ended.span.name for ended in whole} <= set(NAMES)
    kind_of = {event.seq: event.kind for event in rows}
    assert all(kind_of[ended.seq] in ENDING_KINDS | {"ACCEPTED"} for ended in whole)
    for cut in range(len(rows) + 1):
        before = job_spans(JOB, rows[:cut])
        after = [ended for ended in whole if not rows[:cut] or ended.seq > rows[cut - 1].seq]
        assert [*before, *after] == list(whole)


@pytest.mark.parametrize("kind", sorted(ENDS))
def test_what_follows_the_end_makes_no_span(kind):
    ended = job_spans(JOB, events((0, 0, "ACCEPTED"), (1, 0, kind)))
    more = job_spans(JOB, events((0, 0, "ACCEPTED"), (1, 0, kind), (2, 1, "PREPARING")))
    assert more == ended
