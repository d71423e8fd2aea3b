"""Creates, lists and revokes tokens, for administrators.

The functions read JSON, so that the native API and a command line without a server give the same
answers.  The caller must be allowed ``caller.may(AccessRole.ADMIN, None)``.
"""

import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Literal, cast

from trainshed.files.server_files import ADMIN_FILE, alone_in, read_token, write_file
from trainshed.model.access import ALL_PROJECTS, PROJECT_ID, AccessRole
from trainshed.model.durations import duration_of, seconds_of
from trainshed.model.refusals import Code, Refusal
from trainshed.model.visible import hidden
from trainshed.service.auth.access import digest_of
from trainshed.store.opening import Store
from trainshed.store.records.access import Token
from trainshed.wire.native_v1 import Answer, answer_of

PREFIX = "tsd_"
BYTES = 32
FIRST_NAME = "first-admin"

RoleName = Literal["viewer", "submitter", "admin"]
ROLES: Mapping[str, AccessRole] = {role.name.lower(): role for role in AccessRole}

NAME_LENGTH_MAX = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class FirstToken:
    """The path of the first administrator's token.  ``made`` is its text if it is new."""

    path: Path
    made: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenSummary(Answer):
    """A token without its text."""

    id: str
    name: str
    project: str
    role: RoleName
    create_time: str
    expire_time: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class MadeToken(TokenSummary):
    """A new token; only this response has its text."""

    token: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ListedToken(TokenSummary):
    """A token in a list; a revoked token gives no access."""

    last_use_time: str | None = None
    revoked: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Tokens(Answer):
    """All tokens, oldest first."""

    tokens: Sequence[ListedToken]


@dataclass(frozen=True, slots=True)
class Nothing(Answer):
    """The empty response of a call that succeeded."""


def create(store: Store, document: Mapping[str, Any]) -> MadeToken:
    """``POST /trainshed/v1/tokens``: make a token; only this answer ever holds its text.

    ``document``: ``name``, ``project`` (``*``, the default, is every project), ``role`` (viewer,
    submitter, admin; default submitter), ``expires`` (a duration; default: never).  Raises Refusal.
    """
    fields = {"name", "project", "role", "expires"}
    refuse_unknown(document, fields)
    role = role_of(document.get("role", "submitter"))
    project = project_of(document.get("project", ALL_PROJECTS))
    name = document.get("name") or role.name.lower()
    if not isinstance(name, str) or len(name) > NAME_LENGTH_MAX or hidden(name):
        raise invalid(f"name must be 1 to {NAME_LENGTH_MAX} printable characters")
    life = life_of(document.get("expires"), EXPIRES_MAX)
    text, token = new_token(name, project, role)
    token = replace(token, expire_time=token.create_time + life if life else None)
    store.add_token(token)
    return answer_of(MadeToken, token, **_texts(token), token=text)


def listing(store: Store) -> Tokens:
    """``GET /trainshed/v1/tokens``: all tokens, oldest first, without their texts."""
    return Tokens(tokens=[_summarize(token) for token in store.tokens()])


def revoke(store: Store, token_id: str) -> Nothing:
    """``DELETE /trainshed/v1/tokens/{id}``.  Raises Refusal for an unknown id."""
    if not store.revoke_token(token_id):
        raise Refusal(
            Code.NOT_FOUND, f"there is no token {token_id!r}; see `trainshed tokens list`"
        )
    return Nothing()


def first_token(store: Store, data_dir: Path) -> FirstToken:
    """Make an administrator's token at the start of a server, unless there is one.

    The token in the file is used again; a removed file is made again only if the database has no
    administrator's token.
    """
    path = data_dir / ADMIN_FILE
    with alone_in(data_dir):
        text = read_token(path)
        if text is not None:
            if (
                store.token(digest_of(text)) is None
            ):  # a new database, or a server was killed before it wrote the row
                store.add_token(_token(text, FIRST_NAME, ALL_PROJECTS, AccessRole.ADMIN))
            return FirstToken(path=path, made=None)
        if any(_is_administrator(token) for token in store.tokens()):
            return FirstToken(path=path, made=None)
        text, token = new_token(FIRST_NAME, ALL_PROJECTS, AccessRole.ADMIN)
        write_file(path, f"{text}\n".encode())
        store.add_token(token)
        return FirstToken(path=path, made=text)


_LIFE_FORM = "a duration such as 30d, 12h, 90m or 3600s"
#: Ten years; for more, leave ``expires`` out: such a token does not end.
EXPIRES_MAX = timedelta(days=3650)


def life_of(word: Any, most: timedelta) -> timedelta | None:
    """Return how long a token is valid; None without a value.  Raises Refusal."""
    if word is None:
        return None
    try:
        life = timedelta(seconds=seconds_of(word))
    except (ValueError, TypeError, AttributeError, OverflowError):
        raise invalid(f"expires must be {_LIFE_FORM}, got {word!r}") from None
    if word.strip()[-1:].isdigit():  # gcloud reads seconds, and many users mean days
        raise invalid(f"expires must have a unit, got {word!r}; accepted: {_LIFE_FORM}")
    if not timedelta(0) < life <= most:
        longest = duration_of(most.total_seconds())
        raise invalid(f"expires must be 1s to {longest}, got {word}")
    return life


def role_of(word: Any) -> AccessRole:
    """Return the role of a name.  Raises Refusal for an unknown name."""
    if not isinstance(word, str) or word.lower() not in ROLES:
        raise invalid(f"role must be one of {', '.join(ROLES)}, got {word!r}")
    return ROLES[word.lower()]


def role_name(role: AccessRole) -> RoleName:
    """Return the name of a role in JSON."""
    return cast("RoleName", role.name.lower())


def project_of(word: Any) -> str:
    """Return a project id, or ``*``.  Raises Refusal for any other value."""
    if word == ALL_PROJECTS or (isinstance(word, str) and PROJECT_ID.fullmatch(word)):
        return str(word)
    raise invalid(f"project must be a project id, or * for every project, got {word!r}")


def refuse_unknown(document: Any, fields: set[str]) -> None:
    """Raise Refusal for a document that is not an object or has unknown fields."""
    if not isinstance(document, Mapping):
        raise invalid("the body must be a JSON object")
    if unknown := sorted(set(document) - fields):
        raise invalid(f"unknown field {unknown[0]!r} (accepted: {', '.join(sorted(fields))})")


def invalid(message: str) -> Refusal:
    """Return the refusal of an invalid document."""
    return Refusal(Code.INVALID_ARGUMENT, message)


def new_token(name: str, project: str, role: AccessRole) -> tuple[str, Token]:
    """Make a token: its text, and the row for the store."""
    text = PREFIX + secrets.token_urlsafe(BYTES)
    return text, _token(text, name, project, role)


def _token(text: str, name: str, project: str, role: AccessRole) -> Token:
    return Token(
        token_id=secrets.token_hex(6),
        digest=digest_of(text),
        name=name,
        project=project,
        role=role,
        create_time=datetime.now(UTC),
    )


def _is_administrator(token: Token) -> bool:
    is_admin = token.role is AccessRole.ADMIN and token.project == ALL_PROJECTS
    has_ended = token.expire_time is not None and token.expire_time <= datetime.now(UTC)
    return is_admin and not token.revoked and not has_ended


def _summarize(token: Token) -> ListedToken:
    used = token.last_use_time
    last = used.isoformat() if used else None
    return answer_of(ListedToken, token, **_texts(token), last_use_time=last)


def _texts(token: Token) -> dict[str, str | None]:
    return {
        "id": token.token_id,
        "role": role_name(token.role),
        "create_time": token.create_time.isoformat(),
        "expire_time": token.expire_time.isoformat() if token.expire_time else None,
    }
