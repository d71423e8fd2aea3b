"""Opens a gateway for the programs of a local run, if the run may have one.

The programs get the user's whole environment.  If that contains credentials for Google, ``gs://``
means Google's buckets, unless ``--gateway on`` says otherwise.
"""

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from importlib.machinery import PathFinder
from pathlib import Path
from typing import Any, Final

from trainshed.model.faults import UsageFault
from trainshed.model.gateway import LABEL, OFF
from trainshed.model.texts import install_command
from trainshed.service.gateway.places import sight_of
from trainshed.workbench.local_run import Host, LocalJob, gateway_of, number_host

ON: Final = "on"

#: A user who sets one of these uses Google's gs://.
_CREDENTIALS: Final = ("GOOGLE_APPLICATION_CREDENTIALS", "STORAGE_EMULATOR_HOST")
_LOGIN: Final = "application_default_credentials.json"
#: The packages of the extra ``server`` that a gateway needs.
_NEEDED: Final = ("uvicorn", "starlette", "cryptography")


@contextmanager
def with_gateway(setting: str, job: LocalJob, host: Host) -> Iterator[Host]:
    """Yield the host, with an open gateway if the run gets one.

    Raises UsageFault for ``--gateway on`` if the run cannot have one.
    """
    if explain_absence(setting, job, host, os.environ):
        yield host
        return
    host = number_host(host)
    listener = gateway_of(job, host, _serve)
    try:
        yield replace(host, gateway=sight_of(listener.open(), proxies=os.environ))
    finally:
        listener.close()


def explain_absence(setting: str, job: LocalJob, host: Host, environ: Mapping[str, str]) -> str:
    """Return why a run has no gateway; empty if it gets one.  Raises UsageFault."""
    missing = [name for name in _NEEDED if PathFinder.find_spec(name) is None]
    if setting == ON and missing:
        raise UsageFault(
            f"--gateway on: {missing[0]} is not installed; {install_command('server')}"
        )
    if host.has_network:
        if setting == ON:
            raise UsageFault("--gateway on does not go with --network job; leave one of them out")
        return "the run has its own network"
    if OFF in {setting, job.spec.labels.get(LABEL)}:
        return "the gateway is turned off"
    if missing:
        return f"{missing[0]} is not installed"
    return "" if setting == ON else _find_credentials(environ)


def _find_credentials(environ: Mapping[str, str]) -> str:
    """Return which credentials for Google the user has; empty for none."""
    for name in _CREDENTIALS:
        if environ.get(name):
            return f"the environment has {name}"
    home = environ.get("HOME", "")
    folder = environ.get("CLOUDSDK_CONFIG") or f"{home}/.config/gcloud"
    return "gcloud is logged in" if Path(folder, _LOGIN).is_file() else ""


def _serve(*arguments: Any) -> Any:
    # slow to import, and needed only when a program connects
    from trainshed.api.gateway.local import serve_local

    return serve_local(*arguments)
