"""Long-running operations: deletes, which are over before they are answered.

The clients insist on ``done`` together with a ``response``, and poll for the operation otherwise
(contracts/vertex-sdk.md 4.2).
"""

from datetime import datetime
from typing import Any, Final

from trainshed.wire.times import rfc3339

EMPTY: Final = "type.googleapis.com/google.protobuf.Empty"
DELETE_METADATA: Final = "type.googleapis.com/google.cloud.aiplatform.v1.DeleteOperationMetadata"


def deletion(name: str, time: datetime) -> dict[str, Any]:
    """The Operation of a resource that was deleted at a time."""
    stamp = rfc3339(time)
    return {
        "name": name,
        "metadata": {
            "@type": DELETE_METADATA,
            "genericMetadata": {"createTime": stamp, "updateTime": stamp},
        },
        "done": True,
        "response": {"@type": EMPTY},
    }
