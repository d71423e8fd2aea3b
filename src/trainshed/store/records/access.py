"""Records of tokens, of browsers that are signed in with one, and of registered public keys."""

from dataclasses import dataclass
from datetime import datetime

from trainshed.model.access import AccessRole


@dataclass(frozen=True, slots=True, kw_only=True)
class Token:
    """A bearer token without its text: the store has only the digest."""

    token_id: str
    digest: str
    """SHA-256 of the token, in hexadecimal."""
    name: str
    project: str
    role: AccessRole
    create_time: datetime
    revoked: bool = False
    expire_time: datetime | None = None
    """None if the token does not expire."""
    last_use_time: datetime | None = None
    """The last use, to the minute; None if the token was never used."""
    bucket: str | None = None
    """The only bucket that the token gives access to, ``*`` for all; None for any resource."""
    parent: str | None = None
    """The id of the token or key that this token was made with, and with which it is revoked."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SignIn:
    """A browser that is signed in with a token; the store has only digests of what it sends."""

    digest: str
    """SHA-256 of the cookie's value, in hexadecimal."""
    page_digest: str
    """SHA-256 of the header's value, which the page stores."""
    credential: str
    """The id of the token."""
    address: str
    """The IP address from which the browser signed in."""
    create_time: datetime
    last_use_time: datetime
    """The last use, to the minute."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SignInCode:
    """A code with which a browser signs in once."""

    digest: str
    """SHA-256 of the code, in hexadecimal."""
    credential: str
    """The id of the token that made it."""
    create_time: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class SigningKey:
    """A registered public key of a service account that signs its own tokens."""

    key_id: str
    email: str
    public_key: str
    """The public key as PEM text."""
    project: str
    role: AccessRole
    create_time: datetime
