"""Lists jobs of all kinds for the native API: short rows, newest first."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Final

from trainshed.model.refusals import Code, Refusal
from trainshed.model.status import JobState
from trainshed.service.jobs.paging import digest_of, row_before, token_behind
from trainshed.service.jobs.since import time_since
from trainshed.store.listed_jobs import JobListQuery, JobListRow, ListedKind
from trainshed.store.opening import Store
from trainshed.wire.native_v1 import Answer
from trainshed.wire.times import utc_text

#: Rows of a page: by default, and at most.
PAGE_SIZE: Final = 100
PAGE_SIZE_MAX: Final = 5000
#: No name or id is longer; SQLite refuses patterns of 50,000 bytes.
TEXT_LENGTH_MAX: Final = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class JobListCall:
    """The parameters of one call; ``project`` None is every project."""

    project: str | None
    states: frozenset[JobState] = frozenset()
    kinds: frozenset[ListedKind] = frozenset()
    creator: str = ""
    label: str = ""
    text: str = ""
    since: str = ""
    is_open: bool = False
    page_size: int = PAGE_SIZE
    page_token: str = ""

    @property
    def digest(self) -> str:
        """Return the digest that binds a page token to this list."""
        states = ",".join(sorted(state.value for state in self.states))
        kinds = ",".join(sorted(kind.value for kind in self.kinds))
        texts = (self.creator, self.label, self.text, self.since)
        return digest_of("all jobs", self.project, states, kinds, *texts, self.is_open)


@dataclass(frozen=True, slots=True, kw_only=True)
class JobRow(Answer):
    """A job in a list; for a study, ``gpus`` and ``replicas`` are those of one trial."""

    uid: str
    name: str
    display_name: str
    project: str
    kind: ListedKind
    state: JobState
    reason: str | None = None
    """Why the job waits; None if it does not wait."""
    attempt: int
    restarts: int
    gpus: Mapping[str, int]
    replicas: int
    node: str | None = None
    """The first node of the job."""
    nodes: int
    creator: str
    create_time: str
    start_time: str | None = None
    end_time: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class JobList(Answer):
    """A page of jobs, newest first."""

    jobs: Sequence[JobRow]
    counts: Mapping[str, int] | None = None
    """On the first page: the number of active jobs by state.  It does not depend on the filters."""
    next_page_token: str | None = None


@dataclass(frozen=True, slots=True)
class JobLists:
    """Lists jobs of every kind.  Thread-safe."""

    store: Store
    now: Callable[[], datetime] = lambda: datetime.now(tz=UTC)

    def page(self, call: JobListCall) -> JobList:
        """Return one page; the first also counts the active jobs by state.

        Raises Refusal (INVALID_ARGUMENT) for an invalid time, label or token.
        """
        now = self.now()
        query = _query_of(call)
        if call.page_token:
            query = replace(query, after=row_before(call.page_token, call.digest, now))
        rows = self.store.job_rows(replace(query, page_size=call.page_size + 1))
        token = None
        if len(rows) > call.page_size:
            last = rows[call.page_size - 1]
            token = token_behind((last.create_ns, last.uid), call.digest, now)
        return JobList(
            jobs=[row_answer(row) for row in rows[: call.page_size]],
            counts=None if call.page_token else self.store.open_counts(call.project),
            next_page_token=token,
        )


def row_answer(row: JobListRow) -> JobRow:
    """Return a row field by field: a page has 5,000, and ``answer_of`` is slow."""
    return JobRow(
        uid=str(row.uid),
        name=row.name,
        display_name=row.display_name,
        project=row.project,
        kind=row.kind,
        state=row.state,
        reason=row.reason,
        attempt=row.attempt,
        restarts=row.restarts,
        gpus=row.gpus,
        replicas=row.replicas,
        node=row.node or None,
        nodes=row.nodes,
        creator=row.creator,
        create_time=utc_text(row.create_ns),
        start_time=None if row.start_ns is None else utc_text(row.start_ns),
        end_time=None if row.end_ns is None else utc_text(row.end_ns),
    )


def _query_of(call: JobListCall) -> JobListQuery:
    if len(call.text) > TEXT_LENGTH_MAX:
        message = f"q must have at most {TEXT_LENGTH_MAX} characters, got {len(call.text)}"
        raise Refusal(Code.INVALID_ARGUMENT, message)
    return JobListQuery(
        project=call.project,
        states=call.states,
        kinds=call.kinds,
        creator=call.creator,
        label=_label_of(call.label) if call.label else None,
        text=call.text,
        since=time_since(call.since) if call.since else None,
        is_open=call.is_open,
    )


def _label_of(text: str) -> tuple[str, str | None]:
    """Parse ``team:vision``, or ``team`` for any value of the label."""
    key, colon, value = text.partition(":")
    if not key:
        message = f"label must be KEY or KEY:VALUE, got {text[:100]!r}"
        raise Refusal(Code.INVALID_ARGUMENT, message)
    return key, value if colon else None
