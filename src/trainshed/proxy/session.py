"""Redirects programs from Google's names to a Trainshed server, by variables and a proxy."""

import contextlib
import json
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from trainshed.client.faults import Json
from trainshed.client.http import Server
from trainshed.files.server_files import hold_folder
from trainshed.proxy.abandoned import PREFIX, remove_abandoned
from trainshed.proxy.authority import Authority
from trainshed.proxy.credentials import DefaultCredentials, default_credentials
from trainshed.proxy.serving import Proxy, Upstream
from trainshed.service.auth.certificates import public_roots
from trainshed.workbench.client_settings import TOKEN, ClientTarget, variables

#: Variables from which clients read the file of trusted CA certificates.
_BUNDLE_VARIABLES: Final = (
    "REQUESTS_CA_BUNDLE",
    "CURL_CA_BUNDLE",
    "SSL_CERT_FILE",
    "HTTPLIB2_CA_CERTS",
    "GRPC_DEFAULT_SSL_ROOTS_FILE_PATH",
)
_PROXY_VARIABLES: Final = ("https_proxy", "HTTPS_PROXY")
#: Google's clients speak TLS: these are set only if the proxy is to refuse unencrypted requests.
_PLAIN_PROXY_VARIABLES: Final = ("http_proxy", "HTTP_PROXY")
#: gRPC takes the first two of these before https_proxy, and no_grpc_proxy before no_proxy.
_UNSET: Final = (
    "grpc_proxy",
    "no_grpc_proxy",
    "STORAGE_EMULATOR_HOST",
    "CLOUD_STORAGE_EMULATOR_ENDPOINT",
    "SSL_CERT_DIR",
)
_PROJECT_VARIABLES: Final = ("GOOGLE_CLOUD_PROJECT", "GCLOUD_PROJECT")
_LOOPBACK: Final = ("localhost", "127.0.0.1", "::1")
_GOOGLES: Final = "googleapis.com"
#: aiohttp, which gcsfs uses, reads the variables of proxies only if trust_env is set.
_FSSPEC: Final = json.dumps({"session_kwargs": {"trust_env": True}})
_FSSPEC_VARIABLES: Final = ("FSSPEC_GS", "FSSPEC_GCS")


class Session:
    """A running proxy, and the variables that point programs at it."""

    def __init__(
        self,
        proxy: Proxy,
        bundle: Path,
        credentials: DefaultCredentials,
        environ: Mapping[str, str],
    ) -> None:
        """``environ`` are the variables of programs without a session."""
        self.proxy = proxy
        self._bundle = bundle
        self._credentials = credentials
        self._environ = environ

    def redirect_to(self, target: ClientTarget, server: Server) -> Mapping[str, str | None]:
        """Redirect Google's names to a server; return the variables to set, None to unset one."""
        self.proxy.upstream = Upstream(url=target.url, grpc=target.grpc, ca=server.ca)
        values = _variables(target, self.proxy, self._bundle, self._credentials, self._environ)
        token = server.token or ""
        return {name: value and value.replace(TOKEN, token) for name, value in values.items()}

    def environ_for(
        self, target: ClientTarget, server: Server, own_variables: Mapping[str, str | None]
    ) -> dict[str, str]:
        """Return the environment of a program; ``own_variables`` are those of ``trainshed``."""
        token = server.token or ""
        filled = {
            name: value and value.replace(TOKEN, token) for name, value in own_variables.items()
        }
        merged = {**self._environ, **self.redirect_to(target, server), **filled}
        return {name: value for name, value in merged.items() if value is not None}


@contextlib.contextmanager
def open_session(
    target: ClientTarget,
    server: Server,
    *,
    offline: bool = False,
    environ: Mapping[str, str],
    key: Json | None = None,
) -> Iterator[Session]:
    """Redirect Google's names to a server; afterwards remove the folder and the key of the session.

    ``server`` is called with the caller's token.  ``environ`` are the caller's variables, which
    name the proxies for other hosts.  ``key`` is the key file of a registered service account;
    None: a new key is registered until the session ends.  Raises ServerRefusal and Unreachable.
    """
    authority = Authority()
    remove_abandoned(server)
    with tempfile.TemporaryDirectory(prefix=PREFIX) as folder, hold_folder(folder):
        bundle = Path(folder, "ca-bundle.pem")
        bundle.write_bytes(_bundle_of(authority, server.ca))
        with default_credentials(server, target.project, Path(folder), key) as credentials:
            upstream = Upstream(url=target.url, grpc=target.grpc, ca=server.ca)
            proxy = Proxy(authority, upstream, offline=offline, proxies=environ)
            proxy.start()
            try:
                yield Session(proxy, bundle, credentials, dict(environ))
            finally:
                proxy.stop()


def _bundle_of(authority: Authority, ca: str | None) -> bytes:
    """Join the CA certificates of the machine, of the server and of this run."""
    other_certificates = Path(ca).read_bytes() if ca else public_roots()
    return authority.certificate + other_certificates


def _variables(
    target: ClientTarget,
    proxy: Proxy,
    bundle: Path,
    credentials: DefaultCredentials,
    environ: Mapping[str, str],
) -> dict[str, str | None]:
    gcloud = variables(replace(target, bundle=str(bundle)))
    no_proxy = _list_no_proxy(target, environ)
    redirects: dict[str, str | None] = dict.fromkeys(_UNSET)
    redirects |= dict.fromkeys(_BUNDLE_VARIABLES, str(bundle))
    redirects |= dict.fromkeys(_PROXY_VARIABLES, proxy.url)
    if proxy.is_offline:
        redirects |= dict.fromkeys(_PLAIN_PROXY_VARIABLES, proxy.url)
    redirects |= dict.fromkeys(("no_proxy", "NO_PROXY"), no_proxy)
    redirects |= _project_variables(target.project, credentials, environ)
    redirects |= dict.fromkeys(_FSSPEC_VARIABLES, _FSSPEC)
    redirects["GOOGLE_APPLICATION_CREDENTIALS"] = str(credentials.file)
    redirects["NO_GCE_CHECK"] = "true"
    return gcloud | redirects


def _project_variables(
    project: str, credentials: DefaultCredentials, environ: Mapping[str, str]
) -> dict[str, str | None]:
    """Return the caller's project variables, set to this project.

    A user's credentials name no project, so GOOGLE_CLOUD_PROJECT is then always set.

    Variables that the caller has not set stay unset: the Vertex SDK would look up their value as a
    project number.
    """
    values: dict[str, str | None] = {
        name: project for name in _PROJECT_VARIABLES if name in environ
    }
    return values if credentials.is_account else values | {_PROJECT_VARIABLES[0]: project}


def _list_no_proxy(target: ClientTarget, environ: Mapping[str, str]) -> str:
    """List the hosts without proxy: this machine, the server, and those of the caller."""
    names = (environ.get("no_proxy") or environ.get("NO_PROXY") or "").split(",")
    callers_names = [name for name in map(str.strip, names) if name and not _covers_google(name)]
    return ",".join(
        dict.fromkeys([*_LOOPBACK, urlsplit(target.url).hostname or "", *callers_names])
    )


def _covers_google(name: str) -> bool:
    plain = name.lower().lstrip("*.").partition(":")[0]
    return plain in {"", "com"} or plain.endswith(_GOOGLES)
