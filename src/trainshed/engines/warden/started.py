"""Starts the archive: adds compiled modules, and modules that older Pythons lack, to the path.

The first launcher of each Python version writes the compiled modules beside the archive, so no
other node compiles them, which saves each warden a fifth of a second.
"""

import os
import stat
import sys
from typing import Final

_OTHERS_WRITE: Final = stat.S_IWGRP | stat.S_IWOTH
_MODE: Final = 0o600
#: Flags by which Python does not check the hash after them (PEP 552).
_UNCHECKED: Final = b"\1\0\0\0" + bytes(8)


def main() -> int:
    """Run the program that the arguments name; return its exit status."""
    own = os.path.abspath(sys.argv[0])
    compiled = f"{own.rpartition('.')[0]}-{sys.implementation.cache_tag}.zip"
    if sys.argv[1:2] == ["attempt"] and not os.path.exists(compiled):
        _compile_in_child(own, compiled)
    if _is_ours(compiled):
        sys.path.insert(0, compiled)
    sys.path.append(f"{own}/newer")
    from trainshed.engines.warden.main import main as begin  # noqa: PLC0415 - needs the path

    return begin(sys.argv[1:])


def _compile_in_child(own: str, compiled: str) -> None:
    """Compile in a child: that needs much memory, and the launcher runs for days."""
    child = os.fork()
    if child:
        os.waitpid(child, 0)
        return
    try:
        _compile(own, compiled)
    finally:
        os._exit(0)  # if this failed, each process compiles its modules itself, which is only slow


def _compile(own: str, compiled: str) -> None:
    import importlib.util  # noqa: PLC0415 - needed once in a cluster
    import marshal  # noqa: PLC0415
    import zipfile  # noqa: PLC0415

    draft = f"{compiled}-{os.urandom(8).hex()}"
    descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, _MODE)
    with (
        os.fdopen(descriptor, "wb") as file,
        zipfile.ZipFile(file, "w") as archive,
        zipfile.ZipFile(own) as sources,
    ):
        for name in sources.namelist():
            source = sources.read(name)
            code = marshal.dumps(compile(source, f"{own}/{name}", "exec"))
            archive.writestr(f"{name}c", importlib.util.MAGIC_NUMBER + _UNCHECKED + code)
            archive.writestr(name, source)
    os.replace(draft, compiled)


def _is_ours(path: str) -> bool:
    """Return whether only this user can have written a file; others could put code into it."""
    try:
        status = os.lstat(path)
    except OSError:
        return False
    is_safe = stat.S_ISREG(status.st_mode) and not status.st_mode & _OTHERS_WRITE
    return is_safe and status.st_uid == os.getuid()


if __name__ == "__main__":
    sys.exit(main())
