"""Whose bucket it is, and what a caller may do in it.

A bucket is there when its folder is, and it belongs to the project that made it.  Folders that
belong to nobody (jobs of the command line made them) are everybody's who may act in all projects,
and become the first project's that writes to them.  What a caller may not see is not there.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from trainshed.model.access import ALL_PROJECTS, AccessRole, Caller
from trainshed.storage.objects import Objects
from trainshed.storage.uploads import Uploads
from trainshed.store.opening import Store

#: What clients write for "no project in particular".
NO_PROJECT = frozenset({"", "_", "<none>"})


class NoSuchBucket(Exception):
    """There is no bucket of this name for this caller."""


class Forbidden(Exception):
    """The caller may see it and may not do this."""


class Taken(Exception):
    """The bucket's name is in use."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BucketAccess:
    """Objects, unfinished uploads, and who owns the buckets."""

    objects: Objects
    uploads: Uploads
    store: Store

    def need(self, caller: Caller, bucket: str, role: AccessRole) -> None:
        """Make sure that the caller has a role in a bucket.  Raises NoSuchBucket, Forbidden."""
        owner = self._owner(caller, bucket, role) if self.objects.buckets.has(bucket) else None
        if owner is None or not caller.may(AccessRole.VIEWER, owner or None):
            raise NoSuchBucket(
                "The specified bucket does not exist. "
                f"Create it with: trainshed buckets create {bucket}"
            )
        if not caller.may(role, owner or None):
            raise Forbidden(
                f"{caller.name} has the role {caller.role.name.lower()} and needs "
                f"{role.name.lower()} for this in the bucket {bucket}."
            )

    def _owner(self, caller: Caller, bucket: str, role: AccessRole) -> str:
        """The project of a bucket, which may have become it just now; empty: nobody's."""
        if known := self.store.bucket(bucket):
            return known[0]
        adopts = role >= AccessRole.SUBMITTER and caller.may(role, caller.project)
        if adopts and caller.project != ALL_PROJECTS:
            return self.store.add_bucket(bucket, caller.project)
        return ""

    def make(self, caller: Caller, bucket: str, project: str) -> None:
        """Make a bucket of a project (id, number, or nothing in particular).

        Raises Forbidden, and Taken where the name is in use.
        """
        owner = self.project(caller, project, AccessRole.SUBMITTER)
        known = self.store.bucket(bucket)
        if known and not caller.may(AccessRole.VIEWER, known[0]):
            raise Taken("The requested bucket name is not available. Choose another one.")
        if self.objects.buckets.has(bucket) and (known or not owner):
            raise Taken("Your previous request to create the named bucket succeeded: it is there.")
        if owner and self.store.add_bucket(bucket, owner) != owner:
            raise Taken("The requested bucket name is not available. Choose another one.")
        self.objects.buckets.make(bucket)

    def visible(self, caller: Caller, project: str) -> Sequence[str]:
        """The buckets of a project, or all that the caller may see, in order."""
        wanted = self.project(caller, project, AccessRole.VIEWER)
        if not wanted:
            return self.objects.buckets.names()
        return sorted(name for name in self.store.buckets(wanted) if self.objects.buckets.has(name))

    def project(self, caller: Caller, project: str, role: AccessRole) -> str:
        """The id of the project that is meant; empty: none in particular.  Raises Forbidden."""
        if project in NO_PROJECT:
            project = "" if caller.project == ALL_PROJECTS else caller.project
        known = self.store.project(project)[0] if project else ""
        if not caller.may(role, known or None):
            raise Forbidden(
                f"{caller.name} may not do this in the project {project}: the role "
                f"{role.name.lower()} is needed there."
            )
        return known

    def about(self, bucket: str) -> tuple[str, datetime]:
        """The project number of a bucket, empty for nobody's, and since when it is there."""
        known = self.store.bucket(bucket)
        if known is None:
            return "", self.objects.buckets.since(bucket)
        return self.store.project(known[0])[1], known[1]
