"""``trainshed serve``: the service, or a throw-away server for one command."""

import argparse
import gc
import os
import sys
from collections.abc import Iterator

from trainshed.cli import flags
from trainshed.cli.connecting import project_of, region_of
from trainshed.cli.terminal import write
from trainshed.model.faults import UsageFault

EXAMPLE = """\
  trainshed serve
  trainshed serve --run -- pytest tests/    # a throw-away server for one command
  trainshed serve --port 0 --data-dir /srv/trainshed
  trainshed serve --database postgresql+psycopg://trainshed@db/trainshed --host 0.0.0.0"""

#: The server makes many objects and few cycles.  With the garbage collector's default, a run after
#: every 700 new objects, the runs took a tenth of the server's time.
GC_THRESHOLDS = (20_000, 20, 20)

_RUN = "run"
_THROW_AWAY = "throw-away"


def parser(prog: str) -> flags.Parser:
    """Return the parser."""
    gc.set_threshold(*GC_THRESHOLDS)
    parser = flags.Parser(
        prog,
        summary="Runs the service: gcloud's and the Vertex SDK's API, the controller and the "
        "engines in one process. It is ready when /readyz answers; trainshed env prints how to "
        "point clients at it.",
        example=EXAMPLE,
        usage=f"{prog} [flags]\n       {prog} --run [flags] -- COMMAND [ARG ...]",
    )
    parser.own_flags = ()
    parser.check = _check
    parser.set_defaults(mode=None)
    add = flags.adder(parser)
    add(
        "--run",
        "Start a throw-away server on free ports, run the command after -- against it as "
        "trainshed run does, and end with its exit status",
        dest="mode",
        action="store_const",
        const=_RUN,
    )
    add("--project", "With --run: project id; default: CLOUDSDK_CORE_PROJECT, local")
    add("--region", "With --run: region (us-central1)")
    add(
        "--bucket NAME",
        "With --run: make this bucket before the command starts; may be repeated. "
        "PROJECT-staging is always made",
        action="append",
    )
    add(
        "--offline",
        "With --run: refuse connections to hosts that Trainshed does not serve",
        action="store_true",
    )
    add("--throw-away", argparse.SUPPRESS, dest="mode", action="store_const", const=_THROW_AWAY)
    add("--host", "Address to listen on (127.0.0.1)")
    add("--port", "Port for HTTP (8080); 0 picks a free one, and one for gRPC", type=int)
    add("--grpc-port", "Port for gRPC with TLS (8081); 0 picks a free one, none leaves gRPC out")
    add("--data-dir DIR", "Folder of all the server's data")
    add("--database URL", "SQLAlchemy URL (SQLite in DIR)")
    add("--config FILE", "Settings file (config.toml in DIR)")
    add("--anonymous", "Accept calls without a token; on loopback only", action="store_true")
    add(
        "--insecure-http",
        "Serve plain HTTP to other machines; only behind a proxy that provides TLS",
        action="store_true",
    )
    add("--no-console", "Serve no web console", action="store_true")
    add(
        "--fleet-policy",
        "Resources that a replica reserves on this machine; default: best-effort with GPUs, "
        "else emulate",
        choices=["exact", "best-effort", "emulate"],
    )
    add(
        "--fake-gpus N",
        "Offer N simulated GPUs of any requested type instead of the machine's own; they "
        "cannot compute",
        type=int,
    )
    add(
        "--engine NAME",
        "Run this engine of the settings; may be repeated; default: all engines",
        action="append",
    )
    add("--verbose", "Log details for developers", action="store_true")
    add(
        "--log-format",
        "Form of the server's log on stderr (text); json: one object a record, and a record of "
        "each request",
        choices=["text", "json"],
    )
    flags.add_format(parser)
    return parser


#: Flags that a throw-away server sets itself.
_PERMANENT = ("host", "port", "grpc_port", "data_dir", "database")
_OF_RUN = ("project", "region", "bucket", "offline")


def _check(parser: flags.Parser, args: argparse.Namespace) -> None:
    """Refuse flags that cannot be combined."""
    is_permanent = args.mode is None
    for name in _OF_RUN if is_permanent else _PERMANENT:
        if getattr(args, name):
            flag = f"--{name.replace('_', '-')}"
            parser.error(f"{flag} {'needs' if is_permanent else 'does not go with'} --run")


def run(request: flags.Request) -> int:
    """Serve, or run a command against a throw-away server; return the exit status."""
    args = request.args
    if args.mode == _RUN:
        return _run_command(flags.command_of("trainshed serve --run", request), args)
    if request.user_args is not None:
        raise UsageFault("a command after a bare -- needs --run: trainshed serve --run -- COMMAND")
    if args.mode == _THROW_AWAY:
        from trainshed.cli.admin.throw_away import serve_throw_away

        return serve_throw_away(vars(args))
    from trainshed.cli.admin.server import serve, set_up

    return serve(set_up(vars(args)), as_json=args.format == "json")


def _run_command(command: tuple[str, ...], args: argparse.Namespace) -> int:
    """Run a command, and return its exit status.  Raises UsageFault and EngineFault."""
    from trainshed.cli.admin.env import ensure_staging_bucket
    from trainshed.proxy.command import block_signals, check_command, end_as, run_command
    from trainshed.proxy.throw_away import start_server

    check_command(command)
    with start_server(tuple(_server_flags(args))) as server:
        target = server.target(args.project or project_of(), args.region or region_of())
        ensure_staging_bucket(server.server, target)
        for name in dict.fromkeys(args.bucket or ()):
            server.make_bucket(name, target.project)
        with (
            block_signals() as mask,
            server.session(target, offline=args.offline, environ=os.environ) as session,
            server.reported_failures(lambda text: write(text, sys.stderr)),
        ):
            environ = session.environ_for(target, server.server, server.own_variables)
            status = run_command(command, environ, mask)
    return end_as(status)


def _server_flags(args: argparse.Namespace) -> Iterator[str]:
    """Yield the flags that are passed on to the server."""
    for name in ("config", "fleet_policy", "fake_gpus", "log_format"):
        value = getattr(args, name)
        if value is not None:
            yield f"--{name.replace('_', '-')}={value}"
    yield from (f"--engine={name}" for name in args.engine or ())
    if args.verbose:
        yield "--verbose"
