"""Which server a command talks to, and with which token."""

import argparse
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from trainshed.api.guards import is_loopback
from trainshed.model.faults import UsageFault
from trainshed.service.server_files import ADMIN_FILE, RunningServer, read_running, read_token
from trainshed.storage.buckets import data_dir

TOKEN_VARIABLE = "TRAINSHED_TOKEN"  # noqa: S105  # a name


@dataclass(frozen=True, slots=True, kw_only=True)
class Reach:
    """What a command line and the environment say about the server.

    ``token_file`` or ``token_variable`` says where the token was found; both None: there is none.
    """

    folder: Path
    url: str | None
    """None: no server was ever started in the folder, and none was named."""
    running: RunningServer | None
    """The server of the folder, if the address is its own."""
    token: str | None
    token_file: Path | None
    token_variable: str | None


def reach(args: argparse.Namespace, environ: Mapping[str, str]) -> Reach:
    """Find the server and the token.  Raises UsageFault for a token file that is none."""
    folder = data_dir(args.data_dir, environ)
    noted = read_running(folder)
    own = noted.url if noted else None
    url = args.url.rstrip("/") if args.url else own
    running = noted if url == own else None
    file, variable = _where(args.token_file, environ, folder, url, is_own=running is not None)
    token = read_token(file) if file else environ.get(variable or "")
    if args.token_file and not token:
        raise UsageFault(f"--token-file {args.token_file}: there is no token in it")
    return Reach(
        folder=folder,
        url=url,
        running=running,
        token=token,
        token_file=file if token else None,
        token_variable=variable,
    )


def _where(
    asked: Path | None, environ: Mapping[str, str], folder: Path, url: str | None, *, is_own: bool
) -> tuple[Path | None, str | None]:
    """The administrator's token of this machine is not shown to servers elsewhere."""
    if asked:
        return asked.absolute(), None
    if environ.get(TOKEN_VARIABLE):
        return None, TOKEN_VARIABLE
    is_here = is_own or url is None or is_loopback(urlsplit(url).hostname or "")
    return (folder / ADMIN_FILE, None) if is_here else (None, None)
