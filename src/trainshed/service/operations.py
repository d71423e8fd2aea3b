"""Long-running operations: deletes, which are over before they are answered.

The clients insist on ``done`` together with a ``response``, and poll for the operation otherwise
(contracts/vertex-sdk.md 4.2).
"""

import json
import secrets
from datetime import datetime
from typing import Final

from trainshed.service.refusing import not_found
from trainshed.service.resource_names import parent
from trainshed.store.base import Rest
from trainshed.store.records import Operation
from trainshed.wire.times import rfc3339

EMPTY: Final = {"@type": "type.googleapis.com/google.protobuf.Empty"}
DELETE_METADATA: Final = "type.googleapis.com/google.cloud.aiplatform.v1.DeleteOperationMetadata"
_ID_BITS = 62


def deleted(store: Rest, project: str, location: str, now: datetime) -> Operation:
    """Remember that something was deleted just now."""
    time = rfc3339(now)
    metadata = {
        "@type": DELETE_METADATA,
        "genericMetadata": {"createTime": time, "updateTime": time},
    }
    operation = Operation(
        name=f"{parent(project, location)}/operations/{secrets.randbits(_ID_BITS)}",
        project=project,
        done=True,
        create_time=now,
        metadata=json.dumps(metadata),
        response=json.dumps(EMPTY),
    )
    store.add_operation(operation)
    return operation


class OperationService:
    """Operations, for whoever asks how they went."""

    def __init__(self, store: Rest) -> None:
        """Look in a store."""
        self._store = store

    def get(self, project: str, location: str, operation_id: str) -> Operation:
        """The operation of a name.  Raises Refusal (NOT_FOUND)."""
        name = f"{parent(project, location)}/operations/{operation_id}"
        found = self._store.operation(name)
        if found is None or found.project != project:
            raise not_found(name)
        return found
