"""The mode *sandbox*: bubblewrap gives a replica its own mounts, processes and IPC, without root.

The root of the replica has only the system's folders, the paths that it may read (both read-only),
and the paths that it may change.  Its processes see no other processes, and end with the first one.

Bubblewrap itself runs before the isolation.  So its own environment has none of the job's
variables, since ``LD_PRELOAD`` would make it run the job's code; it reads them from a descriptor,
which also keeps them out of command lines.  Bubblewrap does not forward signals:
``find_program_pid`` finds the process to signal.
"""

import errno
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final

from trainshed.engines.isolation import seccomp
from trainshed.engines.isolation.modes import SANDBOX
from trainshed.engines.isolation.mounts import private_files
from trainshed.engines.isolation.view import IsolationFault, Mounts, ReplicaView
from trainshed.engines.processes import tree

#: The folders that every program needs, where the machine has them.
_SYSTEM: Final = (
    *("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/etc", "/opt", "/nix/store", "/sys"),
    "/run/systemd/resolve",
)
#: Nodes of NVIDIA's driver, besides those of GPUs and of their parts.
_NVIDIA: Final = (
    *("/dev/nvidiactl", "/dev/nvidia-uvm", "/dev/nvidia-uvm-tools", "/dev/nvidia-modeset"),
)
#: Nodes of other devices, which are not leased.
_DEVICES: Final = ("/dev/infiniband", "/dev/kfd", "/dev/dri")
_TMP, _SHARED = "/tmp", "/dev/shm"  # noqa: S108 - the replica has its own
_PLACES: Final = ("/usr/bin", "/usr/local/bin", "/bin")
_UMASK: Final = 0o077
#: Added to the signal in the exit status of bubblewrap, as in that of a shell.
_SIGNAL_BASE: Final = 128
_SIGNAL_MAX: Final = 64


def open_arguments(view: ReplicaView, mounts: Mounts, env: Mapping[str, str]) -> tuple[int, ...]:
    """Open descriptors for bubblewrap: of its arguments and its filter.  Raises OSError."""
    code = seccomp.code_of(view.refused_calls)
    filters = (_memory_file("seccomp", code),) if code else ()
    filter_flags = [word for descriptor in filters for word in ("--seccomp", str(descriptor))]
    words = [*filter_flags, *orders(view, mounts, env)]
    return _memory_file("bwrap", b"".join(os.fsencode(word) + b"\0" for word in words)), *filters


def _memory_file(name: str, data: bytes) -> int:
    """Return a descriptor from which ``data`` can be read."""
    descriptor = os.memfd_create(name)
    with open(descriptor, "wb", closefd=False) as file:
        file.write(data)
    os.lseek(descriptor, 0, os.SEEK_SET)
    return descriptor


def compose_argv(argv: Sequence[str], descriptor: int) -> tuple[str, ...]:
    """Return the command to execute, with an empty environment.  Raises IsolationFault."""
    return (find_bubblewrap(), "--args", str(descriptor), "--", *argv)


def make_enter(
    descriptors: Sequence[int], program: str, mounts: Mounts, env: Mapping[str, str]
) -> Callable[[], None]:
    """Return the function for the forked child; it raises FileNotFoundError without the program.

    Bubblewrap would find a missing program only when the replica counts as started.
    """
    exists = _exists(program, mounts, env)

    def prepare() -> None:
        if not exists:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), program)
        os.umask(_UMASK)
        for descriptor in descriptors:
            os.set_inheritable(descriptor, True)

    return prepare


def find_program_pid(pid: int) -> int:
    """Return the pid of the program that a bubblewrap runs; the bubblewrap's if none runs yet.

    Bubblewrap's child is the first process of the namespace, whose first child is the program.
    """
    inside = [program for init in tree.children(pid)[:1] for program in tree.children(init)[:1]]
    return inside[0] if inside else pid


def list_wrappers(pid: int) -> tuple[int, ...]:
    """Return the pids of bubblewrap and of the first process of the namespace."""
    return (pid, *tree.children(pid)[:1])


def signal_in(status: int | None) -> int | None:
    """Return the signal that ended the program, by bubblewrap's exit status; else None."""
    number = (status or 0) - _SIGNAL_BASE
    return number if 0 < number <= _SIGNAL_MAX else None


def orders(view: ReplicaView, mounts: Mounts, env: Mapping[str, str]) -> Iterator[str]:
    """Yield the arguments of bubblewrap before the program's."""
    yield from ("--unshare-user", "--disable-userns", "--unshare-pid", "--unshare-ipc")
    yield from ("--die-with-parent", "--cap-drop", "ALL", "--clearenv")
    for name, value in env.items():
        yield from ("--setenv", name, value)
    for target in _SYSTEM:
        yield from ("--ro-bind-try", target, target)
    yield from ("--proc", "/proc", "--dev", "/dev", "--tmpfs", _SHARED, "--dir", "/run")
    for node in (*view.devices, *(_NVIDIA if view.devices else ()), *_DEVICES):
        yield from ("--dev-bind-try", node, node)
    yield from ("--bind", view.tmp, _TMP) if view.tmp else ("--tmpfs", _TMP)
    yield from ("--dir", "/var", "--symlink", _TMP, f"/var{_TMP}")
    for source, target in mounts.more.folders:
        yield from ("--bind", source, target)
    yield from _mount_view(view)
    for file, target in private_files(mounts.hosts, mounts.more):
        yield from ("--ro-bind", file, target)
    for source, target in mounts.binds:
        yield from ("--bind", source, os.path.normpath(target))
    yield from ("--remount-ro", "/")


def _mount_view(view: ReplicaView) -> Iterator[str]:
    """Yield the arguments for a view: folders before the paths in them, which override them."""
    flags = {
        **dict.fromkeys(view.hides, "--tmpfs"),
        **dict.fromkeys(view.reads, "--ro-bind-try"),
        **dict.fromkeys(filter(None, (*view.writes, view.tmp)), "--bind-try"),
    }
    for target in sorted(flags):
        if flags[target] == "--tmpfs":
            if any(
                target.startswith(f"{folder}/") for folder in (*_SYSTEM, *view.reads, *view.writes)
            ):
                yield from ("--tmpfs", target)
        else:
            yield from (flags[target], target, target)


def _exists(program: str, mounts: Mounts, env: Mapping[str, str]) -> bool:
    """Return whether bubblewrap will find the program; true below the replica's own mounts."""
    if "/" in program:
        is_inside = any(program.startswith(f"{target}/") for _, target in mounts.binds)
        return is_inside or not program.startswith("/") or os.path.exists(program)
    folders = env.get("PATH", os.defpath).split(os.pathsep)
    return any(os.access(f"{folder}/{program}", os.X_OK) for folder in folders)


def find_bubblewrap() -> str:
    """Return bubblewrap's path; a PATH of the job does not change it.  Raises IsolationFault."""
    for folder in _PLACES:
        if os.access(path := f"{folder}/bwrap", os.X_OK):
            return path
    raise IsolationFault(SANDBOX, OSError(errno.ENOENT, "bubblewrap is not installed", "bwrap"))
