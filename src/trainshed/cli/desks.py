"""Where tokens and keys are handled: by the running server, or, without one, in its database.

A SQLite database belongs to the server's process alone while that runs, so the server is asked
whenever it answers.  Both ways give the same JSON.
"""

import argparse
import contextlib
import http.client
import json
import ssl
from collections.abc import Iterator, Mapping
from typing import Any, Protocol
from urllib.parse import quote, urlsplit

from trainshed.cli.notes import note
from trainshed.cli.reaching import Reach, reach
from trainshed.config import load_settings
from trainshed.model.faults import UsageFault
from trainshed.model.refusals import Refusal
from trainshed.service import signing_keys, tokens
from trainshed.store.base import StoreBase, StoreFault

Json = dict[str, Any]

ANSWER_S_MAX = 10.0
_PATH = "/trainshed/v1"

_OPERATIONS = {
    "tokens": (tokens.create, tokens.listing, tokens.revoke),
    "keys": (signing_keys.add, signing_keys.listing, signing_keys.remove),
}


class Desk(Protocol):
    """Takes what administrators ask; ``noun`` is tokens or keys.  Raises UsageFault."""

    def create(self, noun: str, document: Mapping[str, Any]) -> Json:
        """Make one."""

    def listing(self, noun: str) -> Json:
        """All of them, under their noun."""

    def remove(self, noun: str, name: str) -> Json:
        """Make one worthless."""


@contextlib.contextmanager
def desk(args: argparse.Namespace, environ: Mapping[str, str]) -> Iterator[Desk]:
    """The server if it is named or answers, else its database."""
    found = reach(args, environ)
    if found.url and (args.url or _answers(found)):
        if not found.token:
            raise UsageFault(
                f"{found.url} wants an administrator's token; set TRAINSHED_TOKEN or give "
                "--token-file FILE. Without any, stop the server and repeat this on its machine: "
                "whoever may write its database may make a token"
            )
        yield ServerDesk(found.url, found.token, found.running.ca if found.running else None)
        return
    flags = {"data_dir": args.data_dir, "database": args.database}
    settings = load_settings(None, environ, flags)
    note(f"no server runs here; using the database of {found.folder}")
    with _open(settings.store_url) as store:
        yield StoreDesk(store)


class ServerDesk:
    """Asks the native API of a running server.

    By ``http.client``, which knows neither proxies nor redirections: a token goes nowhere else.
    """

    def __init__(self, url: str, token: str, ca: str | None) -> None:
        """Keep the address."""
        self._url = urlsplit(url)
        self._token = token
        self._ca = ca

    def create(self, noun: str, document: Mapping[str, Any]) -> Json:
        """POST."""
        return self._ask("POST", noun, document)

    def listing(self, noun: str) -> Json:
        """GET."""
        found = self._ask("GET", noun)
        if not isinstance(found.get(noun), list):
            raise UsageFault(f"{self._url.geturl()} does not answer as a Trainshed server does")
        return found

    def remove(self, noun: str, name: str) -> Json:
        """DELETE."""
        return self._ask("DELETE", f"{noun}/{quote(name, safe='')}")

    def _ask(self, verb: str, path: str, document: Mapping[str, Any] | None = None) -> Json:
        body = None if document is None else json.dumps(document)
        headers = {
            "Authorization": f"Bearer {self._token}",
            "Content-Type": "application/json",
        }
        with contextlib.closing(_connection(self._url, self._ca)) as connection:
            try:
                connection.request(verb, f"{_PATH}/{path}", body, headers)
                answer = connection.getresponse()
                return _read(answer.status, answer.read(), self._url.geturl())
            except (OSError, http.client.HTTPException) as error:
                raise UsageFault(f"cannot talk to {self._url.geturl()}: {error}") from error


class StoreDesk:
    """Does it itself."""

    def __init__(self, store: StoreBase) -> None:
        """Keep the store; somebody else closes it."""
        self._store = store

    def create(self, noun: str, document: Mapping[str, Any]) -> Json:
        """Make one."""
        with _refusals_are_faults():
            return _OPERATIONS[noun][0](self._store, document)

    def listing(self, noun: str) -> Json:
        """All of them."""
        with _refusals_are_faults():
            return _OPERATIONS[noun][1](self._store)

    def remove(self, noun: str, name: str) -> Json:
        """Make one worthless."""
        with _refusals_are_faults():
            return _OPERATIONS[noun][2](self._store, name)


def _answers(found: Reach) -> bool:
    """Whether the server of the data directory runs; it is shown no token yet."""
    if found.running is None or not found.running.is_alive:
        return False
    url = urlsplit(found.running.url)
    with contextlib.closing(_connection(url, found.running.ca)) as connection:
        try:
            connection.request("GET", "/healthz")
            return connection.getresponse().status == http.client.OK
        except (OSError, http.client.HTTPException):
            return False


def _connection(url: Any, ca: str | None) -> http.client.HTTPConnection:
    if url.scheme == "https":
        context = ssl.create_default_context(cafile=ca)
        return http.client.HTTPSConnection(url.netloc, timeout=ANSWER_S_MAX, context=context)
    return http.client.HTTPConnection(url.netloc, timeout=ANSWER_S_MAX)


def _read(status: int, body: bytes, url: str) -> Json:
    try:
        found = json.loads(body or b"{}")
    except ValueError:
        found = None
    if not isinstance(found, dict):
        raise UsageFault(f"{url} answers {status}, and not as a Trainshed server does")
    if status >= http.client.BAD_REQUEST:
        error = found.get("error")
        message = error.get("message") if isinstance(error, dict) else None
        raise UsageFault(f"{url}: {message or f'it answers {status}'}")
    return found


@contextlib.contextmanager
def _open(url: str) -> Iterator[StoreBase]:
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
