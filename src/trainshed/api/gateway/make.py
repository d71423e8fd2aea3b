"""A gateway from its parts."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType

from starlette.types import ASGIApp

from trainshed.api.call import RawMethod
from trainshed.api.gateway.admission import Admission, Recognise
from trainshed.api.gateway.app import Audit, Gateway, storage_router
from trainshed.api.gateway.server import GatewayOptions, GatewayServer
from trainshed.api.grants import Exchange
from trainshed.engines.base import AttemptAt, End
from trainshed.service.gateway.attempts import FindAttempt, LivingAttempt
from trainshed.service.gateway.tokens import AttemptTokens


def make_gateway(  # noqa: PLR0913 - what it answers with, by name
    data_dir: Path,
    *,
    raw: Sequence[RawMethod],
    attempt_at: AttemptAt,
    find: FindAttempt,
    recognise: Recognise | None = None,
    exchange: Exchange | None = None,
    audit: Audit = lambda **_: None,
    more: Mapping[str, ASGIApp] = MappingProxyType({}),
    options: GatewayOptions | None = None,
) -> GatewayServer:
    """A gateway that is not open yet.

    ``raw`` are the rows of storage.  ``attempt_at`` says whose process has a connection, ``find``
    what is known of an attempt that lives.  ``recognise`` and ``exchange`` are for tokens and
    assertions of others than attempts.  ``more`` answers for further hosts of Google's.
    """

    def app() -> Gateway:
        admission = Admission(
            tokens=AttemptTokens.of(data_dir), find=find, recognise=recognise, exchange=exchange
        )
        storage = storage_router(raw, admission, audit)
        return Gateway(admission=admission, storage=storage, more=more)

    def peer_at(theirs: tuple[str, int], ours: tuple[str, int]) -> LivingAttempt | None:
        key = attempt_at(End(*theirs), End(*ours))
        return find(key) if key else None

    return GatewayServer(data_dir, app, peer_at, options)
