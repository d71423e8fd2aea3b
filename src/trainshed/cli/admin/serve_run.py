"""``trainshed serve --run``: a throw-away server for one command, such as a test suite."""

import os
import sys
from argparse import Namespace
from collections.abc import Iterator

from trainshed.cli.admin.env import ensure_staging_bucket
from trainshed.cli.connecting import project_of, region_of
from trainshed.cli.flags import Request
from trainshed.cli.local.run_options import command_of
from trainshed.cli.terminal import write
from trainshed.proxy.command import check_command, end_as, held_signals, run_command
from trainshed.proxy.throw_away import start_server


def run(request: Request) -> int:
    """Run the command; its exit status.  Raises UsageFault and EngineFault."""
    command = command_of("trainshed serve --run", request)
    check_command(command)
    args = request.args
    with start_server(tuple(_flags_of(args))) as server:
        target = server.target(args.project or project_of(), args.region or region_of())
        ensure_staging_bucket(server.server, target)
        for name in dict.fromkeys(args.bucket or ()):
            server.make_bucket(name, target.project)
        with (
            held_signals() as mask,
            server.session(target, offline=args.offline, environ=os.environ) as session,
            server.reported_failures(lambda text: write(text, sys.stderr)),
        ):
            environ = session.environ_on(target, server.server, server.own_variables)
            status = run_command(command, environ, mask)
    return end_as(status)


def _flags_of(args: Namespace) -> Iterator[str]:
    """The flags that the server gets as they were given."""
    for name in ("config", "fleet_policy", "fake_gpus"):
        value = getattr(args, name)
        if value is not None:
            yield f"--{name.replace('_', '-')}={value}"
    yield from (f"--engine={name}" for name in args.engine or ())
    if args.verbose:
        yield "--verbose"
