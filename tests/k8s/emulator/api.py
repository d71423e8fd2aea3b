"""The emulator's API server as tests start it: store, admission, users, collector, HTTP."""

import json
import ssl
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from .admission import AdmissionChain
from .collection import GarbageCollector
from .quota import QuotaStatus
from .rbac import MASTERS, Access
from .server import ApiServer
from .store import Store

ADMIN = "kubernetes-admin"
ADMIN_TOKEN = "admin-token"


class EmulatedApi:
    """One API server with one administrator; ``server`` alone may stop and start again."""

    def __init__(
        self,
        *,
        clock: Callable[[], float] = time.time,
        history_limit: int = 10_000,
        tls: ssl.SSLContext | None = None,
        bookmark_s: float = 60.0,
    ) -> None:
        self.store = Store(clock=clock, history_limit=history_limit)
        self.admission = AdmissionChain(self.store)
        self.store.admit = self.admission
        self.access = Access()
        self.access.add_user(ADMIN, ADMIN_TOKEN, (MASTERS,))
        self.collector = GarbageCollector(self.store)
        self.quota_status = QuotaStatus(self.store)
        self.server = ApiServer(self.store, self.access, tls=tls, bookmark_s=bookmark_s)
        self.faults = self.server.faults

    @property
    def url(self) -> str:
        return self.server.url

    def start(self) -> None:
        self.collector.start()
        self.server.start()

    def stop(self) -> None:
        self.server.stop()
        self.collector.stop()

    def restart(self) -> None:
        """Stop the server and start it again on the same port; objects stay."""
        self.server.stop()
        self.server.start()

    def create_namespace(self, name: str) -> None:
        self.store.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})


@contextmanager
def start_api(**options: Any) -> Iterator[EmulatedApi]:
    """An API server on the loopback interface that ends with the block."""
    api = EmulatedApi(**options)
    api.start()
    try:
        yield api
    finally:
        api.stop()


def make_tls(certificate: Path, key: Path, *, client_ca: Path | None = None) -> ssl.SSLContext:
    """TLS of a server; with ``client_ca`` its clients may show certificates of that authority."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    if client_ca is not None:
        context.verify_mode = ssl.CERT_OPTIONAL
        context.load_verify_locations(client_ca)
    return context


def make_kubeconfig(
    url: str, token: str, *, namespace: str = "default", ca_file: str = "", **user: Any
) -> Mapping[str, Any]:
    """A kubeconfig with one context; more members of its user come by keyword.

    An empty ``token`` is left out, for users with ``exec``, ``tokenFile`` or a certificate.
    """
    cluster = {"server": url, **({"certificate-authority": ca_file} if ca_file else {})}
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "emulator", "cluster": cluster}],
        "users": [{"name": "user", "user": {**({"token": token} if token else {}), **user}}],
        "contexts": [
            {
                "name": "emulator",
                "context": {"cluster": "emulator", "user": "user", "namespace": namespace},
            }
        ],
        "current-context": "emulator",
    }


def write_kubeconfig(path: Path, url: str, token: str = ADMIN_TOKEN, **options: Any) -> Path:
    """Write a kubeconfig (JSON, which YAML contains) that its owner alone may read."""
    path.touch(mode=0o600)
    path.write_text(json.dumps(make_kubeconfig(url, token, **options)), "utf-8")
    return path
