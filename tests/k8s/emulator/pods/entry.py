"""The first step of a container; run with ``-I -S``, its order is JSON on its input.

The process enters the pod's namespaces and forks; the child mounts the container's root, drops
privileges and becomes the program.  The parent waits and ends with the program's status, as
``128 + signal`` where a signal ended it.  ``status`` is a descriptor that tells the child's pid,
and, where the program does not start, why.
"""

# A process that does not import pathlib starts sooner.
# ruff: noqa: PTH101, PTH102, PTH103, PTH110, PTH112, PTH114, PTH115, PTH116, PTH120, PTH123, PTH211

import contextlib
import errno
import json
import os
import signal
import stat
import sys

sys.path.insert(0, os.path.dirname(__file__))

import linux

NAMESPACES = ("mnt", "uts", "ipc", "net")
DEVICES = {
    "null": (1, 3),
    "zero": (1, 5),
    "full": (1, 7),
    "random": (1, 8),
    "urandom": (1, 9),
    "tty": (5, 0),
}
LINKS_MAX = 40
REFUSED = 121
"""The status of a process that did not become the program."""


def main():
    order = json.load(sys.stdin.buffer)
    status = order["status"]
    os.set_inheritable(status, False)
    linux.die_with_parent()
    group = os.open(order["cgroup"], os.O_WRONLY) if order["cgroup"] else None
    linux.enter(order["sandbox"], NAMESPACES)
    linux.unshare(linux.CLONE_NEWPID | linux.CLONE_NEWNS)
    pid = os.fork()
    if pid == 0:
        if group is not None:
            os.write(group, b"0")
            os.close(group)
        _become(order, status)
    os.write(status, f"{pid}\n".encode())
    os.close(status)
    _, end = os.waitpid(pid, 0)
    code = os.waitstatus_to_exitcode(end)
    os._exit(128 - code if code < 0 else code)


def _become(order, status):
    try:
        _prepare_root(order)
        _prepare_process(order)
        order["env"].setdefault("HOME", _find_home(order["user"]))
        program = _find_program(order["argv"][0], order["env"]["PATH"])
        os.execve(program, order["argv"], order["env"])  # noqa: S606 - the container's own program
    except FileNotFoundError:
        text = f'exec: "{order["argv"][0]}": stat {order["argv"][0]}: no such file or directory'
    except LookupError:
        text = f'exec: "{order["argv"][0]}": executable file not found in $PATH'
    except PermissionError:
        text = f'exec: "{order["argv"][0]}": permission denied'
    except OSError as error:
        text = f'exec: "{order["argv"][0]}": {error.strerror.lower()}'
    os.write(status, json.dumps({"refusal": text}).encode())
    os._exit(REFUSED)


def _prepare_root(order):
    root, scratch = order["root"], order["scratch"]
    linux.mount(None, "/", None, linux.MS_REC | linux.MS_PRIVATE)
    linux.mount("tmpfs", scratch, "tmpfs", 0, "mode=0755")
    for name in ("upper", "work", "root"):
        os.mkdir(f"{scratch}/{name}")
    os.chmod(f"{scratch}/upper", 0o755)  # noqa: S103 - as roots of images are
    layers = f"lowerdir={order['image']},upperdir={scratch}/upper,workdir={scratch}/work"
    linux.mount("overlay", root, "overlay", 0, layers)
    # a server of this machine may have made it, for itself alone; images do not have it
    with contextlib.suppress(FileNotFoundError):
        os.rmdir(f"{root}/gcs")  # noqa: PTH106 - without pathlib it starts sooner
    _mount_system(root)
    for row in order["mounts"]:
        _mount(root, row)
    if order["is_root_read_only"]:
        linux.mount(None, root, None, linux.MS_REMOUNT | linux.MS_RDONLY)
    linux.pivot_root(root)


def _mount_system(root):
    for name in ("proc", "dev", "sys", "tmp"):
        os.makedirs(f"{root}/{name}", exist_ok=True)
    linux.mount("proc", f"{root}/proc", "proc", linux.MS_NOSUID | linux.MS_NODEV | linux.MS_NOEXEC)
    linux.mount("sysfs", f"{root}/sys", "sysfs", linux.MS_RDONLY | linux.MS_NOSUID)
    linux.mount("tmpfs", f"{root}/dev", "tmpfs", linux.MS_NOSUID, "mode=0755")
    os.umask(0)
    for name, numbers in DEVICES.items():
        os.mknod(f"{root}/dev/{name}", stat.S_IFCHR | 0o666, os.makedev(*numbers))
    for name in ("pts", "shm"):
        os.mkdir(f"{root}/dev/{name}")
    linux.mount("devpts", f"{root}/dev/pts", "devpts", 0, "newinstance,ptmxmode=0666,mode=0620")
    for name, target in (("ptmx", "pts/ptmx"), ("fd", "/proc/self/fd")):
        os.symlink(target, f"{root}/dev/{name}")
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        os.symlink(f"/proc/self/fd/{number}", f"{root}/dev/{name}")
    os.umask(0o022)


def _mount(root, row):
    """Bind a folder or a file; what is absent at its path is made."""
    target = _find_inside(root, row["path"])
    if os.path.isdir(row["source"]):
        os.makedirs(target, exist_ok=True)
    elif not os.path.exists(target):
        os.makedirs(os.path.dirname(target), exist_ok=True)
        os.close(os.open(target, os.O_CREAT | os.O_WRONLY, 0o644))
    flags = linux.MS_RDONLY if row["is_read_only"] else 0
    flags |= linux.MS_NOEXEC if row["is_noexec"] else 0
    linux.bind(row["source"], target, flags)


def _find_inside(root, path):
    """The place of a path under a root; absolute links of the image stay in it."""
    parts, place = path.split("/")[::-1], root
    for _ in range(LINKS_MAX + len(path)):
        if not parts:
            return place
        part = parts.pop()
        if part in {"", "."}:
            continue
        if part == "..":
            place = os.path.dirname(place) if place != root else root
        elif os.path.islink(f"{place}/{part}"):
            link = os.readlink(f"{place}/{part}")
            place = root if link.startswith("/") else place
            parts += link.split("/")[::-1]
        else:
            place = f"{place}/{part}"
    raise OSError(errno.ELOOP, os.strerror(errno.ELOOP))


def _prepare_process(order):
    nothing = os.open("/dev/null", os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    os.makedirs(order["working_dir"], exist_ok=True)
    os.chdir(order["working_dir"])
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    signal.signal(signal.SIGXFSZ, signal.SIG_DFL)
    allowed = frozenset() if "ALL" in order["dropped"] else linux.DEFAULT_CAPABILITIES
    linux.drop_capabilities(allowed)
    os.setgroups(order["groups"])
    os.setgid(order["group"])
    os.setuid(order["user"])
    if not order["can_gain"]:
        linux.forbid_privileges()
    linux.die_with_parent()  # a change of the user forgets it


def _find_home(user):
    """The home of a user in the container's own file; / for a user that it lacks."""
    with contextlib.suppress(OSError), open("/etc/passwd", encoding="utf-8") as file:
        for row in file:
            fields = row.split(":")
            if len(fields) > 5 and fields[2] == str(user):
                return fields[5]
    return "/"


def _find_program(name, path):
    if "/" in name:
        os.stat(name)
        return name
    for folder in path.split(":"):
        program = f"{folder}/{name}"
        if os.access(program, os.X_OK):
            return program
    raise LookupError(name)


main()
