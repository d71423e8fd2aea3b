"""Records of training pipelines, models and operations."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Pipeline:
    """A training pipeline: the caller's document and a custom job (docs/sources/vertex.md 4.4).

    Its state is the state of that child job; no other state is stored.
    """

    uid: int
    project: str
    location: str
    display_name: str
    document: str
    """The caller's TrainingPipeline as JSON text."""
    labels: Mapping[str, str]
    task_definition: str
    child_uid: int
    create_time: datetime
    model_id: str = ""
    """The id of the pipeline's model; empty if it has none."""
    model_version: int = 0
    """0 if the pipeline has no model."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NewModel:
    """A new version of a model.  If ``model_id`` is empty, the uid of the row becomes the id."""

    project: str
    location: str
    model_id: str = ""
    document: str
    """The message Model as JSON text, without the fields that the server writes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredModel:
    """A stored version of a model.  ``pipeline_uid`` is None for an uploaded version."""

    uid: int
    project: str
    location: str
    model_id: str
    version: int
    document: str
    pipeline_uid: int | None
    create_time: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Operation:
    """A long-running operation; it is done before the server answers the call."""

    name: str
    project: str
    done: bool
    create_time: datetime
    made: str = ""
    """The full name of the model version that the operation made; empty for a delete."""
