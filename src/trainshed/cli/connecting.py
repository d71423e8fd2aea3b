"""Which server a command talks to, with which token, and of which project and region."""

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
class FoundServer:
    """What a command line and the environment say about the server.

    ``token_file`` or ``token_variable`` says where the token was found; both None: there is none.
    """

    folder: Path
    url: str | None
    """None: no server was ever started in the folder, and none was named."""
    running: "RunningServer | None"
    """The server of the folder, if the address is its own."""
    token: str | None
    token_file: Path | None
    token_variable: str | None
    ca: str | None
    """A file of authorities; None: those that the machine trusts."""


def reach(args: argparse.Namespace, environ: Mapping[str, str]) -> FoundServer:
    """Find the server and the token.  Raises UsageFault for a token file that is none."""
    from trainshed.files.server_files import read_running, read_token

    folder = data_dir(args.data_dir, environ)
    last_run = read_running(folder)
    own = last_run.url if last_run else None
    url = url_of(args, environ) or own
    running = last_run if url == own else None
    file, variable = _locate_token(
        args.token_file, environ, folder, url, is_own=running is not None
    )
    token = read_token(file) if file else environ.get(variable or "")
    if args.token_file and not token:
        raise UsageFault(f"--token-file {args.token_file}: there is no token in it")
    return FoundServer(
        folder=folder,
        url=url,
        running=running,
        token=token,
        token_file=file if token else None,
        token_variable=variable,
        ca=_choose_ca(args.ca_file, environ, running),
    )


def url_of(args: argparse.Namespace, environ: Mapping[str, str]) -> str | None:
    """The address that a command line or the environment names; None: neither does.

    A flag that names a data directory means the server of that one.
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
    """The administrator's token of this machine is not shown to servers elsewhere."""
    from trainshed.api.guards import is_loopback
    from trainshed.files.server_files import ADMIN_FILE

    if token_file:
        return token_file.absolute(), None
    if environ.get(TOKEN_VARIABLE):
        return None, TOKEN_VARIABLE
    is_here = is_own or url is None or is_loopback(urlsplit(url).hostname or "")
    return (folder / ADMIN_FILE, None) if is_here else (None, None)


def _choose_ca(
    ca_file: Path | None, environ: Mapping[str, str], running: "RunningServer | None"
) -> str | None:
    """Raises UsageFault for a file that is not there."""
    if ca_file and not ca_file.is_file():
        raise UsageFault(f"--ca-file {ca_file}: there is no such file")
    if ca_file:
        return str(ca_file.absolute())
    return running.ca if running else environ.get(CA_VARIABLE) or None


PROJECT_VARIABLES: Final = ("CLOUDSDK_CORE_PROJECT", "TRAINSHED_PROJECT")
REGION_VARIABLES: Final = ("CLOUDSDK_AI_REGION", "CLOUDSDK_COMPUTE_REGION")
PROJECT: Final = "local"
REGION: Final = "us-central1"

#: Flags that a command which continues this one must have, too.
_PLACE_FLAGS: Final = ("url", "data_dir", "token_file", "ca_file", "project", "region")


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerPlace:
    """A server, and where on it."""

    server: "Server"
    project: str
    region: str
    flags: tuple[str, ...]
    """The flags that led here."""

    def command(self, words: str) -> str:
        """A command for the same server and place, to be pasted."""
        return shlex.join(["trainshed", *words.split(), *self.flags])


def place_of(args: argparse.Namespace, environ: Mapping[str, str] = os.environ) -> ServerPlace:
    """Where a command line and the environment say it is.

    Raises UsageFault for an address that is none, Unreachable where no server was started.
    """
    from trainshed.client.http import Server

    target = reach(args, environ)
    if target.url is None:
        raise Unreachable(
            f"no server runs in {target.folder}; start one with: trainshed serve, or name "
            f"one with --url or {URL_VARIABLE}"
        )
    _check_url(target.url)
    if target.running and not target.running.is_alive:
        # another process may have its port by now, and must not get its token
        raise Unreachable(
            f"the server of {target.folder} has ended; start it with: trainshed serve"
        )
    return ServerPlace(
        server=Server(url=target.url, token=target.token, ca=target.ca),
        project=args.project or project_of(environ),
        region=getattr(args, "region", None) or region_of(environ),
        flags=tuple(_place_flags(args, environ)),
    )


def project_of(environ: Mapping[str, str] = os.environ) -> str:
    """The project where no flag names one: the shell's."""
    return shell_project(environ) or PROJECT


def shell_project(environ: Mapping[str, str] = os.environ) -> str | None:
    """The project that the shell's variables name; None: they name none."""
    return _read_first(PROJECT_VARIABLES, environ)


def region_of(environ: Mapping[str, str] = os.environ) -> str:
    """The region where no flag and no file names one."""
    return _read_first(REGION_VARIABLES, environ) or REGION


def _place_flags(args: argparse.Namespace, environ: Mapping[str, str]) -> Iterator[str]:
    for name in _PLACE_FLAGS:
        if value := url_of(args, environ) if name == "url" else getattr(args, name, None):
            yield f"--{name.replace('_', '-')}={value}"


def _check_url(url: str) -> None:
    try:
        parts = urlsplit(url)
        is_address = parts.scheme in ("http", "https") and parts.hostname and parts.port != 0
    except ValueError:  # a port that is no number
        is_address = False
    if not is_address:
        raise UsageFault(f"--url {url}: an address looks like http://127.0.0.1:8080")


def _read_first(names: tuple[str, ...], environ: Mapping[str, str]) -> str | None:
    return next((environ[name] for name in names if environ.get(name)), None)
