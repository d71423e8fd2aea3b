"""Chooses the server, token, project and region of a command."""

import argparse
import os
import shlex
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

from trainshed.client.faults import Unreachable
from trainshed.model.faults import UsageFault
from trainshed.storage.buckets import data_dir

if TYPE_CHECKING:
    from trainshed.client.http import Server
    from trainshed.files.server_files import RunningServer

URL_VARIABLE: Final = "TRAINSHED_URL"
CA_VARIABLE = "TRAINSHED_CA_FILE"
TOKEN_VARIABLE = "TRAINSHED_TOKEN"  # noqa: S105  # a name


@dataclass(frozen=True, slots=True, kw_only=True)
class LocatedServer:
    """A server and its token, from a command line and the environment.

    ``token_file`` or ``token_variable`` is the source of the token; both are None without a token.
    """

    folder: Path
    url: str | None
    """None: the caller named no server, and none was ever started in the folder."""
    running: "RunningServer | None"
    """The server of the folder, if ``url`` is its address."""
    token: str | None
    token_file: Path | None
    token_variable: str | None
    ca: str | None
    """A file of CA certificates; None: the CA certificates of this machine."""


def locate_server(args: argparse.Namespace, environ: Mapping[str, str]) -> LocatedServer:
    """Find the server and the token.  Raises UsageFault for a token file without a token."""
    from trainshed.files.server_files import read_running, read_token

    folder = data_dir(args.data_dir, environ)
    last_run = read_running(folder)
    own_url = last_run.url if last_run else None
    url = url_of(args, environ) or own_url
    running = last_run if url == own_url else None
    file, variable = _locate_token(
        args.token_file, environ, folder, url, is_own=running is not None
    )
    token = read_token(file) if file else environ.get(variable or "")
    if args.token_file and not token:
        raise UsageFault(f"--token-file must be a file with a token, got {args.token_file}")
    return LocatedServer(
        folder=folder,
        url=url,
        running=running,
        token=token,
        token_file=file if token else None,
        token_variable=variable,
        ca=_choose_ca(args.ca_file, environ, running),
    )


def url_of(args: argparse.Namespace, environ: Mapping[str, str]) -> str | None:
    """Return the address that a command line or the environment names, or None.

    With ``--data-dir`` the environment's address is ignored.
    """
    url = args.url or (None if args.data_dir else environ.get(URL_VARIABLE))
    return str(url).rstrip("/") if url else None


def _locate_token(
    token_file: Path | None,
    environ: Mapping[str, str],
    folder: Path,
    url: str | None,
    *,
    is_own: bool,
) -> tuple[Path | None, str | None]:
    """Choose a token's file or variable; never send the administrator's token to other machines."""
    from trainshed.api.guards import is_loopback
    from trainshed.files.server_files import ADMIN_FILE

    if token_file:
        return token_file.absolute(), None
    if environ.get(TOKEN_VARIABLE):
        return None, TOKEN_VARIABLE
    is_local = is_own or url is None or is_loopback(urlsplit(url).hostname or "")
    return (folder / ADMIN_FILE, None) if is_local else (None, None)


def _choose_ca(
    ca_file: Path | None, environ: Mapping[str, str], running: "RunningServer | None"
) -> str | None:
    """Return the file of CA certificates.  Raises UsageFault if it does not exist."""
    if ca_file and not ca_file.is_file():
        raise UsageFault(f"--ca-file must be a file that exists, got {ca_file}")
    if ca_file:
        return str(ca_file.absolute())
    return running.ca if running else environ.get(CA_VARIABLE) or None


PROJECT_VARIABLES: Final = ("CLOUDSDK_CORE_PROJECT", "TRAINSHED_PROJECT")
REGION_VARIABLES: Final = ("CLOUDSDK_AI_REGION", "CLOUDSDK_COMPUTE_REGION")
PROJECT: Final = "local"
REGION: Final = "us-central1"

#: Flags that a proposed command needs to reach the same server and project.
_CONTEXT_FLAGS: Final = ("url", "data_dir", "token_file", "ca_file", "project", "region")


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerContext:
    """A server, with the project and region of a command."""

    server: "Server"
    project: str
    region: str
    flags: tuple[str, ...]
    """The flags that chose the server, the project and the region."""

    def command(self, words: str) -> str:
        """Return a command line for the same server, project and region."""
        return shlex.join(["trainshed", *words.split(), *self.flags])


def context_of(args: argparse.Namespace, environ: Mapping[str, str] = os.environ) -> ServerContext:
    """Return the server, project and region of a command line and the environment.

    Raises UsageFault for a malformed address, and Unreachable if no server was started.
    """
    from trainshed.client.http import Server

    target = locate_server(args, environ)
    if target.url is None:
        raise Unreachable(
            f"no server runs in {target.folder}; start one with: trainshed serve, or name "
            f"one with --url or {URL_VARIABLE}"
        )
    _check_url(target.url)
    if target.running and not target.running.is_alive:
        # another process may use its port now, and must not get the token
        raise Unreachable(
            f"the server of {target.folder} has ended; start it with: trainshed serve"
        )
    return ServerContext(
        server=Server(url=target.url, token=target.token, ca=target.ca),
        project=args.project or project_of(environ),
        region=getattr(args, "region", None) or region_of(environ),
        flags=tuple(_context_flags(args, environ)),
    )


def project_of(environ: Mapping[str, str] = os.environ) -> str:
    """Return the project of the shell, or the default project."""
    return shell_project(environ) or PROJECT


def shell_project(environ: Mapping[str, str] = os.environ) -> str | None:
    """Return the project of the shell's variables, or None."""
    return _read_first(PROJECT_VARIABLES, environ)


def region_of(environ: Mapping[str, str] = os.environ) -> str:
    """Return the region of the shell, or the default region."""
    return _read_first(REGION_VARIABLES, environ) or REGION


def _context_flags(args: argparse.Namespace, environ: Mapping[str, str]) -> Iterator[str]:
    for name in _CONTEXT_FLAGS:
        if value := url_of(args, environ) if name == "url" else getattr(args, name, None):
            yield f"--{name.replace('_', '-')}={value}"


def _check_url(url: str) -> None:
    try:
        parts = urlsplit(url)
        is_address = parts.scheme in ("http", "https") and parts.hostname and parts.port != 0
    except ValueError:  # the port is not a number
        is_address = False
    if not is_address:
        raise UsageFault(f"--url must be an address such as http://127.0.0.1:8080, got {url}")


def _read_first(names: tuple[str, ...], environ: Mapping[str, str]) -> str | None:
    return next((environ[name] for name in names if environ.get(name)), None)
