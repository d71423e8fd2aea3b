"""Finds the user and the password for a registry in a docker config file.

The file has the form of ``~/.docker/config.json``, which a pull secret of Kubernetes has too.  The
programs that ``credsStore`` and ``credHelpers`` name are not run: a server runs no program that a
file of secrets names.
"""

import base64
import binascii
import json
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Final, NamedTuple

from trainshed.engines.kubernetes.image_reference import DOCKER_HUB, ImageReference

_BYTES_MAX: Final = 1 << 20
#: The host under which docker stores the credentials of Docker Hub.
_HUB_KEY: Final = "index.docker.io"
#: Paths in keys that name a version of the API, not repositories.
_VERSIONS: Final = frozenset({"v1", "v2"})
_TOKENS: Final = ("identitytoken", "registrytoken")


class Credentials(NamedTuple):
    """A user and a password for a registry."""

    user: str
    password: str

    @property
    def basic(self) -> str:
        """The value of the header Authorization."""
        text = base64.b64encode(f"{self.user}:{self.password}".encode()).decode()
        return f"Basic {text}"

    def __repr__(self) -> str:
        """Return a text without the password, for logs."""
        return f"Credentials(user={self.user!r})"


def find_credentials(path: str, reference: ImageReference) -> Credentials | None:
    """Return the credentials of a config file for an image; None: the file has none for it.

    The key with the longest path applies.  The file is read at each call, because passwords
    expire and are replaced.  Raises ValueError, which says what to change in the file, for a
    malformed file and for an entry that only a helper could complete; OSError.
    """
    document = _read(path)
    helpers = document.get("credHelpers")
    helper = str(helpers.get(_key_host(reference), "")) if isinstance(helpers, dict) else ""
    entry = _find_entry(document, reference)
    credentials = _read_entry(path, entry) if entry else None
    if credentials is None and (helper or (entry is not None and document.get("credsStore"))):
        name = helper or document.get("credsStore")
        raise ValueError(
            f"{path} names the helper docker-credential-{name} for {reference.host}, and the "
            "server runs no helpers; add the user and the password to `auths` in the file"
        )
    return credentials


def _read(path: str) -> Mapping[str, Any]:
    with Path(path).open("rb") as file:
        data = file.read(_BYTES_MAX + 1)
    with suppress(ValueError, RecursionError):
        document = json.loads(data) if len(data) <= _BYTES_MAX else None
        if isinstance(document, dict):
            return document
    raise ValueError(f"{path} must be a docker config file: JSON of at most {_BYTES_MAX} bytes")


def _find_entry(document: Mapping[str, Any], reference: ImageReference) -> Mapping[str, Any] | None:
    auths = document.get("auths")
    rows = dict(_list_rows(auths, reference)) if isinstance(auths, dict) else {}
    return rows[max(rows, key=len)] if rows else None


def _list_rows(
    auths: Mapping[str, Any], reference: ImageReference
) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Yield the path and the entry of each key that applies to an image."""
    for key, entry in auths.items():
        host, _, path = (key.partition("://")[2] or key).partition("/")
        path = "" if path.strip("/") in _VERSIONS else path.strip("/")
        is_below = not path or f"{reference.repository}/".startswith(f"{path}/")
        if host in {_key_host(reference), reference.host} and is_below and isinstance(entry, dict):
            yield path, entry


def _key_host(reference: ImageReference) -> str:
    return _HUB_KEY if reference.host == DOCKER_HUB else reference.host


def _read_entry(path: str, entry: Mapping[str, Any]) -> Credentials | None:
    if any(entry.get(name) for name in _TOKENS):
        raise ValueError(
            f"{path} has a token of an identity provider, which the server does not use; add a "
            "user and a password to `auths` in the file"
        )
    if entry.get("auth"):
        user, is_pair, password = _decode(path, entry["auth"]).partition(":")
        if not is_pair:
            raise ValueError(f"`auth` in {path} must be the base64 of USER:PASSWORD")
        return Credentials(user, password.rstrip("\0"))
    if entry.get("username"):
        return Credentials(str(entry["username"]), str(entry.get("password", "")))
    return None


def _decode(path: str, text: Any) -> str:
    try:
        return base64.b64decode(str(text), validate=True).decode()
    except (binascii.Error, ValueError):
        raise ValueError(f"`auth` in {path} must be the base64 of USER:PASSWORD") from None
