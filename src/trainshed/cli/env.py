"""``trainshed env``: the settings that point gcloud and the SDKs at a server."""

import os
import shlex
from collections.abc import Iterator

from trainshed.cli import flags
from trainshed.cli.connecting import CA_VARIABLE, TOKEN_VARIABLE, URL_VARIABLE, FoundServer, reach
from trainshed.cli.terminal import note, out, out_json
from trainshed.model.faults import UsageFault
from trainshed.service.server_files import ADMIN_FILE
from trainshed.workbench.client_settings import (
    TOKEN,
    ClientTarget,
    certificate_variables,
    properties,
    staging_bucket,
    storage_address,
    variables,
)

EXAMPLE = """\
  trainshed env --shell --url http://127.0.0.1:8080 --project demo
  trainshed env --python --url http://127.0.0.1:8080
  eval "$(trainshed env)"    # from here on gcloud and the SDKs of this shell talk to the server"""


def parser(prog: str) -> flags.Parser:
    """The command line."""
    parser = flags.Parser(
        prog,
        summary="Prints the settings that point gcloud and Google's SDKs at a server. The token "
        "itself is printed only with --format json: the others name the file or the variable that "
        "holds it. Storage clients send no header, so for them the token is part of the address.",
        example=EXAMPLE,
        usage=f"{prog} [--shell | --gcloud | --python] [flags]",
    )
    how = parser.add_mutually_exclusive_group()
    for name, text in (
        ("shell", "export lines for eval (the default)"),
        ("gcloud", "gcloud config set lines, for good; the region of ai-platform stays a flag"),
        ("python", "the first lines of a script that uses the Vertex SDK"),
    ):
        how.add_argument(f"--{name}", dest="how", action="store_const", const=name, help=text)
    parser.set_defaults(how="shell")
    parser.add_argument("--project", default="local", help="Project id (local)")
    parser.add_argument("--region", default="us-central1", help="Region (us-central1)")
    parser.add_argument(
        "--transport",
        choices=("rest", "grpc"),
        default="rest",
        help="What --python uses; without settings the SDK takes gRPC",
    )
    flags.add_server_flags(parser)
    flags.add_format(parser)
    return parser


def run(request: flags.Request) -> int:
    """Print the settings.  Raises UsageFault where no server or no token is known."""
    args = request.args
    found = reach(args, os.environ)
    target = _target(found, args.project, args.region)
    if args.format == "json":
        out_json(_as_json(target, found.token))
    elif args.how == "python":
        out(python_snippet(target, args.transport))
    else:
        lines = _gcloud_lines(target) if args.how == "gcloud" else _shell_lines(target, found)
        out("\n".join(lines))
    return 0


def _target(found: FoundServer, project: str, region: str) -> ClientTarget:
    if found.url is None:
        raise UsageFault(
            f"no server runs in {found.folder}; start one with: trainshed serve, or name "
            "one with --url"
        )
    running = found.running
    anonymous = running is not None and running.anonymous
    if not anonymous and found.token is None:
        _miss_token(found)
    if running is not None and not running.is_alive:
        note("the server is not running; these are its last settings")
    return ClientTarget(
        url=found.url,
        grpc=running.grpc if running else None,
        bundle=found.ca,
        project=project,
        region=region,
        token_file=None if anonymous else found.token_file,
        token_variable=None if anonymous else found.token_variable,
    )


def _miss_token(found: FoundServer) -> None:
    """Our own server wants a token; whether another one does is not known."""
    if found.running is not None:
        raise UsageFault(
            f"there is no token in {found.folder}; set TRAINSHED_TOKEN, or give --token-file FILE"
        )
    note(
        "no token is known: these settings are for a server that was started with --anonymous; "
        "set TRAINSHED_TOKEN, or give --token-file FILE"
    )


def _shell_lines(target: ClientTarget, found: FoundServer) -> Iterator[str]:
    for name, value in (variables(target) | _own_variables(target, found)).items():
        if value is None:
            yield f"unset {name}"
        else:
            yield f"export {name}={_shell_value(value, target)}"


def _own_variables(target: ClientTarget, found: FoundServer) -> dict[str, str | None]:
    """What sends trainshed's own verbs in the same shell to the same server, with its token."""
    own: dict[str, str | None] = {
        "TRAINSHED_DATA_DIR": str(found.folder.absolute()),
        URL_VARIABLE: None if found.running else target.url,
        CA_VARIABLE: None if found.running else found.ca,
    }
    if target.token_file and target.token_file != (found.folder / ADMIN_FILE):
        own[TOKEN_VARIABLE] = TOKEN
    return own


def _shell_value(value: str, target: ClientTarget) -> str:
    """Quoted for a shell, which puts the token in when it reads the line."""
    if TOKEN not in value:
        return shlex.quote(value)
    token = f"${target.token_variable}"
    if target.token_file:
        token = f"$(cat {shlex.quote(str(target.token_file))})"
    before, _, after = value.partition(TOKEN)
    quoted = [shlex.quote(part) if part else "" for part in (before, after)]
    return f'{quoted[0]}"{token}"{quoted[1]}'


def _gcloud_lines(target: ClientTarget) -> Iterator[str]:
    settings = properties(target)
    yield "# in a configuration of its own, your usual one stays as it is:"
    yield "#   gcloud config configurations create trainshed"
    for name, value in settings.items():
        yield f"gcloud config set {name} {shlex.quote(value)}"
    yield f"# gcloud ai-platform asks for the region: --region {target.region}"


def _as_json(target: ClientTarget, token: str | None) -> dict[str, object]:
    found = variables(target)
    return {
        "url": target.url,
        "grpc": target.grpc,
        "project": target.project,
        "region": target.region,
        "variables": {
            name: value and value.replace(TOKEN, token or "") for name, value in found.items()
        },
    }


def python_snippet(target: ClientTarget, transport: str) -> str:
    """Raises UsageFault for gRPC where the server offers none, or none is known."""
    if transport == "grpc" and target.grpc is None:
        raise UsageFault("no gRPC address is known; leave --transport grpc out")
    return "\n".join([*_head(target), "", *_imports(target), "", *_init(target, transport)])


def _head(target: ClientTarget) -> Iterator[str]:
    """Variables come first: the clients read them when they are imported."""
    yield "import os"
    if target.token_file:
        yield "from pathlib import Path"
    yield ""
    if target.token_file:
        yield f"token = Path({str(target.token_file)!r}).read_text().strip()"
    elif target.token_variable:
        yield f"token = os.environ[{target.token_variable!r}]"
    before, mark, _ = storage_address(target).partition(TOKEN)
    yield f'os.environ["STORAGE_EMULATOR_HOST"] = {before!r}{" + token" if mark else ""}'
    for name, value in certificate_variables(target).items():
        yield f"os.environ[{name!r}] = {value!r}"


def _imports(target: ClientTarget) -> Iterator[str]:
    if target.anonymous:
        yield "from google.auth.credentials import AnonymousCredentials"
    yield "from google.cloud import aiplatform"
    if not target.anonymous:
        yield "from google.oauth2.credentials import Credentials"


def _init(target: ClientTarget, transport: str) -> Iterator[str]:
    credentials = "AnonymousCredentials()" if target.anonymous else "Credentials(token)"
    endpoint = target.grpc if transport == "grpc" else target.url
    yield "aiplatform.init("
    yield f"    project={target.project!r},"
    yield f"    location={target.region!r},"
    yield f"    api_endpoint={endpoint!r},"
    yield f"    api_transport={transport!r},"
    yield f"    credentials={credentials},"
    yield f"    staging_bucket={staging_bucket(target.project)!r},"
    yield ")"
