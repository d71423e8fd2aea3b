"""Refusals for which HTTP has a status and google.rpc has no code of its own."""

from trainshed.model.refusals import Code, Refusal


class TransportRefusal(Refusal):
    """A refusal with an HTTP status beside its code's, and headers that belong to it."""

    def __init__(self, code: Code, message: str, http: int, allow: str = "") -> None:
        """Keep the status; ``allow`` is the header of a 405."""
        super().__init__(code, message)
        self.http = http
        self.allow = allow


def http_status(refusal: Refusal) -> int:
    """The HTTP status of any refusal."""
    return refusal.http if isinstance(refusal, TransportRefusal) else refusal.code.http
