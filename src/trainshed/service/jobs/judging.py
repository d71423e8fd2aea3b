"""Judges one document: parsed, checked against the catalog, in the caller's own words.

Parsing and checking never stop each other: a refusal has all violations at once.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from datetime import date
from functools import partial
from pathlib import Path
from typing import Any, Final

from trainshed.admission import ClusterRow, Scope, check, cluster_of, equipped, quota, resolve
from trainshed.admission.context import RuleContext
from trainshed.admission.rules.reduction import worker_links
from trainshed.catalog.machines import price_of
from trainshed.catalog.open import catalog_for
from trainshed.launch.context import primary_program
from trainshed.model.faults import Fault, Field, FieldPath, UsageFault, Violation
from trainshed.model.job import JobSpec
from trainshed.model.roles import Dialect, Role
from trainshed.model.rules import READING
from trainshed.planning.reduction_forecast import ReductionForecast
from trainshed.planning.sizing import Hosts
from trainshed.service.jobs.first_causes import first_causes
from trainshed.service.jobs.refusing import Merged, Say, in_words
from trainshed.wire import detect
from trainshed.wire.parsed import Note, Parsed

#: The rule of admission whose message is given here with what it costs the job.
RULE: Final = "reducer-bandwidth"

#: What Google has retired may still stand in the rack: it is noted, and the job runs, unless the
#: question is what Google says on a day or by an edition (decision 0044).
RETIRED: Final = frozenset({"accelerator-retired", "runtime-retired"})

#: Rules that do not keep a job from running on one's own machine: nothing crosses a network here.
ONLY_ADVICE: Final = RETIRED | {RULE}

#: Keys that make an ml v1 job one about software too, in any spelling.  Modules and packages do
#: not: they come by flag for most files, with a runtime version that is this machine's business.
SOFTWARE_KEYS = frozenset({"runtimeversion", "imageuri"})
SOFTWARE_DEPTH_MAX = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Rulebook:
    """What a job is judged by.  Without ``edition`` it is the newest one of the job's dialect.

    ``scope`` None looks at software where the document names any (all Vertex jobs do).
    """

    today: date
    asked_day: date | None = None
    """The day that the caller chose to judge by."""
    edition: str | None = None
    zone_snapshot: str | None = None
    overlays: tuple[Path, ...] = ()
    scope: Scope | None = None

    @property
    def asks_google(self) -> bool:
        """Whether an edition or a day was chosen, and the answer is to be Google's of that time."""
        return self.edition is not None or self.asked_day is not None


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgedDocument:
    """What was found.  Fields of the violations are the caller's words.

    ``question`` is None where the document has no spec to ask about; ``say`` turns a path of the
    model into the caller's words.
    """

    violations: tuple[Violation, ...]
    retired: tuple[Violation, ...] = ()
    """What Google has retired, where that refuses nothing."""
    question: RuleContext | None = None
    say: Say
    read_as: tuple[Note, ...] = ()
    """Values that were read in another form than they were written."""

    @property
    def valid(self) -> bool:
        """Whether nothing is wrong."""
        return not self.violations

    @property
    def misread(self) -> bool:
        """Whether a part of the document could not be read: its spec is then only a guess."""
        return any(violation.rule in READING for violation in self.violations)

    @property
    def notes(self) -> tuple[str, ...]:
        """What the job's author should know and is no fault: a sentence each."""
        return (
            *(f"{note.field}: {note.message}." for note in self.read_as),
            *map(_as_note, self.retired),
            *_note_defaults(self.question, self.say),
        )

    @property
    def cluster(self) -> tuple[ClusterRow, ...]:
        """The expanded cluster; empty where there is none."""
        return cluster_of(self.question) if self.question else ()

    @property
    def reduction(self) -> ReductionForecast | None:
        """What the job's reducers are worth; None without any, or where nobody knows."""
        return predicted(self.question) if self.question else None

    @property
    def over_quota(self) -> tuple[Violation, ...]:
        """What a valid job would use beyond the default quota."""
        violations = quota.check(self.question) if self.question else ()
        return in_words(violations, self.say)


def judge(
    merged: Merged, rulebook: Rulebook, parse: Callable[[Any], Parsed] = detect.parse
) -> JudgedDocument:
    """Judge one document.  Raises UsageFault for an unknown edition or one of another product.

    ``parse`` reads the document; by default its keys say what it is.
    """
    parsed = parse(merged.content)

    say = partial(_say, merged, parsed)
    faults = [
        replace(v, field=merged.words(v.field) if isinstance(v.field, str) else say(v.field))
        for v in parsed.violations
    ]
    read_as = tuple(replace(note, field=merged.words(note.field)) for note in parsed.notes)
    if parsed.spec is None:
        return JudgedDocument(violations=tuple(faults), say=say, read_as=read_as)
    question = ask(parsed.spec, merged, rulebook)
    broken = (with_gain(v, question) for v in check(question))
    faults += in_words(first_causes(broken, tuple(faults), say), say)
    retired = () if rulebook.asks_google else tuple(v for v in faults if v.rule in RETIRED)
    violations = tuple(v for v in faults if v not in retired)
    return JudgedDocument(
        violations=violations, retired=retired, question=question, say=say, read_as=read_as
    )


def _as_note(violation: Violation) -> str:
    return f"{violation.field}: {violation.message}."


def _note_defaults(question: RuleContext | None, say: Say) -> Iterator[str]:
    """The Python that a runtime version has by default, where the job named none."""
    if question is None or question.scope is not Scope.ALL:
        return
    program = primary_program(question.spec)
    submitted = primary_program(question.submitted_spec)
    if program and submitted and program.python_version != submitted.python_version:
        yield (
            f"{say(FieldPath(Field.PYTHON_VERSION, Role.PRIMARY))}: not given; runtime version "
            f"{program.runtime_version} has Python {program.python_version} by default."
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Accepted:
    """A valid job: its expanded spec, its cluster, and how to speak of its fields."""

    spec: JobSpec
    cluster: tuple[ClusterRow, ...]
    say: Say
    advice: tuple[str, ...] = ()
    """What is wrong with the job elsewhere and does not matter here, and what was assumed."""
    reduction: ReductionForecast | None = None
    """What its reducers are worth: kept apart from the advice, which says nothing of them."""


def accept(judgement: JudgedDocument, dialect: Dialect | None = None) -> Accepted:
    """The job of a judgement.  Raises Fault for a refusal, UsageFault for the other dialect."""
    if any(v.rule not in ONLY_ADVICE for v in judgement.violations):
        raise Fault(judgement.violations)
    if judgement.question is None or dialect not in (None, judgement.question.spec.dialect):
        raise UsageFault("the file holds no job of this kind")
    return Accepted(
        spec=equipped(judgement.question),
        cluster=judgement.cluster,
        say=judgement.say,
        advice=(
            *(_as_note(v) for v in judgement.violations if v.rule != RULE),
            *judgement.notes,
        ),
        reduction=judgement.reduction,
    )


def unjudged(merged: Merged, dialect: Dialect) -> Accepted:
    """The job of a document that names no machines: parsed, and not checked against a catalog.

    Raises Fault for what the dialect itself refuses.
    """
    parsed = detect.parse(merged.content)
    say = partial(_say, merged, parsed)
    if parsed.spec is None or parsed.violations or parsed.spec.dialect is not dialect:
        raise Fault(in_words(parsed.violations, say))
    spec = replace(parsed.spec, region=merged.region or parsed.spec.region)
    return Accepted(spec=spec, cluster=(), say=say)


def _say(merged: Merged, parsed: Parsed, path: FieldPath) -> str:
    if path.field is Field.REGION and merged.region:
        return merged.region_word
    return merged.words(parsed.words(path))


def ask(spec: JobSpec, merged: Merged, rulebook: Rulebook) -> RuleContext:
    """The question about a spec, under the rulebook's edition and scope.  Raises UsageFault."""
    if merged.region and merged.region != spec.region:
        spec = replace(spec, region=merged.region)
    scope = rulebook.scope or default_scope(spec.dialect, merged.content)
    catalog = catalog_for(spec.dialect, rulebook.edition, rulebook.overlays, rulebook.zone_snapshot)
    day = rulebook.asked_day
    return resolve(spec, catalog, scope=scope, today=rulebook.today, asked_day=day)


def default_scope(dialect: Dialect, content: dict[str, Any]) -> Scope:
    """ALL where the document speaks of software; an ml v1 file often leaves that to flags."""
    everything = dialect is Dialect.AIPLATFORM_V1 or names_any(SOFTWARE_KEYS, content)
    return Scope.ALL if everything else Scope.MACHINES


def names_any(keys: frozenset[str], value: Any, depth: int = 0) -> bool:
    """Whether one of the keys is there, in camel or snake case, where a job can have it."""
    if isinstance(value, list):
        return any(names_any(keys, item, depth) for item in value)
    if not isinstance(value, dict) or depth > SOFTWARE_DEPTH_MAX:
        return False
    return any(
        key.replace("_", "").lower() in keys or names_any(keys, item, depth + 1)
        for key, item in value.items()
    )


def predicted(question: RuleContext) -> ReductionForecast | None:
    """What a job's reducers are worth; None without any, or where a bandwidth is not known."""
    reducer = question.spec.group(Role.REDUCER)
    if reducer is None or not reducer.machine_type or reducer.count < 1:
        return None
    hosts = _hosts(question, reducer.machine_type, question.egress_gbps(reducer))
    if hosts is None:
        return None
    return ReductionForecast(hosts=hosts, reducers=reducer.count, machine_type=reducer.machine_type)


def _hosts(question: RuleContext, reducer_type: str, reducer_gbps: float | None) -> Hosts | None:
    """A job's workers beside reducers of a machine type; None where a bandwidth is not known."""
    workers = worker_links(question)
    if workers is None or not reducer_gbps:
        return None
    price = price_of(reducer_type, question.spec.region)
    return Hosts(
        workers=workers.hosts,
        worker_gbps=workers.slowest_gbps,
        total_gbps=workers.total_gbps,
        reducer_gbps=reducer_gbps,
        reducer_usd_hour=price.usd_hour if price else None,
    )


def with_gain(violation: Violation, question: RuleContext) -> Violation:
    """A violation of the rule of bandwidth with what it costs the job; others as they are."""
    if violation.rule != RULE:
        return violation
    prediction = predicted(question)
    return violation if prediction is None else replace(violation, message=prediction.sentence)
