"""Errors of calls to a server, in a small module, because every command imports it."""

from collections.abc import Callable, Iterator
from typing import Any

Json = dict[str, Any]


class ServerRefusal(Exception):
    """An error response of the server, with the parts of its google.rpc.Status."""

    def __init__(self, http_status: int, status: str, message: str, details: list[Json]) -> None:
        """Store the parts of the Status."""
        super().__init__(message)
        self.http_status = http_status
        self.status = status
        self.message = message
        self.details = details

    @property
    def violations(self) -> Iterator[tuple[str, str]]:
        """The field and the description of each violation."""
        for detail in self.details:
            for violation in detail.get("fieldViolations", ()):
                yield str(violation.get("field", "")), str(violation.get("description", ""))

    def with_flags(self, flag_of: Callable[[str], str]) -> "ServerRefusal":
        """Return the refusal with each field replaced by the flag that set the field."""
        violations = [
            {"field": flag_of(field), "description": description}
            for field, description in self.violations
        ]
        details = [{"fieldViolations": violations}] if violations else self.details
        return ServerRefusal(self.http_status, self.status, self.message, details)


class Unreachable(Exception):
    """No server answers at the address."""
