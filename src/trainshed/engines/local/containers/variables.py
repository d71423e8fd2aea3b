"""How the variables of a replica reach its container, unchanged and seen by nobody else.

docker and podman read them from a private file, a line each.  What a line cannot hold goes through
the command's own environment, and what the command itself might listen to goes, only then, into its
arguments.  apptainer knows them by a prefix in its environment, which no other variable has.

The command runs as the server's user: a job that could set LD_PRELOAD or DOCKER_HOST there would
run as the server.
"""

import re
from collections.abc import Mapping
from typing import Final, NamedTuple

#: What the commands need of the server's environment: where the daemon and its images are, and
#: through what they are fetched.  Variables for containers (APPTAINERENV_*) are none of these.
_NEEDED: Final = re.compile(
    r"PATH|HOME|USER|LOGNAME|LANG|TMPDIR|LD_LIBRARY_PATH|(HTTP|HTTPS|NO|ALL)_PROXY|SSL_CERT_\w+"
    r"|XDG_\w+|DBUS_SESSION_BUS_ADDRESS|SSH_AUTH_SOCK|REGISTRY_AUTH_FILE|STORAGE_(DRIVER|OPTS)"
    r"|(DOCKER|CONTAINER|CONTAINERS|APPTAINER|SINGULARITY)_\w+",
    re.IGNORECASE,
)

#: What they might listen to: wider, and on purpose.
_HEARD: Final = re.compile(
    r"(LD_|GLIBC_|GCONV|LOC|NLS|MALLOC|LIB|DOCKER|BUILD|MOBY|CONTAINER|REGISTRY|STORAGE|XDG_|OTEL"
    r"|HTTP|HTTPS|NO_PROXY|ALL_PROXY|SSL|GO|PODMAN|APPTAINER|SINGULARITY|NOTIFY|LISTEN|DBUS|SSH|GPG"
    r"|GNUPG|CNI|NETAVARK|TMP|TEMP|PATH|HOME|USER|LOGNAME|SHELL|IFS|BASH|ENV|RES_|HOSTALIASES|TZ"
    r"|LANG|LC_|_).*",
    re.IGNORECASE,
)


def client_env(environ: Mapping[str, str]) -> dict[str, str]:
    """What of the server's environment the command is given."""
    return {name: value for name, value in environ.items() if _NEEDED.fullmatch(name)}


def is_heard(name: str) -> bool:
    """Whether the command itself might take a variable for its own."""
    return _HEARD.fullmatch(name) is not None


#: The readers of env files take lines of 64 KiB.
_LINE_BYTES_MAX: Final = 60_000

#: apptainer's users have the home of the machine, or the one of ``--home``.
_NOT_TO_BE_SET: Final = frozenset({"HOME"})


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


def for_apptainer(program: str, env: Mapping[str, str]) -> dict[str, str]:
    """The variables of the command's environment that become those of the container."""
    prefix = f"{program.upper()}ENV_"
    return {prefix + name: value for name, value in env.items() if name not in _NOT_TO_BE_SET}


def _fits_a_line(name: str, value: str) -> bool:
    """Some podmans unquote values, all readers end lines, and none takes what is no UTF-8."""
    if value[:1] in {'"', "'"} or any(c in value for c in "\r\n"):
        return False
    try:
        return len(name) + len(value.encode()) < _LINE_BYTES_MAX
    except UnicodeEncodeError:
        return False
