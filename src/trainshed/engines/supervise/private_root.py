"""Builds a private root folder for a replica: the machine's root plus folders that it lacks.

A folder can be mounted only over an existing folder.  ``/workspace`` on the machine itself would
remain after the job, and all replicas of all jobs would share it.  So the root of a replica is a
skeleton in its attempt's folder: every entry of the machine's root is mounted into it unchanged,
and the missing folders are made there.  A folder that exists on the machine and is not empty gets
an overlay: programs read its files, and their own writes go to the attempt's folder.

The supervisor looks up all entries and makes the skeleton before the fork.
"""

import os
from collections.abc import Iterable, Iterator, Sequence
from typing import Final, NamedTuple

from trainshed.engines.isolation.mount_steps import BIND, RECURSIVE, Mount, Pivot, Step

_FOLDER_MODE: Final = 0o755
#: Characters that end an option of overlayfs or separate its folders.
_NOT_IN_OPTIONS: Final = frozenset(",:\\")


class Shown(NamedTuple):
    """A folder of an attempt, and the path at which a replica sees it."""

    here: str
    there: str


def steps(
    skeleton: str, folders: Iterable[Sequence[str]], points: Iterable[str] = ()
) -> list[list[Step]]:
    """Make the skeleton; return the steps to take in a mount namespace, in groups.

    ``points`` are folders over which the caller mounts others later.  Raises OSError.
    """
    binds = [Shown(here, os.path.normpath(there)) for here, there in folders]
    binds = [folder for folder in binds if not folder.here.startswith(f"{folder.there}/")]
    places = (*(folder.there for folder in binds), *points)
    missing = [place for place in places if not os.path.isdir(place)]
    groups: list[list[Step]] = []
    if missing:
        own = Mount(os.fsencode(skeleton), os.fsencode(skeleton), None, BIND, None)
        groups.append([own, *_skeleton(skeleton, missing), Pivot(skeleton)])
    groups.extend([_mount(folder)] for folder in binds)
    return groups


def _skeleton(skeleton: str, missing: Sequence[str]) -> Iterator[Mount]:
    """Yield the mounts that copy each parent of a missing folder, one level of entries each."""
    os.makedirs(skeleton, _FOLDER_MODE, exist_ok=True)
    os.chmod(skeleton, _FOLDER_MODE)
    opened = {above for place in missing for above in _list_parents(place) if os.path.isdir(above)}
    for folder in sorted(opened):
        with os.scandir(folder) as entries:
            for entry in sorted(entries, key=lambda entry: entry.name):
                if entry.path not in opened:
                    yield from _copy_entry(entry, f"{skeleton}{entry.path}")
                else:
                    _make(f"{skeleton}{entry.path}")
    for place in missing:
        _make(f"{skeleton}{place}")


def _list_parents(place: str) -> Iterator[str]:
    while place != "/":
        place = os.path.dirname(place)
        yield place


def _copy_entry(entry: "os.DirEntry[str]", at: str) -> Iterator[Mount]:
    """Yield the mount of one entry into the skeleton; copy links, and leave out sockets etc."""
    if entry.is_symlink():
        if not os.path.lexists(at):
            os.symlink(os.readlink(entry.path), at)
        return
    if entry.is_dir(follow_symlinks=False):
        _make(at)
    elif entry.is_file(follow_symlinks=False):
        os.close(os.open(at, os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW, 0o600))
    else:
        return
    yield Mount(os.fsencode(entry.path), os.fsencode(at), None, BIND | RECURSIVE, None)


def _make(path: str) -> None:
    os.makedirs(path, exist_ok=True)
    os.chmod(path, _FOLDER_MODE)  # whatever the umask is


def _mount(bind: Shown) -> Mount:
    """Return the mount of an attempt's folder; an overlay if the machine's folder has entries."""
    here, there = bind
    if not _has_entries(there) or _NOT_IN_OPTIONS.intersection(here + there):
        return Mount(os.fsencode(here), os.fsencode(there), None, BIND, None)
    work = f"{here}.overlay"
    os.makedirs(work, exist_ok=True)
    options = f"lowerdir={there},upperdir={here},workdir={work}"
    return Mount(b"overlay", os.fsencode(there), b"overlay", 0, os.fsencode(options))


def _has_entries(folder: str) -> bool:
    try:
        with os.scandir(folder) as entries:
            return any(True for _ in entries)
    except OSError:
        return False
