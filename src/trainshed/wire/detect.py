"""Detects the kind of a document by its keys, and parses it."""

import enum
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any, Final

from trainshed.model.faults import Violation
from trainshed.model.spelling import letters_of, nearest_name
from trainshed.wire.aiplatform_v1 import parse as aiplatform_v1
from trainshed.wire.fields import table
from trainshed.wire.jsonmap import describe_value
from trainshed.wire.misplaced import MessageFields
from trainshed.wire.ml_v1 import parse as ml_v1
from trainshed.wire.parsed import Parsed, snake


class DocumentKind(enum.Enum):
    """What a document can be; the value is its name in a sentence."""

    ML_JOB = "an AI Platform Job"
    TUNING_JOB = "a HyperparameterTuningJob"
    TRAINING_PIPELINE = "a TrainingPipeline"
    CUSTOM_JOB = "a CustomJob"
    CUSTOM_JOB_SPEC = "a CustomJobSpec"


#: The keys by which each kind is known, in camelCase; the first kind with a key there wins.
KEYS: Final[Mapping[DocumentKind, tuple[str, ...]]] = {
    DocumentKind.ML_JOB: ("trainingInput", "jobId", "predictionInput", "explanationInput"),
    DocumentKind.TUNING_JOB: ("trialJobSpec", "studySpec"),
    DocumentKind.TRAINING_PIPELINE: ("trainingTaskInputs", "trainingTaskDefinition"),
    DocumentKind.CUSTOM_JOB: ("jobSpec",),
    DocumentKind.CUSTOM_JOB_SPEC: ("workerPoolSpecs",),
}

PARSE: Final[Mapping[DocumentKind, Callable[[Mapping[str, Any]], Parsed]]] = {
    DocumentKind.ML_JOB: ml_v1.job,
    DocumentKind.TUNING_JOB: aiplatform_v1.tuning_job,
    DocumentKind.TRAINING_PIPELINE: aiplatform_v1.training_pipeline,
    DocumentKind.CUSTOM_JOB: aiplatform_v1.custom_job,
    DocumentKind.CUSTOM_JOB_SPEC: aiplatform_v1.custom_job_spec,
}

#: The keys of each kind, for refusals.
ACCEPTED: Final = ", ".join(f"{keys[0]} ({kind.value})" for kind, keys in KEYS.items())


def parse(document: Any) -> Parsed:
    """Parse a document of either dialect; one that is not a job has no spec and one violation."""
    kind = kind_of(document)
    if isinstance(kind, Violation):
        return Parsed(spec=None, violations=(kind,), words=lambda path: path.field.value)
    return PARSE[kind](document)


def kind_of(document: Any) -> DocumentKind | Violation:
    """Return the kind of a document, or the violation of one that is not a job."""
    if not isinstance(document, Mapping):
        message = f"a job must be an object of fields, not {describe_value(document)}"
        return Violation(field="", rule="not-a-job", message=message, accepted=ACCEPTED)
    return _kind_by_keys(document) or _kind_by_fields(document) or _no_job(document)


def _kind_by_keys(document: Mapping[Any, Any]) -> DocumentKind | None:
    """The kind that begins with one of a document's keys, else with a key of the same letters."""
    for kind, keys in KEYS.items():
        if any(key in document or snake(key) in document for key in keys):
            return kind
    letters = {letters_of(key) for key in document if isinstance(key, str)}
    return next((kind for kind, keys in KEYS.items() if letters & set(map(letters_of, keys))), None)


#: The message of each kind whose inner fields may stand alone: its author forgot to indent.
_ROOTS: Final = (
    (DocumentKind.ML_JOB, "ml_v1", "Job"),
    (DocumentKind.CUSTOM_JOB_SPEC, "aiplatform_v1", "CustomJobSpec"),
    (DocumentKind.TUNING_JOB, "aiplatform_v1", "HyperparameterTuningJob"),
)


@cache
def _inner_names(dialect: str, root: str) -> frozenset[str]:
    return MessageFields(table(dialect), root).inner_names()


def _kind_by_fields(document: Mapping[Any, Any]) -> DocumentKind | None:
    """The kind that has most of a document's keys below its first level; None if none has any."""
    keys = {letters_of(key) for key in document if isinstance(key, str)}
    counts = {kind: len(keys & _inner_names(*root)) for kind, *root in _ROOTS}
    kind = max(counts, key=counts.__getitem__)
    return kind if counts[kind] else None


def _no_job(document: Mapping[Any, Any]) -> Violation:
    """Points at the key that is nearest to a known one, if any is near."""
    for key, item in document.items():
        if isinstance(item, Mapping) and (kind := _kind_by_keys(item)):
            return _refuse_wrapped(str(key), kind)
    job_keys = [key for keys in KEYS.values() for key in keys]
    near = ((str(key), nearest_name(str(key), job_keys)) for key in document)
    key, meant = next(((key, meant) for key, meant in near if meant), ("", None))
    message = "this is not a job: it has none of the keys that a job begins with"
    message += f"; did you mean {meant} instead of {key}?" if meant else ""
    return Violation(field=key, rule="not-a-job", message=message, accepted=ACCEPTED)


def _refuse_wrapped(key: str, kind: DocumentKind) -> Violation:
    """Refuse a document that has a level above the job."""
    message = (
        f"this is not a job: {key} is not a key of one, and {kind.value} is below it; take the "
        f"line {key} out, and indent what is below it one level less"
    )
    return Violation(field=key, rule="not-a-job", message=message, accepted=ACCEPTED)
