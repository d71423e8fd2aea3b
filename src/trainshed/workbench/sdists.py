"""``--package-path``: a folder of Python code as the sdist that a job installs.

uv builds a project with build settings in a copy, so the user's tree stays unchanged.  For other
folders, gcloud writes a setup.py and runs ``setup.py sdist``.  This module writes that sdist
without running any code: the same code always gives the same bytes, so unchanged code is not
uploaded or installed again.
"""

import gzip
import io
import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from trainshed.engines.environments import content, interpreter, uv
from trainshed.model.faults import UsageFault
from trainshed.service.starts.programs import is_project

#: The version that gcloud gives a package without a setup.py (docs/sources/gcloud.md 4).
VERSION: Final = "0.0.0"

_SETUP: Final = """\
from setuptools import find_packages, setup

setup(
    name={name!r},
    version={version!r},
    packages=find_packages(),
    package_data={{"": ["*", "**/*"]}},
)
"""
_PKG_INFO: Final = "Metadata-Version: 1.0\nName: {name}\nVersion: {version}\n"
_MODE: Final = 0o644


def build_sdist(package: Path, work: Path) -> Path:
    """Build the sdist of a package folder, below ``work``.

    Raises UsageFault for a folder that is not a package or does not build; EngineFault without uv.
    """
    folder = package.expanduser().absolute()
    if not folder.is_dir():
        raise UsageFault(f"--package-path {package} is not a folder")
    if not (folder / "__init__.py").is_file():
        raise UsageFault(f"--package-path {package} is not a Python package: it has no __init__.py")
    if is_project(folder.parent):
        return _built(folder.parent, work)
    return _assemble(folder, work)


def _built(project: Path, work: Path) -> Path:
    tree = content.source_tree(project, work)
    has_build_tools = interpreter.describe()["builds"] and content.builds_with_setuptools(tree)
    arguments = ["build", "--sdist", "--out-dir", str(work / "out")]
    arguments_of_uv = [*arguments, *(["--no-build-isolation"] * bool(has_build_tools)), str(tree)]
    answer = uv.ask(arguments_of_uv, uv.UvContext(work), work)
    if answer.code:
        raise UsageFault(f"the package in {project} does not build:\n{answer.last_lines()}")
    return next((work / "out").glob("*.tar.gz"))


def _assemble(folder: Path, work: Path) -> Path:
    name = folder.name
    top = f"{name}-{VERSION}"
    words = {"name": name, "version": VERSION}
    path = work / f"{top}.tar.gz"
    with (
        path.open("wb") as file,
        gzip.GzipFile("", "wb", fileobj=file, mtime=0) as packed,
        tarfile.open(fileobj=packed, mode="w", format=tarfile.PAX_FORMAT) as archive,
    ):
        _add(archive, f"{top}/PKG-INFO", _PKG_INFO.format(**words).encode())
        _add(archive, f"{top}/setup.py", _SETUP.format(**words).encode())
        for source, relative in _files(folder):
            _add(archive, f"{top}/{name}/{relative}", source.read_bytes())
    return path


def _files(folder: Path) -> Iterator[tuple[Path, str]]:
    """Yield the files of a package in a fixed order, without those of editors and interpreters."""
    for relative in sorted(content.files(folder)):
        if not any(part.startswith(".") for part in relative.parts):
            yield folder / relative, relative.as_posix()


def _add(archive: tarfile.TarFile, name: str, data: bytes) -> None:
    """Add a file without its own time, owner and mode."""
    entry = tarfile.TarInfo(name)
    entry.size, entry.mode = len(data), _MODE
    archive.addfile(entry, io.BytesIO(data))
