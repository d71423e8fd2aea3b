"""System calls of pods that Python 3.11 does not have: namespaces, mounts, and privileges."""

import ctypes
import os
import platform
import signal

CLONE_NEWNS, CLONE_NEWUTS, CLONE_NEWIPC = 0x00020000, 0x04000000, 0x08000000
CLONE_NEWPID, CLONE_NEWNET = 0x20000000, 0x40000000
MS_RDONLY, MS_NOSUID, MS_NODEV, MS_NOEXEC, MS_REMOUNT = 1, 2, 4, 8, 32
MS_BIND, MS_REC, MS_PRIVATE = 4096, 16384, 1 << 18
MNT_DETACH = 2
PR_SET_PDEATHSIG, PR_CAPBSET_READ, PR_CAPBSET_DROP, PR_SET_NO_NEW_PRIVS = 1, 23, 24, 38
PIVOT_ROOT = {"x86_64": 155, "aarch64": 41}
#: chown, dac_override, fowner, fsetid, kill, setgid, setuid, setpcap, net_bind_service, net_raw,
#: sys_chroot, mknod, audit_write and setfcap: what container runtimes leave to root.
DEFAULT_CAPABILITIES = frozenset({0, 1, 3, 4, 5, 6, 7, 8, 10, 13, 18, 27, 29, 31})
CAPABILITY_COUNT = 64

_libc = ctypes.CDLL(None, use_errno=True)


def _call(name, *words):
    if getattr(_libc, name)(*words) != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{name}: {os.strerror(number)}")


def unshare(flags):
    _call("unshare", flags)


def enter(pid, names):
    """Join namespaces of a process, by their names in ``/proc/PID/ns``."""
    descriptors = [os.open(f"/proc/{pid}/ns/{name}", os.O_RDONLY) for name in names]
    for descriptor in descriptors:
        _call("setns", descriptor, 0)
        os.close(descriptor)


def mount(source, target, kind=None, flags=0, data=None):
    words = [None if word is None else os.fsencode(word) for word in (source, target, kind)]
    text = None if data is None else data.encode()
    _call("mount", *words, ctypes.c_ulong(flags), text)


def bind(source, target, flags=0):
    """Mount a folder or a file a second time; ``flags`` such as MS_RDONLY need a second call."""
    mount(source, target, None, MS_BIND | MS_REC)
    if flags:
        mount(None, target, None, MS_BIND | MS_REMOUNT | flags)


def pivot_root(root):
    """Make a folder the root, and let go of the old one."""
    os.chdir(root)
    number = PIVOT_ROOT[platform.machine()]
    if _libc.syscall(number, b".", b".") != 0:
        raise OSError(ctypes.get_errno(), "pivot_root failed")
    _call("umount2", b".", MNT_DETACH)
    os.chdir("/")


def set_hostname(name):
    data = name.encode()
    _call("sethostname", data, len(data))


def die_with_parent():
    """Get SIGKILL when the thread ends that started this process."""
    _libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)


def forbid_privileges():
    _libc.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)


def drop_capabilities(allowed):
    for number in range(CAPABILITY_COUNT):
        if number not in allowed and _libc.prctl(PR_CAPBSET_READ, number, 0, 0, 0) == 1:
            _libc.prctl(PR_CAPBSET_DROP, number, 0, 0, 0)
