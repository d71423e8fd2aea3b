"""Registers, lists and removes public keys of service accounts.

As in ``tokens``, the functions are for administrators of the installation only.  What reads and
makes keys is imported when it is called: it takes 4 MB, and most servers have no such keys.
"""

import hashlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final

from trainshed.model.access import ALL_PROJECTS
from trainshed.model.refusals import Code, Refusal
from trainshed.service.auth.tokens import (
    Nothing,
    RoleName,
    invalid,
    project_of,
    refuse_unknown,
    role_name,
    role_of,
)
from trainshed.store.opening import Store
from trainshed.store.records.access import SigningKey
from trainshed.wire.native_v1 import Answer, answer_of

_EMAIL = re.compile(r"[A-Za-z0-9._%+-]{1,128}@[A-Za-z0-9.-]{1,190}")
_KEY_ID = re.compile(r"[A-Za-z0-9_-]{1,128}")


@dataclass(frozen=True, slots=True, kw_only=True)
class KeySummary(Answer):
    """A registered key of a service account."""

    id: str
    email: str
    project: str
    role: RoleName
    create_time: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Keys(Answer):
    """All registered keys."""

    keys: Sequence[KeySummary]


def add(store: Store, document: Mapping[str, Any]) -> KeySummary:
    """``POST /trainshed/v1/keys``: register a public key of a service account.

    ``document``: ``email``, ``publicKey`` (PEM), and maybe ``keyId`` (the ``private_key_id`` of a
    key file; default: a fingerprint), ``project`` and ``role`` as for tokens.  Raises Refusal.
    """
    refuse_unknown(document, {"email", "publicKey", "keyId", "project", "role"})
    email = document.get("email")
    if not isinstance(email, str) or not _EMAIL.fullmatch(email):
        raise invalid(f"email must be the e-mail address of a service account, got {email!r}")
    pem, fingerprint = _check_key(document.get("publicKey"))
    key_id = document.get("keyId") or fingerprint
    if not isinstance(key_id, str) or not _KEY_ID.fullmatch(key_id):
        raise invalid("keyId must be 1 to 128 letters, digits, - and _")
    key = SigningKey(
        key_id=key_id,
        email=email,
        public_key=pem,
        project=project_of(document.get("project", ALL_PROJECTS)),
        role=role_of(document.get("role", "submitter")),
        create_time=datetime.now(UTC),
    )
    if any(other.key_id == key_id for other in store.all_keys()):
        raise Refusal(
            Code.ALREADY_EXISTS,
            f"the key {key_id} is registered already; remove it first to change it",
        )
    store.add_key(key)
    return _summarize(key)


def listing(store: Store) -> Keys:
    """``GET /trainshed/v1/keys``."""
    return Keys(keys=[_summarize(key) for key in store.all_keys()])


def remove(store: Store, key_id: str) -> Nothing:
    """``DELETE /trainshed/v1/keys/{id}``.  Raises Refusal for an unknown id."""
    if not store.remove_key(key_id):
        raise Refusal(Code.NOT_FOUND, f"there is no key {key_id!r}; see `trainshed keys list`")
    return Nothing()


#: A warning about a key that Google knows as well.
REPLAY: Final = (
    "warning: a token that {email} signs for this server is valid at Google too: a person who "
    "reads such a token can act as that account at Google for up to an hour; "
    "`trainshed keys create` makes a key that Google does not know"
)
_ACCOUNT = re.compile(r"[a-z](?:[a-z0-9-]{0,61}[a-z0-9])?")


def new_key_file(url: str, name: str, project: str | None) -> dict[str, Any]:
    """Make a key file in Google's form for a service account of this server.

    Google does not know the key and refuses what it signs.  Its ``token_uri`` is the server at
    ``url``.  Raises Refusal for a name that cannot be part of an address.
    """
    if not _ACCOUNT.fullmatch(name):
        raise invalid(f"name must be 1 to 63 characters of a-z, 0-9 and -, got {name!r}")
    from trainshed.service.auth import key_files  # noqa: PLC0415

    scope = project_of(project) if project else "all"
    account = f"{name}@{scope.replace(':', '.').replace('*', 'all')}"
    of_all = project in (None, ALL_PROJECTS)
    return key_files.make(account, "local" if of_all else str(project), f"{url}/token")


def _check_key(pem: Any) -> tuple[str, str]:
    """Return the key in normal form and its fingerprint.  Raises Refusal."""
    from cryptography.hazmat.primitives.serialization import (  # noqa: PLC0415
        Encoding,
        PublicFormat,
    )

    from trainshed.service.auth.key_files import BITS_MIN  # noqa: PLC0415
    from trainshed.service.auth.signed_tokens import public_key  # noqa: PLC0415

    try:
        key = public_key(str(pem))
    except ValueError:
        raise invalid("publicKey must be an RSA public key in PEM (BEGIN PUBLIC KEY)") from None
    if key.key_size < BITS_MIN:
        raise invalid(f"publicKey must have at least {BITS_MIN} bits, got {key.key_size}")
    der = key.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
    text = key.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo).decode()
    return text, hashlib.sha256(der).hexdigest()[:40]


def _summarize(key: SigningKey) -> KeySummary:
    return answer_of(
        KeySummary,
        key,
        id=key.key_id,
        role=role_name(key.role),
        create_time=key.create_time.isoformat(),
    )
