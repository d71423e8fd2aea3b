"""The mode *landlock*: the kernel lets a program open only the listed files.

The program needs no user of its own for this.

Folders are not hidden, but programs cannot open them.  From Linux 6.12 on, signals and abstract
sockets do not reach other jobs either.  Replicas of a distributed job listen and connect at all
ports but the server's: Landlock has no rule that refuses a port, so a rule allows each other port.
"""

import ctypes
import functools
import os
import stat
import struct
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from typing import Final, NamedTuple

from trainshed.engines.isolation import device_nodes, linux, seccomp
from trainshed.engines.isolation.modes import LANDLOCK
from trainshed.engines.isolation.none import make_enter as prepare_mounts
from trainshed.engines.isolation.view import IsolationFault, Mounts, ReplicaView

# from linux/landlock.h
_CREATE, _ADD, _RESTRICT = 444, 445, 446
_ASK_VERSION: Final = 1
_PATH_BENEATH, _NET_PORT = 1, 2
_BIND_TCP: Final = 1
_PORTS: Final = 1 << 16
_EXECUTE, _WRITE_FILE, _READ_FILE, _READ_DIR = 1, 2, 4, 8
_TRUNCATE, _IOCTL = 1 << 14, 1 << 15
_OF_FILES: Final = _EXECUTE | _WRITE_FILE | _READ_FILE | _TRUNCATE | _IOCTL
_READ: Final = _EXECUTE | _READ_FILE | _READ_DIR
_WRITE_DEVICE: Final = _READ_FILE | _WRITE_FILE | _IOCTL
#: The number of rights on files in each version; later versions have as many as the last one.
_RIGHTS: Final = (13, 14, 15, 15, 16)
TCP_SINCE: Final = 4
SCOPES_SINCE: Final = 6
_SCOPE_SOCKETS, _SCOPE_SIGNALS = 1, 2

#: Folders that every program may read and execute.
SYSTEM: Final = (
    "/usr", "/lib", "/lib64", "/lib32", "/bin", "/sbin", "/etc", "/opt", "/proc", "/sys",
    "/nix/store", "/run/systemd/resolve", "/run/nscd", "/run/nvidia-persistenced",
)  # fmt: skip
#: Files in these folders that are often links to other folders.
_LINKED: Final = ("/etc/resolv.conf", "/etc/hosts", "/etc/localtime")
#: Device files that every program may open for reading and writing.
_DEVICES: Final = (
    "null", "zero", "full", "random", "urandom", "tty", "ptmx", "pts", "fuse", "infiniband", "kfd",
    "dri", "nvidiactl", "nvidia-uvm", "nvidia-uvm-tools", "nvidia-modeset", "nvidia-nvswitchctl",
    "nvidia-caps-imex-channels",
)  # fmt: skip
_SHM: Final = "/dev/shm"  # noqa: S108 - every program may share memory
_UMASK: Final = 0o077
_ROOT: Final = 0

_Identity = tuple[int, int]


class _Rule(NamedTuple):
    path: str
    rights: int


def version() -> int:
    """Return the version of the kernel's Landlock; 0 if the kernel has none."""
    try:
        return linux.syscall("landlock", _CREATE, None, 0, _ASK_VERSION)
    except OSError:
        return 0


def make_enter(view: ReplicaView, mounts: Mounts) -> Callable[[], None]:
    """Return the function that the forked child calls; the function raises IsolationFault."""
    abi = version()
    rules = tuple(_list_rules(view, _all_rights(abi)))
    before = {target: _identity(target) for _, target in view.folders}
    scopes = _SCOPE_SIGNALS | (0 if view.has_peers else _SCOPE_SOCKETS)
    make_mounts = prepare_mounts(mounts)
    filtered = seccomp.code_of((*view.refused_calls, seccomp.LIMITS))
    # with capabilities a program can read much of other processes: root keeps none after exec
    capabilities = linux.capability_count() if os.geteuid() == _ROOT else 0
    ports = (
        _make_port_ruleset(view.refused_ports) if view.refused_ports and abi >= TCP_SINCE else None
    )

    def enter_isolation() -> None:
        if make_mounts is not None:  # the server is root, and its jobs may be
            make_mounts()
        try:
            mounted_rules = _list_mounted_rules(before, _all_rights(abi))
            files = _make_files_ruleset(abi, scopes, (*rules, *mounted_rules))
            linux.drop_capabilities(capabilities)
            linux.forbid_new_privileges()
            for ruleset in (files,) if ports is None else (files, ports):
                linux.syscall("landlock_restrict_self", _RESTRICT, ruleset, 0)
            seccomp.install(filtered)
            os.umask(_UMASK)
        except OSError as error:
            raise IsolationFault(LANDLOCK, error) from error

    return enter_isolation


def _all_rights(abi: int) -> int:
    return (1 << _RIGHTS[min(abi, len(_RIGHTS)) - 1]) - 1 if abi else 0


def _make_files_ruleset(abi: int, scopes: int, rules: Iterable[_Rule]) -> int:
    """Return a ruleset that opens the paths of the rules; exec closes it.  Raises OSError."""
    ruleset = _make_ruleset(abi, scopes)
    for rule in (*rules, _Rule("/proc/self", _READ | _WRITE_FILE)):
        _add_rule(ruleset, rule, _all_rights(abi))
    return ruleset


def _make_ruleset(abi: int, scopes: int) -> int:
    words = [_all_rights(abi)]
    if abi >= SCOPES_SINCE:
        words += [0, scopes]  # rules for TCP are in a ruleset of their own
    data = struct.pack(f"={len(words)}Q", *words)
    return linux.syscall("landlock_create_ruleset", _CREATE, data, len(data), 0)


@functools.lru_cache(maxsize=1)
def _make_port_ruleset(refused: tuple[int, ...]) -> int:
    """Return a ruleset that lets programs bind to all TCP ports but ``refused``.  Raises OSError.

    This takes a tenth of a second, so all replicas of an attempt share one, which stays open.
    """
    data = struct.pack("=QQ", 0, _BIND_TCP)
    ruleset = linux.syscall("landlock_create_ruleset", _CREATE, data, len(data), 0)
    rule = (ctypes.c_uint64 * 2)(_BIND_TCP, 0)
    words = map(ctypes.c_long, (_ADD, ruleset, _NET_PORT))
    arguments = (*words, ctypes.byref(rule), ctypes.c_long(0))
    add = linux.LIBC.syscall
    try:
        for port in set(range(_PORTS)).difference(refused):
            rule[1] = port
            linux.check(add(*arguments), f"a rule for port {port}")
    except OSError:
        os.close(ruleset)
        raise
    return ruleset


def _list_rules(view: ReplicaView, all_rights: int) -> Iterator[_Rule]:
    linked = (os.path.realpath(path) for path in _LINKED)
    for path in dict.fromkeys((*SYSTEM, *linked, *view.reads)):
        yield _Rule(path, _READ)
    for path in (*view.writes, *([view.tmp] if view.tmp else ())):
        yield _Rule(path, all_rights & ~_IOCTL)
    yield _Rule(_SHM, all_rights & ~_IOCTL)
    yield _Rule("/dev", _READ_DIR)
    own = {*view.devices, *(f"/dev/{name}" for name in _DEVICES)}
    for path in sorted(own.difference(device_nodes.list_unleased_nodes(view.devices))):
        yield _Rule(path, _WRITE_DEVICE | _READ_DIR)


def _list_mounted_rules(before: Mapping[str, _Identity | None], all_rights: int) -> Iterator[_Rule]:
    """Yield the rules for the replica's own folders that are mounted.

    After a failed mount the path is still the machine's folder, and gets no rule.
    """
    for path, identity in before.items():
        if _identity(path) != identity:
            yield _Rule(path, all_rights & ~_IOCTL)


def _identity(path: str) -> _Identity | None:
    """Return the device and the inode of a folder; None if it does not exist."""
    with suppress(OSError):
        status = os.stat(path)
        return status.st_dev, status.st_ino
    return None


def _add_rule(ruleset: int, rule: _Rule, all_rights: int) -> None:
    """Add a rule to a ruleset; skip a path that does not exist."""
    try:
        path = os.open(rule.path, os.O_PATH | os.O_CLOEXEC)
    except OSError:
        return
    try:
        is_folder = stat.S_ISDIR(os.fstat(path).st_mode)
        rights = rule.rights & all_rights & (-1 if is_folder else _OF_FILES)
        data = struct.pack("=Qi", rights, path)
        what = f"a rule for {rule.path}"
        linux.syscall(what, _ADD, ruleset, _PATH_BENEATH, ctypes.c_char_p(data), 0)
    finally:
        os.close(path)
