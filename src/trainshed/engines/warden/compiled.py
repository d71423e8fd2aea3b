"""Writes and imports the compiled modules of an archive, all in one file.

The first launcher of each Python version writes the file, so no other node compiles these modules.
This saves each warden 0.2 s.  The file is of our own kind: zipimport reads the names of all modules
first, and spends 8 ms more on those of one launcher.
"""

import marshal
import os
from typing import Final

TYPE_CHECKING = False  # for the modules that a reaper does not import, see processes.tree
if TYPE_CHECKING:
    from importlib.machinery import ModuleSpec
    from types import ModuleType

_MODE: Final = 0o600
#: The argument ``optimize`` of ``compile`` that leaves out docstrings, and assertions.
_NO_DOCSTRINGS: Final = 2
#: The bytes of the length that the file begins with; the names of the modules follow.
_LENGTH_BYTES: Final = 8


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

    def __init__(
        self, path: str, archive_path: str, modules: dict[str, tuple[str, int, int]], start: int
    ) -> None:
        """Import ``modules``, whose codes begin at ``start`` in the file.

        ``modules`` has the path in the archive, and the offset and the length of the code in bytes.
        Raises OSError, and ValueError if the file has another size.
        """
        self._path = path
        self._archive_path = archive_path
        self._modules = modules
        self._start = start
        end = start + max(offset + count for _, offset, count in modules.values())
        size = os.stat(path).st_size
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
