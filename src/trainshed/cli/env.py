"""``trainshed env``: the settings that point gcloud and the SDKs at a server."""

import os
import shlex
from collections.abc import Iterator

from trainshed.cli.connecting import URL_VARIABLE
from trainshed.cli.flags import Request
from trainshed.cli.notes import note
from trainshed.cli.python_snippet import python_snippet
from trainshed.cli.reaching import TOKEN_VARIABLE, Reach, reach
from trainshed.cli.terminal import out, out_json
from trainshed.model.faults import UsageFault
from trainshed.service.server_files import ADMIN_FILE
from trainshed.workbench.client_settings import TOKEN, Target, properties, variables


def run(request: Request) -> int:
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


def _target(found: Reach, project: str, region: str) -> Target:
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
    return Target(
        url=found.url,
        grpc=running.grpc if running else None,
        bundle=running.ca if running else None,
        project=project,
        region=region,
        token_file=None if anonymous else found.token_file,
        token_variable=None if anonymous else found.token_variable,
    )


def _miss_token(found: Reach) -> None:
    """A server of ours that wants a token is told of; of another one nothing is known."""
    if found.running is not None:
        raise UsageFault(
            f"there is no token in {found.folder}; set TRAINSHED_TOKEN, or give --token-file FILE"
        )
    note(
        "no token is known: these settings are for a server that was started with --anonymous; "
        "set TRAINSHED_TOKEN, or give --token-file FILE"
    )


def _shell_lines(target: Target, found: Reach) -> Iterator[str]:
    for name, value in (variables(target) | _own_variables(target, found)).items():
        if value is None:
            yield f"unset {name}"
        else:
            yield f"export {name}={_shell_value(value, target)}"


def _own_variables(target: Target, found: Reach) -> dict[str, str | None]:
    """What sends trainshed's own verbs in the same shell to the same server, with its token."""
    own: dict[str, str | None] = {
        "TRAINSHED_DATA_DIR": str(found.folder.absolute()),
        URL_VARIABLE: None if found.running else target.url,
    }
    if target.token_file and target.token_file != (found.folder / ADMIN_FILE):
        own[TOKEN_VARIABLE] = TOKEN
    return own


def _shell_value(value: str, target: Target) -> str:
    """Quoted for a shell, which puts the token in when it reads the line."""
    if TOKEN not in value:
        return shlex.quote(value)
    token = f"${target.token_variable}"
    if target.token_file:
        token = f"$(cat {shlex.quote(str(target.token_file))})"
    before, _, after = value.partition(TOKEN)
    quoted = [shlex.quote(part) if part else "" for part in (before, after)]
    return f'{quoted[0]}"{token}"{quoted[1]}'


def _gcloud_lines(target: Target) -> Iterator[str]:
    settings = properties(target)
    yield "# in a configuration of its own, your usual one stays as it is:"
    yield "#   gcloud config configurations create trainshed"
    for name, value in settings.items():
        yield f"gcloud config set {name} {shlex.quote(value)}"
    yield f"# gcloud ai-platform asks for the region: --region {target.region}"


def _as_json(target: Target, token: str | None) -> dict[str, object]:
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
