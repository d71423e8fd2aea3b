"""Mounts the names and folders that only one replica sees.

A replica gets a mount namespace of its own in which ``/etc/hosts`` has the names that Google gives
to the other replicas, and ``/gcs/BUCKET`` is a folder of this machine.  All preparation is done
before the fork; the child makes system calls only.

A mount needs an existing folder, so the first replica makes an empty ``/gcs`` on the machine.  This
folder stays, since its removal would remove it from every running replica.  In the replica, a small
read-only tmpfs with the binds is mounted on ``/gcs``.  So a program that writes to a bucket that
does not exist gets an error, and does not fill the machine's disk.
"""

import ctypes
import os
from collections.abc import Callable, Container, Iterable, Iterator, Sequence
from contextlib import suppress
from typing import Any, Final

from trainshed.engines.isolation.modes import GCS, USER_NAME
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
from trainshed.engines.isolation.view import NO_FOLDERS, PrivateFolders, ReplicaView
from trainshed.engines.processes.tree import read
from trainshed.engines.supervise import private_root
from trainshed.engines.supervise.record.folder import AttemptFolder

HOSTS: Final = "/etc/hosts"
RESOLVER: Final = "/etc/resolv.conf"
PASSWD: Final = "/etc/passwd"  # noqa: S105  # a path
PROFILE: Final = "/etc/profile"
HOME: Final = "/root"
_RESTORED_PATH: Final = "PATH=$_trainshed_path\nexport PATH\nunset _trainshed_path"

_CAP_SYS_ADMIN: Final = 21

_ROOT: Final = "root:x:0:0::/:/bin/sh"
_STDERR: Final = 2
_READABLE: Final = 0o644


def compose_private(view: ReplicaView, folder: AttemptFolder) -> PrivateFolders:
    """Return the private folders and files of a replica; write the files if they do not exist."""
    user = view.uid and (view.uid, view.gid or view.uid)
    home = HOME if HOME in (target for _, target in view.folders) else folder.work
    if user and not os.path.exists(folder.passwd):
        write_passwd(folder.passwd, *user, home)
    has_profile = bool(view.folders) and (
        os.path.exists(folder.profile) or write_profile(folder.profile)
    )
    return PrivateFolders(
        root=folder.root if view.folders else "",
        folders=view.folders,
        passwd=folder.passwd if user else None,
        profile=folder.profile if has_profile else None,
    )


def write_hosts(path: str, names: Iterable[Sequence[str]]) -> None:
    """Write a hosts file: the machine's lines without ``names``, then each (address, name)."""
    try:
        machine = read(HOSTS).rstrip("\n")
    except OSError:
        machine = "127.0.0.1 localhost"
    names = list(names)
    own_names = {name for _, name in names}
    lines = [*_drop_names(own_names, machine.splitlines()), "# the replicas of this job"]
    lines += [f"{address} {name}" for address, name in names]
    with open(path, "w", encoding="utf-8") as file:
        os.fchmod(file.fileno(), _READABLE)  # with any umask: replicas are other users
        file.write("\n".join(lines) + "\n")


def _drop_names(names: Container[str], lines: Iterable[str]) -> Iterator[str]:
    """Yield a hosts file's lines without some names: resolvers return all addresses of a name."""
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
    """Write a passwd file: the users of the file ``base_file``, or root, and another user.

    Some programs, such as gcloud's rsync, fail if the file lacks their user's name and home.
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
    """Write the machine's profile of login shells so that it leaves PATH unchanged.

    Images have the PATH of their programs in their environment; ``bash -lc`` would replace it by
    the PATH of the machine's users.  Returns False if the machine has no profile.
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
    """Return a function for a forked child to call before exec; None if it would mount nothing.

    ``hosts`` is the path of a hosts file, ``binds`` are (folder on the machine, folder in the
    replica).  The child writes a failed step to its stderr, and the replica starts even so.
    """
    if not (hosts or binds or more.folders or more.resolver):
        return None
    if not (more.resolver or allowed()):  # a process in a network of its own may mount
        return None
    try:
        libc = ctypes.CDLL(None, use_errno=True)
    except OSError:  # another Unix
        return None
    add_mounts = additions(hosts, binds, more)

    def enter() -> None:
        try:
            leave_namespace(libc)
        except OSError as error:
            _write_failure(error)
            return
        add_mounts(libc)

    return enter


def leave_namespace(libc: Any) -> None:
    """Move this process to a mount namespace of its own.

    The machine does not see the mounts of this namespace; an unmount on the machine is applied to
    this namespace too.  Raises OSError.
    """
    check(libc.unshare(NEW_NAMESPACE), "a mount namespace")
    perform(libc, Mount(None, b"/", None, SLAVE | RECURSIVE, None))


def additions(
    hosts: str | None, binds: Sequence[Sequence[str]], more: PrivateFolders = NO_FOLDERS
) -> Callable[[Any], None]:
    """Return a function that mounts names and folders, and writes failures to stderr."""
    groups = _group_steps(hosts, binds, more)

    def add_mounts(libc: Any) -> None:
        for group in groups:
            for step in group:
                try:
                    perform(libc, step)
                except OSError as error:
                    _write_failure(error)
                    if step is group[0] or isinstance(step, Pivot):
                        break

    return add_mounts


def allowed() -> bool:
    """Return whether this process may mount; in most containers even root may not."""
    with suppress(OSError, ValueError):
        for line in read("/proc/self/status").splitlines():
            if line.startswith("CapEff:"):
                return bool(int(line.split()[1], 16) >> _CAP_SYS_ADMIN & 1)
    return False


def private_files(hosts: str | None, more: PrivateFolders) -> Iterator[tuple[str, str]]:
    """Yield (file on the machine, path in the replica) for the replica's files in ``/etc``.

    A file is mounted on the target of a link, not on the link.  A machine without resolv.conf has
    no path for this mount, and only the hosts file resolves names.
    """
    resolver = more.resolver if os.path.exists(RESOLVER) else None
    sources = {
        HOSTS: hosts,
        PASSWD: more.passwd,
        PROFILE: more.profile,
        os.path.realpath(RESOLVER): resolver,
    }
    yield from ((file, path) for path, file in sources.items() if file)


def _group_steps(
    hosts: str | None, binds: Sequence[Sequence[str]], more: PrivateFolders
) -> list[list[Step]]:
    """Return the steps in groups; if the first step of a group fails, the others are skipped."""
    mounts = [(source, os.path.normpath(target)) for source, target in binds]
    in_gcs = [(source, target) for source, target in mounts if target.startswith(f"{GCS}/")]
    groups: list[list[Step]] = []
    if more.root:
        groups += private_root.steps(more.root, more.folders, (GCS,) if in_gcs else ())
    groups += [[_bind(*pair)] for pair in private_files(hosts, more)]
    groups += [[_bind(*mount)] for mount in mounts if mount not in in_gcs]
    if in_gcs:
        if not more.root:
            with suppress(OSError):
                os.mkdir(GCS)
        first = Mount(b"tmpfs", GCS.encode(), b"tmpfs", 0, b"size=64k,mode=755")
        folders = [Folder(target) for _, target in in_gcs]
        last = Mount(None, GCS.encode(), None, REMOUNT | READ_ONLY, None)
        groups.append([first, *folders, *(_bind(*mount) for mount in in_gcs), last])
    return groups


def _bind(source: str, target: str) -> Mount:
    return Mount(os.fsencode(source), os.fsencode(target), None, BIND | RECURSIVE, None)


def _write_failure(error: Any) -> None:
    with suppress(OSError):
        os.write(_STDERR, f"trainshed: {error.filename} failed: {error.strerror}\n".encode())
