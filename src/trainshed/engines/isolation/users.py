"""The mode *users*: a user for every project, and a mount namespace with only the project's files.

All preparation is done before the fork.  The forked child, still root, hides folders and mounts the
parts of them that the replica may see.  Then it becomes the user for good, without capabilities and
without new privileges.

The child opens the visible parts before it hides folders.  It makes the folders of a mount point
one by one without following links, since programs of the job may write to some of the folders.
"""

import ctypes
import errno
import os
import stat
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Final, NamedTuple

from trainshed.engines.isolation import device_nodes, linux, seccomp
from trainshed.engines.isolation import mounts as mounting
from trainshed.engines.isolation.modes import USERS
from trainshed.engines.isolation.view import IsolationFault, Mounts, PrivateFolders, ReplicaView

#: Folders with temporary files of all users.
TMP: Final = ("/tmp", "/var/tmp")  # noqa: S108 - they are replaced by the job's own
#: The folder for shared memory; NCCL's peers must have the same one.
_SHM: Final = "/dev/shm"  # noqa: S108 - it is replaced by the replica's own
_UMASK: Final = 0o077
_OTHERS_ENTER: Final = stat.S_IXOTH
_POINT_MODE: Final = 0o755
_HIDING: Final = b"size=1m,mode=755"
_STDOUT, _STDERR = 1, 2

# from linux/mount.h
_READ_ONLY, _NO_SUID, _NO_DEVICES, _REMOUNT, _BIND, _RECURSIVE = 1, 2, 4, 1 << 5, 1 << 12, 1 << 14

_FOLDER: Final = os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC


class _Step(NamedTuple):
    """One mount of the replica's view; steps are in the order of their paths."""

    mount_path: str
    """The path to mount on."""
    kind: str
    """``hide``, ``tmp``, ``read`` or ``write``."""
    source: str
    """The path to mount on ``mount_path``; empty for ``hide``."""
    parent: str
    """The mounted path in which to make the mount point; empty if the mount point exists."""
    is_in_own: bool = False
    """Whether ``parent`` is a folder of the replica's own, such as its home."""


def make_enter(view: ReplicaView, mounts: Mounts) -> Callable[[], None]:
    """Return the function that the forked child calls; the function raises IsolationFault."""
    if view.uid is None or view.gid is None:
        raise AssertionError("the mode users needs a user")
    uid, gid = view.uid, view.gid
    steps = tuple(_list_steps(view))
    closed_nodes = device_nodes.list_unleased_nodes(view.devices)
    shared = b"" if view.has_peers else _compose_shm_options()
    capabilities = linux.capability_count()
    filtered = seccomp.code_of(view.refused_calls)
    add_mounts = mounting.additions(mounts.hosts, mounts.binds, _drop_hidden(view, mounts.more))
    libc = linux.LIBC

    def enter_isolation() -> None:
        try:
            mounting.leave_namespace(libc)
            add_mounts(libc)  # before the next step hides the sources of its binds
            _perform_steps(steps, (uid, gid))
            _mount_private_proc()
            if shared:
                _mount(b"tmpfs", _SHM, b"tmpfs", _NO_SUID | _NO_DEVICES, shared)
            for node in closed_nodes:
                _block_device(node)
            for descriptor in (_STDOUT, _STDERR):  # else /dev/stdout cannot be opened
                os.fchown(descriptor, uid, gid)
            _change_user(uid, gid, capabilities)
            seccomp.install(filtered)
        except OSError as error:
            raise IsolationFault(USERS, error) from error

    return enter_isolation


def _list_replacements(view: ReplicaView) -> Sequence[tuple[str, str]]:
    """Return the replica's folders that replace hidden ones, such as root's home."""
    hides = {os.path.realpath(path) for path in view.hides}
    return [pair for pair in view.folders if pair[1] in hides or not _is_open(pair[1])]


def _is_open(path: str) -> bool:
    """Return whether all users may enter a folder; true for a folder that does not exist."""
    with suppress(OSError):
        return bool(os.stat(path).st_mode & _OTHERS_ENTER)
    return True


def _drop_hidden(view: ReplicaView, more: PrivateFolders) -> PrivateFolders:
    """Drop the folders that the steps of ``_list_replacements`` mount."""
    replaced = _list_replacements(view)
    return more._replace(folders=[pair for pair in more.folders if tuple(pair) not in replaced])


def _change_user(uid: int, gid: int, capabilities: int) -> None:
    linux.drop_capabilities(capabilities)
    os.setgroups([gid])
    os.setresgid(gid, gid, gid)
    os.setresuid(uid, uid, uid)
    linux.forbid_new_privileges()
    os.umask(_UMASK)


def _list_steps(view: ReplicaView) -> Iterator[_Step]:
    """Yield the mounts to make; a path in a folder of the same kind needs no mount."""
    kinds = _list_kinds(view)
    done: dict[str, str] = {}
    for mount_path in sorted(kinds):
        kind, source = kinds[mount_path]
        parent = next((folder for folder in _list_parents(mount_path) if folder in done), "")
        parent_kind = done.get(parent, "")
        if kind == "hide":
            if parent_kind not in {"hide", "tmp"} and os.path.isdir(mount_path):
                done[mount_path] = kind
                yield _Step(mount_path, kind, "", "")
        elif kind == "tmp":
            done[mount_path] = kind
            yield _Step(mount_path, kind, source, "")
        elif parent_kind and parent_kind != kind and os.path.lexists(source):
            done[mount_path] = kind
            point_in = parent if parent_kind in {"hide", "tmp"} else ""
            is_in_own = parent_kind == "tmp" and parent not in TMP
            yield _Step(mount_path, kind, source, point_in, is_in_own)


def _list_kinds(view: ReplicaView) -> Mapping[str, tuple[str, str]]:
    """Return (kind, source) by the path to mount on; later entries replace earlier ones."""
    hides = [real for path in view.hides if (real := os.path.realpath(path)) != "/"]
    accesses = [(path, "read") for path in view.reads] + [(path, "write") for path in view.writes]
    mount_paths = [
        (mount_path, kind, os.path.realpath(path))
        for path, kind in accesses
        for mount_path in dict.fromkeys((os.path.normpath(path), os.path.realpath(path)))
    ]
    closed = _list_closed_parents(mount_path for mount_path, _, _ in mount_paths)
    kinds = dict.fromkeys((*closed, *hides), ("hide", ""))
    kinds |= {target: ("tmp", source) for source, target in _list_replacements(view)}
    kinds |= {path: ("tmp", view.tmp) for path in TMP if view.tmp and os.path.isdir(path)}
    return kinds | {mount_path: (kind, source) for mount_path, kind, source in mount_paths}


def _list_closed_parents(paths: Iterable[str]) -> Iterator[str]:
    """Yield the parent folders of ``paths`` that not all users may enter, such as root's home."""
    parents = {folder for path in paths for folder in _list_parents(path)}
    for folder in sorted(parents):
        with suppress(OSError):
            if not os.stat(folder).st_mode & _OTHERS_ENTER:
                yield os.path.realpath(folder)


def _list_parents(path: str) -> Iterator[str]:
    folder = os.path.dirname(path)
    while folder != "/":
        yield folder
        folder = os.path.dirname(folder)


def _perform_steps(steps: Sequence[_Step], owner: tuple[int, int]) -> None:
    flags = os.O_PATH | os.O_CLOEXEC
    sources = [os.open(step.source, flags) if step.source else -1 for step in steps]
    for step, source in zip(steps, sources):
        if step.kind == "hide":
            _mount(b"tmpfs", step.mount_path, b"tmpfs", 0, _HIDING)
            continue
        is_folder = stat.S_ISDIR(os.fstat(source).st_mode)
        target = _make_mount_point(step, owner if step.is_in_own else (0, 0), is_folder=is_folder)
        _mount(_descriptor_path(source), target, None, _BIND | _RECURSIVE, None)
        if step.kind == "read":
            _mount(None, step.mount_path, None, _REMOUNT | _BIND | _READ_ONLY, None)


def _make_mount_point(step: _Step, owner: tuple[int, int], *, is_folder: bool) -> str:
    """Return the path to mount on; make the path first if a mount hides its parent folder.

    ``owner`` becomes the owner of the new parent folders.  Otherwise a mounted library in the
    server's ``~/.cache`` would make ``~/.cache`` unwritable for programs with a home of their own.
    """
    if not step.parent:
        return step.mount_path
    *folders, leaf = os.path.relpath(step.mount_path, step.parent).split("/")
    descriptor = os.open(step.parent, _FOLDER)
    for part in folders:
        descriptor = _make_folder(descriptor, part, owner)
    if is_folder:
        return os.fsdecode(_descriptor_path(_make_folder(descriptor, leaf, (0, 0))))
    flags = os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    return os.fsdecode(_descriptor_path(os.open(leaf, flags, 0o644, dir_fd=descriptor)))


def _make_folder(parent: int, part: str, owner: tuple[int, int]) -> int:
    with suppress(FileExistsError):
        os.mkdir(part, dir_fd=parent)
    descriptor = os.open(part, _FOLDER | os.O_NOFOLLOW, dir_fd=parent)
    if os.fstat(descriptor).st_uid == 0:  # with any umask
        os.chmod(_descriptor_path(descriptor), _POINT_MODE)
        os.chown(_descriptor_path(descriptor), *owner)
    return descriptor


def _descriptor_path(descriptor: int) -> bytes:
    return b"/proc/self/fd/%d" % descriptor


def _mount_private_proc() -> None:
    """Mount a /proc that does not list processes of other users.

    Before Linux 5.8 the option applied to the whole machine, so these processes stay listed.
    """
    try:
        _mount(b"proc", "/proc", b"proc", _NO_SUID | _NO_DEVICES, b"hidepid=invisible")
    except OSError as error:
        if error.errno != errno.EINVAL:
            raise


def _compose_shm_options() -> bytes:
    """Return the mount options for a /dev/shm of the machine's size; empty if it has none."""
    with suppress(OSError):
        filesystem = os.statvfs(_SHM)
        return b"mode=1777,size=%d" % (filesystem.f_blocks * filesystem.f_frsize)
    return b""


def _block_device(node: str) -> None:
    """Remount a device node so that programs cannot open it."""
    _mount(os.fsencode(node), node, None, _BIND, None)
    _mount(None, node, None, _REMOUNT | _BIND | _NO_DEVICES, None)


def _mount(
    source: bytes | None, target: str, kind: bytes | None, flags: int, options: bytes | None
) -> None:
    at = os.fsencode(target)
    code = linux.LIBC.mount(source, at, kind, ctypes.c_ulong(flags), options)
    linux.check(code, f"a mount on {target}")
