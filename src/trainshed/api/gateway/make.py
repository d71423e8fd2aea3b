"""A gateway from its parts."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType

from starlette.types import ASGIApp

from trainshed.api.call import RawMethod
from trainshed.api.gateway.admission import Admission, OfAddress, Recognise
from trainshed.api.gateway.app import Gateway, storage_router
from trainshed.api.gateway.denials import Audit, Denials
from trainshed.api.gateway.server import GatewayServing
from trainshed.api.grants import Exchange
from trainshed.engines.base import AttemptAt, End
from trainshed.model.attempt import AttemptKey
from trainshed.service.gateway.attempts import FindAttempt, LivingAttempt
from trainshed.service.gateway.tokens import AttemptTokens


def make_gateway(  # noqa: PLR0913 - what it answers with, by name
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
    more: Mapping[str, ASGIApp] = MappingProxyType({}),
    passes_on: bool = False,
    proxies: Mapping[str, str] = MappingProxyType({}),
) -> GatewayServing:
    """What answers replicas.  Raises OSError.

    ``rows`` are those of storage.  ``attempt_at`` says whose process has a connection, ``find``
    what is known of an attempt that lives, ``is_remembered`` whether that is at hand.
    ``recognise``, ``of_address`` and ``exchange`` are for tokens, signed addresses and assertions
    of others than attempts.  ``more``
    answers for further hosts of Google's; what is left is refused, or passed on to Google, by the
    proxy that ``proxies`` name, if any (https_proxy, no_proxy).
    """
    admission = Admission(
        tokens=tokens,
        find=find,
        is_remembered=is_remembered,
        recognise=recognise,
        of_address=of_address,
        exchange=exchange,
    )
    storage = storage_router(rows, admission, Denials(audit))
    app = Gateway(admission=admission, storage=storage, more=more)

    def peer_at(theirs: tuple[str, int], ours: tuple[str, int]) -> LivingAttempt | None:
        key = attempt_at(End(*theirs), End(*ours))
        return find(key) if key else None

    return GatewayServing(data_dir, app, peer_at, passes_on=passes_on, proxies=proxies)
