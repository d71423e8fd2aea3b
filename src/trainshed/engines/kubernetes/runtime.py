"""Bundles the server's own Python for pods, so that an image needs no Python, C library or shell.

A bundle is one folder: a program that starts the loader, the loader, the interpreter, its
libraries, and the modules of the standard library that the warden's archive imports.  A pod starts
all of them by their paths, so nothing of the image is read.  A statically linked interpreter for
all pods would be one more file to build and to trust; the server's own is tested with every start
of the server.

The interpreter is that below the server's virtual environment, which has no packages.
"""

import base64
import hashlib
import io
import json
import os
import platform
import re
import subprocess
import sys
import zipfile
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple

from trainshed.engines.kubernetes import standard_library
from trainshed.engines.kubernetes.elf import copy_mapped, read_loader
from trainshed.engines.kubernetes.start_program import make_start_program
from trainshed.engines.warden.archive import Archive, list_imports
from trainshed.model.faults import EngineFault

#: The names of the files in a bundle that a pod's command contains.
START: Final = "start"
LOADER: Final = "ld.so"
PYTHON: Final = "bin/python3"
LIBRARIES: Final = "lib"
#: The warden's archive with compiled modules.
WARDEN: Final = "warden.pyz"

#: Kubernetes' names of processors (label kubernetes.io/arch), by the kernel's name.
_ARCHITECTURES: Final[Mapping[str, str]] = {
    "x86_64": "amd64",
    "aarch64": "arm64",
    "ppc64le": "ppc64le",
    "s390x": "s390x",
    "riscv64": "riscv64",
}
#: Libraries that glibc loads by name when it looks up a host or ends a thread.  Their names are in
#: no program; glibc before 2.34 has no name lookup without the first two.
_LOADED_BY_NAME: Final = ("libnss_dns.so.2", "libnss_files.so.2", "libgcc_s.so.1")
#: The mode of an entry in a zip file.
_MODE: Final = 0o644 << 16
_DIGITS: Final = 16
#: Seconds for one program that is run to make a bundle; a busy machine takes long.
_RUN_S_MAX: Final = 300.0
#: The earliest date of an entry in a zip file.
_DATE: Final = (1980, 1, 1, 0, 0, 0)
#: A folder of libraries for some processors of an architecture; nodes may have others.
_BY_PROCESSOR: Final = re.compile(r"/glibc-hwcaps/[^/]+/")
_RESOLVED: Final = re.compile(r"\t(\S+) => (/.+) \(0x[0-9a-f]+\)")
_MISSING: Final = re.compile(r"\t(\S+) => not found")
_REMEDY: Final = (
    "run the server with a Python that is linked with glibc 2.33 or newer, such as the python3 of "
    "Debian 12 or of the image python:3.12-slim"
)


class Bundle(NamedTuple):
    """A folder for pods."""

    name: str
    """``runtime-HASH``: the same for the same files."""
    files: Mapping[str, bytes]
    """The content of each file by its path in the folder; all users read and execute them."""


def architecture() -> str:
    """Return Kubernetes' name of the server's processor: pods run on such nodes alone.

    Raises EngineFault for a processor without such a name.
    """
    machine = platform.machine()
    if machine not in _ARCHITECTURES:
        accepted = ", ".join(_ARCHITECTURES)
        raise EngineFault(f"the server's processor must be one of {accepted}, got {machine!r}")
    return _ARCHITECTURES[machine]


def compose_start(folder: str) -> tuple[str, ...]:
    """Return the words that start the Python of a bundle, before a program and its arguments.

    ``folder`` is the path of the bundle in the pod.
    """
    python = f"{folder}/{PYTHON}"
    start = (f"{folder}/{START}",) if make_start_program(architecture()) else ()
    libraries = ("--library-path", f"{folder}/{LIBRARIES}")
    return (*start, f"{folder}/{LOADER}", *libraries, "--argv0", python, python, "-I", "-S")


def bundle(archive: Archive, python: str = "") -> Bundle:
    """Bundle an interpreter with the modules that the warden's archive imports.

    ``python`` is the path of the interpreter; empty: the server's.  Runs the interpreter and its
    loader for about a second.  Raises EngineFault, with what to do, for an interpreter that cannot
    be bundled, and OSError.
    """
    # not that of a virtual environment
    python = str(Path(python or sys._base_executable).resolve())  # type: ignore[attr-defined] # noqa: SLF001
    program = Path(python).read_bytes()
    loader = _find_loader(python, program)
    content = _ask_for_modules(python, archive)
    libraries = _find_libraries(loader, [python, *content["libraries"]])
    start = make_start_program(architecture())
    files = {
        **({START: start} if start else {}),
        LOADER: _copy(loader),
        PYTHON: copy_mapped(python, program),
        WARDEN: _add_compiled(archive, content["sources"]),
        content["archive"]: _make_zip(_decode(content["modules"])),
        **{f"{LIBRARIES}/{name}": _copy(path) for name, path in libraries},
        **{
            f"{content['extensions']}/{Path(path).name}": _copy(path)
            for path in content["libraries"]
        },
    }
    return Bundle(f"runtime-{_hash(files)}", files)


def _find_loader(python: str, program: bytes) -> str:
    """Return the loader of the interpreter, if pods can start it by its path."""
    loader = read_loader(python, program)
    if not loader:
        raise EngineFault(f"cannot bundle {python} for pods: it is linked statically; {_REMEDY}")
    if "ld-musl" in Path(loader).name:
        raise EngineFault(f"cannot bundle {python} for pods: it is linked with musl; {_REMEDY}")
    if "--argv0" not in _run([loader, "--help"]):
        raise EngineFault(
            f"cannot bundle {python} for pods: its loader {loader} has no option --argv0, which "
            f"glibc has since 2.33; {_REMEDY}"
        )
    return loader


def _ask_for_modules(python: str, archive: Archive) -> Any:
    sources = dict(_list_sources(archive))
    names = {name for source in sources.values() for name in list_imports(source)}
    request = {
        "modules": sorted(n for n in names if n.partition(".")[0] in sys.stdlib_module_names),
        "sources": sources,
    }
    argv = [python, "-I", "-S", standard_library.__file__]
    return json.loads(_run(argv, json.dumps(request)))


def _list_sources(archive: Archive) -> Iterator[tuple[str, str]]:
    with zipfile.ZipFile(io.BytesIO(archive.data)) as file:
        for name in file.namelist():
            yield name, file.read(name).decode()


def _find_libraries(loader: str, paths: Iterable[str]) -> list[tuple[str, str]]:
    """Return (name, path) of all libraries that programs and libraries are linked with."""
    libraries: dict[str, str] = {}
    for path in paths:
        libraries.update(_list_libraries(loader, path))
    folder = Path(libraries["libc.so.6"]).parent
    for library in filter(Path.is_file, (folder / name for name in _LOADED_BY_NAME)):
        libraries |= {**_list_libraries(loader, str(library)), library.name: str(library)}
    return sorted(libraries.items())


def _list_libraries(loader: str, path: str) -> dict[str, str]:
    text = _run([loader, "--list", path])
    if missing := _MISSING.search(text):
        raise EngineFault(
            f"cannot bundle {path} for pods: its library {missing[1]} is missing on the server; "
            "install it"
        )
    matches = filter(None, map(_RESOLVED.fullmatch, text.splitlines()))
    return {
        match[1]: _choose_common(match[2])
        for match in matches
        if not Path(match[2]).samefile(loader)
    }


def _choose_common(path: str) -> str:
    """Return the library for all processors in place of one for some processors."""
    common = _BY_PROCESSOR.sub("/", path)
    return common if Path(common).is_file() else path


def _run(argv: list[str], text: str = "") -> str:
    """Run a program and return its output.  Raises EngineFault."""
    env = {name: value for name, value in os.environ.items() if name != "LD_PRELOAD"}
    try:
        done = subprocess.run(  # noqa: S603 - the server's interpreter and its loader
            argv,
            input=text,
            capture_output=True,
            check=True,
            text=True,
            timeout=_RUN_S_MAX,
            env=env,
        )
    except (OSError, ValueError, subprocess.SubprocessError) as error:
        words = (getattr(error, "stderr", "") or "").strip().splitlines()[-1:]
        reason = "; ".join([str(error), *words])
        raise EngineFault(f"cannot bundle Python for pods: {argv[0]} failed: {reason}") from error
    return done.stdout


def _add_compiled(archive: Archive, compiled: Mapping[str, str]) -> bytes:
    """Add compiled modules to the archive; its sources stay for tracebacks."""
    sources = {name: text.encode() for name, text in _list_sources(archive)}
    return _make_zip({**sources, **_decode(compiled)})


def _decode(files: Mapping[str, str]) -> dict[str, bytes]:
    return {name: base64.b64decode(text) for name, text in files.items()}


def _make_zip(files: Mapping[str, bytes]) -> bytes:
    target = io.BytesIO()
    with zipfile.ZipFile(target, "w") as archive:
        for path in sorted(files):
            entry = zipfile.ZipInfo(path, _DATE)
            entry.external_attr = _MODE
            archive.writestr(entry, files[path])
    return target.getvalue()


def _copy(path: str) -> bytes:
    return copy_mapped(path, Path(path).read_bytes())


def _hash(files: Mapping[str, bytes]) -> str:
    digest = hashlib.sha256()
    for path in sorted(files):
        digest.update(f"{path}\0{len(files[path])}\0".encode())
        digest.update(files[path])
    return digest.hexdigest()[:_DIGITS]
