"""Whether a local run has a gateway for its programs, and how long.

A run of one's own has the whole of one's environment.  Where that has credentials for Google,
``gs://`` is Google's, and stays so unless the flag says otherwise.
"""

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from importlib.machinery import PathFinder
from pathlib import Path
from typing import Any, Final

from trainshed.model.extras import install_command
from trainshed.model.faults import UsageFault
from trainshed.model.gateway import LABEL, OFF
from trainshed.service.gateway.places import sight_of
from trainshed.workbench.local_run import Host, LocalJob, gateway_of, number_host

ON: Final = "on"

#: A user who sets one of these uses Google's gs://.
_CREDENTIALS: Final = ("GOOGLE_APPLICATION_CREDENTIALS", "STORAGE_EMULATOR_HOST")
_LOGIN: Final = "application_default_credentials.json"
#: Of the extra ``server``, what answers.
_NEEDED: Final = ("uvicorn", "starlette", "cryptography")


@contextmanager
def with_gateway(setting: str, job: LocalJob, host: Host) -> Iterator[Host]:
    """The host with a gateway that is open meanwhile, where the run is to have one.

    Raises UsageFault where one is asked for and cannot be had.
    """
    if why_not(setting, job, host, os.environ):
        yield host
        return
    host = number_host(host)
    listener = gateway_of(job, host, _serve)
    try:
        yield replace(host, gateway=sight_of(listener.open(), proxies=os.environ))
    finally:
        listener.close()


def why_not(setting: str, job: LocalJob, host: Host, environ: Mapping[str, str]) -> str:
    """Why a run has none; empty where it has one.  Raises UsageFault."""
    missing = [name for name in _NEEDED if PathFinder.find_spec(name) is None]
    if setting == ON and missing:
        raise UsageFault(
            f"--gateway on: {missing[0]} is not installed; {install_command('server')}"
        )
    if host.has_network:
        if setting == ON:
            raise UsageFault("--gateway on: a run with --network job has no gateway")
        return "the run has a network of its own"
    if OFF in {setting, job.spec.labels.get(LABEL)}:
        return "it is turned off"
    if missing:
        return f"{missing[0]} is not installed"
    return "" if setting == ON else _own_credentials(environ)


def _own_credentials(environ: Mapping[str, str]) -> str:
    for name in _CREDENTIALS:
        if environ.get(name):
            return f"the environment has {name}"
    home = environ.get("HOME", "")
    folder = environ.get("CLOUDSDK_CONFIG") or f"{home}/.config/gcloud"
    return "gcloud has logged in" if Path(folder, _LOGIN).is_file() else ""


def _serve(*arguments: Any) -> Any:
    # slow to import, and needed only when a program connects
    from trainshed.api.gateway.local import serve_local

    return serve_local(*arguments)
