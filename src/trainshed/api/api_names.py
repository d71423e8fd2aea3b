"""Names of APIs, for metrics, traces and logs: a closed set, derived from the path of a request.

Paths of Vertex AI have a location; so has each route of its table, also those without a gRPC call.
"""

from collections.abc import Mapping
from typing import Final

from trainshed.model.roles import Dialect

GRPC: Final = "grpc"
#: Health checks and metrics, which are neither logged nor traced.
PROBE: Final = "probe"
#: The front page, and paths that no API has.
CONTENT: Final = "content"
_NATIVE: Final = "native"
_VERTEX: Final = Dialect.AIPLATFORM_V1.value
_STORAGE: Final = "storage_v1"
#: The API of a path by its first segment; ``/v1`` has two.
_BY_SEGMENT: Final[Mapping[str, str]] = {
    "v1": Dialect.ML_V1.value,
    "v1beta1": _VERTEX,
    "ui": _VERTEX,
    "v2": "logging_v2",
    "storage": _STORAGE,
    "upload": _STORAGE,
    "resumable": _STORAGE,
    "download": _STORAGE,
    "batch": _STORAGE,
    "b": _STORAGE,
    "as": _STORAGE,
    "trainshed": _NATIVE,
    "console": "console",
    "healthz": PROBE,
    "readyz": PROBE,
    "metrics": PROBE,
}
_METRICS: Final = "/trainshed/v1/metrics"
#: All names.
APIS: Final = frozenset({*_BY_SEGMENT.values(), CONTENT, GRPC})


def find_api(path: str) -> str:
    """Return the API of a path, or of the path of a route."""
    if path.startswith(_METRICS):
        return PROBE
    _, segment, *_ = (*path.split("/", 2), "")
    api = _BY_SEGMENT.get(segment, CONTENT)
    return _VERTEX if segment == "v1" and "/locations/" in path else api
