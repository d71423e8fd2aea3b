"""Verifies the tokens that Google's clients sign with the key file of a service account.

The server accepts only RS256 and only registered keys.  Clients send two forms
(docs/sources/vertex.md 2.4): the self-signed bearer token (``iss`` = ``sub``, with ``scope`` or
``aud``) and the assertion of a JWT grant (no ``sub``; ``aud`` is Google's token endpoint, which
users cannot change).
"""

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, TypeGuard

import jwt
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicKey
from cryptography.hazmat.primitives.serialization import load_pem_public_key

from trainshed.model.refusals import Code, Refusal
from trainshed.store.records.access import SigningKey

#: Google's own limit, in seconds.
LIFETIME_S_MAX = 3600.0
#: How far the clocks of a client and a server may be apart.
SKEW_S = 30.0
#: The most characters of a token; clients send fewer.
LENGTH_MAX = 16_384

_AUTH = "https://www.googleapis.com/auth/"
_WRITING = frozenset(
    f"{_AUTH}{name}"
    for name in ("cloud-platform", "devstorage.full_control", "devstorage.read_write")
)
_READING = frozenset(
    f"{_AUTH}{name}"
    for name in ("cloud-platform.read-only", "devstorage.read_only", "logging.read")
)
#: Audiences of tokens without scopes: the APIs that this server answers, regional or not.
_AUDIENCE = re.compile(
    r"https://(?:[a-z0-9-]+-)?(?:aiplatform|ml|storage|logging)\.googleapis\.com(?:/.*)?"
)
_EMAIL = re.compile(r"[^\s@]{1,128}@[^\s@]{1,255}")

MALFORMED = "The signed token is malformed; make another one."
WRONG_ALGORITHM = "A signed token must be signed with RS256, as service account keys do."
UNKNOWN_KEY = (
    "The token is signed by a key that is not registered on this server. An administrator "
    "registers it with `trainshed keys add --key-file SERVICE_ACCOUNT.json`."
)
TOO_OLD = (
    "The signed token has expired, or is not valid yet. Make another one, and check both clocks."
)
TOO_LONG = "A signed token may be valid for one hour at most."
NOT_FOR_US = (
    "The signed token is not meant for this API: it needs the scope "
    f"{_AUTH}cloud-platform or the audience of one of the APIs."
)
NOT_ITSELF = "The claim sub of a signed token must be the same as iss."


@dataclass(frozen=True, slots=True, kw_only=True)
class Signed:
    """A token with a valid signature and claims.  ``ends_at_s`` is in seconds since the epoch."""

    key: SigningKey
    ends_at_s: float
    read_only: bool
    """Whether its scopes allow no writing."""


def verified(text: str, keys_of: Callable[[str], Sequence[SigningKey]], *, now_s: float) -> Signed:
    """Verify a token: a registered key of its issuer signed it, and its claims are valid now.

    Raises Refusal.  Before the signature is verified, the message does not reveal whether the
    issuer is registered.
    """
    if len(text) > LENGTH_MAX:
        raise _refusal(MALFORMED)
    header, claimed = _decode_unverified(text)
    if header.get("alg") != "RS256":
        raise _refusal(WRONG_ALGORITHM)
    issuer = claimed.get("iss")
    if not isinstance(issuer, str) or not _EMAIL.fullmatch(issuer):
        raise _refusal(UNKNOWN_KEY)
    for key in _sort_keys(keys_of(issuer), header.get("kid")):
        if (claims := _claims(text, key)) is not None:
            return Signed(
                key=key, ends_at_s=_check_end(claims, now_s), read_only=_is_read_only(claims)
            )
    raise _refusal(UNKNOWN_KEY)


def public_key(pem: str) -> RSAPublicKey:
    """Read an RSA public key in PEM.  Raises ValueError for any other text."""
    try:
        key = load_pem_public_key(pem.encode())
    except UnsupportedAlgorithm as error:
        raise ValueError(str(error)) from error
    if not isinstance(key, RSAPublicKey):
        raise ValueError("not an RSA key")  # noqa: TRY004  # the value is wrong, not its type
    return key


registered_key = lru_cache(maxsize=256)(public_key)
"""``public_key``, cached."""


def _decode_unverified(text: str) -> tuple[Mapping[str, Any], Mapping[str, Any]]:
    try:
        parts = jwt.api_jws.decode_complete(text, options={"verify_signature": False})
        claims = json.loads(parts["payload"])
    except (jwt.InvalidTokenError, ValueError, RecursionError):
        raise _refusal(MALFORMED) from None
    if not isinstance(claims, dict):
        raise _refusal(MALFORMED)
    return parts["header"], claims


def _sort_keys(keys: Sequence[SigningKey], kid: Any) -> list[SigningKey]:
    """Sort the keys, those with the token's kid first; keys registered as bare PEM have no kid."""
    return sorted(keys, key=lambda key: key.key_id != kid)


def _claims(text: str, key: SigningKey) -> Mapping[str, Any] | None:
    """Return the claims if this key signed them."""
    try:
        payload = jwt.api_jws.decode(text, registered_key(key.public_key), algorithms=["RS256"])
        claims = json.loads(payload)
    except (jwt.InvalidTokenError, ValueError):
        return None
    return claims if isinstance(claims, dict) and claims.get("iss") == key.email else None


def _check_end(claims: Mapping[str, Any], now_s: float) -> float:
    """Return when the token ends.  Raises Refusal for an invalid claim."""
    begins, ends = claims.get("iat"), claims.get("exp")
    if not _is_number(begins) or not _is_number(ends):
        raise _refusal(MALFORMED)
    usable = claims.get("nbf", begins)  # RFC 7519, 4.1.5: not before it
    if not _is_number(usable):
        raise _refusal(MALFORMED)
    # written so that NaN is refused as well
    if not (begins - SKEW_S <= now_s <= ends + SKEW_S and usable - SKEW_S <= now_s):
        raise _refusal(TOO_OLD)
    if not ends - begins <= LIFETIME_S_MAX:
        raise _refusal(TOO_LONG)
    if claims.get("sub", claims["iss"]) != claims["iss"]:
        raise _refusal(NOT_ITSELF)
    if not _is_for_us(claims):
        raise _refusal(NOT_FOR_US)
    return float(ends)


def _is_for_us(claims: Mapping[str, Any]) -> bool:
    if "target_audience" in claims:
        return False  # asks for an identity token, for another service
    if scopes := _scopes(claims):
        return bool(scopes & (_WRITING | _READING))
    audience = claims.get("aud")
    return isinstance(audience, str) and _AUDIENCE.fullmatch(audience) is not None


def _is_read_only(claims: Mapping[str, Any]) -> bool:
    scopes = _scopes(claims)
    return bool(scopes) and not scopes & _WRITING


def _scopes(claims: Mapping[str, Any]) -> frozenset[str]:
    scope = claims.get("scope")
    return frozenset(scope.split()) if isinstance(scope, str) else frozenset()


def _is_number(value: Any) -> TypeGuard[float]:
    if isinstance(value, int) and not isinstance(value, bool):
        return abs(value) < 1 << 63  # a larger one cannot be a float
    return isinstance(value, float)


def _refusal(message: str) -> Refusal:
    return Refusal(Code.UNAUTHENTICATED, message)
