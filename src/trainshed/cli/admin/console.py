"""``trainshed console``: a link that signs a browser in to the web console."""

import html
import os
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Final
from urllib.parse import quote

from trainshed.cli import flags
from trainshed.cli.connecting import context_of
from trainshed.cli.terminal import note, print_result
from trainshed.client.collections import path_of

if TYPE_CHECKING:
    from trainshed.client.http import Server

EXAMPLE: Final = """\
  trainshed console
  trainshed console --open
  trainshed console --url https://trainer.lan:8080 --token-file token --format json"""

_SIGN_IN: Final = path_of("trainshed", "v1", "signin")
_CONSOLE: Final = "/console/"
_RUNTIME_VARIABLE: Final = "XDG_RUNTIME_DIR"
_FILE: Final = "trainshed-console.html"
_PAGE: Final = """\
<!DOCTYPE html>
<html lang="en">
<meta charset="utf-8">
<meta name="referrer" content="no-referrer">
<meta http-equiv="refresh" content="0; url={url}">
<title>Trainshed</title>
<p><a href="{url}">Open the console of Trainshed</a></p>
</html>
"""


def parser(prog: str) -> flags.Parser:
    """Return the parser."""
    parser = flags.Parser(
        prog,
        summary="Prints a link that signs a browser in to the web console, with the rights of the "
        "token. The link works once, within 60 seconds. The sign-in lasts 12 hours, or 2 hours "
        "without use, and ends when the token is revoked.",
        example=EXAMPLE,
        usage=f"{prog} [flags]",
    )
    add = flags.adder(parser)
    add("--open", "Open the link in the browser of this machine too", action="store_true")
    flags.add_format(parser)
    flags.add_server_flags(parser)
    parser.set_defaults(project=None)
    return parser


def run(request: flags.Request) -> int:
    """Print the link, and open it if that is requested."""
    args = request.args
    document = _make_link(context_of(args).server)
    url = document["url"]
    print_result(args.format, document, str(url))
    if args.open and not _open(str(url)):
        note("cannot open a browser on this machine; copy the link into one")
    elif not args.open and document["expireTime"]:
        note("the link works once, within 60 seconds; --open opens it in a browser")
    return 0


def _make_link(server: "Server") -> dict[str, str | None]:
    """Return the link and when it ends; a server without sign-in needs no code."""
    url = f"{server.url}{_CONSOLE}"
    if server.call("GET", _SIGN_IN)["anonymous"]:
        return {"url": url, "expireTime": None}
    made = server.call("POST", f"{_SIGN_IN}:code")
    # browsers do not send a fragment to a server, and the page removes it from the address bar
    return {"url": f"{url}#code={quote(made['code'], safe='')}", "expireTime": made["expireTime"]}


def _open(url: str) -> bool:
    """Open a link in the browser; return whether a browser was started.

    The browser gets the path of a private file that leads to the link: other users of the machine
    can read the arguments of its process, and could use the code first.
    """
    import webbrowser

    from trainshed.files.server_files import write_file

    file = _runtime_folder() / _FILE
    write_file(file, _PAGE.format(url=html.escape(url)).encode())
    return webbrowser.open(file.as_uri())


def _runtime_folder() -> Path:
    """Return a folder that only this user can read, if possible one that ends with the session."""
    folder = os.environ.get(_RUNTIME_VARIABLE, "")
    return Path(folder) if folder and Path(folder).is_dir() else Path(tempfile.mkdtemp())
