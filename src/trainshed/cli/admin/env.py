"""``trainshed env``: the settings that point gcloud and the SDKs at a server."""

import json
import os
import shlex
from collections.abc import Iterator
from dataclasses import replace
from http import HTTPStatus
from pathlib import Path
from typing import TYPE_CHECKING

from trainshed.cli import flags
from trainshed.cli.connecting import (
    CA_VARIABLE,
    PROJECT,
    PROJECT_VARIABLES,
    TOKEN_VARIABLE,
    URL_VARIABLE,
    LocatedServer,
    locate_server,
    project_of,
)
from trainshed.cli.terminal import note, out, out_json
from trainshed.client.collections import path_of
from trainshed.client.faults import ServerRefusal, Unreachable
from trainshed.files.server_files import ADMIN_FILE
from trainshed.model.access import ALL_BUCKETS, PROJECT_ID
from trainshed.model.faults import UsageFault
from trainshed.storage.buckets import SCHEME
from trainshed.workbench.client_settings import (
    TOKEN,
    ClientTarget,
    bucket_address,
    certificate_variables,
    properties,
    staging_bucket,
    variables,
)

if TYPE_CHECKING:
    from trainshed.client.http import Server

EXAMPLE = """\
  trainshed env --shell --url http://127.0.0.1:8080 --project demo
  trainshed env --python --url http://127.0.0.1:8080
  eval "$(trainshed env)"    # after this, gcloud and the SDKs in this shell use the server"""


def parser(prog: str) -> flags.Parser:
    """Return the parser."""
    parser = flags.Parser(
        prog,
        summary="Prints the settings that point gcloud and Google's SDKs at a server. The token "
        "itself is printed only with --format json: the others name the file or the variable that "
        "holds it. Storage clients send no header: their address contains a separate token, which "
        "opens every bucket that you may use and no other API, and expires after 12 hours. Run the "
        "command again for a new token. The staging bucket PROJECT-staging is made unless it "
        "exists.",
        example=EXAMPLE,
        usage=f"{prog} [--shell | --gcloud | --python | --airflow] [flags]",
    )
    client = parser.add_mutually_exclusive_group()
    for name, text in (
        ("shell", "export lines for eval (the default)"),
        (
            "gcloud",
            "gcloud config set lines, which stay in effect; ai-platform still needs --region",
        ),
        ("python", "the first lines of a script that uses the Vertex SDK"),
        ("airflow", "airflow_local_settings.py for Airflow's operators of Vertex AI"),
    ):
        client.add_argument(f"--{name}", dest="client", action="store_const", const=name, help=text)
    parser.set_defaults(client="shell")
    add = flags.adder(parser)
    add("--project", f"Project id ({PROJECT_VARIABLES[0]}, or {PROJECT})")
    add("--region", "Region (us-central1)", default="us-central1")
    add("--bucket NAME", "Staging bucket of the SDK (PROJECT-staging)")
    add(
        "--transport",
        "Transport that --python sets (rest); the default of the SDK is grpc",
        choices=("rest", "grpc"),
        default="rest",
    )
    add(
        "--key-file FILE",
        "Key file of a service account for --airflow; `trainshed keys create --out FILE` makes one",
    )
    flags.add_server_flags(parser)
    flags.add_format(parser)
    return parser


def run(request: flags.Request) -> int:
    """Print the settings.  Raises UsageFault if there is no server or no token."""
    args = request.args
    project = args.project or project_of()
    _check_project(project)
    located = locate_server(args, os.environ)
    bucket = args.bucket and args.bucket.removeprefix(SCHEME).rstrip("/")
    target = _target(located, project, args.region, bucket)
    server = _server(located, target)
    if server and (args.client == "shell" or args.format == "json"):
        target = replace(target, storage=_storage(server, target))
    if server and args.client != "gcloud":
        ensure_staging_bucket(server, target)
    if args.format == "json":
        out_json(_as_json(target, located.token))
    elif args.client == "python":
        out(python_snippet(target, args.transport))
    elif args.client == "airflow":
        out(airflow_settings(target, args.key_file))
    else:
        lines = _gcloud_lines(target) if args.client == "gcloud" else _shell_lines(target, located)
        out("\n".join(lines))
    return 0


def _check_project(project: str) -> None:
    """Raise UsageFault for a project id that gcloud refuses, before a bucket gets its name."""
    if not project.isdecimal() and not PROJECT_ID.fullmatch(project):
        raise UsageFault(
            "--project must be a project id (lower-case letters, digits and hyphens; it begins "
            f"with a letter), got {project!r}"
        )


def _target(server: LocatedServer, project: str, region: str, bucket: str | None) -> ClientTarget:
    if server.url is None:
        raise UsageFault(
            f"no server runs in {server.folder}; start one with: trainshed serve, or name "
            "one with --url"
        )
    running = server.running
    anonymous = running is not None and running.anonymous
    if not anonymous and server.token is None:
        _report_missing_token(server)
    if running is not None and not running.is_alive:
        note("the server is not running; these are its last settings")
    return ClientTarget(
        url=server.url,
        grpc=running.grpc if running else None,
        bundle=server.ca,
        project=project,
        region=region,
        bucket=bucket,
        token_file=None if anonymous else server.token_file,
        token_variable=None if anonymous else server.token_variable,
    )


def _report_missing_token(server: LocatedServer) -> None:
    """Refuse if this machine's server needs a token; another server may not need one."""
    if server.running is not None:
        raise UsageFault(
            f"there is no token in {server.folder}; set TRAINSHED_TOKEN, or give --token-file FILE"
        )
    note(
        "there is no token: these settings are for a server that was started with --anonymous; "
        "set TRAINSHED_TOKEN, or give --token-file FILE"
    )


#: The longest lifetime of a token for buckets: a working day.
LIFE = "12h"
#: Seconds to wait for the server before the command continues without it.
ANSWER_S_MAX = 10.0


def _server(located: LocatedServer, target: ClientTarget) -> "Server | None":
    """Return a client of the server; None if it does not run, or without a token for it."""
    from trainshed.client.http import Server

    has_ended = located.running and not located.running.is_alive
    if has_ended or not (target.anonymous or located.token):
        return None  # another process may use the port now, and must not get the token
    if target.anonymous and not located.running:
        return None
    token = None if target.anonymous else located.token
    return Server(url=target.url, token=token, ca=located.ca, timeout_s=ANSWER_S_MAX)


def _storage(server: "Server", target: ClientTarget) -> str | None:
    """Return the address for storage clients; None, with a note, if the server gives no token."""
    if target.anonymous:
        return None  # storage clients need no token
    try:
        response = server.call("POST", _bucket_tokens(target), _TOKEN_REQUEST)
        return bucket_address(target.url, str(response["token"]))
    except (ServerRefusal, Unreachable, KeyError, OSError) as error:
        note(
            f"cannot get a token for storage clients, which are left out: {error}; correct this, "
            "and run the command again"
        )
        return None


def ensure_staging_bucket(server: "Server", target: ClientTarget) -> None:
    """Make the project's staging bucket; print a note if that fails.

    A bucket that the user named is not made: its name may be a typing error.
    """
    name = staging_bucket(target)
    create = f"trainshed buckets create {name} --project {target.project}"
    try:
        if _has_bucket(server, name):
            return
        if target.bucket:
            note(f"{SCHEME}{name} does not exist; create it with: {create}")
            return
        server.call("POST", _BUCKETS, {"name": name}, {"project": target.project})
        note(f"{SCHEME}{name} was made for the SDK's uploads")
    except (ServerRefusal, Unreachable, OSError) as error:
        note(f"cannot make the staging bucket {SCHEME}{name}: {error}; create it with: {create}")


_BUCKETS = "/storage/v1/b"
#: The token that storage clients get.
_TOKEN_REQUEST = {"bucket": ALL_BUCKETS, "expires": LIFE}


def _has_bucket(server: "Server", name: str) -> bool:
    """Return whether a bucket exists that the caller may use."""
    try:
        server.call("GET", f"{_BUCKETS}/{name}")
    except ServerRefusal as refusal:
        if refusal.http_status == HTTPStatus.NOT_FOUND:
            return False
        raise
    return True


def _bucket_tokens(target: ClientTarget) -> str:
    return path_of("trainshed", "v1", "projects", target.project, "bucketTokens")


def _shell_lines(target: ClientTarget, located: LocatedServer) -> Iterator[str]:
    for name, value in (variables(target) | own_variables(target, located)).items():
        if value is None:
            yield f"unset {name}"
        else:
            yield f"export {name}={_shell_value(value, target)}"


def own_variables(target: ClientTarget, located: LocatedServer) -> dict[str, str | None]:
    """Return the variables that point trainshed's own commands at the same server and token."""
    settings: dict[str, str | None] = {
        "TRAINSHED_DATA_DIR": str(located.folder.absolute()),
        URL_VARIABLE: None if located.running else target.url,
        CA_VARIABLE: None if located.running else located.ca,
    }
    if target.token_file and target.token_file != (located.folder / ADMIN_FILE):
        settings[TOKEN_VARIABLE] = TOKEN
    return settings


def _shell_value(value: str, target: ClientTarget) -> str:
    """Quote for a shell, which inserts the token when it reads the line."""
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
    yield "# in a separate configuration; your usual one does not change:"
    yield "#   gcloud config configurations create trainshed"
    for name, value in settings.items():
        yield f"gcloud config set {name} {shlex.quote(value)}"
    yield f"# gcloud ai-platform asks for the region: --region {target.region}"


def _as_json(target: ClientTarget, token: str | None) -> dict[str, object]:
    environment = variables(target)
    return {
        "url": target.url,
        "grpc": target.grpc,
        "project": target.project,
        "region": target.region,
        "stagingBucket": f"{SCHEME}{staging_bucket(target)}",
        "variables": {
            name: value and value.replace(TOKEN, token or "") for name, value in environment.items()
        },
    }


def python_snippet(target: ClientTarget, transport: str) -> str:
    """Return a script's first lines.  Raises UsageFault for gRPC without a gRPC address."""
    if transport == "grpc" and target.grpc is None:
        raise UsageFault("--transport must be rest, because no gRPC address is known; got grpc")
    return "\n".join([*_head(target), "", *_imports(target), "", *_init(target, transport)])


def _head(target: ClientTarget) -> Iterator[str]:
    """Yield the variables, which clients read when they are imported."""
    if not target.anonymous:
        yield "import json"
    yield "import os"
    if not target.anonymous:
        if target.url.startswith("https:"):
            yield "import ssl"
        yield "import urllib.request"
    if target.token_file:
        yield "from pathlib import Path"
    yield ""
    if target.token_file:
        yield f"token = Path({str(target.token_file)!r}).read_text().strip()"
    elif target.token_variable:
        yield f"token = os.environ[{target.token_variable!r}]"
    yield from _storage_lines(target)
    for name, value in certificate_variables(target).items():
        yield f"os.environ[{name!r}] = {value!r}"


def _storage_lines(target: ClientTarget) -> Iterator[str]:
    """Yield lines that request a token at each run: a printed token would expire."""
    if target.anonymous:
        yield f'os.environ["STORAGE_EMULATOR_HOST"] = {target.url!r}'
        return
    request_body = json.dumps(_TOKEN_REQUEST)
    trust = ""
    if target.bundle and target.url.startswith("https:"):
        trust = f", context=ssl.create_default_context(cafile={target.bundle!r})"
    yield "request = urllib.request.Request("
    yield f"    {target.url + _bucket_tokens(target)!r},"
    yield f"    data={request_body.encode()!r},"
    yield '    headers={"Authorization": f"Bearer {token}", "Content-Type": "application/json"},'
    yield ")"
    yield f"with urllib.request.urlopen(request{trust}) as response:"
    yield '    bucket_token = json.load(response)["token"]'
    yield f'os.environ["STORAGE_EMULATOR_HOST"] = {bucket_address(target.url, "")!r} + bucket_token'


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
    yield f"    staging_bucket={SCHEME + staging_bucket(target)!r},"
    yield ")"


def airflow_settings(target: ClientTarget, key_file: str | None) -> str:
    """Return the settings that point the SDK in each of Airflow's processes at the server.

    Credentials come from an Airflow connection.  Raises UsageFault without a key.
    """
    if key_file is None:
        raise UsageFault(
            "--airflow needs --key-file FILE; trainshed keys create --name airflow "
            f"--project {target.project} --out FILE makes one"
        )
    extra = {"project": target.project, "key_path": str(Path(key_file).absolute())}
    connection = json.dumps({"conn_type": "google_cloud_platform", "extra": extra})
    lines = [
        "# $AIRFLOW_HOME/config/airflow_local_settings.py",
        *_head(target),
        f'os.environ.setdefault("AIRFLOW_CONN_GOOGLE_CLOUD_DEFAULT", {connection!r})',
        "",
        "from google.cloud import aiplatform",
        "",
        f'aiplatform.init(api_endpoint={target.url!r}, api_transport="rest")',
    ]
    return "\n".join(lines)
