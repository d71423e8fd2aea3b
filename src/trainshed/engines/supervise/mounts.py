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
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from typing import Any, Final, NamedTuple

from trainshed.engines.isolation_modes import USER_NAME
from trainshed.engines.processes.tree import read

GCS: Final = "/gcs"
HOSTS: Final = "/etc/hosts"
PASSWD: Final = "/etc/passwd"  # noqa: S105  # a place

# from linux/sched.h, linux/mount.h and linux/capability.h
_NEW_NAMESPACE = 0x00020000
_READ_ONLY, _REMOUNT, _BIND, _RECURSIVE, _SLAVE = 1, 1 << 5, 1 << 12, 1 << 14, 1 << 19
_CAP_SYS_ADMIN = 21

_ROOT: Final = "root:x:0:0::/:/bin/sh"
_STDERR: Final = 2
_READABLE: Final = 0o644


class _Mount(NamedTuple):
    """One call of mount(2)."""

    source: bytes | None
    target: bytes
    kind: bytes | None
    flags: int
    options: bytes | None


class _Folder(NamedTuple):
    """A folder to make, with those above it."""

    path: str


_Step = _Mount | _Folder


def write_hosts(path: str, names: Iterable[Sequence[str]]) -> None:
    """Write a hosts file: the machine's own, then (address, name) of every replica."""
    try:
        machine = read(HOSTS).rstrip("\n")
    except OSError:
        machine = "127.0.0.1 localhost"
    lines = [machine, "# the replicas of this job"]
    lines += [f"{address} {name}" for address, name in names]
    with open(path, "w", encoding="utf-8") as file:
        os.fchmod(file.fileno(), _READABLE)  # whatever the umask is: replicas are other users
        file.write("\n".join(lines) + "\n")


def write_passwd(path: str, uid: int, gid: int, home: str, *, known: str | None = PASSWD) -> None:
    """Write a passwd file: those whom the file ``known`` knows, or root, and another user.

    Programs look for their user's name and home there, gcloud's rsync for one, and end where there
    is none.
    """
    try:
        others = read(known).rstrip("\n") if known else _ROOT
    except OSError:
        others = _ROOT
    user = f"{USER_NAME}:x:{uid}:{gid}::{home}:/bin/sh"
    with open(path, "w", encoding="utf-8") as file:
        os.fchmod(file.fileno(), _READABLE)
        file.write(f"{others}\n{user}\n")


def private_mounts(hosts: str | None, binds: Sequence[Sequence[str]]) -> Callable[[], None] | None:
    """Prepare what a forked child calls before exec; None where there is nothing or no right to.

    ``hosts`` is the path of a hosts file, ``binds`` are (folder here, folder there).  What fails in
    the child is said on its stderr, and the replica starts all the same.
    """
    if not (hosts or binds) or not allowed():
        return None
    try:
        libc = ctypes.CDLL(None, use_errno=True)
        unshare, mount = libc.unshare, libc.mount
    except (OSError, AttributeError):  # another Unix
        return None
    fill = additions(hosts, binds)

    def enter() -> None:
        try:
            leave_namespace(unshare, mount)
        except OSError as error:
            _tell(error)
            return
        fill(mount)

    return enter


def leave_namespace(unshare: Callable[..., int], mount: Callable[..., int]) -> None:
    """Have a mount namespace of our own.

    What is mounted inside stays inside; what is unmounted outside goes inside too.  Raises OSError.
    """
    _check(unshare(_NEW_NAMESPACE), "a mount namespace")
    _perform(mount, _Mount(None, b"/", None, _SLAVE | _RECURSIVE, None))


def additions(
    hosts: str | None, binds: Sequence[Sequence[str]], passwd: str | None = None
) -> Callable[[Callable[..., int]], None]:
    """What adds the names and folders to a namespace, and says on stderr what fails."""
    groups = _groups(hosts, binds)
    if passwd:
        groups.append([_bind(passwd, PASSWD)])

    def fill(mount: Callable[..., int]) -> None:
        for group in groups:
            for step in group:
                try:
                    _perform(mount, step)
                except OSError as error:
                    _tell(error)
                    if step is group[0]:
                        break

    return fill


def allowed() -> bool:
    """Whether this process may mount: root is not enough in most containers."""
    with suppress(OSError, ValueError):
        for line in read("/proc/self/status").splitlines():
            if line.startswith("CapEff:"):
                return bool(int(line.split()[1], 16) >> _CAP_SYS_ADMIN & 1)
    return False


def _groups(hosts: str | None, binds: Sequence[Sequence[str]]) -> list[list[_Step]]:
    """What to do; where the first step of a group fails the others make no sense."""
    groups: list[list[_Step]] = [[_bind(hosts, HOSTS)]] if hosts else []
    places = [(here, os.path.normpath(there)) for here, there in binds]
    in_gcs = [(here, there) for here, there in places if there.startswith(f"{GCS}/")]
    groups += [[_bind(*place)] for place in places if place not in in_gcs]
    if in_gcs:
        with suppress(OSError):
            os.mkdir(GCS)
        first = _Mount(b"tmpfs", GCS.encode(), b"tmpfs", 0, b"size=64k,mode=755")
        folders = [_Folder(there) for _, there in in_gcs]
        last = _Mount(None, GCS.encode(), None, _REMOUNT | _READ_ONLY, None)
        groups.append([first, *folders, *(_bind(*place) for place in in_gcs), last])
    return groups


def _bind(here: str, there: str) -> _Mount:
    return _Mount(os.fsencode(here), os.fsencode(there), None, _BIND | _RECURSIVE, None)


def _perform(mount: Callable[..., int], step: _Step) -> None:
    if isinstance(step, _Folder):
        os.makedirs(step.path, exist_ok=True)
        return
    source, target, kind, flags, options = step
    code = mount(source, target, kind, ctypes.c_ulong(flags), options)
    _check(code, f"a mount on {os.fsdecode(target)}")


def _check(code: int, what: str) -> None:
    if code != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number), what)


def _tell(error: Any) -> None:
    with suppress(OSError):
        os.write(_STDERR, f"trainshed: {error.filename} failed: {error.strerror}\n".encode())
