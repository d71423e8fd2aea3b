"""Finds a container runtime that works, and lists and removes the containers of attempts.

An installed command proves little: many machines have a docker client without its daemon.  So this
module runs a command that only a working runtime can answer.
"""

import json
import os
import shutil
import subprocess
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

from trainshed.engines.apptainer import client_env
from trainshed.engines.container_runtime import (
    APPTAINER,
    AUTO,
    CHILDREN_OF_CLIENT,
    NAMES,
    NO_RUNTIME,
    NONE,
    PODMAN,
    SINGULARITY,
    UNPRIVILEGED,
    USER_OF_IMAGE,
    Runtime,
    RuntimeChoice,
)
from trainshed.engines.local.containers.argv import (
    inspect_argv,
    list_argv,
    remove_argv,
    running_argv,
)

#: A daemon that takes longer to answer counts as not working.
_DETECT_S_MAX: Final = 5.0
_ROOT: Final = 0
#: Paths outside of PATH where podman finds its init program for containers.
_PODMAN_INITS: Final = ("/usr/libexec/podman/catatonit", "/usr/lib/podman/catatonit")

#: Runs a command; returns its exit status and stdout, or raises OSError or TimeoutExpired.
Ask = Callable[[tuple[str, ...]], tuple[int, str]]


class _UnusableError(Exception):
    """An installed runtime cannot be used; the text continues a sentence after the name."""


def find(
    requested: str = AUTO,
    *,
    user: str | None = None,
    environ: Mapping[str, str] = os.environ,
    euid: int | None = None,
    egid: int | None = None,
) -> RuntimeChoice:
    """Return the requested runtime, or with ``auto`` the first that works.

    ``user`` is UID[:GID], ``image``, or None: the server's user, or ``UNPRIVILEGED`` if the server
    is root.
    """
    if requested == NO_RUNTIME:
        return NONE
    ids = (os.geteuid() if euid is None else euid, os.getegid() if egid is None else egid)
    names = NAMES if requested == AUTO else _WITH_ALIASES.get(requested, (requested,))
    reasons, absent = [], []
    for name in names:
        program = shutil.which(name, path=environ.get("PATH"))
        if program is None:
            absent.append(name)
            continue
        try:
            run_as = _choose_user(user, *ids)
            return RuntimeChoice(_probe_runtime(name, program, run_as, _make_ask(environ), ids[0]))
        except _UnusableError as error:
            reasons.append(f"{name} {error}")
    if absent and not reasons:
        reasons.append(f"{_join_names(absent)} {'is' if len(absent) == 1 else 'are'} not installed")
    return RuntimeChoice(None, "; ".join(reasons))


_WITH_ALIASES: Final = {APPTAINER: (APPTAINER, SINGULARITY)}


def _choose_user(requested: str | None, euid: int, egid: int) -> str | None:
    if requested == USER_OF_IMAGE:
        return None
    if requested:
        return requested if ":" in requested else f"{requested}:{requested}"
    return UNPRIVILEGED if euid == _ROOT else f"{euid}:{egid}"


def _probe_runtime(name: str, program: str, user: str | None, ask: Ask, euid: int) -> Runtime:
    """Return the runtime, if it answers.  Raises _UnusableError."""
    if name in CHILDREN_OF_CLIENT:
        if euid == _ROOT and user is not None:
            raise _UnusableError(
                "is installed but would run images as root, as the server does; start the server "
                f'as another user, or set container_user = "{USER_OF_IMAGE}"'
            )
        version, has_init = _read_word(ask, program, "version"), True
    elif name == PODMAN:
        version, has_init = _probe_podman(ask, program)
    else:
        version, has_init = _probe_docker(ask, program)
    return Runtime(name=name, program=program, version=version, user=user, has_init=has_init)


def _probe_docker(ask: Ask, program: str) -> tuple[str, bool]:
    """Return the version of the daemon, and whether it has an init for containers."""
    answer = _read_output(
        ask, (program, "version", "--format", "{{json .Server}}"), "its daemon does not answer"
    )
    try:
        server = json.loads(answer)
        components: list[dict[str, Any]] = server.get("Components") or []
        inits = [c["Version"] for c in components if c["Name"] == "docker-init"]
        return str(server["Version"]), any(v not in {"", "N/A"} for v in inits)
    except (ValueError, KeyError, TypeError, AttributeError):
        raise _UnusableError("is installed but does not answer as Docker does") from None


def _probe_podman(ask: Ask, program: str) -> tuple[str, bool]:
    format_ = "{{.Version.Version}}"
    version = _read_output(ask, (program, "info", "--format", format_), "cannot be used").strip()
    has_init = shutil.which("catatonit") or any(Path(path).exists() for path in _PODMAN_INITS)
    return version, bool(has_init)


def _read_word(ask: Ask, *command: str) -> str:
    return _read_output(ask, command, "cannot be used").strip()


def _read_output(ask: Ask, command: tuple[str, ...], failure: str) -> str:
    """Return a command's output.  Raises _UnusableError if it fails, prints nothing, or hangs."""
    try:
        status, answer = ask(command)
    except (OSError, subprocess.SubprocessError):
        raise _UnusableError(f"is installed but {failure}") from None
    if status != 0 or not answer.strip():
        raise _UnusableError(f"is installed but {failure}")
    return answer


def _make_ask(environ: Mapping[str, str]) -> Ask:
    def ask(command: tuple[str, ...]) -> tuple[int, str]:
        completed = _run(command, environ, _DETECT_S_MAX)
        return completed.returncode, completed.stdout

    return ask


def _join_names(names: list[str]) -> str:
    *most, last = names
    return f"{', '.join(most)} and {last}" if most else last


ANSWER_S_MAX: Final = 30.0


def end_containers(runtime: Runtime, mark: str, environ: Mapping[str, str]) -> list[str]:
    """Kill and remove every container of an attempt (UID/ATTEMPT); return the remaining ones.

    Blocks until the runtime has removed them.  Raises OSError or subprocess.SubprocessError if the
    runtime does not answer.
    """
    if runtime.name in CHILDREN_OF_CLIENT:
        return []  # they died with their client, or have the mark in their environment
    for container in _list_containers(runtime, mark, environ):
        _run(remove_argv(runtime, container), environ, ANSWER_S_MAX)
    return _list_containers(runtime, mark, environ)


def first_processes(runtime: Runtime, environ: Mapping[str, str]) -> dict[int, str]:
    """Return UID/ATTEMPT by the first process of each running container, for all attempts.

    Raises OSError or subprocess.SubprocessError if the runtime does not answer.
    """
    running = _run(running_argv(runtime), environ, _DETECT_S_MAX)
    running.check_returncode()
    if not running.stdout.split():
        return {}
    # a container that ends meanwhile makes the command fail, but it still prints the other lines
    inspected = _run(inspect_argv(runtime, running.stdout.split()), environ, _DETECT_S_MAX)
    lines = (line.split() for line in inspected.stdout.splitlines())
    return {int(words[0]): words[1] for words in lines if len(words) == 2 and words[0] != "0"}  # noqa: PLR2004 - a pid, a mark


def _list_containers(runtime: Runtime, mark: str, environ: Mapping[str, str]) -> list[str]:
    completed = _run(list_argv(runtime, mark), environ, ANSWER_S_MAX)
    completed.check_returncode()
    return completed.stdout.split()


def _run(
    argv: tuple[str, ...], environ: Mapping[str, str], timeout_s: float
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(  # noqa: S603 - our own words, on the server's own PATH
        argv,
        check=False,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        timeout=timeout_s,
        env=client_env(environ),
    )
