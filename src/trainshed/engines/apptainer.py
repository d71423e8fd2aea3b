"""Composes the command of apptainer or singularity for a replica in its own image.

Containers of apptainer are child processes of the command and run as the same user, so the
isolation of the command applies to them too.  All engines share this module.
"""

import csv
import io
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from trainshed.model.launch_plan import ContainerPlan


class Bind(NamedTuple):
    """A folder or file of the machine (``source``) and its path in the container (``target``)."""

    source: str
    target: str
    is_read_only: bool = False


def mount(bind: Bind) -> str:
    """Compose the value of ``--mount``, which all runtimes read as a line of CSV."""
    fields = ["type=bind", f"source={bind.source}", f"target={bind.target}"]
    fields += ["readonly"] if bind.is_read_only else []
    text = io.StringIO()
    csv.writer(text, lineterminator="").writerow(fields)
    return text.getvalue()


def run_words(
    program: str, plan: "ContainerPlan", *, home: str, mounts: Sequence[str], has_devices: bool
) -> tuple[str, ...]:
    """Compose the ``run`` or ``exec`` command; ``mounts`` are values of ``--mount``.

    ``--compat`` makes the container similar to one of docker.  The container does not see the
    user's home and environment, has its own /tmp and process namespace, and can write to its
    file system.
    """
    return (
        program,
        "exec" if plan.command else "run",
        *("--compat", "--cleanenv"),
        *(("--nv",) if has_devices else ()),
        *("--home", home),
        *(word for mount in mounts for word in ("--mount", mount)),
        *image_words(plan),
    )


def image_words(plan: "ContainerPlan") -> Iterator[str]:
    """Yield the image, then the command and the args of the plan.

    The result follows docker's rules: ``exec`` ignores ENTRYPOINT, and with ``run`` the args
    replace CMD.
    """
    yield f"docker://{plan.image}"
    yield from plan.command or ()
    yield from plan.args or ()


#: Variables of the caller's environment that the commands of container runtimes need: paths of the
#: daemon and of images, and proxies for downloads.  Variables for the containers themselves
#: (APPTAINERENV_*) do not match.
_NEEDED: Final = re.compile(
    r"PATH|HOME|USER|LOGNAME|LANG|TMPDIR|LD_LIBRARY_PATH|(HTTP|HTTPS|NO|ALL)_PROXY|SSL_CERT_\w+"
    r"|XDG_\w+|DBUS_SESSION_BUS_ADDRESS|SSH_AUTH_SOCK|REGISTRY_AUTH_FILE|STORAGE_(DRIVER|OPTS)"
    r"|(DOCKER|CONTAINER|CONTAINERS|APPTAINER|SINGULARITY)_\w+",
    re.IGNORECASE,
)

#: Variables of the container that ``variables`` leaves out: ``--home`` sets HOME.
_NOT_TO_BE_SET: Final = frozenset({"HOME"})


def client_env(environ: Mapping[str, str]) -> dict[str, str]:
    """Select the environment of a container runtime's command (docker and podman too)."""
    return {name: value for name, value in environ.items() if _NEEDED.fullmatch(name)}


def variables(name: str, env: Mapping[str, str]) -> dict[str, str]:
    """Add the prefix with which the runtime passes variables to the container.

    ``name`` is the name of the runtime, ``apptainer`` or ``singularity``.
    """
    prefix = f"{name.upper()}ENV_"
    return {prefix + key: value for key, value in env.items() if key not in _NOT_TO_BE_SET}
