"""Plugs GPUs into a machine that has none: ``python plug.py STATE LIBRARIES`` or ``... join PID``.

The first makes a mount namespace in which the driver of ``driver.c`` is installed and its devices
have nodes, says so, and keeps it until its standard input ends.  ``join PID PROGRAM ...`` becomes a
program in there.
"""

import os
import shutil
import subprocess
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2] / "isolation"))

from as_user import BIND, LIBC, NEW_NAMESPACE, PRIVATE, RECURSIVE, checked, mount, plug_in_gpus

#: Behind every wall programs see what is below /usr; here nobody has anything.
HOME = Path("/usr/local/src")
STATE = HOME / "state"
#: Two cards at once have GPUs of the same names.
LOCKS = HOME / "locks"


def main():
    if sys.argv[1] == "join":
        join(int(sys.argv[2]), sys.argv[3:])
    state, libraries = map(Path, sys.argv[1:])
    checked(LIBC.unshare(NEW_NAMESPACE))
    mount(None, "/", None, PRIVATE | RECURSIVE)
    plug_in_gpus([f"nvidia{gpu.name}" for gpu in state.iterdir()] + ["nvidiactl"])
    install(libraries)
    STATE.mkdir()
    mount(state, STATE, None, BIND)
    print("plugged in", flush=True)
    sys.stdin.read()


def join(pid, argv):
    folder = Path.cwd()
    namespace = os.open(f"/proc/{pid}/ns/mnt", os.O_RDONLY | os.O_CLOEXEC)
    checked(LIBC.setns(namespace, NEW_NAMESPACE))
    os.chdir(folder)
    # where it names NVIDIA's own, that comes first
    libraries = (str(HOME), *filter(None, [os.environ.get("LD_LIBRARY_PATH")]))
    os.environ["LD_LIBRARY_PATH"] = ":".join(libraries)
    os.environ["TRAINSHED_LOCK_DIR"] = str(LOCKS)
    os.execvp(argv[0], argv)  # noqa: S606 - the purpose


def install(libraries):
    """The loader finds them as it would find NVIDIA's, without a variable."""
    mount("tmpfs", HOME, "tmpfs", 0, b"mode=755")
    LOCKS.mkdir()
    LOCKS.chmod(0o1777)
    for file in libraries.iterdir():
        shutil.copy(file, HOME)
    (HOME / "ld.so.conf").write_text(f"{HOME}\ninclude /etc/ld.so.conf\n")
    words = ("-X", "-C", HOME / "ld.so.cache", "-f", HOME / "ld.so.conf")
    subprocess.run((shutil.which("ldconfig", path="/sbin:/usr/sbin"), *words), check=True)
    (HOME / "ld.so.cache").chmod(0o644)
    mount(HOME / "ld.so.cache", "/etc/ld.so.cache", None, BIND)


if __name__ == "__main__":
    main()
