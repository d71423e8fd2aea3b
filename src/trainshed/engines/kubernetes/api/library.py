"""Loads a cluster's configuration with the official client, the only module that imports it.

It reads kubeconfigs and service accounts and runs plug-ins.  Two of its habits are dangerous here:
it logs a plug-in's failure and goes on without credentials, and its errors may quote the
kubeconfig.  So this module collects what it logs, and removes from texts what may be a token.
"""

import logging
import os
import re
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import yaml
from kubernetes.client import Configuration
from kubernetes.client.rest import RESTClientObject
from kubernetes.config import ConfigException, kube_config
from kubernetes.config.incluster_config import InClusterConfigLoader

from trainshed.engines.kubernetes.api.access import ClusterSession
from trainshed.engines.kubernetes.api.errors import ApiAway

#: The folder in which a pod has its service account.
SERVICE_ACCOUNT: Final = "/var/run/secrets/kubernetes.io/serviceaccount"
_KUBECONFIG: Final = "~/.kube/config"
_HOST: Final = "KUBERNETES_SERVICE_HOST"
_NO_FILE: Final = (
    "the file does not exist; correct `kubeconfig` in the [[engine]] table or the server's "
    "variable KUBECONFIG"
)
#: Connections that may be open at once: five watches, four launches, the deletions, and those of an
#: administrator's commands in the server.
_CONNECTIONS: Final = 16
#: Characters of a library's text that a message repeats.
_TEXT_MAX: Final = 300
#: A word this long may be a token or a key.
_SECRET: Final = re.compile(r"[\w.=+-]{32,}")


class ConfigurationSource:
    """Where the configuration of one cluster is."""

    def __init__(
        self,
        kubeconfig: str,
        context: str,
        keys_folder: str,
        *,
        environ: Mapping[str, str] = os.environ,
        service_account: str = SERVICE_ACCOUNT,
    ) -> None:
        """``kubeconfig``: path; empty: the service account, or else the variable KUBECONFIG.

        ``context``: empty: the current one.  ``keys_folder``: folder of this user alone for the
        keys that a kubeconfig contains.
        """
        self._context = context or None
        self._keys_folder = keys_folder
        self._environ = environ
        self._service_account = service_account
        self._is_pod = not kubeconfig and bool(environ.get(_HOST))
        self._path = kubeconfig or environ.get("KUBECONFIG") or str(Path(_KUBECONFIG).expanduser())

    def load(self) -> ClusterSession:
        """Read files, run a plug-in if the kubeconfig names one.  Raises ApiAway."""
        configuration = Configuration()
        configuration.connection_pool_maxsize = _CONNECTIONS
        configuration.keep_alive = True  # a peer that vanished without a word is noticed
        with _explain_errors(self._describe()):
            namespace = self._read_account(configuration) or self._read_file(configuration)

        def make_headers() -> Mapping[str, str]:
            with _explain_errors(self._describe()):
                return _make_headers(configuration)

        pool = RESTClientObject(configuration).pool_manager
        return ClusterSession(configuration.host.rstrip("/"), pool, make_headers, namespace)

    def _describe(self) -> str:
        return "the service account of this pod" if self._is_pod else f"kubeconfig {self._path}"

    def _read_account(self, configuration: Any) -> str:
        """Read the service account and return its namespace; empty: this is no pod."""
        if not self._is_pod:
            return ""
        folder = Path(self._service_account)
        token, authority = str(folder / "token"), str(folder / "ca.crt")
        InClusterConfigLoader(token, authority, environ=self._environ).load_and_set(configuration)
        return (folder / "namespace").read_text("utf-8").strip() or "default"

    def _read_file(self, configuration: Any) -> str:
        """Read the kubeconfig and return the namespace of the context; empty: it has none."""
        if not any(Path(path).expanduser().exists() for path in self._path.split(os.pathsep)):
            raise ConfigException(_NO_FILE)
        kube_config.load_kube_config(
            self._path,
            self._context,
            configuration,
            persist_config=False,
            temp_file_path=self._keys_folder,
        )
        contexts, current = kube_config.list_kube_config_contexts(self._path)
        named = [context for context in contexts if context["name"] == self._context]
        context = named[0] if named else current
        return str(context["context"].get("namespace") or "")


def _make_headers(configuration: Any) -> Mapping[str, str]:
    """Return the header with the current token; the library renews tokens whose end it knows."""
    bearer = configuration.auth_settings().get("BearerToken", {}).get("value")
    return {"Authorization": bearer.strip()} if bearer else {}


@contextmanager
def _explain_errors(source: str) -> Iterator[None]:
    """Turn errors of the library, and errors that it only logs, into ApiAway without secrets."""
    with _collect_log() as texts:
        try:
            yield
        except ConfigException as error:
            texts.append(str(error))
        except yaml.YAMLError as error:
            line = getattr(getattr(error, "problem_mark", None), "line", 0)
            texts.append(f"line {line + 1} is no YAML")
        except OSError as error:
            texts.append(f"cannot read {error.filename}: {error.strerror}")
        except (AttributeError, LookupError, TypeError, ValueError) as error:
            texts.append(f"it is no valid configuration ({type(error).__name__})")
    if texts:
        raise ApiAway(f"cannot get credentials from {source}: {_remove_secrets(texts[0])}")


@contextmanager
def _collect_log() -> Iterator[list[str]]:
    """Collect what this thread logs to the root logger; the library logs there by mistake."""
    texts: list[str] = []
    thread = threading.get_ident()

    def keep_others(record: logging.LogRecord) -> bool:
        if record.thread != thread:
            return True
        texts.append(record.getMessage())
        return False

    root = logging.getLogger()
    root.addFilter(keep_others)
    try:
        yield texts
    finally:
        root.removeFilter(keep_others)


def _remove_secrets(text: str) -> str:
    """Cut a text before a quoted part of the kubeconfig, and hide words that may be tokens."""
    line = " ".join(text.partition("{")[0].split())
    return _SECRET.sub("***", line)[:_TEXT_MAX]
