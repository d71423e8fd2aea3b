"""An image with a Python of the machine's: there is no registry to fetch one from."""

import os
import tarfile
from pathlib import Path

from engines.docker_daemon import add_folders, importing, libraries

IMAGE = "trainshed-test/python:1"
PYTHON = Path("/usr/bin/python3")
#: What no trainer here imports makes most of it.
LEFT_OUT = {
    "test", "tests", "idlelib", "lib2to3", "ensurepip", "tkinter", "site-packages", "dist-packages",
}  # fmt: skip


def why_not():
    """Why it cannot be made here; empty where it can."""
    return (
        ""
        if PYTHON.exists()
        else f"{PYTHON}, of which the image is made, is not there: use a Python of the system"
    )


def make(env):
    """Import it into a daemon."""
    with importing(env, IMAGE) as archive:
        fill(archive)


def fill(archive):
    """Put its files into an archive."""
    add_python(archive, PYTHON)


def add_python(archive, python, more=()):
    """Put an interpreter into an image, with its library and what that and ``more`` link with."""
    program = python.resolve()
    library = program.parents[1] / "lib" / program.name
    needed = list(map(Path, libraries(program, *library.glob("lib-dynload/*.so"), *more)))
    above = {str(folder) for path in (program, library, *needed) for folder in path.parents}
    add_folders(archive, {*above, "usr/bin", "tmp", "etc", "gcs"})
    for path in dict.fromkeys((program, *needed)):
        archive.add(os.path.realpath(path), str(path).lstrip("/"))
    for name in ("python", "python3"):
        link = tarfile.TarInfo(f"usr/bin/{name}")
        link.type, link.linkname = tarfile.SYMTYPE, str(program)
        archive.addfile(link)
    archive.add(library, str(library).lstrip("/"), filter=leave_out_unused)


def leave_out_unused(member):
    """Filter what a tarfile adds: nothing of LEFT_OUT."""
    return None if LEFT_OUT.intersection(Path(member.name).parts) else member
