"""Opens the objects of all buckets: those of folders, and those of other storage services."""

from collections.abc import Callable

from trainshed.config import Settings
from trainshed.storage.objects import Objects
from trainshed.store.opening import Store


def open_objects(settings: Settings, user_of: Callable[[str], int | None]) -> Objects:
    """Return the objects of all buckets.  Raises UsageFault for an unreachable remote bucket."""
    if not settings.buckets:
        return Objects(data_dir=settings.data_dir)
    # most servers have no remote buckets, and these imports are slow
    from trainshed.storage.remote import remotes_of  # noqa: PLC0415
    from trainshed.storage.remote_objects import ObjectsWithRemotes  # noqa: PLC0415

    remotes = remotes_of(settings.buckets, user_of)
    return ObjectsWithRemotes(data_dir=settings.data_dir, remotes=remotes)


def user_of_bucket(store: Store, uids: tuple[int, int] | None, bucket: str) -> int | None:
    """Return the uid of a bucket's project; None if projects have no uids or it has no project.

    Raises PermissionError if the range has no uid left: the server's own uid is no substitute.
    """
    if uids is None or (row := store.bucket(bucket)) is None:
        return None
    user = uids[0] + store.owner_number(row[0])
    if user > uids[1]:
        raise PermissionError(
            f"[isolation] uids has no number left for the project {row[0]}; make the range larger"
        )
    return user
