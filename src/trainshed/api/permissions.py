"""Decides which projects a caller may use, over REST and gRPC alike.

A request may name a project by its id or by its number (docs/sources/gcloud.md 1.4); answers and
the store have the id.  A project that the caller may not use gets the same answer as one that does
not exist, so that a caller cannot find out which projects there are.
"""

import re
from collections.abc import Callable
from functools import lru_cache
from typing import Final

from trainshed.model.access import ALL_PROJECTS, AccessRole, Caller
from trainshed.model.refusals import Code, Refusal

#: Project ids, also with a domain, and numbers.
PROJECT: Final = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9.:_-]{0,98}[A-Za-z0-9])?")

#: The most projects in the cache.
REMEMBERED_MAX: Final = 4096


class Permissions:
    """Checks access to projects, and caches their names.  Thread-safe."""

    def __init__(self, project: Callable[[str], tuple[str, str]]) -> None:
        """``project`` returns the (id, number) for an id or a number, as the store does."""
        self._names = lru_cache(maxsize=REMEMBERED_MAX)(project)

    def authorise(self, caller: Caller, role: AccessRole, project: str) -> None:
        """Raise a Refusal unless the caller has the role in the project of this id or number."""
        if not PROJECT.fullmatch(project):
            message = f"{project[:100]!r} cannot be a project: it is neither an id nor a number"
            raise Refusal(Code.INVALID_ARGUMENT, message)
        if not self._is_open(caller, project):
            message = f"Permission denied on project {project} (or it may not exist)"
            raise Refusal(Code.PERMISSION_DENIED, message)
        if caller.role < role:
            raise Refusal(Code.PERMISSION_DENIED, _too_low(caller, role))

    def project_id(self, project: str) -> str:
        """Return the id of a project that the caller may use."""
        return self._names(project)[0]

    def enter(self, caller: Caller, role: AccessRole, project: str) -> str:
        """Return the id of a project in which the caller has the role.  Raises a Refusal."""
        self.authorise(caller, role, project)
        return self.project_id(project)

    def _is_open(self, caller: Caller, project: str) -> bool:
        """Return whether the caller may use the project; only allowed names are looked up."""
        if caller.project in (ALL_PROJECTS, project):
            return True
        return project in self._names(caller.project)


def refuse_low(caller: Caller, role: AccessRole) -> None:
    """Raise a Refusal unless the caller has the role in some project."""
    if caller.role < role:
        raise Refusal(Code.PERMISSION_DENIED, _too_low(caller, role))


def _too_low(caller: Caller, role: AccessRole) -> str:
    have, need = caller.role.name.lower(), role.name.lower()
    return (
        f"Permission denied: {caller.name} has the role {have}, and this call needs the role {need}"
    )
