"""The server of a command, and the project and region that it speaks of."""

import argparse
import os
import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final
from urllib.parse import urlsplit

from trainshed.cli.reaching import reach
from trainshed.client.faults import Unreachable
from trainshed.client.http import Server
from trainshed.model.faults import UsageFault

URL_VARIABLE: Final = "TRAINSHED_URL"
PROJECT_VARIABLES: Final = ("CLOUDSDK_CORE_PROJECT", "TRAINSHED_PROJECT")
REGION_VARIABLES: Final = ("CLOUDSDK_AI_REGION", "CLOUDSDK_COMPUTE_REGION")
PROJECT: Final = "local"
REGION: Final = "us-central1"

#: Flags that a command which continues this one must have, too.
_KEPT: Final = ("url", "data_dir", "token_file", "project", "region")


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """A server, and where on it."""

    server: Server
    project: str
    region: str


def place_of(args: argparse.Namespace, environ: Mapping[str, str] = os.environ) -> Place:
    """Where a command line and the environment say it is.

    Raises UsageFault for an address that is none, Unreachable where no server was started.
    """
    args.url = args.url or environ.get(URL_VARIABLE)
    found = reach(args, environ)
    if found.url is None:
        raise Unreachable(
            f"no server runs in {found.folder}; start one with: trainshed serve, or name "
            f"one with --url or {URL_VARIABLE}"
        )
    _check_url(found.url)
    if found.running and not found.running.is_alive:
        # its token is not shown to whoever may have its port by now
        raise Unreachable(f"the server of {found.folder} has ended; start it with: trainshed serve")
    ca = found.running.ca if found.running else None
    return Place(
        server=Server(url=found.url, token=found.token, ca=ca),
        project=args.project or _first(PROJECT_VARIABLES, environ) or PROJECT,
        region=getattr(args, "region", None) or region_of(environ),
    )


def region_of(environ: Mapping[str, str] = os.environ) -> str:
    """The region where no flag and no file names one."""
    return _first(REGION_VARIABLES, environ) or REGION


def continued(args: argparse.Namespace, command: str) -> str:
    """A command for the same server and place as this one's, to be pasted."""
    given = ((name, getattr(args, name, None)) for name in _KEPT)
    more = [f"--{name.replace('_', '-')}={value}" for name, value in given if value]
    return shlex.join(["trainshed", *command.split(), *more])


def _check_url(url: str) -> None:
    try:
        parts = urlsplit(url)
        is_address = parts.scheme in ("http", "https") and parts.hostname and parts.port != 0
    except ValueError:  # a port that is no number
        is_address = False
    if not is_address:
        raise UsageFault(f"--url {url}: an address looks like http://127.0.0.1:8080")


def _first(names: tuple[str, ...], environ: Mapping[str, str]) -> str | None:
    return next((environ[name] for name in names if environ.get(name)), None)
