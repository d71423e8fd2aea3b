"""Admits a caller's document: parses it, judges it and checks that the fleet can run it.

All violations are reported at once, in the caller's words, before anything is stored.
"""

import math
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, date, datetime
from functools import partial
from pathlib import Path
from typing import Any, Final

from trainshed.admission import ClusterRow, Scope
from trainshed.engines.base import JobNeeds, PlacedBy
from trainshed.engines.several import Engines
from trainshed.launch.devices import GPU_PREFIX, is_tpu_worker
from trainshed.lifecycle.deadlines import RUNNING_S_DEFAULT, TimeLimits, limits_of
from trainshed.model.explanation import Explanation, Reason
from trainshed.model.faults import Field, FieldPath, Violation
from trainshed.model.job import JobSpec
from trainshed.model.labels import ENGINE_LABEL, wants_no_plan, wishes
from trainshed.model.reduction_report import PLANNED
from trainshed.model.refusals import Code, Refusal
from trainshed.model.resource_names import JobUid, ProjectId
from trainshed.model.resources import (
    Claim,
    Demand,
    GroupDemand,
    JobDemand,
    Node,
    SeatsOrClaim,
)
from trainshed.model.roles import Dialect
from trainshed.placement.engine_choice import EngineChoice, choose
from trainshed.placement.feasibility import Feasibility
from trainshed.placement.jobs import QuotaRule
from trainshed.service.jobs.first_causes import first_causes
from trainshed.service.jobs.judging import (
    ONLY_ADVICE,
    Accepted,
    JudgedDocument,
    Rulebook,
    accept,
    judge,
)
from trainshed.service.jobs.refusing import Merged, invalid
from trainshed.service.jobs.start_matching import BuiltStart
from trainshed.service.jobs.study_starts import make_events
from trainshed.service.starts.bucket_uris import HasBucket, check_places
from trainshed.service.starts.images import Images, ImagesByEngine
from trainshed.service.starts.stand_ins import missing_starts, notes_of
from trainshed.service.upkeep.project_bytes import ProjectBytes
from trainshed.store.opening import Store
from trainshed.store.records.jobs import JobKind, NewJob
from trainshed.store.records.steps import NewEvent
from trainshed.wire.jsonmap import describe_value
from trainshed.wire.parsed import Parsed
from trainshed.wire.status import waiting

#: How old the cached fleet may be, in seconds.
SEEN_S_MAX = 1.0
#: What a caller calls the region of a Vertex job, which is a part of the call's path.
LOCATION: Final = "location"


def demand_of(cluster: Iterable[ClusterRow], region: str | None) -> JobDemand:
    """Return the resources that a job needs at the same time."""
    started = (row for row in cluster if not is_tpu_worker(row.role, row.machine_type))
    return JobDemand(region=region, groups=tuple(map(_group, started)))


def _group(row: ClusterRow) -> GroupDemand:
    kind = row.accelerator_type or ""
    is_gpu = kind.startswith(GPU_PREFIX)  # a TPU is a machine that only Google has
    demand = Demand(
        vcpus=row.vcpus or 0,
        memory_gb=row.memory_gb or 0.0,
        gpu_type=kind if is_gpu else None,
        gpu_count=row.accelerator_count if is_gpu else 0,
    )
    return GroupDemand(role=row.role, count=row.count, each=demand)


#: Returns why an engine cannot start the programs of a job; None if it can.
Lacks = Callable[[str], Explanation | None]


def _lacks_nothing(_engine: str) -> None:
    return None


class FleetCheck:
    """Checks whether the empty fleet could run a job.  Thread-safe.

    It uses a recent copy of the fleet, so that a submission does not read all nodes again.
    """

    def __init__(
        self,
        store: Store,
        quotas: Sequence[QuotaRule],
        clock: Callable[[], float] = time.monotonic,
        *,
        engines: Engines | None = None,
    ) -> None:
        """``clock`` counts seconds.  Without ``engines`` only nodes and quotas are checked."""
        self._engines = engines
        self._store = store
        self._quotas = quotas
        self._clock = clock
        self._lock = threading.Lock()
        self._nodes: Sequence[Node] = ()
        self._feasibility = Feasibility(())
        self._read_at = -math.inf

    def check(self, needs: JobNeeds, lacks: Lacks = _lacks_nothing) -> None:
        """Refuse a job that can never run on this fleet.  An unknown fleet refuses nothing.

        ``lacks`` returns why an engine cannot start the job's programs.
        Raises Refusal: RESOURCE_EXHAUSTED for a quota, FAILED_PRECONDITION for the nodes.
        """
        explanation = self.find_obstacle(needs, lacks)
        if explanation:
            is_quota = explanation.reason is Reason.QUOTA
            code = Code.RESOURCE_EXHAUSTED if is_quota else Code.FAILED_PRECONDITION
            raise Refusal(code, waiting(explanation).rstrip("."))

    def find_obstacle(self, needs: JobNeeds, lacks: Lacks = _lacks_nothing) -> Explanation | None:
        """Return why a job can never run on this fleet; None if it can, or the fleet is unknown."""
        with self._lock:
            self._refresh_nodes()
            return self._judge(needs, lacks)

    def place(self, needs: JobNeeds, lacks: Lacks = _lacks_nothing) -> SeatsOrClaim:
        """Return where a job would run on the empty fleet; no seats if the fleet is unknown.

        Raises Refusal as ``check`` does, and UNAVAILABLE with several engines and an unknown fleet.
        """
        self.check(needs, lacks)
        engines = self._engines
        with self._lock:
            engine = self._choose(needs, lacks, engines).engine if engines else None
            if (
                engines is None
                or engine is None
                or engines.traits_of(engine).places is PlacedBy.SERVER
            ):
                seats = self._feasibility.seats(replace(needs.demand, engine=engine))
                if not seats and engines is not None and engines.are_several:
                    message = "the server has not listed its nodes yet; try again in a few seconds"
                    raise Refusal(Code.UNAVAILABLE, message)
                return seats
        return Claim(
            engine=engine,
            demand=replace(needs.demand, engine=engine),
            project=needs.project,
            running_s_max=needs.running_s_max,
            wants=engines.resolve_wishes(engine, needs.wants),
        )

    def choose_engine(self, needs: JobNeeds, lacks: Lacks = _lacks_nothing) -> str | None:
        """Return the engine that would run a job; None if none can, or engines have no names."""
        if self._engines is None:
            return None
        with self._lock:
            self._refresh_nodes()
            return self._choose(needs, lacks, self._engines).engine

    def _judge(self, needs: JobNeeds, lacks: Lacks) -> Explanation | None:
        if self._engines is None:
            return self._judge_by_nodes(needs.project, needs.demand)
        return self._choose(needs, lacks, self._engines).refusal

    def _judge_by_nodes(self, project: str, demand: JobDemand) -> Explanation | None:
        return self._feasibility.judge(project, demand) if self._nodes else None

    def _choose(self, needs: JobNeeds, lacks: Lacks, engines: Engines) -> EngineChoice:
        judge = engines.make_judge(needs, partial(self._judge_by_nodes, needs.project))

        def find_refusal(name: str) -> Explanation | None:
            too_large = self._feasibility.too_large(needs.project, needs.demand)
            places = engines.traits_of(name).places is PlacedBy.ENGINE
            return judge(name) or (too_large if places else None) or lacks(name)

        engine_name = needs.wants.get(ENGINE_LABEL)
        return choose(engine_name, needs.demand.region, engines.list_offered(), find_refusal)

    def _refresh_nodes(self) -> None:
        if self._nodes and self._clock() - self._read_at < SEEN_S_MAX:
            return
        nodes = self._store.fleet()
        if self._engines is not None:
            nodes = [node for node in nodes if self._engines.are_seats_on(node)]
        self._read_at = self._clock()
        if nodes != self._nodes:
            self._nodes, self._feasibility = nodes, Feasibility(nodes, self._quotas)


Parse = Callable[[Mapping[str, Any]], Parsed]
#: Takes a job that was just stored, its project and its expanded spec, and returns at once.
Noted = Callable[[JobUid, str, JobSpec], None]


def _ignore_note(_uid: JobUid, _project: str, _spec: JobSpec) -> None:
    pass


def _today() -> date:
    return datetime.now(tz=UTC).date()


@dataclass(frozen=True, slots=True, kw_only=True)
class SubmitRules:
    """Settings for judging submitted jobs, beside the catalog's newest editions."""

    images: ImagesByEngine
    engines: Engines | None = None
    """The engines that a job may use; None: one engine, which refuses no job at submit."""
    quotas: tuple[QuotaRule, ...] = ()
    overlays: tuple[Path, ...] = ()
    today: Callable[[], date] = field(default=_today)
    project_jobs_max: int | None = None
    """The most active jobs of a project; no limit if None."""
    project_bytes: ProjectBytes = field(default_factory=ProjectBytes)
    running_s_default: float | None = RUNNING_S_DEFAULT
    """The time limit of jobs that name none, in seconds; None and 0 are no limit."""
    noted: Noted = _ignore_note
    """Queues the job for a note of the planner."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AdmittedJob:
    """A job that may be stored.  The server launches ``expanded``; its log begins with ``notes``.

    ``events`` are its first events.
    """

    spec: JobSpec
    expanded: JobSpec
    demand: JobDemand
    notes: tuple[str, ...]
    events: tuple[NewEvent, ...]
    limits: TimeLimits
    start: BuiltStart | None = None
    """What a study has before its first trial; None: nothing."""

    def needs(self, project: str) -> JobNeeds:
        """Return what the job requires of an engine."""
        return JobNeeds(
            demand=self.demand,
            running_s_max=self.limits.running_s_max,
            sets_time=bool(self.expanded.scheduling.running_s_max),
            wants=wishes(self.spec.labels),
            project=project,
        )

    def as_new(
        self, kind: JobKind, project: ProjectId, location: str, creator: str, retry_key: str | None
    ) -> NewJob:
        """Return the job's row for the store."""
        return NewJob(
            kind=kind,
            project=project,
            location=location,
            job_id=self.spec.job_id,
            spec=self.spec,
            expanded=self.expanded,
            demand=self.demand,
            creator=creator,
            notes=self.notes,
            events=(*self.events, *(make_events(self.start) if self.start else ())),
            study_start=self.start.start if self.start else None,
            retry_key=retry_key,
            running_s_max=self.limits.running_s_max,
            waiting_s_max=self.limits.waiting_s_max,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgedSubmission:
    """The document of a submitted job, judged; ``violations`` are all that refuse the job."""

    judgement: JudgedDocument
    violations: tuple[Violation, ...]


def judge_submission(
    merged: Merged, rules: SubmitRules, parse: Parse, has_bucket: HasBucket
) -> JudgedSubmission:
    """Judge a document.  A region of ``merged`` is the location of the call (not in ml v1).

    ``has_bucket`` says which buckets are the project's; the job may name no others.
    """
    rulebook = Rulebook(today=rules.today(), overlays=rules.overlays, scope=Scope.ALL)
    judgement = judge(merged, rulebook, parse)
    return JudgedSubmission(
        judgement=judgement, violations=tuple(_violations(judgement, rules, has_bucket))
    )


def admit(submission: JudgedSubmission, rules: SubmitRules) -> AdmittedJob:
    """Return the job of a judged document.  Raises Refusal: INVALID_ARGUMENT, every violation."""
    if submission.violations:
        raise invalid(submission.violations)
    accepted = accept(submission.judgement)
    assert submission.judgement.question is not None  # noqa: S101  # accept refuses a judgement without one
    return AdmittedJob(
        spec=submission.judgement.question.submitted_spec,
        expanded=accepted.spec,
        demand=demand_of(accepted.cluster, accepted.spec.region),
        notes=_collect_notes(accepted, rules),
        events=_plan_events(accepted),
        limits=limits_of(accepted.spec.scheduling, rules.running_s_default),
    )


def check_object(document: Any) -> dict[str, Any]:
    """Return the body of a create call.  Raises Refusal if it is not an object."""
    if not isinstance(document, dict):
        message = f"the body must be a JSON object, not {describe_value(document)}"
        raise Refusal(Code.INVALID_ARGUMENT, message)
    return document


def _violations(
    judgement: JudgedDocument, rules: SubmitRules, has_bucket: HasBucket
) -> Iterator[Violation]:
    """Yield all violations except those that follow from another one."""
    reported = [v for v in judgement.violations if v.rule not in ONLY_ADVICE]
    yield from reported
    if judgement.question is None:
        return
    fields = {violation.field for violation in reported}
    spec = judgement.question.spec
    places = check_places(spec, has_bucket)
    more = (*_find_missing_fields(spec), *places, *_find_missing_starts(spec, rules))
    for violation in first_causes(more, reported, judgement.say):
        assert isinstance(violation.field, FieldPath)  # noqa: S101  # these fields are not rendered yet
        name = judgement.say(violation.field)
        if name not in fields:
            fields.add(name)
            yield replace(violation, field=name)


def lacks_of(spec: JobSpec, rules: SubmitRules) -> Lacks:
    """Return a function that returns why an engine cannot start a job's programs."""

    def lacks(engine: str) -> Explanation | None:
        violation = next(missing_starts(spec, rules.images.of(engine)), None)
        return Explanation(reason=Reason.IMAGE, message=violation.message) if violation else None

    return lacks


def _find_missing_starts(spec: JobSpec, rules: SubmitRules) -> Sequence[Violation]:
    """Return the violations of programs that no engine of the job can start."""
    return list(missing_starts(spec, _choose_images(spec, rules)))


def _choose_images(spec: JobSpec, rules: SubmitRules) -> Images:
    """Return the images of the first engine that can start the job, else of the first."""
    engine_name = spec.labels.get(ENGINE_LABEL)
    names = [
        offer.name
        for offer in (rules.engines.list_offered() if rules.engines else ())
        if offer.name == engine_name
        or (engine_name is None and (not offer.regions or spec.region in {None, *offer.regions}))
    ]
    lacks = lacks_of(spec, rules)
    return rules.images.of(next((name for name in names if not lacks(name)), [*names, ""][0]))


def _find_missing_fields(spec: JobSpec) -> Iterator[Violation]:
    """Yield missing fields that only a call requires (docs/sources/vertex.md 7.1 and 8)."""
    if spec.dialect is Dialect.AIPLATFORM_V1:
        if not spec.display_name:
            yield _require_field(Field.DISPLAY_NAME, "display-name", "1 to 128 characters")
        return
    if not spec.job_id:
        accepted = "a letter, then up to 127 letters, digits and underscores"
        yield _require_field(Field.JOB_ID, "job-id", accepted)
    if not spec.region:
        yield _require_field(Field.REGION, "region-unknown", "a region, such as us-central1")


def _require_field(field: Field, rule: str, accepted: str) -> Violation:
    message = "this field is required"
    return Violation(field=FieldPath(field), rule=rule, message=message, accepted=accepted)


def _collect_notes(accepted: Accepted, rules: SubmitRules) -> tuple[str, ...]:
    """Return the notes for the log.  With several engines each launch notes the environment."""
    are_several = rules.engines is not None and rules.engines.are_several
    of_images = () if are_several else notes_of(accepted.spec, _choose_images(accepted.spec, rules))
    notes = (*accepted.advice, *of_images)
    return tuple(dict.fromkeys(notes))


def _plan_events(accepted: Accepted) -> tuple[NewEvent, ...]:
    """Return the event with the predicted gain of the reducers, for comparison at the end."""
    reduction = accepted.reduction
    if reduction is None or wants_no_plan(accepted.spec.labels):
        return ()
    severity = {"severity": "WARNING"} if reduction.is_warning else {}
    data = {**reduction.numbers, **severity}
    return (NewEvent(kind=PLANNED, message=f"{reduction.sentence}.", data=data),)
