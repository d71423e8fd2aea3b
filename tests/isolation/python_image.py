"""An image with the machine's own Python: there is no registry to fetch one from."""

import os
import tarfile
from io import BytesIO
from pathlib import Path

from engines.docker_daemon import _libraries, docker

IMAGE = "trainshed-test/python:1"
PYTHON = Path("/usr/bin/python3")
#: What no trainer here imports makes most of it.
LEFT_OUT = ("test", "tests", "idlelib", "lib2to3", "ensurepip", "tkinter", "__pycache__")


def why_not():
    """Why it cannot be made here; empty where it can."""
    return "" if PYTHON.exists() else f"{PYTHON} is not there to make an image of"


def make(env):
    """Import it into a daemon."""
    program = PYTHON.resolve()
    library = Path("/usr/lib") / program.name
    modules = [next(library.glob(f"lib-dynload/{name}.*")) for name in ("_ctypes", "_ssl")]
    needed = [Path(found) for each in (program, *modules) for found in _libraries(each)]
    data = BytesIO()
    with tarfile.open(fileobj=data, mode="w") as archive:
        above = {str(folder).lstrip("/") for path in (library, *needed) for folder in path.parents}
        for name in sorted({*above, "usr/bin", "tmp", "etc", "gcs"} - {""}):
            folder = tarfile.TarInfo(name)
            folder.type, folder.mode = tarfile.DIRTYPE, 0o755
            archive.addfile(folder)
        for path in dict.fromkeys((program, *needed)):
            archive.add(os.path.realpath(path), str(path).lstrip("/"))
        archive.add(program, "usr/bin/python")
        archive.add(library, str(library).lstrip("/"), filter=_wanted)
    docker(env, "import", "-", IMAGE, input=data.getvalue())


def _wanted(member):
    return None if set(Path(member.name).parts).intersection(LEFT_OUT) else member
