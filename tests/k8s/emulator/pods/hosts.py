"""Names of pods as files: each pod's ``/etc/hosts`` has what a cluster's DNS answers; pure."""

from k8s.emulator.controllers.objects import is_true, labels_of

HEAD = """\
# Kubernetes-managed hosts file.
127.0.0.1\tlocalhost
::1\tlocalhost ip6-localhost ip6-loopback
fe00::0\tip6-localnet
fe00::0\tip6-mcastprefix
fe00::1\tip6-allnodes
fe00::2\tip6-allrouters
"""
RESOLVER = """\
search {namespace}.svc.cluster.local svc.cluster.local cluster.local
nameserver {server}
options ndots:5
"""


def host_name_of(pod):
    return pod["spec"].get("hostname") or pod["metadata"]["name"]


def compose_own_line(pod, address):
    """The line that a kubelet writes for the pod itself."""
    host, domain = host_name_of(pod), pod["spec"].get("subdomain")
    if not domain:
        return f"{address}\t{host}\n"
    full = f"{host}.{domain}.{pod['metadata']['namespace']}.svc.cluster.local"
    return f"{address}\t{full}\t{host}\n"


def compose_hosts(pod, address, peers, services):
    """A pod's hosts file; ``peers`` are pods of its namespace with their addresses."""
    lines = [
        _compose_peer_line(peer, peer_address)
        for peer, peer_address in peers
        if _is_published(peer, services)
    ]
    return HEAD + compose_own_line(pod, address) + "".join(sorted(lines))


def _is_published(pod, services):
    domain = pod["spec"].get("subdomain")
    for service in services:
        selector = service["spec"].get("selector") or {}
        is_match = selector.items() <= labels_of(pod).items()
        if service["metadata"]["name"] == domain and is_match:
            return service["spec"].get("publishNotReadyAddresses") or is_true(pod, "Ready")
    return False


def _compose_peer_line(pod, address):
    namespace = pod["metadata"]["namespace"]
    name = f"{host_name_of(pod)}.{pod['spec']['subdomain']}"
    names = (name, *(f"{name}.{namespace}{end}" for end in ("", ".svc", ".svc.cluster.local")))
    return f"{address}\t{' '.join(names)}\n"
