"""Deletes the Secret of an attempt, which the cluster deletes only with a JobSet that owns it."""

from trainshed.engines.kubernetes import paths
from trainshed.engines.kubernetes.api.client import Client
from trainshed.engines.kubernetes.api.errors import NOT_FOUND, ApiRefused


def delete_secret(client: Client, namespace: str, name: str) -> None:
    """Delete the Secret of an attempt, unless it is gone.  Raises ApiAway or ApiRefused."""
    try:
        client.delete(paths.secret(namespace, name))
    except ApiRefused as refusal:
        if refusal.reason != NOT_FOUND:
            raise
