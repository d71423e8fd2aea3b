"""The command that apptainer, or singularity, is given for a replica in its own image.

Its containers are processes of whoever runs the command, as the same user: whatever surrounds that
command surrounds them too.  So engines have this in common, wherever the command runs.
"""

import csv
import io
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from trainshed.model.launch_plan import ContainerPlan


class Bind(NamedTuple):
    """A folder or file of the machine at a place in the container."""

    here: str
    there: str
    is_read_only: bool = False


def mount(bind: Bind) -> str:
    """The value of ``--mount``, which all runtimes read as a line of CSV."""
    fields = ["type=bind", f"source={bind.here}", f"target={bind.there}"]
    fields += ["readonly"] if bind.is_read_only else []
    text = io.StringIO()
    csv.writer(text, lineterminator="").writerow(fields)
    return text.getvalue()


def run_words(
    program: str,
    plan: "ContainerPlan",
    *,
    home: str,
    mounts: Sequence[str],
    has_devices: bool,
) -> tuple[str, ...]:
    """The words of ``run`` or ``exec``; ``mounts`` are values of ``--mount``.

    ``--compat`` is what makes it like docker: nothing of the user's home and environment, a /tmp
    and a process namespace of its own, and a file system that may be written to.
    """
    return (
        program,
        "exec" if plan.command else "run",
        *("--compat", "--cleanenv"),
        *(("--nv",) if has_devices else ()),
        *("--home", home),
        *(word for mount in mounts for word in ("--mount", mount)),
        *started(plan),
    )


def started(plan: "ContainerPlan") -> Iterator[str]:
    """Docker's table: ``exec`` knows no ENTRYPOINT, and ``run`` puts args in the place of CMD."""
    yield f"docker://{plan.image}"
    yield from plan.command or ()
    yield from plan.args or ()


#: What the commands need of the environment of who runs them: where the daemon and its images are,
#: and through what they are fetched.  Variables for containers (APPTAINERENV_*) are none of these.
_NEEDED: Final = re.compile(
    r"PATH|HOME|USER|LOGNAME|LANG|TMPDIR|LD_LIBRARY_PATH|(HTTP|HTTPS|NO|ALL)_PROXY|SSL_CERT_\w+"
    r"|XDG_\w+|DBUS_SESSION_BUS_ADDRESS|SSH_AUTH_SOCK|REGISTRY_AUTH_FILE|STORAGE_(DRIVER|OPTS)"
    r"|(DOCKER|CONTAINER|CONTAINERS|APPTAINER|SINGULARITY)_\w+",
    re.IGNORECASE,
)

#: Users have the home of the machine, or the one of ``--home``.
_NOT_TO_BE_SET: Final = frozenset({"HOME"})


def client_env(environ: Mapping[str, str]) -> dict[str, str]:
    """What of an environment the command of a runtime is given, docker's and podman's too."""
    return {name: value for name, value in environ.items() if _NEEDED.fullmatch(name)}


def variables(name: str, env: Mapping[str, str]) -> dict[str, str]:
    """The variables of the command's environment that become those of the container.

    ``name`` is the runtime's: it knows them by a prefix, which no other variable has.
    """
    prefix = f"{name.upper()}ENV_"
    return {prefix + key: value for key, value in env.items() if key not in _NOT_TO_BE_SET}
