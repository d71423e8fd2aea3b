"""Lets an administrator assign a bucket folder without an owner to a project.

Such a folder was made by hand, or by local runs in the server's data directory.  A project does not
get it by using its name first, because its content may be another user's.
"""

from collections.abc import Callable
from dataclasses import dataclass

from trainshed.model.refusals import Code, Refusal
from trainshed.model.resource_names import ProjectId
from trainshed.storage.buckets import BUCKET_RULE, is_bucket_name
from trainshed.store.opening import Store
from trainshed.wire.native_v1 import Answer


@dataclass(frozen=True, slots=True, kw_only=True)
class AdoptedBucket(Answer):
    """A bucket, and the project that it belongs to now."""

    name: str
    project: str


@dataclass(frozen=True, slots=True, kw_only=True)
class BucketService:
    """Buckets, for administrators."""

    store: Store
    has_folder: Callable[[str], bool]
    """Whether there is a folder for a bucket of this name."""

    def adopt(self, name: str, project: ProjectId) -> AdoptedBucket:
        """Assign a folder to a project; a repeated call changes nothing.

        Raises Refusal: NOT_FOUND without a folder, ALREADY_EXISTS for another project's.
        """
        if not is_bucket_name(name):
            message = f"{name[:100]!r} is not a bucket name; it has {BUCKET_RULE}"
            raise Refusal(Code.INVALID_ARGUMENT, message)
        if not self.has_folder(name):
            message = f"there is no folder for a bucket {name}; trainshed buckets create makes one"
            raise Refusal(Code.NOT_FOUND, message)
        owner = self.store.add_bucket(name, project)
        if owner != project:
            message = f"the bucket {name} belongs to project {owner}, which cannot be changed"
            raise Refusal(Code.ALREADY_EXISTS, message)
        return AdoptedBucket(name=name, project=project)
