"""The environment of a runtime's own command, which runs as the server's user, outside containers.

Nothing of a job may be in it that the command itself listens to: a job that could set LD_PRELOAD
or DOCKER_HOST here would run as the server.
"""

import re
from collections.abc import Mapping
from typing import Final

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
