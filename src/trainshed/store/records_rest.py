"""What the store keeps beside jobs, as values: pipelines, operations, tokens and keys."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

from trainshed.model.access import AccessRole


@dataclass(frozen=True, slots=True, kw_only=True)
class Pipeline:
    """A training pipeline: the caller's document around a real job (contracts/vertex-sdk.md 4.4).

    Its state is its child's; nothing of it is kept twice.
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Operation:
    """A long-running operation; deletes are over before they are answered."""

    name: str
    project: str
    done: bool
    create_time: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Token:
    """A bearer token; the text itself is known to its holder only."""

    token_id: str
    digest: str
    """SHA-256 of the token, in hexadecimal."""
    name: str
    project: str
    role: AccessRole
    create_time: datetime
    revoked: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class SigningKey:
    """A registered public key of a service account that signs its own tokens."""

    key_id: str
    email: str
    public_key: str
    """PEM."""
    project: str
    role: AccessRole
    create_time: datetime
