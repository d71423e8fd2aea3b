"""Gives the variables of a replica to its container, unchanged and hidden from other users.

docker and podman read the variables from a private file, one on each line.  A value that does not
fit on a line goes into the environment of the command or, if the command itself might read that
variable, into its arguments.  ``engines.apptainer`` does the same for apptainer.

The command runs as the server's user: a job that could set LD_PRELOAD or DOCKER_HOST there would
run as the server.
"""

import re
from collections.abc import Mapping
from typing import Final, NamedTuple

#: The variables that docker and podman might read, and deliberately some more.
_READ_BY_COMMAND: Final = re.compile(
    r"(LD_|GLIBC_|GCONV|LOC|NLS|MALLOC|LIB|DOCKER|BUILD|MOBY|CONTAINER|REGISTRY|STORAGE|XDG_|OTEL"
    r"|HTTP|HTTPS|NO_PROXY|ALL_PROXY|SSL|GO|PODMAN|APPTAINER|SINGULARITY|NOTIFY|LISTEN|DBUS|SSH|GPG"
    r"|GNUPG|CNI|NETAVARK|TMP|TEMP|PATH|HOME|USER|LOGNAME|SHELL|IFS|BASH|ENV|RES_|HOSTALIASES|TZ"
    r"|LANG|LC_|_).*",
    re.IGNORECASE,
)


def is_read_by_command(name: str) -> bool:
    """Return whether docker or podman itself might read a variable of this name."""
    return _READ_BY_COMMAND.fullmatch(name) is not None


#: docker and podman read lines of at most 64 KiB.
_LINE_BYTES_MAX: Final = 60_000


class DockerVariables(NamedTuple):
    """The variables in a file, in flags and in the command's environment."""

    file: str
    """The text of the env file."""
    flags: tuple[str, ...]
    process: Mapping[str, str]
    """Variables of the command's own environment; ``flags`` contains their names."""


def for_docker(env: Mapping[str, str]) -> DockerVariables:
    """Choose the file, a flag or the environment for each variable."""
    lines, flags, process = [], [], {}
    for name, value in env.items():
        if _fits_a_line(name, value):
            lines.append(f"{name}={value}\n")
        elif is_read_by_command(name):
            flags += ["--env", f"{name}={value}"]
        else:
            flags += ["--env", name]
            process[name] = value
    return DockerVariables(file="".join(lines), flags=tuple(flags), process=process)


def _fits_a_line(name: str, value: str) -> bool:
    """Return whether a value can be in the env file, which is UTF-8.

    Some versions of podman strip quotes, and a line break ends a value.
    """
    if value[:1] in {'"', "'"} or any(c in value for c in "\r\n"):
        return False
    try:
        return len(name) + len(value.encode()) < _LINE_BYTES_MAX
    except UnicodeEncodeError:
        return False
