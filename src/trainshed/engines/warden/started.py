"""Starts the archive: adds compiled modules, and modules that older Pythons lack, to the path.

The first launcher of each Python version writes the compiled modules beside the archive, so no
other node compiles these modules.  This saves each warden 0.2 s.  A server whose own interpreter
runs the archive, in a folder that is read-only there, writes them itself (``compile_archive``).
"""

import os
import signal
import stat
import sys
from typing import Final

_OTHERS_WRITE: Final = stat.S_IWGRP | stat.S_IWOTH
_MODE: Final = 0o600
#: The pid of the first process of a container.  The kernel drops signals to it that it does not
#: handle, unless they are blocked: then they wait for their handlers.
_FIRST: Final = 1
_ENDING: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
#: Flags and source hash in a compiled module; with these flags, Python ignores the hash (PEP 552).
_UNCHECKED: Final = b"\1\0\0\0" + bytes(8)


def main() -> int:
    """Run the program that the arguments name; return its exit status."""
    if os.getpid() == _FIRST:
        signal.pthread_sigmask(signal.SIG_BLOCK, _ENDING)
    archive_path = os.path.abspath(sys.argv[0])
    compiled = compiled_path(archive_path)
    if sys.argv[1:2] == ["attempt"] and not os.path.exists(compiled):
        _compile_in_child(archive_path, compiled)
    if _is_trusted(compiled, archive_path):
        sys.path.insert(0, compiled)
    sys.path.append(f"{archive_path}/newer")
    from trainshed.engines.warden.main import main as begin  # noqa: PLC0415 - needs the path

    return begin(sys.argv[1:])


def compiled_path(archive_path: str) -> str:
    """Return the path of the modules of an archive, compiled for the version of this Python."""
    return f"{archive_path.rpartition('.')[0]}-{sys.implementation.cache_tag}.zip"


def _compile_in_child(archive_path: str, compiled: str) -> None:
    """Compile in a child process, because this needs much memory and the launcher runs for days."""
    child = os.fork()
    if child:
        os.waitpid(child, 0)
        return
    try:
        compile_archive(archive_path, compiled)
    finally:
        os._exit(0)  # after an error, wardens compile modules: slow, but correct


def compile_archive(archive_path: str, compiled: str, mode: int = _MODE) -> None:
    """Write the compiled modules of an archive.  Raises OSError."""
    import importlib.util  # noqa: PLC0415 - needed once in a cluster
    import marshal  # noqa: PLC0415
    import zipfile  # noqa: PLC0415

    draft = f"{compiled}-{os.urandom(8).hex()}"
    descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, _MODE)
    os.fchmod(descriptor, mode)
    with (
        os.fdopen(descriptor, "wb") as file,
        zipfile.ZipFile(file, "w") as archive,
        zipfile.ZipFile(archive_path) as sources,
    ):
        for name in sources.namelist():
            source = sources.read(name)
            code = marshal.dumps(compile(source, f"{archive_path}/{name}", "exec"))
            archive.writestr(f"{name}c", importlib.util.MAGIC_NUMBER + _UNCHECKED + code)
            archive.writestr(name, source)
    os.replace(draft, compiled)


def _is_trusted(path: str, archive_path: str) -> bool:
    """Return whether only this user, or the archive's owner, can write a file.

    Then the file contains no code of other users.
    """
    try:
        status = os.lstat(path)
        owner = os.stat(archive_path).st_uid
    except OSError:
        return False
    is_safe = stat.S_ISREG(status.st_mode) and not status.st_mode & _OTHERS_WRITE
    return is_safe and status.st_uid in {os.getuid(), owner}


if __name__ == "__main__":
    sys.exit(main())
