"""Makes the gateway, which answers the programs of jobs like the metadata server of a Google VM."""

import os
import resource
from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Final

from trainshed.api.call import RawMethod
from trainshed.config import Settings
from trainshed.config.settings import LOG, PASS, GatewaySettings
from trainshed.engines.capabilities import SupportsGateway
from trainshed.engines.several import Engines
from trainshed.model.attempt import AttemptKey
from trainshed.service.auth.access import Access
from trainshed.service.gateway.job_networks import SOCKETS_MAX, JobNetworks
from trainshed.service.gateway.listening import GatewayListener, Serving
from trainshed.service.gateway.places import HOSTS, OTHER_HOSTS, TELEMETRY_HOSTS
from trainshed.service.gateway.stored_attempts import AttemptOfPeer, AttemptsOfStore
from trainshed.service.gateway.telemetry import TASK, Telemetry, tell_in_story
from trainshed.service.gateway.tokens import AttemptTokens
from trainshed.service.ports.listening import Listen
from trainshed.service.upkeep.audit_log import AuditLog
from trainshed.store.opening import Store

#: Sockets in the networks of jobs use at most one in four of the server's file descriptors.
_SOCKETS_PART: Final = 4


def make_gateway_listener(  # noqa: PLR0913, PLR0917 - the sources of its answers
    settings: Settings,
    store: Store,
    engines: Engines,
    storage: Sequence[RawMethod],
    access: Access,
    audit_log: AuditLog,
    listen: Listen,
) -> GatewayListener | None:
    """Make the gateway of replicas; return None if it is turned off or the engine has none."""
    engine = engines.nearest
    if not settings.gateway.enabled or not isinstance(engine, SupportsGateway):
        return None

    attempts = AttemptsOfStore(store)
    telemetry = _telemetry(settings, store, engine)

    def make() -> Serving:
        # most of it is needed only when a program connects
        from trainshed.api.gateway.app import refuse_jobs  # noqa: PLC0415
        from trainshed.api.gateway.make import make_gateway  # noqa: PLC0415
        from trainshed.api.gateway.public import Public, by_proxies  # noqa: PLC0415

        proxies = select_env(os.environ, settings.pass_env)
        return make_gateway(
            settings.data_dir,
            rows=refuse_jobs(storage),
            tokens=AttemptTokens.of(settings.data_dir),
            attempt_at=AttemptOfPeer(store, engines, engine.attempt_at),
            find=attempts,
            is_remembered=attempts.is_remembered,
            recognise=lambda text, peer: access.caller(text, loopback=False, address=peer),
            of_address=access.of_address,
            exchange=access.exchange,
            audit=audit_log.add,
            telemetry=telemetry,
            public=Public(by_proxies(proxies)) if settings.gateway.public == PASS else None,
            passes_on=settings.gateway.other_apis == PASS,
            proxies=proxies,
        )

    descriptors = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    return GatewayListener(
        settings.data_dir,
        make,
        port=settings.gateway.port,
        hosts=filter(None, (engine.traits.bridge,)),
        names=list_names(settings.gateway),
        listen=listen,
        networks=JobNetworks(
            engine,
            lambda: [AttemptKey(row.uid, row.attempt) for row in store.holding()],
            are_begun=engine.traits.has_networks,
            sockets_max=min(SOCKETS_MAX, descriptors // _SOCKETS_PART),
        ),
    )


def _telemetry(settings: Settings, store: Store, engine: SupportsGateway) -> Telemetry | None:
    """Make the receiver of logs and metrics; return None if programs send them to Google."""
    if settings.gateway.telemetry == PASS:
        return None
    if settings.gateway.telemetry != LOG:
        return Telemetry(tell_in_story(store))
    return Telemetry(tell_in_story(store), lambda key, lines: engine.add_lines(key, TASK, lines))


def list_names(settings: GatewaySettings) -> Sequence[str]:
    """List the host names of Google that a job's hosts file maps to the gateway."""
    telemetry = () if settings.telemetry == PASS else TELEMETRY_HOSTS
    return (*HOSTS, *telemetry, *(() if settings.other_apis == PASS else OTHER_HOSTS))


def select_env(environ: Mapping[str, str], patterns: Sequence[str]) -> Mapping[str, str]:
    """Return the variables whose names match one of the patterns."""
    return {
        name: text
        for name, text in environ.items()
        if any(fnmatchcase(name, pattern) for pattern in patterns)
    }
