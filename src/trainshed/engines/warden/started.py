"""Starts the archive: runs it from its compiled modules, which the first launcher writes beside it.

Python compiles this module, the archive's ``__main__``, in each process, and never gives back the
memory for that.  So this module is short; ``compiled`` has the rest.
"""

import marshal
import os
import stat
import sys

_COMPILED = "trainshed.engines.warden.compiled"
#: The pid of the first process of a container.  The kernel drops signals to it that it does not
#: handle, unless they are blocked: then they wait for their handlers.
_FIRST = 1


def main() -> int:
    """Run the program that the arguments name; return its exit status."""
    if os.getpid() == _FIRST:
        import signal  # noqa: PLC0415 - a reaper of a cluster with steps does not need it

        signal.pthread_sigmask(signal.SIG_BLOCK, (signal.SIGINT, signal.SIGTERM, signal.SIGHUP))
    archive_path = os.path.abspath(sys.argv[0])
    path = compiled_path(archive_path)
    if sys.argv[1:2] == ["attempt"] and not os.path.exists(path):
        _compile_in_child(archive_path, path)
    if _is_trusted(path, archive_path):
        _use_compiled(path, archive_path)
    sys.path.append(f"{archive_path}/newer")
    from trainshed.engines.warden.main import main as begin  # noqa: PLC0415 - needs the path

    return begin(sys.argv[1:])


def compiled_path(archive_path: str) -> str:
    """Return the path of the modules of an archive, compiled for the version of this Python."""
    return f"{archive_path.rpartition('.')[0]}-{sys.implementation.cache_tag}.bin"


def _compile_in_child(archive_path: str, path: str) -> None:
    """Compile in a child process, because this needs much memory and the launcher runs for days."""
    child = os.fork()
    if child:
        os.waitpid(child, 0)
        return
    try:
        from trainshed.engines.warden.compiled import compile_archive  # noqa: PLC0415 - see above

        compile_archive(archive_path, path)
    finally:
        os._exit(0)  # after an error, wardens compile modules: slow, but correct


def _is_trusted(path: str, archive_path: str) -> bool:
    """Return whether only this user, or the archive's owner, can write a file.

    Then the file contains no code of other users.
    """
    try:
        status = os.lstat(path)
        owner = os.stat(archive_path).st_uid
    except OSError:
        return False
    is_safe = stat.S_ISREG(status.st_mode) and not status.st_mode & (stat.S_IWGRP | stat.S_IWOTH)
    return is_safe and status.st_uid in {os.getuid(), owner}


def _use_compiled(path: str, archive_path: str) -> None:
    """Import the modules of an archive from their compiled file, if this user can read it.

    A damaged file is removed, so that the next launcher writes it again; a machine that lost its
    power may leave one.  Only this user, or the archive's owner, can write the code that runs here.
    """
    try:
        with open(path, "rb") as file:
            modules = marshal.loads(file.read(int.from_bytes(file.read(8), "little")))  # noqa: S302
            start = file.tell()
            file.seek(start + modules[_COMPILED][1])
            code = marshal.loads(file.read(modules[_COMPILED][2]))  # noqa: S302
        module = type(sys)(_COMPILED)
        exec(code, vars(module))  # noqa: S102
        sys.meta_path.insert(0, module.CompiledModules(path, archive_path, modules, start))
    except OSError:
        return  # the modules of the archive are the same
    except (EOFError, ValueError, TypeError, LookupError):
        try:
            os.unlink(path)
        except OSError:
            return


if __name__ == "__main__":
    sys.exit(main())
