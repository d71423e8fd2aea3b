"""Bubblewrap: mounts, processes and IPC of its own, for a server that is no root.

The root of the replica is made of what is named: the system's folders and what it may read, closed
for writing, and what it may change.  Its processes see no others, and end with the first of them.

Bubblewrap itself runs before there are walls.  So it gets none of the job's variables, of which
``LD_PRELOAD`` would make it run the job's code, and gets them through a descriptor; there they
stand in no command line either.  It does not pass signals on: ``program_of`` finds who is to hear
them.
"""

import errno
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final

from trainshed.engines.isolation import seccomp
from trainshed.engines.isolation.modes import SANDBOX
from trainshed.engines.isolation.mounts import private_files
from trainshed.engines.isolation.view import Mounts, ReplicaView, WallFault
from trainshed.engines.processes import tree

#: What every program needs, where the machine has it.
_SYSTEM: Final = (
    *("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/etc", "/opt", "/nix/store", "/sys"),
    "/run/systemd/resolve",
)
#: Of NVIDIA's driver, beside the nodes of GPUs and of their parts.
_NVIDIA: Final = (
    *("/dev/nvidiactl", "/dev/nvidia-uvm", "/dev/nvidia-uvm-tools", "/dev/nvidia-modeset"),
)
#: Of others, whose devices nobody leases.
_DEVICES: Final = ("/dev/infiniband", "/dev/kfd", "/dev/dri")
_TMP, _SHARED = "/tmp", "/dev/shm"  # noqa: S108 - the replica's own
_PLACES: Final = ("/usr/bin", "/usr/local/bin", "/bin")
_UMASK: Final = 0o077
#: How bubblewrap, as a shell, tells of a program that a signal has ended.
_SIGNAL_BASE: Final = 128
_SIGNAL_MAX: Final = 64


def arguments(view: ReplicaView, mounts: Mounts, env: Mapping[str, str]) -> tuple[int, ...]:
    """Descriptors for bubblewrap: its arguments first, then what these name.  Raises OSError."""
    code = seccomp.code_of(view.refused_calls)
    filters = (_memory_file("seccomp", code),) if code else ()
    named = [word for descriptor in filters for word in ("--seccomp", str(descriptor))]
    words = [*named, *orders(view, mounts, env)]
    return _memory_file("bwrap", b"".join(os.fsencode(word) + b"\0" for word in words)), *filters


def _memory_file(name: str, data: bytes) -> int:
    """A descriptor from which ``data`` can be read."""
    descriptor = os.memfd_create(name)
    with open(descriptor, "wb", closefd=False) as file:
        file.write(data)
    os.lseek(descriptor, 0, os.SEEK_SET)
    return descriptor


def wrap(argv: Sequence[str], descriptor: int) -> tuple[str, ...]:
    """What is executed, with no variables at all.  Raises WallFault."""
    return (find_bubblewrap(), "--args", str(descriptor), "--", *argv)


def enter(
    descriptors: Sequence[int], program: str, mounts: Mounts, env: Mapping[str, str]
) -> Callable[[], None]:
    """What the forked child calls; raises OSError for a program that this machine does not have.

    Bubblewrap would find that out only when the replica counts as started.
    """
    is_there = _is_there(program, mounts, env)

    def leave() -> None:
        if not is_there:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), program)
        os.umask(_UMASK)
        for descriptor in descriptors:
            os.set_inheritable(descriptor, True)

    return leave


def program_of(pid: int) -> int:
    """The program that a bubblewrap runs, or itself where there is none yet.

    It has one child, the first process of the namespace, and that child's first is the program.
    """
    inside = [program for init in tree.children(pid)[:1] for program in tree.children(init)[:1]]
    return inside[0] if inside else pid


def wrappers(pid: int) -> tuple[int, ...]:
    """Bubblewrap, and the first process of the namespace."""
    return (pid, *tree.children(pid)[:1])


def signal_in(status: int | None) -> int | None:
    """The signal that ended the program, where bubblewrap's exit status tells of one."""
    number = (status or 0) - _SIGNAL_BASE
    return number if 0 < number <= _SIGNAL_MAX else None


def orders(view: ReplicaView, mounts: Mounts, env: Mapping[str, str]) -> Iterator[str]:
    """All that bubblewrap is given but the program's own words."""
    yield from ("--unshare-user", "--disable-userns", "--unshare-pid", "--unshare-ipc")
    yield from ("--die-with-parent", "--cap-drop", "ALL", "--clearenv")
    for name, value in env.items():
        yield from ("--setenv", name, value)
    for place in _SYSTEM:
        yield from ("--ro-bind-try", place, place)
    yield from ("--proc", "/proc", "--dev", "/dev", "--tmpfs", _SHARED, "--dir", "/run")
    for node in (*view.devices, *(_NVIDIA if view.devices else ()), *_DEVICES):
        yield from ("--dev-bind-try", node, node)
    yield from ("--bind", view.tmp, _TMP) if view.tmp else ("--tmpfs", _TMP)
    yield from ("--dir", "/var", "--symlink", _TMP, f"/var{_TMP}")
    for here, there in mounts.more.folders:
        yield from ("--bind", here, there)
    yield from _mount_view(view)
    for file, place in private_files(mounts.hosts, mounts.more):
        yield from ("--ro-bind", file, place)
    for here, there in mounts.binds:
        yield from ("--bind", here, os.path.normpath(there))
    yield from ("--remount-ro", "/")


def _mount_view(view: ReplicaView) -> Iterator[str]:
    """Folders before what lies in them, so that the last word on a place is the nearest."""
    ways = {
        **dict.fromkeys(view.hides, "--tmpfs"),
        **dict.fromkeys(view.reads, "--ro-bind-try"),
        **dict.fromkeys(filter(None, (*view.writes, view.tmp)), "--bind-try"),
    }
    for place in sorted(ways):
        if ways[place] == "--tmpfs":
            if any(
                place.startswith(f"{folder}/") for folder in (*_SYSTEM, *view.reads, *view.writes)
            ):
                yield from ("--tmpfs", place)
        else:
            yield from (ways[place], place, place)


def _is_there(program: str, mounts: Mounts, env: Mapping[str, str]) -> bool:
    """Whether it is found as bubblewrap looks for it; one beside the replica's folder may be."""
    if "/" in program:
        is_inside = any(program.startswith(f"{there}/") for _, there in mounts.binds)
        return is_inside or not program.startswith("/") or os.path.exists(program)
    folders = env.get("PATH", os.defpath).split(os.pathsep)
    return any(os.access(f"{folder}/{program}", os.X_OK) for folder in folders)


def find_bubblewrap() -> str:
    """Where bubblewrap is; none of the job's variables says so.  Raises WallFault."""
    for place in _PLACES:
        if os.access(path := f"{place}/bwrap", os.X_OK):
            return path
    raise WallFault(SANDBOX, OSError(errno.ENOENT, "bubblewrap is not installed", "bwrap"))
