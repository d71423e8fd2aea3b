"""The end of the containers that a killed supervisor has left behind: they are found by a label."""

import subprocess
from collections.abc import Mapping
from typing import Final

from trainshed.engines.container_runtime import CHILDREN_OF_CLIENT, Runtime
from trainshed.engines.local.containers.client_env import client_env
from trainshed.engines.local.containers.docker_argv import list_argv, remove_argv

ANSWER_S_MAX: Final = 30.0


def end_containers(runtime: Runtime, mark: str, environ: Mapping[str, str]) -> list[str]:
    """Kill and remove every container of an attempt (UID/ATTEMPT); gives those that are left.

    Blocks until the runtime has done it.  Raises OSError or subprocess.SubprocessError where the
    runtime does not answer: nothing is known then.
    """
    if runtime.name in CHILDREN_OF_CLIENT:
        return []  # they died with their client, or have the mark in their environment
    for container in _listed(runtime, mark, environ):
        _run(remove_argv(runtime, container), environ, check=False)
    return _listed(runtime, mark, environ)


def _listed(runtime: Runtime, mark: str, environ: Mapping[str, str]) -> list[str]:
    return _run(list_argv(runtime, mark), environ, check=True).split()


def _run(argv: tuple[str, ...], environ: Mapping[str, str], *, check: bool) -> str:
    return subprocess.run(  # noqa: S603 - our own words
        argv,
        check=check,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        timeout=ANSWER_S_MAX,
        env=client_env(environ),
    ).stdout
