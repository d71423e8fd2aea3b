"""The store's contract: events that end phases, from a mark on, and the mark itself."""

from store.builders import HandClock, add, go, place
from trainshed.model.status import JobState
from trainshed.observability.spans import (
    REQUEST_TRACE,
    RequestTrace,
    TraceParent,
    parse_traceparent,
)
from trainshed.store.opening import Store
from trainshed.store.records.steps import NewEvent

ENDS = ("RUNNING", "SUCCEEDED")


def happen(store: Store, uid: int, *kinds: str) -> list[int]:
    """Add events to a job; return their numbers."""
    for kind in kinds:
        store.add_event(uid, NewEvent(kind=kind, message=kind))
    return [event.seq for event in store.events(uid)][-len(kinds) :]


class TestJobTraces:
    """The mark of traces."""

    def test_the_first_mark_leaves_history_out(self, store: Store) -> None:
        uid = add(store).uid
        [last] = happen(store, uid, "RUNNING")
        assert store.trace_mark() == last
        happen(store, uid, "SUCCEEDED")
        assert store.trace_mark() == last

    def test_jobs_that_ended_a_phase_come_once_and_in_order(
        self, store: Store, clock: HandClock
    ) -> None:
        first, second, other = (add(store).uid for _ in range(3))
        mark = store.trace_mark()
        happen(store, second, "RUNNING", "HUNG", "SUCCEEDED")
        happen(store, other, "HUNG")
        [last] = happen(store, first, "RUNNING")
        clock.forward(60)
        phases = store.ended_phases(mark, ENDS, limit=10)
        assert (phases.after, phases.until, phases.uids) == (mark, last, (second, first))
        assert store.ended_phases(last, ENDS, limit=10).uids == ()

    def test_a_page_ends_at_its_last_event(self, store: Store, clock: HandClock) -> None:
        uid = add(store).uid
        mark = store.trace_mark()
        numbers = happen(store, uid, "RUNNING", "HUNG", "RUNNING", "RUNNING")
        clock.forward(60)
        assert store.ended_phases(mark, ENDS, limit=2).until == numbers[2]
        assert store.ended_phases(numbers[2], ENDS, limit=2).until == numbers[3]

    def test_an_event_of_another_server_that_may_be_committed_later_holds_up_the_mark(
        self, store: Store, clock: HandClock, url: str
    ) -> None:
        uid = add(store).uid
        mark = store.trace_mark()
        clock.forward(60)
        happen(store, uid, "RUNNING")
        phases = store.ended_phases(mark, ENDS, limit=10)
        assert bool(phases.uids) is url.startswith("sqlite"), "SQLite has one writer"

    def test_only_one_server_moves_the_mark(self, store: Store) -> None:
        mark = store.trace_mark()
        assert store.move_trace_mark(mark, mark + 5)
        assert not store.move_trace_mark(mark, mark + 9)
        assert store.trace_mark() == mark + 5

    def test_numbers_that_are_used_again_are_after_the_mark(
        self, store: Store, clock: HandClock
    ) -> None:
        other, gone = add(store).uid, add(store).uid
        store.trace_mark()
        place(store, gone)
        go(store, gone, JobState.SUCCEEDED)
        mark = max(happen(store, gone, "SUCCEEDED"))
        store.forget([gone])
        clock.forward(60)
        phases = store.ended_phases(mark, ENDS, limit=10)
        assert phases.until == phases.after <= mark
        happen(store, other, "RUNNING")
        clock.forward(60)
        assert store.ended_phases(phases.until, ENDS, limit=10).uids == (other,)

    def test_a_job_names_the_request_that_added_it(self, store: Store) -> None:
        parent = TraceParent(7, 8)
        token = REQUEST_TRACE.set(trace := RequestTrace(parent))
        try:
            uid = add(store).uid
        finally:
            REQUEST_TRACE.reset(token)
        data = store.events(uid)[0].data
        assert parse_traceparent(str(data["trace"])) == (7, trace.span_id, True)
        [part] = trace.children
        assert part.name == "store.commit"
        assert part.attributes["trainshed.commit.writes"] == 1
        assert "trace" not in store.events(add(store).uid)[0].data

    def test_the_number_of_the_installation_stays(self, store: Store) -> None:
        assert store.installation_number() == store.installation_number() > 0
