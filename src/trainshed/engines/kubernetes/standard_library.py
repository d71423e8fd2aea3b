"""Finds and compiles the modules of the standard library that programs need.

``runtime`` runs this file with the interpreter that it bundles, without packages and without
Trainshed, so that no module of a virtual environment is taken and every run gives the same bytes:
what ``marshal`` writes depends on the other strings of its process.

It reads a request from standard input as JSON and writes the answer to standard output.
"""

import base64
import contextlib
import encodings
import importlib.util
import json
import marshal
import pkgutil
import sys
import sysconfig
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, Final

#: Flags and source hash in a compiled module; with these flags, Python ignores the hash (PEP 552).
_UNCHECKED: Final = b"\1\0\0\0" + bytes(8)
#: Modules that Python imports by itself, to write the traceback of an exception.
_ALWAYS: Final = ("linecache", "runpy", "traceback", "tracemalloc", "warnings", "zipimport")

#: Modules of SHA-256, which a warden imports by a name that depends on the version: without them,
#: every warden would load OpenSSL.
_BY_NAME: Final = ("_sha2", "_sha256")


def main() -> None:
    """Answer a request ``{"modules": [...], "sources": {path: text}}``.

    The answer has ``archive`` and ``extensions``, the places of the standard library's zip file and
    of its compiled extensions, relative to the prefix; ``modules``, compiled, base64, by path in
    the zip file; ``sources``, those of the request, compiled in the same way; and ``libraries``,
    the paths of the extensions.
    """
    request = json.load(sys.stdin)
    answer = dict(_answer(request["modules"], request["sources"]))
    json.dump(answer, sys.stdout)


def _answer(names: Iterable[str], sources: dict[str, str]) -> Iterator[tuple[str, Any]]:
    archive, library, extensions = (Path(path) for path in sys.path if path)
    yield "archive", str(archive.relative_to(sys.base_prefix))
    yield "extensions", str(extensions.relative_to(sys.base_exec_prefix))
    origins = sorted(_list_origins(names))
    yield "libraries", [path for path in origins if Path(path).parent == extensions]
    paths = [Path(path).relative_to(library) for path in origins if path.endswith(".py")]
    yield "modules", {f"{p}c": _compile(str(p), (library / p).read_bytes()) for p in paths}
    yield "sources", {f"{path}c": _compile(path, sources[path]) for path in sorted(sources)}


def _list_origins(names: Iterable[str]) -> set[str]:
    """Import modules; return the files of all modules that are imported then."""
    for name in sorted({*names, *_ALWAYS, *_BY_NAME, *_list_encodings()}):
        _import(name)
    sysconfig.get_config_vars()  # imports a module whose name depends on the platform
    specs = [getattr(module, "__spec__", None) for module in list(sys.modules.values())]
    return {spec.origin for spec in specs if spec and spec.has_location}


def _list_encodings() -> Iterator[str]:
    """Yield all codecs: an image may have any locale, and users' texts any encoding."""
    return (f"encodings.{module.name}" for module in pkgutil.iter_modules(encodings.__path__))


def _import(name: str) -> None:
    """Import a module; a name of a function, and a codec of another platform, is left out."""
    with contextlib.suppress(ImportError):
        importlib.import_module(name)


def _compile(path: str, source: str | bytes) -> str:
    """Compile a module to the content of its .pyc file, as base64."""
    code = marshal.dumps(compile(source, path, "exec", dont_inherit=True))
    return base64.b64encode(importlib.util.MAGIC_NUMBER + _UNCHECKED + code).decode()


if __name__ == "__main__":
    main()
