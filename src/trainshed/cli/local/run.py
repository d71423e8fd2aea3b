"""``trainshed run``: runs a program that was written for Google against a server."""

import os
import re
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from trainshed.cli import flags
from trainshed.cli.connecting import LocatedServer, ServerContext, context_of, locate_server
from trainshed.client.faults import Unreachable
from trainshed.model.faults import UsageFault

if TYPE_CHECKING:
    from trainshed.workbench.client_settings import ClientTarget

EXAMPLE = """\
  trainshed run -- python submit.py
  trainshed run --project demo -- gcloud ai custom-jobs list --region us-central1
  trainshed run --offline -- pytest tests/"""
#: The gRPC port of a server whose address comes from --url.
GRPC_PORT = 8081


def parser(prog: str) -> flags.Parser:
    """Return the parser."""
    parser = flags.Parser(
        prog,
        summary="Runs an unchanged program that was written for Google against a server: for the "
        "program, Google's host names lead to the server, and the default credentials are valid "
        "there. The exit status is the command's, signals go to the command, and nothing stays in "
        "the shell or on disk. To run a job on this machine: trainshed ai custom-jobs local-run, "
        "or ai-platform local train. To submit one: trainshed ai custom-jobs create, or "
        "ai-platform jobs submit training.",
        example=EXAMPLE,
        usage=f"{prog} [flags] -- COMMAND [ARG ...]",
    )
    parser.own_flags = ()
    add = flags.adder(parser)
    add("--project", "Project id; default: CLOUDSDK_CORE_PROJECT, TRAINSHED_PROJECT, local")
    add("--region", "Region; default: CLOUDSDK_AI_REGION, us-central1")
    add(
        "--offline",
        "Refuse connections to hosts that Trainshed does not serve, instead of passing them on",
        action="store_true",
    )
    add("--grpc HOST:PORT", "gRPC address of the server of --url; default: port 8081 of its host")
    flags.add_server_flags(parser)
    return parser


def run(request: flags.Request) -> int:
    """Run the command; return its status.  Raises UsageFault, Unreachable and ServerRefusal."""
    from trainshed.cli.admin.env import own_variables
    from trainshed.proxy.command import block_signals, check_command, end_as, run_command
    from trainshed.proxy.session import open_session

    command = flags.command_of("trainshed run", request)
    check_command(command)
    args = request.args
    context = context_of(args)
    if not context.server.token:
        raise UsageFault(
            "trainshed run needs a token; set TRAINSHED_TOKEN, or give --token-file FILE"
        )
    if not context.server.answers():
        raise Unreachable(
            f"no server answers at {context.server.url}; start one with: trainshed serve, or use a "
            "throw-away server: trainshed serve --run -- COMMAND"
        )
    located = locate_server(args, os.environ)
    target = _target_of(context, located, args.grpc)
    with (
        block_signals() as mask,
        open_session(target, context.server, offline=args.offline, environ=os.environ) as session,
    ):
        variables = own_variables(target, located)
        environ = session.environ_for(target, context.server, variables)
        status = run_command(command, environ, mask)
    return end_as(status)


def _target_of(context: ServerContext, located: LocatedServer, grpc: str | None) -> "ClientTarget":
    from trainshed.workbench.client_settings import ClientTarget

    running = located.running
    grpc = grpc or (running.grpc if running else _default_grpc(context.server.url))
    if grpc and not re.fullmatch(r"\S+:[0-9]{1,5}", grpc):
        raise UsageFault(f"--grpc must be HOST:PORT, got {grpc}")
    return ClientTarget(
        url=context.server.url,
        grpc=grpc,
        bundle=located.ca,
        project=context.project,
        region=context.region,
        token_file=located.token_file,
        token_variable=located.token_variable,
    )


def _default_grpc(url: str) -> str:
    host = urlsplit(url).hostname or ""
    return f"[{host}]:{GRPC_PORT}" if ":" in host else f"{host}:{GRPC_PORT}"
