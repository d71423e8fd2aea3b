"""The record of a call that changed something or was refused."""

from typing import NamedTuple


class AuditEntry(NamedTuple):
    """The caller, its address, the method, the resource and the result.  No field has a secret."""

    stamp_ns: int
    """The time of the answer, in nanoseconds since 1970."""
    caller: str
    """The name of a token or account; empty for an unauthenticated call."""
    credential: str
    """The id of the token or key; empty where there is none."""
    address: str
    """The network address of the caller; ``local`` for a command on the server's machine."""
    method: str
    """The route: ``POST /v1/projects/{project}/jobs``, or the name of a gRPC method."""
    resource: str
    """The path of the request, without its query."""
    project: str
    """An id or number, as the caller wrote it; empty where the call names none."""
    status: str
    """``OK``, or the canonical code of the refusal (``PERMISSION_DENIED``).

    After an unexpected error it ends with the number of the incident: ``INTERNAL 1a2b3c4d``.
    """

    @property
    def is_of_stranger(self) -> bool:
        """Whether the call was unauthenticated."""
        return not self.credential
