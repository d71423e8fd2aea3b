"""How the variables of a replica reach its container, unchanged and seen by nobody else.

docker and podman read them from a private file, a line each.  What a line cannot hold goes through
the command's own environment, and what the command itself might listen to goes, only then, into its
arguments.  apptainer's way is in ``engines.apptainer``.

The command runs as the server's user: a job that could set LD_PRELOAD or DOCKER_HOST there would
run as the server.
"""

import re
from collections.abc import Mapping
from typing import Final, NamedTuple

#: What they might listen to: wider, and on purpose.
_HEARD: Final = re.compile(
    r"(LD_|GLIBC_|GCONV|LOC|NLS|MALLOC|LIB|DOCKER|BUILD|MOBY|CONTAINER|REGISTRY|STORAGE|XDG_|OTEL"
    r"|HTTP|HTTPS|NO_PROXY|ALL_PROXY|SSL|GO|PODMAN|APPTAINER|SINGULARITY|NOTIFY|LISTEN|DBUS|SSH|GPG"
    r"|GNUPG|CNI|NETAVARK|TMP|TEMP|PATH|HOME|USER|LOGNAME|SHELL|IFS|BASH|ENV|RES_|HOSTALIASES|TZ"
    r"|LANG|LC_|_).*",
    re.IGNORECASE,
)


def is_heard(name: str) -> bool:
    """Whether the command itself might take a variable for its own."""
    return _HEARD.fullmatch(name) is not None


#: The readers of env files take lines of 64 KiB.
_LINE_BYTES_MAX: Final = 60_000


class DockerVariables(NamedTuple):
    """The three ways of docker and podman; ``flags`` come before the image."""

    file: str
    """The text of the env file."""
    flags: tuple[str, ...]
    process: Mapping[str, str]
    """Variables of the command's own environment, for the names in ``flags``."""


def for_docker(env: Mapping[str, str]) -> DockerVariables:
    """Divide the variables among the three."""
    lines, flags, process = [], [], {}
    for name, value in env.items():
        if _fits_a_line(name, value):
            lines.append(f"{name}={value}\n")
        elif is_heard(name):
            flags += ["--env", f"{name}={value}"]
        else:
            flags += ["--env", name]
            process[name] = value
    return DockerVariables(file="".join(lines), flags=tuple(flags), process=process)


def _fits_a_line(name: str, value: str) -> bool:
    """Some podmans unquote values, all readers end lines, and none takes what is no UTF-8."""
    if value[:1] in {'"', "'"} or any(c in value for c in "\r\n"):
        return False
    try:
        return len(name) + len(value.encode()) < _LINE_BYTES_MAX
    except UnicodeEncodeError:
        return False
