"""Rows of tokens and of registered public keys, as values."""

from dataclasses import dataclass
from datetime import datetime

from trainshed.model.access import AccessRole


@dataclass(frozen=True, slots=True, kw_only=True)
class Token:
    """A bearer token, without its text, which only its holder has."""

    token_id: str
    digest: str
    """SHA-256 of the token, in hexadecimal."""
    name: str
    project: str
    role: AccessRole
    create_time: datetime
    revoked: bool = False
    expire_time: datetime | None = None
    """None: it does not expire."""
    last_use_time: datetime | None = None
    """To the minute; None: it was never used."""
    bucket: str | None = None
    """The only bucket that it opens (``*``: all buckets); None: it is not limited to buckets."""
    parent: str | None = None
    """The id of the token or key whose holder made it; it ends with that one."""


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
