"""Hashes the content of packages to name their environment, and makes clean copies to build from.

A source tree is hashed and copied without the files that tools leave in it, so that an old
``build`` folder neither changes the hash nor gets into the wheel, and building leaves nothing in
the user's tree.  Links that lead out of the tree are left out: they may lead to a whole disk, or to
a secret.
"""

import contextlib
import errno
import hashlib
import os
import shutil
import stat
import tempfile
import tomllib
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from trainshed.engines.environments.unpack import Room, unpack
from trainshed.files.beneath import Beneath, FileKind
from trainshed.model.faults import EngineFault
from trainshed.model.launch_plan import Environment

WHEEL_SUFFIX = ".whl"
_PIECE_BYTES = 1 << 18

#: Folders to leave out at any level, and (``_NEVER_AT_TOP``) only at the top.
_NEVER = frozenset(
    {".git", ".hg", ".svn", "__pycache__", ".mypy_cache", ".pytest_cache", ".ruff_cache"}
    | {".venv", ".tox", ".nox", "node_modules", ".idea"}
)
_NEVER_AT_TOP = frozenset({"build", "dist"})

#: A folder with this file is a virtual environment, whatever its name (PEP 405).
_VIRTUAL_ENVIRONMENT = "pyvenv.cfg"


def address(identity: str, environment: Environment) -> str:
    """Return the name of an environment: a hash of its interpreter, packages and requirements."""
    digest = hashlib.sha256(identity.encode())
    for package in environment.packages:
        digest.update(_package_digest(Path(package), environment.ignored))
    for requirement in environment.requirements:
        digest.update(b"\0requirement\0" + requirement.encode())
    return digest.hexdigest()[:40]


def source_tree(
    package: Path, into: Path, ignored: Sequence[str] = (), *, bytes_max: int | None = None
) -> Path:
    """Copy a source tree, or unpack an sdist, below ``into``.

    ``ignored`` are folders of the tree that do not belong to it, such as a job's own output.
    Raises OSError, shutil.ReadError (not an archive, or a damaged one), or EngineFault for an sdist
    that unpacks to more than ``bytes_max``.
    """
    if package.is_dir():
        return _copy_tree(package, into / "tree", ignored)
    target = into / "sdist"
    unpack(package, target, bytes_max)
    entries = list(target.iterdir())
    return entries[0] if len(entries) == 1 and entries[0].is_dir() else target


@contextlib.contextmanager
def own_copies(
    environment: Environment, folder: Path, bytes_max: int | None = None
) -> Iterator[Environment]:
    """Yield the environment with copies of its packages from buckets; the block may use them.

    So the hashed content is the installed content, also if the bucket changes meanwhile.  Raises
    EngineFault for a package of more than ``bytes_max`` bytes.
    """
    buckets = environment.buckets
    with tempfile.TemporaryDirectory(prefix=".packages-", dir=folder) as into:
        packages = tuple(
            str(_own_copy(Path(package), Path(buckets), Path(into, str(number)), bytes_max))
            if buckets and Path(package).is_relative_to(buckets)
            else package
            for number, package in enumerate(environment.packages)
        )
        yield replace(environment, packages=packages)


def _own_copy(package: Path, buckets: Path, into: Path, bytes_max: int | None) -> Path:
    bucket, *parts = package.relative_to(buckets).parts
    target = into / package.name
    room = Room(package.name, bytes_max)
    with Beneath(buckets / bucket) as tree, _explain_links(package):
        for name in _list_files(tree, "/".join(parts)):
            copy = target.joinpath(*name.split("/")[len(parts) :])
            copy.parent.mkdir(parents=True, exist_ok=True)
            with tree.read(name) as source, copy.open("xb") as file:
                while piece := source.read(_PIECE_BYTES):
                    room.take(len(piece))
                    file.write(piece)
    return target


@contextlib.contextmanager
def _explain_links(package: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        if error.errno != errno.ELOOP:
            raise
        raise EngineFault(
            f"the package {package} lies behind a link, which is not followed in a bucket"
        ) from None


def _list_files(tree: Beneath, name: str) -> Iterator[str]:
    """Yield a file's name, or the names of all files in a folder, without those of ``_NEVER``."""
    if not stat.S_ISDIR(tree.stat(name).st_mode):
        yield name
        return
    for entry, kind in tree.entries(name):
        if kind is FileKind.FILE:
            yield f"{name}/{entry}"
        elif kind is FileKind.FOLDER and entry not in _NEVER:
            yield from _list_files(tree, f"{name}/{entry}")


def builds_with_setuptools(tree: Path) -> bool:
    """Return whether a tree's build backend is setuptools, which is the default (PEP 517)."""
    pyproject = tree / "pyproject.toml"
    if not pyproject.is_file() or pyproject.stat().st_size > _PIECE_BYTES:
        return True  # uv reads such a file in the isolated build
    try:
        system = tomllib.loads(pyproject.read_text(encoding="utf-8")).get("build-system", {})
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, RecursionError):
        return True  # the builder reports the error
    return str(system.get("build-backend", "setuptools")).startswith("setuptools")


def _package_digest(package: Path, ignored: Sequence[str]) -> bytes:
    digest = hashlib.sha256()
    if not package.is_dir():
        digest.update(package.name.encode() + b"\0" + _file_digest(package))
        return digest.digest()
    for relative in sorted(files(package, ignored)):
        digest.update(str(relative).encode() + b"\0" + _file_digest(package / relative))
    return digest.digest()


def _file_digest(path: Path) -> bytes:
    with path.open("rb") as file:
        digest = hashlib.sha256()
        while piece := file.read(_PIECE_BYTES):
            digest.update(piece)
    return digest.digest()


def files(tree: Path, ignored: Sequence[str] = ()) -> Iterator[Path]:
    """Yield the files that belong to a tree, relative to it, in any order."""
    root = os.path.realpath(tree)
    visited = {os.path.realpath(folder) for folder in ignored} - {root}
    for folder, folders, names in os.walk(tree, followlinks=True, onerror=_raise):
        here = Path(folder)
        visited.add(os.path.realpath(here))
        folders[:] = [
            name
            for name in folders
            if not _is_left_out(here / name, at_top=here == tree)
            and _is_inside(here / name, root)
            and os.path.realpath(here / name) not in visited
        ]
        for name in names:
            path = here / name
            if not name.endswith(".pyc") and path.is_file() and _is_inside(path, root):
                yield path.relative_to(tree)


def _is_inside(path: Path, root: str) -> bool:
    return not path.is_symlink() or Path(os.path.realpath(path)).is_relative_to(root)


def _is_left_out(folder: Path, *, at_top: bool) -> bool:
    if folder.name in _NEVER or (folder / _VIRTUAL_ENVIRONMENT).exists():
        return True
    return at_top and (folder.name in _NEVER_AT_TOP or folder.name.endswith(".egg-info"))


def _copy_tree(tree: Path, target: Path, ignored: Sequence[str]) -> Path:
    for relative in files(tree, ignored):
        copy = target / relative
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(tree / relative, copy)
    return target


def _raise(error: OSError) -> None:
    raise error
