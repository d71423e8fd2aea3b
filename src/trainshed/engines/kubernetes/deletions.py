"""Deletes the objects of an attempt: its Secret, and the JobSet that owns the Secret."""

import logging
from typing import Final

from trainshed.engines.kubernetes import manifest, paths
from trainshed.engines.kubernetes.api.client import Client
from trainshed.engines.kubernetes.api.errors import NOT_FOUND, ApiRefused

_LOG = logging.getLogger(__name__)

_CONFLICT: Final = 409


def delete_secret(client: Client, namespace: str, name: str) -> None:
    """Delete the Secret of an attempt, unless it is gone.  Raises ApiAway or ApiRefused."""
    try:
        client.delete(paths.secret(namespace, name))
    except ApiRefused as refusal:
        if refusal.reason != NOT_FOUND:
            raise


def try_to_delete_secret(client: Client, namespace: str, name: str) -> None:
    """Delete the Secret of an attempt; log a refusal.  Raises ApiAway."""
    try:
        delete_secret(client, namespace, name)
    except ApiRefused as refusal:
        _LOG.warning("cannot delete the Secret %s: %s; delete it", name, refusal)


def delete_jobset(client: Client, namespace: str, name: str, uid: str) -> None:
    """Delete a JobSet and then its pods, unless the JobSet with this uid is gone.

    Raises ApiAway or ApiRefused.
    """
    try:
        client.delete(paths.jobset(namespace, name), manifest.compose_deletion(uid))
    except ApiRefused as refusal:
        if refusal.reason != NOT_FOUND and refusal.status != _CONFLICT:
            raise
