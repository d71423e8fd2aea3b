"""Asks an image's registry for its digest and its entry point, by the OCI distribution API.

A tag is resolved at every call: pods must not get the entry point of one image and the content of
the next.  What a digest names never changes, so descriptions are cached by digest.
"""

import enum
import hashlib
import json
import re
import threading
import time
from collections import OrderedDict
from collections.abc import Collection, Mapping, Sequence
from typing import Any, Final, NamedTuple
from urllib.parse import urlencode

from trainshed.engines.kubernetes.docker_config import Credentials, find_credentials
from trainshed.engines.kubernetes.image_reference import (
    DOCKER_HUB,
    ImageReference,
    is_digest,
    parse_reference,
)
from trainshed.engines.kubernetes.registry_http import (
    AUTHORIZATION,
    DocumentReader,
    HostAnswer,
    HostUnreachable,
)

#: Seconds for all requests that describe one image.
TIMEOUT_S: Final = 20.0
_HUB_HOST: Final = "registry-1.docker.io"
_INDEXES: Final = (
    "application/vnd.oci.image.index.v1+json",
    "application/vnd.docker.distribution.manifest.list.v2+json",
)
_MANIFESTS: Final = (
    "application/vnd.oci.image.manifest.v1+json",
    "application/vnd.docker.distribution.manifest.v2+json",
)
#: The limit that registries have for manifests; configurations are as small.
_BYTES_MAX: Final = 4 << 20
_TOKEN_BYTES_MAX: Final = 1 << 16
_CACHED_MAX: Final = 256
_OK, _UNAUTHORIZED, _FORBIDDEN, _NOT_FOUND, _TOO_MANY, _SERVER_ERROR = 200, 401, 403, 404, 429, 500
_CHALLENGE: Final = re.compile(r'(?i)\b(bearer|basic)\b((?:\s*,?\s*\w+="[^"]*")*)')
_PARAMETER: Final = re.compile(r'(\w+)="([^"]*)"')


class RegistryTrouble(enum.Enum):
    """Why a registry gives no description of an image."""

    NO_IMAGE = "NO_IMAGE"
    UNAUTHORIZED = "UNAUTHORIZED"
    OTHER_ARCHITECTURE = "OTHER_ARCHITECTURE"
    UNREACHABLE = "UNREACHABLE"
    UNUSABLE = "UNUSABLE"
    """The name of the image, or the registry's answer, is malformed."""


class RegistryFault(Exception):
    """An image could not be described; the message is for the user."""

    def __init__(self, trouble: RegistryTrouble, message: str) -> None:
        """``message`` names the image and has no secrets."""
        super().__init__(message)
        self.trouble = trouble

    @property
    def heals(self) -> bool:
        """Whether the same question may be answered later, without a change by anybody."""
        return self.trouble is RegistryTrouble.UNREACHABLE


class ImageDescription(NamedTuple):
    """The facts about an image that a container is started with."""

    reference: ImageReference
    """The image by its digest: that of the index, if the image has one."""
    architecture: str
    entrypoint: tuple[str, ...] = ()
    command: tuple[str, ...] = ()
    """The image's CMD: arguments of its entry point."""
    working_folder: str = ""
    variables: Mapping[str, str] = {}
    user: str = ""


class Registry:
    """Describes the images of all registries.  Thread-safe."""

    def __init__(
        self,
        architecture: str,
        *,
        docker_config: str = "",
        ca_file: str = "",
        plain_hosts: Collection[str] = (),
        timeout_s: float = TIMEOUT_S,
    ) -> None:
        """``architecture`` is Kubernetes' name of the nodes' processor.

        ``docker_config`` is the path of a docker config file; empty: no credentials.  ``ca_file``
        and ``plain_hosts`` are as ``DocumentReader`` has them.  Raises OSError for a CA file
        without certificates.
        """
        self._architecture = architecture
        self._reader = DocumentReader(ca_file, frozenset(plain_hosts))
        self._docker_config = docker_config
        self._timeout_s = timeout_s
        self._lock = threading.Lock()
        self._cached: OrderedDict[ImageReference, ImageDescription] = OrderedDict()

    def describe(self, image: str) -> ImageDescription:
        """Return the description of an image.  Raises RegistryFault.

        Sends up to six requests within ``timeout_s`` seconds; none for a cached digest.
        """
        try:
            reference = parse_reference(image)
        except ValueError as error:
            raise RegistryFault(RegistryTrouble.UNUSABLE, str(error)) from error
        if description := self._find_cached(reference):
            return description
        session = _Session(self._reader, reference, self._docker_config, self._timeout_s)
        digest, manifest = session.read_manifest(reference.name)
        pinned = reference.with_digest(digest)
        if description := self._find_cached(pinned):
            return description
        if "manifests" in manifest:
            child = _choose(reference, manifest["manifests"], self._architecture)
            _, manifest = session.read_manifest(child)
        config = session.read_blob(_digest_of_config(reference, manifest))
        description = _describe(pinned, config, self._architecture)
        self._cache(description)
        return description

    def _find_cached(self, reference: ImageReference) -> ImageDescription | None:
        with self._lock:
            if reference in self._cached:
                self._cached.move_to_end(reference)
            return self._cached.get(reference)

    def _cache(self, description: ImageDescription) -> None:
        with self._lock:
            self._cached[description.reference] = description
            while len(self._cached) > _CACHED_MAX:
                self._cached.popitem(last=False)


class _Session:
    """The requests for one image: they share a token and a deadline."""

    def __init__(
        self,
        reader: DocumentReader,
        reference: ImageReference,
        docker_config: str,
        timeout_s: float,
    ) -> None:
        self._reader = reader
        self._reference = reference
        self._docker_config = docker_config
        self._deadline_s = time.monotonic() + timeout_s
        self._authorization = ""

    def read_manifest(self, name: str) -> tuple[str, Mapping[str, Any]]:
        """Return the digest and the content of a manifest or an index, by tag or digest."""
        accept = ", ".join((*_INDEXES, *_MANIFESTS))
        return self._read_json(f"manifests/{name}", name, {"Accept": accept})

    def read_blob(self, digest: str) -> Mapping[str, Any]:
        """Return a blob that is JSON."""
        return self._read_json(f"blobs/{digest}", digest, {})[1]

    def _read_json(
        self, path: str, name: str, headers: Mapping[str, str]
    ) -> tuple[str, Mapping[str, Any]]:
        reference = self._reference
        host = _HUB_HOST if reference.host == DOCKER_HUB else reference.host
        url = f"{self._reader.origin_of(host)}/v2/{reference.repository}/{path}"
        answer = self._read(url, headers)
        if answer.status == _UNAUTHORIZED and not self._authorization:
            self._authorization = self._authorize(answer)
            answer = self._read(url, headers)
        _check_status(reference, answer)
        digest = _digest_like(name, answer.body)
        if is_digest(name) and digest != name:
            raise _unusable(reference, f"the registry sends {digest} in the place of {name}")
        return digest, _parse(reference, answer.body)

    def _read(
        self, url: str, headers: Mapping[str, str], bytes_max: int = _BYTES_MAX
    ) -> HostAnswer:
        if self._authorization:
            headers = {**headers, AUTHORIZATION: self._authorization}
        try:
            return self._reader.read(url, headers, bytes_max=bytes_max, deadline_s=self._deadline_s)
        except HostUnreachable as error:
            message = f"cannot ask the registry of {self._reference.text}: {error}"
            raise RegistryFault(RegistryTrouble.UNREACHABLE, message) from error

    def _authorize(self, answer: HostAnswer) -> str:
        """Return the header Authorization that a registry demands."""
        credentials = self._find_credentials()
        challenges = dict(_parse_challenges(answer.headers.get("www-authenticate", "")))
        if "bearer" in challenges:
            return f"Bearer {self._fetch_token(challenges['bearer'], credentials)}"
        if "basic" in challenges and credentials:
            return credentials.basic
        raise _unauthorized(self._reference, self._docker_config, credentials)

    def _find_credentials(self) -> Credentials | None:
        if not self._docker_config:
            return None
        try:
            return find_credentials(self._docker_config, self._reference)
        except (OSError, ValueError) as error:
            message = f"cannot ask the registry of {self._reference.text}: {error}"
            raise RegistryFault(RegistryTrouble.UNAUTHORIZED, message) from error

    def _fetch_token(self, challenge: Mapping[str, str], credentials: Credentials | None) -> str:
        """Fetch a token that may pull this image's repository, and nothing else."""
        realm = challenge.get("realm", "")
        service = {"service": challenge["service"]} if "service" in challenge else {}
        query = urlencode({**service, "scope": f"repository:{self._reference.repository}:pull"})
        headers = {AUTHORIZATION: credentials.basic} if credentials else {}
        url = f"{realm}{'&' if '?' in realm else '?'}{query}"
        answer = self._read(url, headers, _TOKEN_BYTES_MAX)
        if answer.status in {_UNAUTHORIZED, _FORBIDDEN}:
            raise _unauthorized(self._reference, self._docker_config, credentials)
        _check_status(self._reference, answer)
        document = _parse(self._reference, answer.body)
        token = document.get("token") or document.get("access_token")
        if not isinstance(token, str) or not token.isprintable():
            raise _unusable(self._reference, f"{answer.host} sends no token")
        return token


def _parse_challenges(header: str) -> list[tuple[str, dict[str, str]]]:
    """Parse the header WWW-Authenticate: (scheme in lower case, parameters)."""
    matches = _CHALLENGE.finditer(header)
    return [(match[1].lower(), dict(_PARAMETER.findall(match[2]))) for match in matches]


def _check_status(reference: ImageReference, answer: HostAnswer) -> None:
    """Raise RegistryFault for an error of a registry."""
    status = answer.status
    if status == _OK:
        return
    if status == _NOT_FOUND:
        message = f"the registry {reference.host} has no image {reference.text}"
        raise RegistryFault(RegistryTrouble.NO_IMAGE, message)
    if status in {_UNAUTHORIZED, _FORBIDDEN}:
        message = (
            f"the registry {reference.host} refuses {reference.text} (HTTP {status}): the image is "
            "private or does not exist"
        )
        raise RegistryFault(RegistryTrouble.UNAUTHORIZED, message)
    if status == _TOO_MANY or status >= _SERVER_ERROR:
        message = f"the registry of {reference.text} does not answer now: HTTP {status}"
        raise RegistryFault(RegistryTrouble.UNREACHABLE, message)
    raise _unusable(reference, f"HTTP {status} of {answer.host}")


def _unauthorized(
    reference: ImageReference, docker_config: str, credentials: Credentials | None
) -> RegistryFault:
    reason = "refuses the user of" if credentials else "needs a user and a password, and"
    source = f"the docker config file {docker_config}" if docker_config else "no file is configured"
    end = "" if credentials or not docker_config else " has none for it"
    message = f"the registry of {reference.text} {reason} {source}{end}"
    return RegistryFault(RegistryTrouble.UNAUTHORIZED, message)


def _unusable(reference: ImageReference, reason: str) -> RegistryFault:
    message = f"cannot use the registry's answer about {reference.text}: {reason}"
    return RegistryFault(RegistryTrouble.UNUSABLE, message)


def _digest_like(name: str, data: bytes) -> str:
    """Return the digest of data, by the algorithm of a digest, or by SHA-256 for a tag."""
    algorithm = name.partition(":")[0] if is_digest(name) else "sha256"
    return f"{algorithm}:{hashlib.new(algorithm, data).hexdigest()}"


def _parse(reference: ImageReference, data: bytes) -> Mapping[str, Any]:
    try:
        document = json.loads(data)
    except (ValueError, RecursionError):
        document = None
    if not isinstance(document, dict):
        raise _unusable(reference, "it is not a JSON object")
    return document


def _choose(reference: ImageReference, manifests: Any, architecture: str) -> str:
    """Return the digest of the manifest for Linux on an architecture."""
    rows = (
        [row for row in manifests if isinstance(row, dict)] if isinstance(manifests, list) else []
    )
    platforms = [row.get("platform") for row in rows]
    names = [
        f"{platform.get('os')}/{platform.get('architecture')}"
        if isinstance(platform, dict)
        else "unknown"
        for platform in platforms
    ]
    wanted = f"linux/{architecture}"
    if wanted not in names:
        raise _other_architecture(reference, names, wanted)
    return _check_digest(reference, rows[names.index(wanted)].get("digest"))


def _digest_of_config(reference: ImageReference, manifest: Mapping[str, Any]) -> str:
    config = manifest.get("config")
    if not isinstance(config, dict):
        raise _unusable(
            reference, "its manifest has no configuration; push the image again with a current tool"
        )
    return _check_digest(reference, config.get("digest"))


def _check_digest(reference: ImageReference, digest: Any) -> str:
    if not isinstance(digest, str) or not is_digest(digest):
        raise _unusable(reference, "a digest in its manifest is malformed")
    return digest


def _describe(
    pinned: ImageReference, document: Mapping[str, Any], architecture: str
) -> ImageDescription:
    name = f"{document.get('os', 'linux')}/{document.get('architecture', architecture)}"
    if name != f"linux/{architecture}":
        raise _other_architecture(pinned, [name], f"linux/{architecture}")
    config = document.get("config") or {}
    if not isinstance(config, dict):
        raise _unusable(pinned, "its configuration is malformed")
    pairs = (text.partition("=") for text in _texts(pinned, config.get("Env")))
    return ImageDescription(
        reference=pinned,
        architecture=architecture,
        entrypoint=_texts(pinned, config.get("Entrypoint")),
        command=_texts(pinned, config.get("Cmd")),
        working_folder=str(config.get("WorkingDir") or ""),
        variables={variable: text for variable, _, text in pairs},
        user=str(config.get("User") or ""),
    )


def _texts(pinned: ImageReference, value: Any) -> tuple[str, ...]:
    """Return a list of texts; an image without one has null."""
    words = value or []
    if not isinstance(words, list) or not all(isinstance(word, str) for word in words):
        raise _unusable(pinned, "its configuration is malformed")
    return tuple(words)


def _other_architecture(
    reference: ImageReference, names: Sequence[str], wanted: str
) -> RegistryFault:
    platforms = ", ".join(sorted({name for name in names if "unknown" not in name})) or "nothing"
    message = f"the image {reference.text} is for {platforms}, and the pods need {wanted}"
    return RegistryFault(RegistryTrouble.OTHER_ARCHITECTURE, message)
