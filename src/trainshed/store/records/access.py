"""Rows of tokens and of registered public keys, as values."""

from dataclasses import dataclass
from datetime import datetime

from trainshed.model.access import AccessRole


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
    expire_time: datetime | None = None
    """None: it does not end by itself."""
    last_use_time: datetime | None = None
    """To the minute; None: nobody used it yet."""
    bucket: str | None = None
    """The bucket, or ``*`` for all, that it opens and nothing else; None: no such bound."""
    parent: str | None = None
    """The id of the token or key whose holder made it: what ends that one ends this one."""


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
