"""Parses one document and checks it against the catalog, with the caller's names of fields.

Errors of the parser do not stop the checks: a refusal lists all violations at once.
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

#: The admission rule whose message the predicted gain replaces.
RULE: Final = "reducer-bandwidth"

#: Hardware that Google has retired may still be in use: the server notes it and runs the job,
#: unless the caller asks for Google's answer of a day or an edition (decision 0044).
RETIRED: Final = frozenset({"accelerator-retired", "runtime-retired"})

#: Rules that a local run ignores, because nothing crosses a network.
ONLY_ADVICE: Final = RETIRED | {RULE}

#: Keys by which an ml v1 document also describes software, in any spelling.  Modules and packages
#: do not count: for most files, flags give them, with a runtime version of this machine.
SOFTWARE_KEYS = frozenset({"runtimeversion", "imageuri"})
SOFTWARE_DEPTH_MAX = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Rulebook:
    """The rules for judging a job.  Default edition: the newest one of the job's dialect.

    ``scope`` None checks software if the document names any (all Vertex jobs do).
    """

    today: date
    requested_day: date | None = None
    """The day that the caller chose."""
    edition: str | None = None
    zone_snapshot: str | None = None
    overlays: tuple[Path, ...] = ()
    scope: Scope | None = None

    @property
    def asks_google(self) -> bool:
        """Whether the caller chose an edition or a day, to get Google's answer at that time."""
        return self.edition is not None or self.requested_day is not None


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgedDocument:
    """The result for one document.  Violations name fields in the caller's words.

    ``question`` is the context of the checked spec; None if the document has no spec.  ``say``
    returns the caller's name of a field.
    """

    violations: tuple[Violation, ...]
    retired: tuple[Violation, ...] = ()
    """Violations by retired hardware that do not refuse the job."""
    question: RuleContext | None = None
    say: Say
    read_as: tuple[Note, ...] = ()
    """Values that were read in another form than written."""

    @property
    def valid(self) -> bool:
        """Whether there are no violations."""
        return not self.violations

    @property
    def misread(self) -> bool:
        """Whether a part of the document could not be read, so that the spec is a guess."""
        return any(violation.rule in READING for violation in self.violations)

    @property
    def notes(self) -> tuple[str, ...]:
        """Hints for the user that are not faults, a sentence each."""
        return (
            *(f"{note.field}: {note.message}." for note in self.read_as),
            *map(_as_note, self.retired),
            *_note_defaults(self.question, self.say),
        )

    @property
    def cluster(self) -> tuple[ClusterRow, ...]:
        """The expanded cluster; empty without a spec."""
        return cluster_of(self.question) if self.question else ()

    @property
    def reduction(self) -> ReductionForecast | None:
        """The predicted gain of the job's reducers; None without reducers or a prediction."""
        return predicted(self.question) if self.question else None

    @property
    def over_quota(self) -> tuple[Violation, ...]:
        """The quota that a valid job would use beyond the default."""
        violations = quota.check(self.question) if self.question else ()
        return in_words(violations, self.say)


def judge(
    merged: Merged, rulebook: Rulebook, parse: Callable[[Any], Parsed] = detect.parse
) -> JudgedDocument:
    """Judge one document.  Raises UsageFault for an unknown edition or one of another product.

    ``parse`` reads the document; by default its keys say which kind of job it is.
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
    """Note the default Python of a runtime version, if the job names no Python."""
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
    """A valid job: its expanded spec, its cluster, and the caller's names of its fields."""

    spec: JobSpec
    cluster: tuple[ClusterRow, ...]
    say: Say
    advice: tuple[str, ...] = ()
    """Violations that do not refuse the job, and notes on assumed defaults."""
    reduction: ReductionForecast | None = None
    """The predicted gain of its reducers, which the advice leaves out."""


def accept(judgement: JudgedDocument, dialect: Dialect | None = None) -> Accepted:
    """Return the valid job.  Raises Fault for violations, UsageFault for the other dialect."""
    if any(v.rule not in ONLY_ADVICE for v in judgement.violations):
        raise Fault(judgement.violations)
    if judgement.question is None or dialect not in (None, judgement.question.spec.dialect):
        raise UsageFault("the file has no job of this kind")
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


def accept_unchecked(merged: Merged, dialect: Dialect) -> Accepted:
    """Parse the job of a document without machines; it is not checked against a catalog.

    Raises Fault for violations of the dialect.
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
    """Return the rule context of a spec, by the rulebook's edition and scope.

    Raises UsageFault.
    """
    if merged.region and merged.region != spec.region:
        spec = replace(spec, region=merged.region)
    scope = rulebook.scope or default_scope(spec.dialect, merged.content)
    catalog = catalog_for(spec.dialect, rulebook.edition, rulebook.overlays, rulebook.zone_snapshot)
    day = rulebook.requested_day
    return resolve(spec, catalog, scope=scope, today=rulebook.today, requested_day=day)


def default_scope(dialect: Dialect, content: dict[str, Any]) -> Scope:
    """Return ALL if the document names software; ml v1 files often leave it to flags."""
    everything = dialect is Dialect.AIPLATFORM_V1 or names_any(SOFTWARE_KEYS, content)
    return Scope.ALL if everything else Scope.MACHINES


def names_any(keys: frozenset[str], value: Any, depth: int = 0) -> bool:
    """Whether a job document has one of the keys, in camel or snake case."""
    if isinstance(value, list):
        return any(names_any(keys, item, depth) for item in value)
    if not isinstance(value, dict) or depth > SOFTWARE_DEPTH_MAX:
        return False
    return any(
        key.replace("_", "").lower() in keys or names_any(keys, item, depth + 1)
        for key, item in value.items()
    )


def predicted(question: RuleContext) -> ReductionForecast | None:
    """Predict the gain of a job's reducers; None without any, or if a bandwidth is unknown."""
    reducer = question.spec.group(Role.REDUCER)
    if reducer is None or not reducer.machine_type or reducer.count < 1:
        return None
    hosts = _find_hosts(question, reducer.machine_type, question.egress_gbps(reducer))
    if hosts is None:
        return None
    return ReductionForecast(
        hosts=hosts,
        reducers=reducer.count,
        machine_type=reducer.machine_type,
        links_assumed=True,
    )


def _find_hosts(
    question: RuleContext, reducer_type: str, reducer_gbps: float | None
) -> Hosts | None:
    """Return workers and reducers of a job by host; None if a bandwidth is unknown."""
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
    """Replace the message of the bandwidth rule by the predicted gain, if there is one."""
    if violation.rule != RULE:
        return violation
    prediction = predicted(question)
    return violation if prediction is None else replace(violation, message=prediction.sentence)
