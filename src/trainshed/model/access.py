"""Callers, and their roles in projects."""

import enum
import re
from dataclasses import dataclass, field
from typing import Final

#: ``Caller.project`` of a caller with a role in every project.
ALL_PROJECTS = "*"
#: A project id, with the old domain prefix; never a project number.
PROJECT_ID: Final = re.compile(r"(?:[a-z0-9.-]{1,63}:)?[a-z](?:[a-z0-9-]{0,61}[a-z0-9])?")
#: ``Caller.bucket`` of a token for the storage API that opens every bucket its creator may use.
ALL_BUCKETS = "*"


class AccessRole(enum.IntEnum):
    """The rights of a token; each role includes the rights of the one before it."""

    VIEWER = 1
    """Read jobs, logs and objects."""
    SUBMITTER = 2
    """Submit, cancel, label and delete jobs; write and delete objects."""
    ADMIN = 3
    """Manage tokens, keys, nodes and quotas."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Caller:
    """An authenticated caller.  ``name`` is for logs and events, never secret."""

    name: str
    project: str
    """A project id, or ``ALL_PROJECTS``."""
    role: AccessRole
    bucket: str | None = None
    """The only bucket that the caller may use, or ``ALL_BUCKETS``: the token then opens only the
    storage API.  None: the token opens the other APIs too."""
    credential: str = field(default="", compare=False)
    """The id of the token or key that the caller sent."""
    ends_at_s: float | None = field(default=None, compare=False)
    """When the token expires, in seconds since 1970; None: never."""

    def may(self, role: AccessRole, project: str | None) -> bool:
        """Whether the caller has a role in a project, or in the whole installation if None."""
        return self.role >= role and self.project in (ALL_PROJECTS, project)

    def may_use(self, bucket: str) -> bool:
        """Whether the caller's token covers a bucket, regardless of its owner."""
        return self.bucket in (None, ALL_BUCKETS, bucket)
