"""Images of the emulator: folders with an entry point, and the words of pulls that fail."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

DOMAIN = r"(?:[a-zA-Z0-9.-]+(?::\d+)?/)?"
COMPONENT = r"[a-z0-9]+(?:(?:[._]|__|-+)[a-z0-9]+)*"
REFERENCE = re.compile(
    rf"{DOMAIN}{COMPONENT}(?:/{COMPONENT})*(?::[\w][\w.-]{{0,127}})?(?:@sha256:[0-9a-f]{{64}})?"
)
DEFAULT_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


@dataclass(frozen=True, slots=True)
class ContainerImage:
    """A root folder, and what an image's configuration says."""

    folder: Path
    entrypoint: Sequence[str] = ()
    command: Sequence[str] = ()
    env: Mapping[str, str] = field(default_factory=dict)
    working_dir: str = ""
    user: str = ""
    """``UID`` or ``UID:GID``; root where it is empty."""
    binds: Sequence[tuple[Path, str]] = ()
    """Folders of this machine that the image has at a path of its own, read-only."""


class ImageRefused(Exception):
    """An image cannot be had; the text is what a kubelet reports of the registry's answer."""


class ImageShelf:
    """The images that nodes can have, by every name under which a container may ask for them."""

    def __init__(self):
        self._images, self._refusals = {}, {}

    def add(self, name, image):
        self._images[name] = image
        self._refusals.pop(name, None)

    def refuse(self, name, reason):
        """Let pulls of an image fail, from now on, for a reason of the registry's."""
        self._images.pop(name, None)
        self._refusals[name] = reason

    def find(self, name):
        if name in self._images:
            return self._images[name]
        reason = self._refusals.get(
            name, f'failed to resolve reference "{name}": {name}: not found'
        )
        raise ImageRefused(f'failed to pull and unpack image "{name}": {reason}')


def explain_bad_name(name):
    """Why a name is no image's name, in the kubelet's words, or an empty text."""
    if REFERENCE.fullmatch(name):
        return ""
    head = f'Failed to apply default image tag "{name}": couldn\'t parse image name "{name}"'
    _, _, rest = name.partition("/")
    reason = "invalid reference format"
    if rest != rest.lower():
        reason += f": repository name ({rest.partition(':')[0]}) must be lowercase"
    return f"{head}: {reason}"
