"""The server of ``trainshed serve``: the service in the foreground of one process."""

import gc
import os
import shlex
import signal
import socket
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from types import FrameType
from typing import Any, NamedTuple

import uvicorn
from starlette.types import ASGIApp

from trainshed import __version__
from trainshed.api.connections import ConnectionLimits, Connections, limits_of
from trainshed.api.console.pages import CONSOLE_PATH
from trainshed.api.grpc_server import GrpcServer, start_grpc
from trainshed.api.guards import check_anonymous_binding, is_loopback, wants_tls
from trainshed.api.http_server import HttpServer, OtherApp, raise_descriptors
from trainshed.api.metrics import PATH as METRICS_PATH
from trainshed.api.metrics import open_metrics_app
from trainshed.app.application import Application, build
from trainshed.cli.terminal import note, out, out_json
from trainshed.config import Settings, load_settings
from trainshed.engines.processes.heap import share_one_heap
from trainshed.files.server_files import RunningServer, forget_running, note_database, write_running
from trainshed.model.faults import EngineFault, UsageFault
from trainshed.observability.logs import log_to_stderr
from trainshed.service.auth.certificates import ServerTls
from trainshed.service.auth.given_certificates import GivenTls
from trainshed.service.auth.tokens import FirstToken, first_token
from trainshed.service.ports.held import HeldPorts
from trainshed.service.ports.listening import (
    API,
    BACKLOG,
    GRPC,
    METRICS,
    OwnPorts,
    ServerPorts,
    listen,
)
from trainshed.service.ports.taken import why_taken
from trainshed.service.upkeep.file_modes import UMASK
from trainshed.storage.buckets import DATA_DIR_VARIABLE, data_dir
from trainshed.store.base import StoreFault

#: Seconds to wait for calls under way at the end; log streams never end by themselves.
END_S = 2
#: Seconds after which a running thread gives way to another.  The default of 5 ms is longer than a
#: scheduling pass; with 1 ms the switches took a tenth of the server's time.
SWITCH_S = 0.003
#: Connections of Prometheus that wait to be accepted.
BACKLOG_OF_METRICS = 16


class Listeners(NamedTuple):
    """The listening sockets of one server, besides that of gRPC."""

    api: socket.socket
    metrics: socket.socket | None
    """For Prometheus, without a token; None: only the server's own port has the pages."""


def set_up(flags: Mapping[str, Any]) -> Settings:
    """Prepare this process, and read the settings of a command line.  Raises UsageFault."""
    os.umask(UMASK)
    share_one_heap()
    file = Path(flags["config"]) if flags["config"] else None
    settings = load_settings(file, os.environ, flags)
    log_to_stderr(verbose=flags["verbose"], form=settings.log.format)
    return settings


def serve(
    settings: Settings,
    *,
    as_json: bool,
    begin: Callable[[Application], object] = id,
    end: Callable[[Application], object] = id,
    holds_ports: bool = True,
) -> int:
    """Serve until SIGTERM or Ctrl-C.

    ``begin`` is called before the first request is answered, ``end`` after the last one.
    ``holds_ports``: the listening sockets stay open for the next server on this data directory.
    """
    check_anonymous_binding(settings.host, anonymous=settings.anonymous)
    _is_https(settings)  # raises UsageFault before any file is made
    limits = limits_of(raise_descriptors())
    ports = HeldPorts(settings.data_dir, os.environ) if holds_ports else OwnPorts()
    try:
        listener = _listen(settings, ports)
        metrics = _listen_for_metrics(settings)
        application = _build(settings, ports)
        try:
            begin(application)
            _serve(application, Listeners(listener, metrics), limits, ports, as_json=as_json)
            end(application)
        finally:
            application.stop()
    except StoreFault as fault:
        raise EngineFault(str(fault)) from fault
    finally:
        stay_held = ports.close()
    if stay_held and not as_json:
        out("the server's ports stay reserved while jobs run: connections wait for the next server")
    return 0


def _build(settings: Settings, ports: ServerPorts) -> Application:
    try:
        return build(settings, ports=ports)
    except OSError as error:
        reason = f"{error.filename or settings.data_dir}: {error.strerror or error}"
        raise UsageFault(
            f"cannot use the data directory {settings.data_dir}: {reason}; give another one with "
            "--data-dir"
        ) from error


def _serve(
    application: Application,
    listeners: Listeners,
    limits: ConnectionLimits,
    ports: ServerPorts,
    *,
    as_json: bool,
) -> None:
    settings = application.settings
    tune_interpreter()
    token = first_token(application.store, settings.data_dir)
    tls = _tls(application)
    grpc = _start_grpc(application, limits, tls, ports)
    host, port = listeners.api.getsockname()[:2]
    scheme = "https" if _is_https(settings) else "http"
    running = RunningServer(
        url=f"{scheme}://{_authority(_client_host(host), port)}",
        grpc=_authority(_client_host(host), grpc.port) if grpc else None,
        pid=os.getpid(),
        anonymous=settings.anonymous,
        ca=str(tls.bundle) if tls and tls.bundle else None,
    )
    try:
        application.start()
        _note_address(settings, running)
        _print_address(application, running, token, as_json=as_json)
        ports.say_ready()
        _run_http(application, listeners, limits, tls)
        if not as_json:
            _print_stopped(application)
    finally:
        forget_running(settings.data_dir, os.getpid())
        if grpc:
            grpc.stop(END_S)


def _note_address(settings: Settings, running: RunningServer) -> None:
    """Write the server's address to the data directory; print a note if this fails."""
    try:
        write_running(settings.data_dir, running)
        note_database(settings.data_dir, settings.database)
    except OSError as error:
        failure = f"cannot write the server's address to {settings.data_dir}: {error.strerror}"
        note(f"{failure}; give commands --url {running.url}")


def _is_https(settings: Settings) -> bool:
    return wants_tls(settings.host, https=settings.https, insecure=settings.insecure_http)


def _tls(application: Application) -> ServerTls | GivenTls | None:
    """Return the certificate for HTTP and gRPC, and have it renewed; None if both use no TLS."""
    settings = application.settings
    if settings.grpc_port is None and not _is_https(settings):
        return None
    tls = _load_given(settings) or ServerTls(
        settings.data_dir, [settings.host, *settings.allowed_hosts]
    )
    application.housekeeping.add("certificates", tls.renew)
    return tls


def _load_given(settings: Settings) -> GivenTls | None:
    """Return the certificate of the settings; None: they name none.  Raises UsageFault."""
    certificate, key = settings.tls_certificate, settings.tls_key
    if certificate is None or key is None:
        return None
    try:
        return GivenTls(certificate, key)
    except OSError as error:
        raise UsageFault(
            "server.tls_certificate and server.tls_key must be readable PEM files of one pair, got "
            f"{certificate} and {key}: {error.strerror or error}"
        ) from error


def _print_stopped(application: Application) -> None:
    """Print how many jobs continue without the server."""
    living = ("ENQUEUED", "PREPARING", "RUNNING", "RESTARTING", "CANCELLING")
    counts = application.store.counts().items()
    running = sum(count for (_, state), count in counts if state in living)
    left = f"{running} job(s) keep running under the next trainshed serve" if running else ""
    out(f"stopped; {left or 'no job runs'}")


def tune_interpreter() -> None:
    """Tune the interpreter for many short calls while other threads compute.

    Called after the server was built: its objects are excluded from garbage collection, without a
    first collection, which would take a tenth of the start and free little.
    """
    sys.setswitchinterval(SWITCH_S)
    gc.freeze()


def _run_http(
    application: Application,
    listeners: Listeners,
    limits: ConnectionLimits,
    tls: ServerTls | GivenTls | None,
) -> None:
    secured = tls if _is_https(application.settings) else None
    context = (lambda: secured.context) if secured else None
    others = _other_apps(application, listeners)
    server = HttpServer(_configure(application.http), Connections(limits), context, others)

    def stop(_signum: int, _frame: FrameType | None) -> None:
        """Request the end before uvicorn has its own handlers; uvicorn sends the signal again."""
        server.should_exit = True

    for signum in (signal.SIGTERM, signal.SIGINT):
        signal.signal(signum, stop)
    server.run(sockets=[listeners.api])


def _configure(app: ASGIApp) -> uvicorn.Config:
    return uvicorn.Config(
        app,
        ws="none",
        log_config=None,
        access_log=False,  # paths may carry tokens
        server_header=False,
        timeout_graceful_shutdown=END_S,
        lifespan="off",
    )


def _other_apps(application: Application, listeners: Listeners) -> list[OtherApp]:
    """Return the application of ``[metrics] listen``, if it is set."""
    if listeners.metrics is None or application.settings.metrics.listen is None:
        return []
    host, _ = application.settings.metrics.listen
    app = open_metrics_app(application.metrics, host)
    return [OtherApp(listeners.metrics, _configure(app))]


def _listen_for_metrics(settings: Settings) -> socket.socket | None:
    """Listen for Prometheus; None: the settings do not ask for it.  Raises UsageFault.

    The socket ends with the server: a scrape that waits for the next server is of no use.
    """
    if settings.metrics.listen is None:
        return None
    host, port = settings.metrics.listen
    try:
        return listen(METRICS, host, port, BACKLOG_OF_METRICS)
    except OSError as error:
        reason = error.strerror or str(error)
        raise UsageFault(
            f"cannot listen on {_authority(host, port)} for metrics: {reason}; give another "
            "address with listen below [metrics] in config.toml"
        ) from error


def _listen(settings: Settings, ports: ServerPorts) -> socket.socket:
    try:
        return ports.listen(API, settings.host, settings.port, BACKLOG)
    except OSError as error:
        raise _explain_listen_fault(settings, "--port", settings.port, error) from error


def _explain_listen_fault(settings: Settings, flag: str, port: int, error: OSError) -> UsageFault:
    address = _authority(settings.host, port)
    reason = why_taken(error, port, settings.data_dir)
    return UsageFault(f"cannot listen on {address}: {reason}; give another port with {flag}")


def _start_grpc(
    application: Application,
    limits: ConnectionLimits,
    tls: ServerTls | GivenTls | None,
    ports: ServerPorts,
) -> GrpcServer | None:
    settings = application.settings
    if settings.grpc_port is None or tls is None:
        return None
    try:
        listener = ports.listen(GRPC, settings.host, settings.grpc_port, BACKLOG)
    except OSError as error:
        raise _explain_listen_fault(settings, "--grpc-port", settings.grpc_port, error) from error
    return start_grpc(
        application.table,
        application.chain_services,
        pair=lambda: tls.pair,
        listener=listener,
        limits=limits,
    )


def _client_host(host: str) -> str:
    """Return the host for clients: a loopback address instead of a wildcard address."""
    return {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host)  # noqa: S104  # printed, not bound


def _authority(host: str, port: int) -> str:
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def _folder_flag(settings: Settings) -> str:
    """Return the --data-dir flag for clients; empty if the directory is the default one."""
    usual = data_dir(None, {**os.environ, DATA_DIR_VARIABLE: ""})
    if settings.data_dir == usual:
        return ""
    return f" --data-dir {shlex.quote(str(settings.data_dir))}"


def _print_address(
    application: Application, running: RunningServer, token: FirstToken, *, as_json: bool
) -> None:
    settings = application.settings
    console = f"{running.url}{CONSOLE_PATH}" if settings.console.enabled else None
    if as_json:
        folder = str(settings.data_dir)
        out_json({"url": running.url, "grpc": running.grpc, "dataDir": folder, "console": console})
        return
    lines = [f"Trainshed {__version__} serves on {running.url}"]
    if console:
        lines.append(f"console         {console}")
    lines += _describe_transport(settings, running)
    lines.append(f"data            {settings.data_dir}")
    lines += _describe_traits(application)
    if (metrics := settings.metrics.listen) is not None:
        lines.append(
            f"metrics         http://{_authority(*metrics)}{METRICS_PATH}, without a token"
        )
    if application.traces.exporter is not None:
        lines.append(f"traces          sent to {settings.otel.endpoint}")
    if settings.anonymous:
        lines.append("anonymous       every user of this machine may submit without a token")
    elif token.made:
        # not the token itself: a service manager logs the output
        lines.append(f"admin token     made; it is in {token.path}")
    lines.append(f'clients         eval "$(trainshed env --shell{_folder_flag(settings)})"')
    out("\n".join(lines))


def _describe_transport(settings: Settings, running: RunningServer) -> list[str]:
    lines = []
    if running.grpc:
        lines.append(f"gRPC with TLS   {running.grpc}")
    if running.url.startswith("https:"):
        trusted = running.ca or f"the authority of {settings.tls_certificate}"
        lines.append(f"certificates    clients must trust {trusted}")
    elif not is_loopback(settings.host):
        lines.append(
            "plain HTTP      tokens are sent without encryption; put a proxy with TLS in front"
        )
    return lines


def _describe_traits(application: Application) -> list[str]:
    """Return lines on the isolation of jobs on this machine."""
    traits = application.engines.nearest.traits
    lines = [f"containers      {traits.containers.description}"]
    if traits.isolation:
        lines.append(f"isolation       {traits.isolation}")
    if traits.network:
        lines.append(f"network         {traits.network}")
    if traits.leftovers:
        lines.append(f"after a kill    processes left by a job are ended by: {traits.leftovers}")
    return lines
