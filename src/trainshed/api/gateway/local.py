"""The gateway of a local run, for the one attempt of a command.

The buckets are folders of the user's data directory.  All buckets belong to the run, because there
is no other project, and a write creates a missing bucket.
"""

import os
import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

from trainshed.api.gateway.make import make_gateway
from trainshed.api.gateway.public import Public, by_proxies
from trainshed.api.gateway.server import GatewayServing
from trainshed.api.storage import routes_over
from trainshed.api.storage_call import BucketAccess
from trainshed.engines.base import AttemptAt
from trainshed.model.access import AccessRole, Caller
from trainshed.model.attempt import AttemptKey
from trainshed.service.gateway.attempts import LivingAttempt
from trainshed.service.gateway.telemetry import Telemetry
from trainshed.service.gateway.tokens import AttemptTokens
from trainshed.storage.buckets import is_bucket_name
from trainshed.storage.objects import Objects
from trainshed.storage.uploads import Uploads
from trainshed.wire.logging_v2.written import WrittenLine

_SECRET_BYTES = 32


class _OneProject:
    """Gives all buckets to the run's project."""

    def __init__(self, objects: Objects, attempt: LivingAttempt) -> None:
        self._objects = objects
        self._attempt = attempt

    def bucket(self, name: str) -> tuple[str, datetime] | None:
        if not self._objects.buckets.has(name):
            return None
        return self._attempt.project, datetime.now(UTC)

    def buckets(self, project: str) -> Sequence[str]:
        return self._objects.buckets.names() if project == self._attempt.project else ()

    def add_bucket(self, name: str, project: str) -> str:
        del name
        return project

    def project(self, id_or_number: str) -> tuple[str, str]:
        del id_or_number
        return self._attempt.project, self._attempt.project_number


class _CreatingAccess(BucketAccess):
    """Creates a missing bucket when a program writes to it."""

    def need(self, caller: Caller, bucket: str, role: AccessRole) -> None:
        buckets = self.objects.buckets
        if role >= AccessRole.SUBMITTER and is_bucket_name(bucket) and not buckets.has(bucket):
            buckets.make(bucket)
        super().need(caller, bucket, role)


def serve_local(data_dir: Path, attempt: LivingAttempt, attempt_at: AttemptAt) -> GatewayServing:
    """Start the gateway of a local run.  Raises OSError."""
    objects = Objects(data_dir=data_dir)
    access = _CreatingAccess(
        objects=objects, uploads=Uploads(objects), store=_OneProject(objects, attempt)
    )
    return make_gateway(
        data_dir,
        rows=routes_over(access),
        tokens=AttemptTokens(os.urandom(_SECRET_BYTES)),
        attempt_at=attempt_at,
        find=lambda key: attempt if key == attempt.key else None,
        is_remembered=lambda _: True,
        proxies=os.environ,
        telemetry=Telemetry(_print_sentence, _print_lines),
        public=Public(by_proxies(os.environ)),
    )


def _print_sentence(peer: LivingAttempt, sentence: str) -> None:
    del peer
    sys.stderr.write(f"{sentence}\n")


def _print_lines(key: AttemptKey, lines: Sequence[WrittenLine]) -> bool:
    """Print log entries to the user's terminal."""
    del key
    sys.stderr.writelines(f"{line.severity} {line.text}\n" for line in lines)
    return True
