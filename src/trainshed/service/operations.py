"""Long-running operations: deletes, which are over before they are answered."""

import secrets
from datetime import datetime
from typing import Final

from trainshed.model.resource_names import OPERATIONS, OperationId, ProjectId, resource_name
from trainshed.service.refusing import not_found
from trainshed.store.base import Rest
from trainshed.store.records import Operation

_ID_BITS: Final = 62


def deleted(store: Rest, project: ProjectId, location: str, now: datetime) -> Operation:
    """Remember that something was deleted just now."""
    number = OperationId(str(secrets.randbits(_ID_BITS)))
    name = resource_name(OPERATIONS, project, location, number)
    operation = Operation(name=name, project=project, done=True, create_time=now)
    store.add_operation(operation)
    return operation


class OperationService:
    """Operations, for whoever asks how they went."""

    def __init__(self, store: Rest) -> None:
        """Look in a store."""
        self._store = store

    def get(self, project: ProjectId, location: str, operation_id: OperationId) -> Operation:
        """The operation of a name.  Raises Refusal (NOT_FOUND)."""
        name = resource_name(OPERATIONS, project, location, operation_id)
        found = self._store.operation(name)
        if found is None or found.project != project:
            raise not_found(name)
        return found
