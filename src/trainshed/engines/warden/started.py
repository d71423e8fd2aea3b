"""Starts the archive: lets Python import compiled modules, and modules that older Pythons lack.

The first launcher of each Python version writes the compiled modules beside the archive, so no
other node compiles these modules.  This saves each warden 0.2 s.  They are in one file of our own:
zipimport reads the names of all modules first, and spends 8 ms more on those of one launcher.
"""

import marshal
import os
import stat
import sys
from typing import Final

TYPE_CHECKING = False  # as typing has it, which a reaper does not import
if TYPE_CHECKING:
    from importlib.machinery import ModuleSpec
    from types import ModuleType

_OTHERS_WRITE: Final = stat.S_IWGRP | stat.S_IWOTH
_MODE: Final = 0o600
#: The argument ``optimize`` of ``compile`` that leaves out docstrings, and assertions.
_NO_DOCSTRINGS: Final = 2
#: The pid of the first process of a container.  The kernel drops signals to it that it does not
#: handle, unless they are blocked: then they wait for their handlers.
_FIRST: Final = 1
#: The bytes of the length that a file of compiled modules begins with.
_LENGTH_BYTES: Final = 8


def main() -> int:
    """Run the program that the arguments name; return its exit status."""
    if os.getpid() == _FIRST:
        import signal  # noqa: PLC0415 - a reaper of a cluster with steps does not need it

        signal.pthread_sigmask(signal.SIG_BLOCK, (signal.SIGINT, signal.SIGTERM, signal.SIGHUP))
    archive_path = os.path.abspath(sys.argv[0])
    compiled = compiled_path(archive_path)
    if sys.argv[1:2] == ["attempt"] and not os.path.exists(compiled):
        _compile_in_child(archive_path, compiled)
    if _is_trusted(compiled, archive_path):
        _import_compiled(compiled, archive_path)
    sys.path.append(f"{archive_path}/newer")
    from trainshed.engines.warden.main import main as begin  # noqa: PLC0415 - needs the path

    return begin(sys.argv[1:])


def _import_compiled(path: str, archive_path: str) -> None:
    """Import the compiled modules of an archive, if this user can read them.

    A damaged file is removed, so that the next launcher writes it again; a machine that lost its
    power may leave one.
    """
    try:
        sys.meta_path.insert(0, CompiledModules(path, archive_path))
    except OSError:
        return  # the modules of the archive are the same
    except (EOFError, ValueError, TypeError):
        try:
            os.unlink(path)
        except OSError:
            return


def compiled_path(archive_path: str) -> str:
    """Return the path of the modules of an archive, compiled for the version of this Python."""
    return f"{archive_path.rpartition('.')[0]}-{sys.implementation.cache_tag}.bin"


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


def compile_archive(archive_path: str, compiled: str) -> None:
    """Write the compiled modules of an archive, without docstrings.  Raises OSError."""
    import zipfile  # noqa: PLC0415 - needed once in a cluster

    modules: dict[str, tuple[str, int, int]] = {}
    codes = bytearray()
    with zipfile.ZipFile(archive_path) as sources:
        for path in sources.namelist():
            if path.startswith("trainshed/"):
                name = f"{archive_path}/{path}"
                code = compile(sources.read(path), name, "exec", optimize=_NO_DOCSTRINGS)
                data = marshal.dumps(code)
                modules[_module_name(path)] = (path, len(codes), len(data))
                codes += data
    names = marshal.dumps(modules)
    draft = f"{compiled}-{os.urandom(8).hex()}"
    descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, _MODE)
    with os.fdopen(descriptor, "wb") as file:
        file.write(len(names).to_bytes(_LENGTH_BYTES, "little") + names + codes)
        file.flush()
        os.fsync(file.fileno())
    os.replace(draft, compiled)


def _module_name(path: str) -> str:
    """Return the name of the module at a path in the archive."""
    name = path.rpartition(".")[0].replace("/", ".")
    return name.rpartition(".")[0] if name.endswith(".__init__") else name


class CompiledModules:
    """Imports modules from the file of an archive's compiled modules (``sys.meta_path``)."""

    def __init__(self, path: str, archive_path: str) -> None:
        """Read the names of the modules.

        Raises OSError; ValueError, TypeError or EOFError if the file is damaged.
        """
        self._path = path
        self._archive_path = archive_path
        with open(path, "rb") as file:
            length = int.from_bytes(file.read(_LENGTH_BYTES), "little")
            self._modules: dict[str, tuple[str, int, int]] = marshal.loads(file.read(length))  # noqa: S302 - as below
            size = os.fstat(file.fileno()).st_size
        self._start = _LENGTH_BYTES + length
        end = self._start + max(offset + count for _, offset, count in self._modules.values())
        if size != end:
            raise ValueError(f"{path} must have {end} bytes, got {size}")

    def find_spec(self, name: str, *_: object) -> "ModuleSpec | None":
        """Return the spec of a module; None: the archive does not have it."""
        if name not in self._modules:
            return None
        origin = self._find_origin(name)
        is_package = origin.endswith("/__init__.py")
        spec_type: type[ModuleSpec] = type(os.__spec__)  # without importlib.machinery
        spec = spec_type(name, self, origin=origin, is_package=is_package)  # type: ignore[arg-type] # has the methods
        spec.has_location = True
        return spec

    def create_module(self, _spec: "ModuleSpec") -> None:
        """Let Python create the module."""

    def exec_module(self, module: "ModuleType") -> None:
        """Run the code of a module.  Raises OSError."""
        _, offset, length = self._modules[module.__name__]
        descriptor = os.open(self._path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            data = os.pread(descriptor, length, self._start + offset)
        finally:
            os.close(descriptor)
        exec(marshal.loads(data), vars(module))  # noqa: S102, S302 - only this user can write it

    def get_source(self, name: str) -> str:
        """Return the source of a module, which the archive has.  Raises OSError."""
        from zipimport import zipimporter  # noqa: PLC0415 - reads the names of all modules

        return zipimporter(self._archive_path).get_data(self._find_origin(name)).decode()

    def _find_origin(self, name: str) -> str:
        return f"{self._archive_path}/{self._modules[name][0]}"


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
