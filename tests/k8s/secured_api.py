"""The API of a running cluster over TLS: ``kubectl`` sends no token without."""

from contextlib import contextmanager

from k8s.emulator.api import make_tls
from k8s.emulator.pods.logs import PodLogs
from k8s.emulator.server import ApiServer
from k8s.kubectl import Kubectl
from trainshed.service.auth.certificates import ensure_tls


@contextmanager
def kubectl_for(cluster, folder):
    """A real ``kubectl`` of the administrator of a cluster."""
    tls = ensure_tls(folder, ["127.0.0.1"])
    api = cluster.api
    secured = ApiServer(api.store, api.access, tls=make_tls(tls.certificate, tls.key))
    secured.handlers.logs = PodLogs(cluster.plane.parts.cache, cluster.plane.find_log)
    secured.start()
    try:
        yield Kubectl(folder, secured, tls.ca)
    finally:
        secured.stop()
