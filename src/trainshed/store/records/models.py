"""Rows of training pipelines, models and operations, as values."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Pipeline:
    """A training pipeline: the caller's document around a real job (docs/sources/vertex.md 4.4).

    Its state is its child's, and is stored once.
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
    """Of its model's row; empty where it has none."""
    model_version: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class NewModel:
    """A version of a model.  If ``model_id`` is empty, its number becomes its id."""

    project: str
    location: str
    model_id: str = ""
    document: str
    """Its Model as JSON text, without the fields that the server writes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredModel:
    """A version of a model that is there.  ``pipeline_uid`` is None for one that was uploaded."""

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
    """A long-running operation; all are over before they are answered."""

    name: str
    project: str
    done: bool
    create_time: datetime
    made: str = ""
    """The full name of the version of a model that it made; empty for a delete."""
