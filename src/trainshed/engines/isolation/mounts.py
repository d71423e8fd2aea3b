"""Names and folders that one replica sees and the rest of the machine does not.

A replica gets a mount namespace of its own in which ``/etc/hosts`` knows the other replicas by the
names that Google gives them, and ``/gcs/BUCKET`` is a folder of this machine.  Everything is looked
up before the fork; the child makes system calls only.

``/gcs`` must be there to be mounted on, so it is made, once, as an empty folder of the machine's;
it stays, since removing it would take it from every replica that runs.  Inside it is a small tmpfs
that is closed for writing, with the binds on it: a program that writes to a bucket that does not
exist gets an error, and does not fill the machine's disk unseen.
"""

import ctypes
import os
from collections.abc import Callable, Container, Iterable, Iterator, Sequence
from contextlib import suppress
from typing import Any, Final, NamedTuple

from trainshed.engines.isolation.modes import USER_NAME
from trainshed.engines.isolation.mount_steps import (
    BIND,
    NEW_NAMESPACE,
    READ_ONLY,
    RECURSIVE,
    REMOUNT,
    SLAVE,
    Folder,
    Mount,
    Pivot,
    Step,
    check,
    perform,
)
from trainshed.engines.processes.tree import read
from trainshed.engines.supervise import private_root

GCS: Final = "/gcs"
HOSTS: Final = "/etc/hosts"
RESOLVER: Final = "/etc/resolv.conf"
PASSWD: Final = "/etc/passwd"  # noqa: S105  # a place
PROFILE: Final = "/etc/profile"
HOME: Final = "/root"
_RESTORED_PATH: Final = "PATH=$_trainshed_path\nexport PATH\nunset _trainshed_path"

_CAP_SYS_ADMIN: Final = 21

_ROOT: Final = "root:x:0:0::/:/bin/sh"
_STDERR: Final = 2
_READABLE: Final = 0o644


class PrivateFolders(NamedTuple):
    """The root, folders and files of a replica, besides names and buckets."""

    root: str = ""
    """A folder of the attempt in which a root is put together; none if empty."""
    folders: Sequence[Sequence[str]] = ()
    """(folder here, folder there): on no machine, and made in that root."""
    passwd: str | None = None
    """A file that is its ``/etc/passwd``."""
    profile: str | None = None
    """A file that is its ``/etc/profile``."""
    resolver: str | None = None
    """A file that is its ``/etc/resolv.conf``."""


NO_FOLDERS: Final = PrivateFolders()


def write_hosts(path: str, names: Iterable[Sequence[str]]) -> None:
    """Write a hosts file: the machine's own without these names, then (address, name) of each."""
    try:
        machine = read(HOSTS).rstrip("\n")
    except OSError:
        machine = "127.0.0.1 localhost"
    names = list(names)
    ours = {name for _, name in names}
    lines = [*_drop_names(ours, machine.splitlines()), "# the replicas of this job"]
    lines += [f"{address} {name}" for address, name in names]
    with open(path, "w", encoding="utf-8") as file:
        os.fchmod(file.fileno(), _READABLE)  # with any umask: replicas are other users
        file.write("\n".join(lines) + "\n")


def _drop_names(names: Container[str], lines: Iterable[str]) -> Iterator[str]:
    """The lines of a hosts file without some names: resolvers give every address of a name."""
    for line in lines:
        address, *words = line.partition("#")[0].split() or [""]
        remaining = [word for word in words if word not in names]
        if len(remaining) == len(words):
            yield line
        elif remaining:
            yield " ".join((address, *remaining))


def write_resolver(path: str, address: str) -> None:
    """Write a resolv.conf with one name server, and the machine's other lines."""
    try:
        machine = read(RESOLVER).splitlines()
    except OSError:
        machine = []
    lines = [line for line in machine if line.split()[:1] != ["nameserver"]]
    with open(path, "w", encoding="utf-8") as file:
        os.fchmod(file.fileno(), _READABLE)
        file.write("\n".join((*lines, f"nameserver {address}")) + "\n")


def write_passwd(
    path: str, uid: int, gid: int, home: str, *, base_file: str | None = PASSWD
) -> None:
    """Write a passwd file: those whom the file ``base_file`` knows, or root, and another user.

    Programs look for their user's name and home there, gcloud's rsync for one, and end where there
    is none.
    """
    try:
        entries = read(base_file).rstrip("\n") if base_file else _ROOT
    except OSError:
        entries = _ROOT
    user = f"{USER_NAME}:x:{uid}:{gid}::{home}:/bin/sh"
    with open(path, "w", encoding="utf-8") as file:
        os.fchmod(file.fileno(), _READABLE)
        file.write(f"{entries}\n{user}\n")


def write_profile(path: str) -> bool:
    """Write the machine's profile of login shells so that PATH stays as it was before.

    Images have the PATH of their programs in their environment; ``bash -lc`` would put that of the
    machine's users in its place.  False where the machine has no such file.
    """
    try:
        machine = read(PROFILE)
    except OSError:
        return False
    with open(path, "w", encoding="utf-8") as file:
        os.fchmod(file.fileno(), _READABLE)
        file.write(f"_trainshed_path=$PATH\n{machine}\n{_RESTORED_PATH}\n")
    return True


def private_mounts(
    hosts: str | None, binds: Sequence[Sequence[str]], more: PrivateFolders = NO_FOLDERS
) -> Callable[[], None] | None:
    """Prepare what a forked child calls before exec; None where there is nothing or no right to.

    ``hosts`` is the path of a hosts file, ``binds`` are (folder here, folder there).  What fails in
    the child is said on its stderr, and the replica starts all the same.
    """
    if not (hosts or binds or more.folders or more.resolver):
        return None
    if not (more.resolver or allowed()):  # a process in a network of its own may mount
        return None
    try:
        libc = ctypes.CDLL(None, use_errno=True)
    except OSError:  # another Unix
        return None
    fill = additions(hosts, binds, more)

    def enter() -> None:
        try:
            leave_namespace(libc)
        except OSError as error:
            _tell(error)
            return
        fill(libc)

    return enter


def leave_namespace(libc: Any) -> None:
    """Have a mount namespace of our own.

    What is mounted inside stays inside; what is unmounted outside goes inside too.  Raises OSError.
    """
    check(libc.unshare(NEW_NAMESPACE), "a mount namespace")
    perform(libc, Mount(None, b"/", None, SLAVE | RECURSIVE, None))


def additions(
    hosts: str | None, binds: Sequence[Sequence[str]], more: PrivateFolders = NO_FOLDERS
) -> Callable[[Any], None]:
    """What adds the names and folders to a namespace, and says on stderr what fails."""
    groups = _groups(hosts, binds, more)

    def fill(libc: Any) -> None:
        for group in groups:
            for step in group:
                try:
                    perform(libc, step)
                except OSError as error:
                    _tell(error)
                    if step is group[0] or isinstance(step, Pivot):
                        break

    return fill


def allowed() -> bool:
    """Whether this process may mount: root is not enough in most containers."""
    with suppress(OSError, ValueError):
        for line in read("/proc/self/status").splitlines():
            if line.startswith("CapEff:"):
                return bool(int(line.split()[1], 16) >> _CAP_SYS_ADMIN & 1)
    return False


def private_files(hosts: str | None, more: PrivateFolders) -> Iterator[tuple[str, str]]:
    """Yield (file here, place there) for each file of ``/etc`` that a replica has for itself.

    A link is not mounted on, but the file that it leads to; where the machine has no resolv.conf
    there is nothing to mount on, and names are resolved by the hosts file alone.
    """
    resolver = more.resolver if os.path.exists(RESOLVER) else None
    places = {
        HOSTS: hosts,
        PASSWD: more.passwd,
        PROFILE: more.profile,
        os.path.realpath(RESOLVER): resolver,
    }
    yield from ((file, place) for place, file in places.items() if file)


def _groups(
    hosts: str | None, binds: Sequence[Sequence[str]], more: PrivateFolders
) -> list[list[Step]]:
    """What to do; where the first step of a group fails the others make no sense."""
    places = [(here, os.path.normpath(there)) for here, there in binds]
    in_gcs = [(here, there) for here, there in places if there.startswith(f"{GCS}/")]
    groups: list[list[Step]] = []
    if more.root:
        groups += private_root.steps(more.root, more.folders, (GCS,) if in_gcs else ())
    groups += [[_bind(*pair)] for pair in private_files(hosts, more)]
    groups += [[_bind(*place)] for place in places if place not in in_gcs]
    if in_gcs:
        if not more.root:
            with suppress(OSError):
                os.mkdir(GCS)
        first = Mount(b"tmpfs", GCS.encode(), b"tmpfs", 0, b"size=64k,mode=755")
        folders = [Folder(there) for _, there in in_gcs]
        last = Mount(None, GCS.encode(), None, REMOUNT | READ_ONLY, None)
        groups.append([first, *folders, *(_bind(*place) for place in in_gcs), last])
    return groups


def _bind(here: str, there: str) -> Mount:
    return Mount(os.fsencode(here), os.fsencode(there), None, BIND | RECURSIVE, None)


def _tell(error: Any) -> None:
    with suppress(OSError):
        os.write(_STDERR, f"trainshed: {error.filename} failed: {error.strerror}\n".encode())
