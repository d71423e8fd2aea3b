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
    """The kinds of job documents; the value is the kind's name in a sentence."""

    ML_JOB = "an AI Platform Job"
    TUNING_JOB = "a HyperparameterTuningJob"
    TRAINING_PIPELINE = "a TrainingPipeline"
    CUSTOM_JOB = "a CustomJob"
    CUSTOM_JOB_SPEC = "a CustomJobSpec"


#: The keys that identify each kind, in camelCase; the first kind with a matching key is chosen.
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
    """Parse a document of either dialect; if it is not a job, return one violation and no spec."""
    kind = kind_of(document)
    if isinstance(kind, Violation):
        return Parsed(spec=None, violations=(kind,), words=lambda path: path.field.value)
    return PARSE[kind](document)


def kind_of(document: Any) -> DocumentKind | Violation:
    """Return the kind of a document, or a violation if it is not a job."""
    if not isinstance(document, Mapping):
        message = f"a job must be an object of fields, not {describe_value(document)}"
        return Violation(field="", rule="not-a-job", message=message, accepted=ACCEPTED)
    return _kind_by_keys(document) or _kind_by_fields(document) or _no_job(document)


def _kind_by_keys(document: Mapping[Any, Any]) -> DocumentKind | None:
    """Return the kind with one of the document's keys, else with a key of the same letters."""
    for kind, keys in KEYS.items():
        if any(key in document or snake(key) in document for key in keys):
            return kind
    letters = {letters_of(key) for key in document if isinstance(key, str)}
    return next((kind for kind, keys in KEYS.items() if letters & set(map(letters_of, keys))), None)


#: Kinds that are also recognised by inner fields at the top level, a missing indentation.
_ROOTS: Final = (
    (DocumentKind.ML_JOB, "ml_v1", "Job"),
    (DocumentKind.CUSTOM_JOB_SPEC, "aiplatform_v1", "CustomJobSpec"),
    (DocumentKind.TUNING_JOB, "aiplatform_v1", "HyperparameterTuningJob"),
)


@cache
def _inner_names(dialect: str, root: str) -> frozenset[str]:
    return MessageFields(table(dialect), root).inner_names()


def _kind_by_fields(document: Mapping[Any, Any]) -> DocumentKind | None:
    """Return the kind with the most of the document's keys below its top level; None if none."""
    keys = {letters_of(key) for key in document if isinstance(key, str)}
    counts = {kind: len(keys & _inner_names(*root)) for kind, *root in _ROOTS}
    kind = max(counts, key=counts.__getitem__)
    return kind if counts[kind] else None


def _no_job(document: Mapping[Any, Any]) -> Violation:
    """Refuse a document that is no job; name its key that is most similar to a known key."""
    for key, item in document.items():
        if isinstance(item, Mapping) and (kind := _kind_by_keys(item)):
            return _refuse_wrapped(str(key), kind)
    job_keys = [key for keys in KEYS.values() for key in keys]
    similar = ((str(key), nearest_name(str(key), job_keys)) for key in document)
    pairs = ((key, known_key) for key, known_key in similar if known_key)
    key, known_key = next(pairs, ("", None))
    message = "this is not a job: it has none of the keys that a job begins with"
    message += f"; did you mean {known_key} instead of {key}?" if known_key else ""
    return Violation(field=key, rule="not-a-job", message=message, accepted=ACCEPTED)


def _refuse_wrapped(key: str, kind: DocumentKind) -> Violation:
    """Refuse a document that has a level above the job."""
    message = (
        f"this is not a job: {key} is not a key of a job, and {kind.value} is below it; take the "
        f"line {key} out, and indent the lines below it one level less"
    )
    return Violation(field=key, rule="not-a-job", message=message, accepted=ACCEPTED)
