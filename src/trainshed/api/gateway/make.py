"""Builds a gateway from its parts."""

import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING

from trainshed.api.call import RawMethod
from trainshed.api.gateway import telemetry as by_rest
from trainshed.api.gateway.admission import Admission, OfAddress, Recognise
from trainshed.api.gateway.app import Gateway, storage_router
from trainshed.api.gateway.denials import Audit, Denials
from trainshed.api.gateway.public import Public
from trainshed.api.gateway.server import GatewayServing
from trainshed.api.gateway.xml import read_nothing
from trainshed.api.grants import Exchange
from trainshed.engines.base import AttemptAt, Endpoint
from trainshed.model.attempt import AttemptKey
from trainshed.service.gateway.attempts import FindAttempt, LivingAttempt
from trainshed.service.gateway.places import TELEMETRY_HOSTS
from trainshed.service.gateway.telemetry import Telemetry
from trainshed.service.gateway.tokens import AttemptTokens

if TYPE_CHECKING:
    from trainshed.api.gateway.grpc_calls import GrpcCalls


def make_gateway(  # noqa: PLR0913 - its parts, by name
    data_dir: Path,
    *,
    rows: Sequence[RawMethod],
    tokens: AttemptTokens,
    attempt_at: AttemptAt,
    find: FindAttempt,
    is_remembered: Callable[[AttemptKey], bool] = lambda _: False,
    recognise: Recognise | None = None,
    of_address: OfAddress | None = None,
    exchange: Exchange | None = None,
    audit: Audit = lambda **_: None,
    telemetry: Telemetry | None = None,
    public: Public | None = None,
    passes_on: bool = False,
    proxies: Mapping[str, str] = MappingProxyType({}),
) -> GatewayServing:
    """Return the gateway that serves replicas.  Raises OSError.

    ``rows`` are those of storage.  ``attempt_at`` returns the attempt whose process has a
    connection, ``find`` the record of a living attempt, and ``is_remembered`` whether ``find``
    answers without waiting.  ``recognise``, ``of_address`` and ``exchange`` handle tokens, signed
    addresses and assertions of callers that are not attempts.  ``telemetry`` accepts writes to
    Cloud Logging and Cloud Monitoring; None: they go to Google.  ``public`` reads public data at
    Google when the caller has no such bucket.  Other requests to Google are refused unless
    ``passes_on``; then they go through the proxy that ``proxies`` (https_proxy, no_proxy) name.
    """
    admission = Admission(
        tokens=tokens,
        find=find,
        is_remembered=is_remembered,
        recognise=recognise,
        of_address=of_address,
        exchange=exchange,
    )
    storage = storage_router(
        rows, admission, Denials(audit), public.read if public else read_nothing
    )
    other_hosts = dict.fromkeys(TELEMETRY_HOSTS, by_rest.app(telemetry)) if telemetry else {}
    app = Gateway(admission=admission, storage=storage, other_hosts=other_hosts)

    def peer_at(
        client_address: tuple[str, int], server_address: tuple[str, int]
    ) -> LivingAttempt | None:
        key = attempt_at(Endpoint(*client_address), Endpoint(*server_address))
        return find(key) if key else None

    calls = _LazyCalls(find, telemetry)
    return GatewayServing(data_dir, app, peer_at, find, calls, passes_on=passes_on, proxies=proxies)


class _LazyCalls:
    """Imports grpcio at the first call: it is slow, and most jobs do not use gRPC."""

    def __init__(self, find: FindAttempt, telemetry: Telemetry | None) -> None:
        self._arguments = (find, telemetry)
        self._lock = threading.Lock()
        self._calls: GrpcCalls | None = None

    def __call__(self) -> "GrpcCalls":
        from trainshed.api.gateway.grpc_calls import GrpcCalls  # noqa: PLC0415 - see above

        with self._lock:
            self._calls = self._calls or GrpcCalls(*self._arguments)
            return self._calls

    def stop(self) -> None:
        with self._lock:
            if self._calls is not None:
                self._calls.stop()
