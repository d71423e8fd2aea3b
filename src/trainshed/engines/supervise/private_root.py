"""Builds a private root folder for a replica: the machine's root plus folders that it lacks.

A folder can be mounted only over an existing folder.  If this module made ``/workspace`` on the
machine itself, the folder would remain after the job, and all replicas of all jobs would share it.
So the root of a replica is a skeleton: a folder in the attempt's folder.  Every entry of the
machine's root is mounted into the skeleton unchanged, and the missing folders are made in the
skeleton.

If a folder exists on the machine and is not empty, the replica gets an overlay: programs read the
machine's files, and files that the programs write go to the attempt's folder.

The supervisor looks up all entries and makes the skeleton before the fork.
"""

import os
from collections.abc import Iterable, Iterator, Sequence
from typing import Final, NamedTuple

from trainshed.engines.isolation.mount_steps import BIND, RECURSIVE, Mount, Pivot, Step

_FOLDER_MODE: Final = 0o755
#: Characters that end an option of overlayfs, or separate the folders in an option.
_NOT_IN_OPTIONS: Final = frozenset(",:\\")


class FolderMount(NamedTuple):
    """A folder of an attempt, and the path at which a replica sees this folder."""

    source: str
    target: str


def steps(
    skeleton: str, folders: Iterable[Sequence[str]], points: Iterable[str] = ()
) -> list[list[Step]]:
    """Make the skeleton; return the steps to perform in a mount namespace, in groups.

    ``folders`` are pairs of an attempt's folder and the path at which a replica sees it.
    ``points`` are paths at which the caller mounts other folders later.  Raises OSError.
    """
    mounts = [FolderMount(source, os.path.normpath(target)) for source, target in folders]
    mounts = [mount for mount in mounts if not mount.source.startswith(f"{mount.target}/")]
    targets = (*(mount.target for mount in mounts), *points)
    missing = [target for target in targets if not os.path.isdir(target)]
    groups: list[list[Step]] = []
    if missing:
        root = Mount(os.fsencode(skeleton), os.fsencode(skeleton), None, BIND, None)
        groups.append([root, *_fill_skeleton(skeleton, missing), Pivot(skeleton)])
    groups.extend([_mount(mount)] for mount in mounts)
    return groups


def _fill_skeleton(skeleton: str, missing: Sequence[str]) -> Iterator[Mount]:
    """Make the missing folders in the skeleton, and yield mounts for the entries beside them."""
    os.makedirs(skeleton, _FOLDER_MODE, exist_ok=True)
    os.chmod(skeleton, _FOLDER_MODE)
    parents = {parent for path in missing for parent in _list_parents(path)}
    existing_parents = {parent for parent in parents if os.path.isdir(parent)}
    for folder in sorted(existing_parents):
        with os.scandir(folder) as entries:
            for entry in sorted(entries, key=lambda entry: entry.name):
                if entry.path not in existing_parents:
                    yield from _copy_entry(entry, f"{skeleton}{entry.path}")
                else:
                    _make(f"{skeleton}{entry.path}")
    for path in missing:
        _make(f"{skeleton}{path}")


def _list_parents(path: str) -> Iterator[str]:
    while path != "/":
        path = os.path.dirname(path)
        yield path


def _copy_entry(entry: "os.DirEntry[str]", target: str) -> Iterator[Mount]:
    """Yield the mount of a folder or file at ``target``; copy a link; leave out sockets etc."""
    if entry.is_symlink():
        if not os.path.lexists(target):
            os.symlink(os.readlink(entry.path), target)
        return
    if entry.is_dir(follow_symlinks=False):
        _make(target)
    elif entry.is_file(follow_symlinks=False):
        os.close(os.open(target, os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW, 0o600))
    else:
        return
    yield Mount(os.fsencode(entry.path), os.fsencode(target), None, BIND | RECURSIVE, None)


def _make(path: str) -> None:
    os.makedirs(path, exist_ok=True)
    os.chmod(path, _FOLDER_MODE)  # the umask may have removed permissions


def _mount(mount: FolderMount) -> Mount:
    """Return the mount of an attempt's folder; an overlay if the machine's folder has entries."""
    source, target = mount
    if not _has_entries(target) or _NOT_IN_OPTIONS.intersection(source + target):
        return Mount(os.fsencode(source), os.fsencode(target), None, BIND, None)
    work = f"{source}.overlay"
    os.makedirs(work, exist_ok=True)
    options = f"lowerdir={target},upperdir={source},workdir={work}"
    return Mount(b"overlay", os.fsencode(target), b"overlay", 0, os.fsencode(options))


def _has_entries(folder: str) -> bool:
    try:
        with os.scandir(folder) as entries:
            return any(True for _ in entries)
    except OSError:
        return False
