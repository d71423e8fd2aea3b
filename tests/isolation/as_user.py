"""Becomes another user, then another program: ``python as_user.py UID PROGRAM ...``.

It gets a mount namespace.  The interpreter of the tests may lie in a home that only root may enter:
there the folders on the way to it can be entered, and have nothing else in them.  And it has GPUs
that no job holds: they are /dev/null by other names, which everybody may open.  It may open
/dev/net/tun, as on a machine with Debian's rules for devices, but not in every container.  The user
has a name and numbers to spare, as a rootless podman needs them.
"""

import ctypes
import os
import sys
from pathlib import Path

NEW_NAMESPACE, BIND, RECURSIVE, PRIVATE = 0x00020000, 1 << 12, 1 << 14, 1 << 18
LIBC = ctypes.CDLL(None, use_errno=True)
ENTER = 0o005
FOLDERS = ("pts", "shm")
NODES = (*FOLDERS, "null", "zero", "full", "random", "urandom", "tty", "kmsg", "vda")
NAME = "trainshed-test"
#: The first of the numbers that its containers have; no user of a machine has such.
SPARE = 1_800_000_000
GPUS = ("nvidia0", "nvidia1")
TUN = (10, 200)
LINKS = {
    "ptmx": "pts/ptmx",
    "fd": "/proc/self/fd",
    **{
        name: f"/proc/self/fd/{number}" for number, name in enumerate(("stdin", "stdout", "stderr"))
    },
}


def main():
    uid, *argv = sys.argv[1:]
    checked(LIBC.unshare(NEW_NAMESPACE))
    mount(None, "/", None, PRIVATE | RECURSIVE)
    plug_in_gpus(GPUS)
    be_known(int(uid))
    closed = closed_folder(Path(sys.executable).resolve())
    if closed is not None:
        open_way(closed, Path(sys.executable).resolve().parents[1])
    os.setgroups([])
    os.setresgid(int(uid), int(uid), int(uid))
    os.setresuid(int(uid), int(uid), int(uid))
    os.execv(argv[0], argv)  # noqa: S606 - the purpose


def closed_folder(path):
    """The first folder on the way that others may not enter."""
    for folder in reversed(path.parents):
        if folder.stat().st_mode & ENTER != ENTER:
            return folder
    return None


def open_way(closed, folder):
    """Have nothing but ``folder`` in the closed folder."""
    descriptor = os.open(folder, os.O_PATH)
    mount("tmpfs", closed, "tmpfs", 0, b"mode=755")
    folder.mkdir(parents=True)
    mount(f"/proc/self/fd/{descriptor}", folder, None, BIND | RECURSIVE)
    os.close(descriptor)


def plug_in_gpus(names):
    """Have these nodes more in /dev, which is another one then."""
    held = {
        name: os.open(f"/dev/{name}", os.O_PATH) for name in NODES if Path("/dev", name).exists()
    }
    mount("tmpfs", "/dev", "tmpfs", 0, b"mode=755")
    for name, descriptor in held.items():
        place = Path("/dev", name)
        place.mkdir() if name in FOLDERS else place.touch()
        mount(f"/proc/self/fd/{descriptor}", place, None, BIND | RECURSIVE)
        os.close(descriptor)
    for name, target in LINKS.items():
        Path("/dev", name).symlink_to(target)
    for name in names:
        os.mknod(f"/dev/{name}", 0o020666, os.makedev(1, 3))
        Path("/dev", name).chmod(0o666)
    Path("/dev/net").mkdir()
    os.mknod("/dev/net/tun", 0o020666, os.makedev(*TUN))
    Path("/dev/net/tun").chmod(0o666)


def be_known(uid):
    """Have the user in the files of names; they lie in the folder of devices, which is ours."""
    if not uid:
        return
    lines = {
        "passwd": f"{NAME}:x:{uid}:{uid}::/:/bin/sh",
        "group": f"{NAME}:x:{uid}:",
        **dict.fromkeys(("subuid", "subgid"), f"{NAME}:{SPARE}:65536"),
    }
    for name, line in lines.items():
        place, own = Path("/etc", name), Path("/dev", f"names-{name}")
        if place.exists():
            own.write_text(f"{line}\n{place.read_text()}")
            own.chmod(0o644)
            mount(own, place, None, BIND)


def mount(source, target, kind, flags, options=None):
    words = [None if word is None else os.fsencode(word) for word in (source, target, kind)]
    checked(LIBC.mount(*words, ctypes.c_ulong(flags), options))


def checked(code):
    if code:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))


if __name__ == "__main__":
    main()
