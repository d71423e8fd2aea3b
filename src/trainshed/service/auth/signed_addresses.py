"""Signed URLs: a service account signs the address of one object, and any caller may use it.

Version 4 of Google's signatures (cloud.google.com/storage/docs/authentication/signatures), with RSA
keys that are registered on this server.
"""

import hashlib
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final
from urllib.parse import quote, unquote_to_bytes

from trainshed.model.refusals import Code, Refusal
from trainshed.store.records.access import SigningKey

SIGNATURE: Final = "X-Goog-Signature"
ALGORITHM: Final = "GOOG4-RSA-SHA256"
#: Google's own limit, a week.
LIFE_S_MAX: Final = 604_800
#: How far the clocks of the signer and of the server may be apart; the same as Google's.
_SKEW_S: Final = 900.0
_SCOPE: Final = re.compile(r"(?P<email>[^/\s]{1,384})/(?P<scope>\d{8}/[^/]+/storage/goog4_request)")
_UNSIGNED: Final = "UNSIGNED-PAYLOAD"
_BLANKS: Final = re.compile(r"\s+")

MISMATCH: Final = "The request signature we calculated does not match the signature you provided"


class AddressRefused(Refusal):
    """A refused signed URL; ``word`` is the error code of the XML API."""

    def __init__(self, word: str, message: str, code: Code = Code.PERMISSION_DENIED) -> None:
        super().__init__(code, message)
        self.word = word


@dataclass(frozen=True, slots=True, kw_only=True)
class SignedAddress:
    """A request with a signed URL."""

    verb: str
    path: str
    """The path as it was sent, percent-encoded."""
    query: Mapping[str, str]
    headers: Mapping[str, str]
    """Header values by lower-case name."""


def signer_of(
    address: SignedAddress, keys_of: Callable[[str], Sequence[SigningKey]], *, now_s: float
) -> SigningKey:
    """Return the registered key that signed a valid address.  Raises AddressRefused."""
    query = address.query
    match = _SCOPE.fullmatch(query.get("X-Goog-Credential", ""))
    if query.get("X-Goog-Algorithm") != ALGORITHM or match is None:
        raise AddressRefused("InvalidArgument", f"X-Goog-Algorithm must be {ALGORITHM}")
    string_to_sign = "\n".join(
        (ALGORITHM, query.get("X-Goog-Date", ""), match["scope"], _hash(address))
    )
    key = _signer(string_to_sign.encode(), query.get(SIGNATURE, ""), keys_of(match["email"]))
    if key is None:
        raise AddressRefused("SignatureDoesNotMatch", MISMATCH)
    _check_time(query, now_s)
    return key


def _signer(string_to_sign: bytes, signature: str, keys: Sequence[SigningKey]) -> SigningKey | None:
    # slow to import, and few requests need it
    from cryptography.exceptions import InvalidSignature  # noqa: PLC0415
    from cryptography.hazmat.primitives.asymmetric.padding import PKCS1v15  # noqa: PLC0415
    from cryptography.hazmat.primitives.hashes import SHA256  # noqa: PLC0415

    from trainshed.service.auth.signed_tokens import registered_key  # noqa: PLC0415

    for key in keys:
        try:
            signed = bytes.fromhex(signature)
            registered_key(key.public_key).verify(signed, string_to_sign, PKCS1v15(), SHA256())
        except (InvalidSignature, ValueError):
            continue
        return key
    return None


def _check_time(query: Mapping[str, str], now_s: float) -> None:
    try:
        begins = datetime.strptime(query["X-Goog-Date"], "%Y%m%dT%H%M%SZ").replace(tzinfo=UTC)
        life_s = int(query["X-Goog-Expires"])
    except (KeyError, ValueError):
        message = "X-Goog-Date must be a time and X-Goog-Expires a number of seconds up to a week"
        raise AddressRefused("InvalidArgument", message, Code.INVALID_ARGUMENT) from None
    since_s = now_s - begins.timestamp()
    if not 0 < life_s <= LIFE_S_MAX or since_s > life_s or since_s < -_SKEW_S:
        message = "The signed address has expired, or is not valid yet"
        raise AddressRefused("ExpiredToken", message, Code.INVALID_ARGUMENT)


def _hash(address: SignedAddress) -> str:
    """Return the hash of the canonical request."""
    names = address.query.get("X-Goog-SignedHeaders", "")
    headers = [f"{name}:{_value(address.headers.get(name, ''))}" for name in names.split(";")]
    query = {name: text for name, text in address.query.items() if name != SIGNATURE}
    pairs = sorted((_encode(name), _encode(text)) for name, text in query.items())
    lines = (
        address.verb,
        quote(unquote_to_bytes(address.path), safe="/~"),
        "&".join(f"{name}={text}" for name, text in pairs),
        *headers,
        "",
        names,
        address.headers.get("x-goog-content-sha256", _UNSIGNED),
    )
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()


def _encode(text: str) -> str:
    return quote(text, safe="-_.~")


def _value(text: str) -> str:
    return _BLANKS.sub(" ", text.strip())
