"""Where tokens and keys are handled: by the running server, or, without one, in its database.

A SQLite database belongs to the server's process alone while that runs, so the server is asked
whenever it answers.  Both ways give the same JSON.
"""

import argparse
import contextlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final, Protocol

from trainshed.cli.connecting import Reach, reach
from trainshed.cli.terminal import note
from trainshed.client.collections import path_of
from trainshed.client.faults import Json, ServerRefusal, Unreachable
from trainshed.client.http import Server
from trainshed.config import load_settings
from trainshed.model.faults import UsageFault
from trainshed.model.refusals import Refusal
from trainshed.service.auth import signing_keys, tokens
from trainshed.store.base import StoreFault
from trainshed.store.opening import Store

ANSWER_S_MAX: Final = 10.0

_OPERATIONS: Final = {
    "tokens": (tokens.create, tokens.listing, tokens.revoke),
    "keys": (signing_keys.add, signing_keys.listing, signing_keys.remove),
}


class Administration(Protocol):
    """Takes what administrators ask; ``noun`` is tokens or keys.  Raises UsageFault."""

    def create(self, noun: str, document: Mapping[str, Any]) -> Json:
        """Make one."""

    def listing(self, noun: str) -> Json:
        """All of them, under their noun."""

    def remove(self, noun: str, name: str) -> Json:
        """Make one worthless."""


@contextlib.contextmanager
def administration(
    args: argparse.Namespace, environ: Mapping[str, str]
) -> Iterator[Administration]:
    """The server if it is named or answers, else its database."""
    found = reach(args, environ)
    if found.url and (args.url or _answers(found)):
        if not found.token:
            raise UsageFault(
                f"{found.url} wants an administrator's token; set TRAINSHED_TOKEN or give "
                "--token-file FILE. Without any, stop the server and repeat this on its machine: "
                "whoever may write its database may make a token"
            )
        yield ByServer(_server(found, found.token))
        return
    flags = {"data_dir": args.data_dir, "database": args.database}
    settings = load_settings(None, environ, flags)
    note(f"no server runs here; using the database of {found.folder}")
    with _open(settings.store_url) as store:
        yield ByStore(store)


@dataclass(frozen=True, slots=True)
class ByServer:
    """Asks the native API of a running server."""

    server: Server

    def create(self, noun: str, document: Mapping[str, Any]) -> Json:
        """POST."""
        return self._ask("POST", noun, document=dict(document))

    def listing(self, noun: str) -> Json:
        """GET."""
        found = self._ask("GET", noun)
        if not isinstance(found.get(noun), list):
            raise UsageFault(f"{self.server.url} does not answer as a Trainshed server does")
        return found

    def remove(self, noun: str, name: str) -> Json:
        """DELETE."""
        return self._ask("DELETE", noun, name)

    def _ask(self, verb: str, *parts: str, document: Json | None = None) -> Json:
        try:
            return self.server.call(verb, path_of("trainshed", "v1", *parts), document)
        except ServerRefusal as refusal:
            raise UsageFault(f"{self.server.url}: {refusal.message}") from refusal
        except Unreachable as error:
            raise UsageFault(f"cannot talk to {self.server.url}: {error.__cause__}") from error


@dataclass(frozen=True, slots=True)
class ByStore:
    """Does it itself; somebody else closes the store."""

    store: Store

    def create(self, noun: str, document: Mapping[str, Any]) -> Json:
        """Make one."""
        with _refusals_are_faults():
            return _OPERATIONS[noun][0](self.store, document)

    def listing(self, noun: str) -> Json:
        """All of them."""
        with _refusals_are_faults():
            return _OPERATIONS[noun][1](self.store)

    def remove(self, noun: str, name: str) -> Json:
        """Make one worthless."""
        with _refusals_are_faults():
            return _OPERATIONS[noun][2](self.store, name)


def _server(found: Reach, token: str | None) -> Server:
    ca = found.running.ca if found.running else None
    return Server(url=found.url or "", token=token, ca=ca, timeout_s=ANSWER_S_MAX)


def _answers(found: Reach) -> bool:
    """Whether the server of the data directory runs; it is shown no token yet."""
    return found.running is not None and found.running.is_alive and _server(found, None).answers()


@contextlib.contextmanager
def _open(url: str) -> Iterator[Store]:
    from trainshed.store.opening import open_store  # noqa: PLC0415  # SQLAlchemy, half a second

    try:
        store = open_store(url)
    except StoreFault as fault:
        raise UsageFault(str(fault)) from fault
    with contextlib.closing(store):
        yield store


@contextlib.contextmanager
def _refusals_are_faults() -> Iterator[None]:
    try:
        yield
    except (Refusal, StoreFault) as refusal:
        raise UsageFault(str(refusal)) from refusal
