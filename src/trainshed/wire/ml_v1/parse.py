"""A Job document of ``ml/v1`` to the model (contracts/gcloud.md 3, vertex-sdk.md 7.1)."""

from collections.abc import Container, Iterable, Mapping
from dataclasses import replace
from functools import partial
from itertools import chain
from typing import Any, Final

from trainshed.model.faults import Violation
from trainshed.model.job import JobSpec, ScaleTier, Scheduling
from trainshed.model.roles import Dialect
from trainshed.model.study import StudySpec
from trainshed.wire.fields import table
from trainshed.wire.jsonmap import read
from trainshed.wire.ml_v1.groups import groups_of, misfits
from trainshed.wire.ml_v1.study import misplaced, missing_types, study_of
from trainshed.wire.ml_v1.words import FAMILY, HYPERPARAMETERS, caller_words
from trainshed.wire.parsed import Parsed, compact, in_own_spelling, without
from trainshed.wire.spelling import as_written, snake
from trainshed.wire.times import seconds

SCALE_TIER: Final = "trainingInput.scaleTier"


def job(document: Mapping[str, Any]) -> Parsed:
    """Read a whole Job, as ``config.yaml`` and ``jobs.create`` have it."""
    reading = read(table("ml_v1"), "Job", document)
    training = reading.value.get("trainingInput", {})
    gaps = missing_types(training.get("hyperparameters"), document)
    violations = (*reading.violations, *without(gaps, reading.violations))
    spec = _spec(
        reading.value,
        _study(training, document, violations),
        _unread_counts(document, {v.field for v in violations}),
    )
    if _is_tier_unread(document, violations):
        spec = replace(spec, scale_tier=spec.scale_tier or _likely_tier(spec))
    words = in_own_spelling(partial(caller_words, spec=spec), document)
    needless = misplaced(training.get("hyperparameters"), document)
    later = without(chain(misfits(training, document), needless), violations)
    return Parsed(spec=spec, violations=(*violations, *later), words=words)


def _study(
    training: dict[str, Any], document: Mapping[str, Any], found: Iterable[Violation]
) -> StudySpec | None:
    study = study_of(training.get("hyperparameters"))
    path = as_written(document, HYPERPARAMETERS)
    is_whole = not any(str(violation.field).startswith(path) for violation in found)
    return replace(study, is_whole=is_whole) if study else None


def _is_tier_unread(document: Mapping[str, Any], found: Iterable[Violation]) -> bool:
    """Whether the tier has a value that is none, or stands under a key that is nearly its own."""
    path = as_written(document, SCALE_TIER)
    return any(
        violation.field == path
        or (violation.rule == "unknown-field" and _meant(violation) == snake(SCALE_TIER))
        for violation in found
    )


def _meant(unknown: Violation) -> str:
    """The known field that an unknown one is most like, with its path."""
    parent = str(unknown.field).rpartition(".")[0]
    return snake(f"{parent}.{unknown.accepted}")


def _likely_tier(spec: JobSpec) -> ScaleTier | None:
    """What was meant by a tier that cannot be read: machines of one's own go with CUSTOM only.

    Any other guess would refuse each of them too, for a reason that is not the caller's.
    """
    return ScaleTier.CUSTOM if any(group.machine_type for group in spec.groups) else None


def _unread_counts(document: Mapping[str, Any], faulty: Container[object]) -> frozenset[str]:
    paths = {family: f"trainingInput.{family}Count" for family in FAMILY.values()}
    return frozenset(f for f, path in paths.items() if as_written(document, path) in faulty)


def _spec(value: dict[str, Any], study: StudySpec | None, unread_counts: frozenset[str]) -> JobSpec:
    training = value.get("trainingInput", {})
    return JobSpec(
        dialect=Dialect.ML_V1,
        job_id=value.get("jobId", ""),
        region=training.get("region"),
        scale_tier=ScaleTier(training["scaleTier"]) if "scaleTier" in training else None,
        groups=groups_of(training, unread_counts),
        job_dir=training.get("jobDir"),
        use_chief_in_tf_config=training.get("useChiefInTfConfig"),
        scheduling=_scheduling(training.get("scheduling", {})),
        labels=value.get("labels", {}),
        study=study,
        request=compact(value),
    )


def _scheduling(value: dict[str, Any]) -> Scheduling:
    return Scheduling(
        running_s_max=seconds(value.get("maxRunningTime")),
        waiting_s_max=seconds(value.get("maxWaitTime")),
        priority=value.get("priority"),
        strategy=value.get("strategy"),
        restart_job_on_worker_restart=value.get("resilientToWorkerRestart", False),
    )
