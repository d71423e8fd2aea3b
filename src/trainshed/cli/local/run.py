"""``trainshed run``: a program for Google against a server, with nothing changed in it."""

import argparse
import os
import re
from urllib.parse import urlsplit

from trainshed.cli import flags
from trainshed.cli.admin.env import own_variables
from trainshed.cli.connecting import ServerPlace, place_of, reach
from trainshed.cli.local.run_options import GRPC_PORT, command_of
from trainshed.client.faults import Unreachable
from trainshed.model.faults import UsageFault
from trainshed.proxy.command import check_command, end_as, held_signals, run_command
from trainshed.proxy.session import open_session
from trainshed.workbench.client_settings import ClientTarget


def run(request: flags.Request) -> int:
    """Run the command; its exit status.  Raises UsageFault, Unreachable and ServerRefusal."""
    command = command_of("trainshed run", request)
    check_command(command)
    args = request.args
    place = place_of(args)
    if not place.server.token:
        raise UsageFault("a token is needed; set TRAINSHED_TOKEN, or give --token-file FILE")
    if not place.server.answers():
        raise Unreachable(
            f"no server answers at {place.server.url}; start one with: trainshed serve, or use a "
            "throw-away server: trainshed serve --run -- COMMAND"
        )
    target = _target_of(args, place)
    with (
        held_signals() as mask,
        open_session(target, place.server, offline=args.offline, environ=os.environ) as session,
    ):
        own = own_variables(target, reach(args, os.environ))
        status = run_command(command, session.environ_on(target, place.server, own), mask)
    return end_as(status)


def _target_of(args: argparse.Namespace, place: ServerPlace) -> ClientTarget:
    target = reach(args, os.environ)
    grpc = args.grpc or (target.running.grpc if target.running else _usual_grpc(place.server.url))
    if grpc and not re.fullmatch(r"\S+:[0-9]{1,5}", grpc):
        raise UsageFault(f"--grpc must be HOST:PORT, got {grpc}")
    return ClientTarget(
        url=place.server.url,
        grpc=grpc,
        bundle=target.ca,
        project=place.project,
        region=place.region,
        token_file=target.token_file,
        token_variable=target.token_variable,
    )


def _usual_grpc(url: str) -> str:
    host = urlsplit(url).hostname or ""
    return f"[{host}]:{GRPC_PORT}" if ":" in host else f"{host}:{GRPC_PORT}"
