"""Looks at everything that the open streams of a server show: one look for all of them."""

import json
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any, Final

from pydantic import TypeAdapter
from pydantic_core import PydanticSerializationError

from trainshed.service.changes.documents import (
    JobChange,
    LogChange,
    NodesChange,
    QueueChange,
    StudyChange,
)
from trainshed.service.changes.topics import TopicKind, TopicScope
from trainshed.service.changes.watches import Watch
from trainshed.wire.native_v1 import Answer

_ADAPTERS: Final[Mapping[type[Answer], TypeAdapter[Any]]] = {
    kind: TypeAdapter(kind)
    for kind in (QueueChange, JobChange, LogChange, NodesChange, StudyChange)
}


@dataclass(frozen=True, slots=True)
class ChangeLooks:
    """Finds what has changed since the last look.  For one caller at a time."""

    watches: Mapping[TopicKind, Watch]

    def look(self, scopes: Collection[TopicScope]) -> Mapping[TopicScope, bytes | None]:
        """Return the JSON document of each scope that has changed.

        None: too much has changed for a document, and pages read again.  Raises StoreFault.
        """
        return {
            scope: None if answer is None else _write(answer)
            for kind, watch in self.watches.items()
            for scope, answer in watch.look(_of_kind(kind, scopes)).items()
        }

    def forget(self) -> None:
        """Forget the last look; reads nothing."""
        self.look(())


def _of_kind(kind: TopicKind, scopes: Collection[TopicScope]) -> Collection[TopicScope]:
    return [scope for scope in scopes if scope.kind is kind]


def _write(answer: Answer) -> bytes:
    adapter = _ADAPTERS[type(answer)]
    try:
        return adapter.dump_json(answer, by_alias=True, exclude_none=True)
    except PydanticSerializationError:  # a text has a lone surrogate
        document = adapter.dump_python(answer, mode="json", by_alias=True, exclude_none=True)
        return json.dumps(document).encode()
