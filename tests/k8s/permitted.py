"""An account of the emulated cluster with the rules of some of the engine's permissions."""

from contextlib import contextmanager

from trainshed.engines.kubernetes.permissions import compose_rules

USER, TOKEN = "system:serviceaccount:default:server", "server-token"


@contextmanager
def permitting(cluster, *, namespace="default"):
    """A function that gives the account exactly the rules of permissions."""
    access = cluster.api.access
    access.add_user(USER, TOKEN)

    def give(*permissions):
        access.unbind(USER)
        role = {"kind": "Role", "metadata": {"namespace": namespace}}
        access.bind(USER, {**role, "rules": compose_rules(permissions)})
        nodes = compose_rules(permissions, is_of_cluster=True)
        access.bind(USER, {"kind": "ClusterRole", "rules": nodes})

    try:
        yield give
    finally:
        access.unbind(USER)
        access.revoke(TOKEN)
