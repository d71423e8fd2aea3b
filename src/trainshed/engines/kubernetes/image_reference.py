"""Parses references of images as docker does: ``[HOST/]PATH[:TAG][@DIGEST]``."""

import re
from typing import Final, NamedTuple

DOCKER_HUB: Final = "docker.io"
_OTHER_NAMES_OF_HUB: Final = frozenset({"index.docker.io", "registry-1.docker.io"})
_LATEST: Final = "latest"
_NAME_LENGTH_MAX: Final = 255
_LENGTH_MAX: Final = 1024
_PORT_MAX: Final = 65535
_HOST: Final = (
    r"(?:[A-Za-z0-9](?:[A-Za-z0-9.-]*[A-Za-z0-9])?|\[[0-9A-Fa-f:]+\])(?::(?P<port>[0-9]{1,5}))?"
)
_COMPONENT: Final = r"[a-z0-9]+(?:(?:\.|_|__|-+)[a-z0-9]+)*"
_TAG: Final = r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}"
#: The digests of the registry API that servers compute; their hex digits by algorithm.
_DIGEST: Final = r"sha256:[0-9a-f]{64}|sha512:[0-9a-f]{128}"
_REFERENCE: Final = re.compile(
    rf"(?:(?P<host>{_HOST})/)?(?P<path>{_COMPONENT}(?:/{_COMPONENT})*)"
    rf"(?::(?P<tag>{_TAG}))?(?:@(?P<digest>{_DIGEST}))?"
)
_IS_DIGEST: Final = re.compile(_DIGEST)


class ImageReference(NamedTuple):
    """An image in a registry."""

    host: str
    """The registry: a host name or address, perhaps with a port."""
    repository: str
    tag: str
    """Empty with a digest: the tag of a reference that has both is ignored."""
    digest: str
    """Empty: not given."""

    @property
    def name(self) -> str:
        """The last part of the path of its manifest."""
        return self.digest or self.tag

    @property
    def text(self) -> str:
        """The complete reference."""
        mark = f"@{self.digest}" if self.digest else f":{self.tag}"
        return f"{self.host}/{self.repository}{mark}"

    def with_digest(self, digest: str) -> "ImageReference":
        """Return the reference of the same repository by a digest."""
        return self._replace(tag="", digest=digest)


def parse_reference(text: str) -> ImageReference:
    """Parse a reference; the host defaults to Docker Hub, the tag to ``latest``.

    Raises ValueError.
    """
    match = _REFERENCE.fullmatch(text) if len(text) <= _LENGTH_MAX else None
    if (
        match is None
        or len(match["path"]) > _NAME_LENGTH_MAX
        or int(match["port"] or 0) > _PORT_MAX
    ):
        raise ValueError(f"an image must be [HOST/]PATH[:TAG][@DIGEST], got {text!r:.300}")
    host, repository = match["host"] or "", match["path"]
    if host and not _is_host(host):
        host, repository = "", f"{host}/{repository}"
    if not host or host in _OTHER_NAMES_OF_HUB:
        host = DOCKER_HUB
    if host == DOCKER_HUB and "/" not in repository:
        repository = f"library/{repository}"
    digest = match["digest"] or ""
    return ImageReference(host, repository, "" if digest else match["tag"] or _LATEST, digest)


def is_digest(text: str) -> bool:
    """Return whether a text is a digest that this module accepts."""
    return _IS_DIGEST.fullmatch(text) is not None


def _is_host(text: str) -> bool:
    """Return whether a first component is a host, as Docker decides: ``team/image`` has none."""
    return "." in text or ":" in text or text == "localhost" or text.lower() != text
