"""Reads what an interpreter has installed, and provides the trainer library to one that lacks it.

The server runs each interpreter once to read this.  A process that the service starts can always
import ``trainshed_trainer``, and ``import torch`` finds the library's backend among the entry
points of installed distributions.  An interpreter with its own copy of the library gets nothing on
PYTHONPATH, which would hide that copy.
"""

import functools
import importlib.util
import secrets
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib import metadata
from pathlib import Path
from typing import Final

from trainshed import __version__
from trainshed.catalog.software import all_packages
from trainshed.engines.processes.interpreter import ask_interpreter
from trainshed.files.server_files import PUBLIC, write_file

#: The distributions in which each framework may be installed.
DISTRIBUTIONS: Mapping[str, tuple[str, ...]] = {
    "TensorFlow": ("tensorflow", "tensorflow-cpu", "tensorflow-gpu", "tf-nightly"),
    "PyTorch": ("torch",),
    "scikit-learn": ("scikit-learn",),
    "XGBoost": ("xgboost", "xgboost-cpu"),
    "Ray": ("ray",),
}
#: The library that training programs may import.
TRAINER = "trainshed_trainer"

#: Runs in the interpreter, which may be a Python 3.7: that has no importlib.metadata.
_SCRIPT = """
import json, os, re, sys
from importlib import util
def normal(name):
    return re.sub("[-_.]+", "-", name).lower()
def by_folders():
    versions = {}
    for folder in sys.path:
        for name in os.listdir(folder) if os.path.isdir(folder) else ():
            match = re.match(r"(.+?)-([^-]+)(?:-py[\\d.]+)?\\.(?:dist|egg)-info$", name)
            if match:
                versions.setdefault(normal(match.group(1)), match.group(2))
    return versions
def by_metadata(name):
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None
try:
    from importlib import metadata
    version_of = by_metadata
except ImportError:
    version_of = by_folders().get
versions = {name: version_of(name) for name in sys.argv[2:] if version_of(name)}
has_trainer = util.find_spec(sys.argv[1]) is not None
version = list(sys.version_info[:2])
print(json.dumps({"python": version, "versions": versions, "has_trainer": has_trainer}))
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Installed:
    """The packages of an interpreter.  ``python`` is empty if the interpreter fails."""

    python: str = ""
    frameworks: Mapping[str, str] = field(default_factory=dict)
    """Version by framework, in the catalog's names."""
    packages: frozenset[str] = frozenset()
    """The installed packages that runtime versions of the catalog have."""
    has_trainer: bool = False
    """Whether a program can import the trainer library."""
    is_known: bool = True
    """Whether the interpreter has reported its packages."""


#: An interpreter on another machine whose packages are not read yet.
UNKNOWN: Final = Installed(is_known=False)


def installed_of(versions: Mapping[str, str]) -> Installed:
    """Return the packages of an interpreter, from the versions of its distributions."""
    return Installed(
        python=".".join(versions.get("python", "").split(".")[:2]),
        frameworks=_frameworks(versions),
        packages=_packages(versions),
        has_trainer=_DISTRIBUTION in versions,
    )


@functools.cache
def installed(python: str) -> Installed:
    """Return the packages of an interpreter; run it, unless it is the server's own."""
    if python == sys.executable:
        version = f"{sys.version_info[0]}.{sys.version_info[1]}"
        return Installed(
            python=version,
            frameworks=_frameworks(versions := _own_versions()),
            packages=_packages(versions),
            has_trainer=importlib.util.find_spec(TRAINER) is not None,
        )
    try:
        facts = ask_interpreter(python, _SCRIPT, TRAINER, *_names())
    except (OSError, ValueError, subprocess.SubprocessError):
        return Installed()
    major, minor = facts["python"]
    return Installed(
        python=f"{major}.{minor}",
        frameworks=_frameworks(facts["versions"]),
        packages=_packages(facts["versions"]),
        has_trainer=facts["has_trainer"],
    )


def _own_versions() -> dict[str, str]:
    versions = {}
    for name in _names():
        try:
            versions[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return versions


def _names() -> list[str]:
    return [*(name for names in DISTRIBUTIONS.values() for name in names), *all_packages()]


def _frameworks(versions: Mapping[str, str]) -> dict[str, str]:
    """Return the version of each installed framework; ``2.13.0+cpu`` is version 2.13.0."""
    installed_versions = {
        framework: next((versions[name] for name in names if name in versions), "")
        for framework, names in DISTRIBUTIONS.items()
    }
    return {
        framework: text.partition("+")[0] for framework, text in installed_versions.items() if text
    }


def _packages(versions: Mapping[str, str]) -> frozenset[str]:
    return frozenset(all_packages()).intersection(versions)


#: The folder of the data directory that has the library.
LIBRARY: Final = "trainer-library"
#: The entry points file of an installed library; trainer/pyproject.toml has the same values.
ENTRY_POINTS: Final = """\
[torch.backends]
trainshed_reduction = trainshed_trainer.reduction.torch_setup:register
"""

_DISTRIBUTION: Final = "trainshed-trainer"
_INFO: Final = f"{TRAINER}.dist-info"
_READABLE_FOLDER: Final = 0o755


@dataclass(frozen=True, slots=True)
class TrainerLibrary:
    """The server's copy of the library in a folder of its own, as if installed there."""

    folder: Path
    """The folder of the copy; made when it is needed."""

    def folder_for(self, python: str) -> str | None:
        """Make and return the folder with the library for an interpreter that lacks the library.

        Return None if the interpreter has the library, or the server has no copy.  Raises OSError.
        """
        path = self.path_for(python)
        if path is not None:
            self.shown()
        return path

    def path_for(self, python: str) -> str | None:
        """Return the path that ``folder_for`` returns; make nothing."""
        package = None if installed(python).has_trainer else _find_library()
        return None if package is None else str(self.folder)

    def shown(self) -> Path:
        """Return the folder; put the library into it if the server has a copy.  Raises OSError."""
        if package := _find_library():
            self._show(package)
        return self.folder

    def _show(self, package: str) -> None:
        """Make a link, not a copy, so that it is updated with the server."""
        self.folder.mkdir(parents=True, exist_ok=True)
        self.folder.chmod(_READABLE_FOLDER)  # programs of jobs run as other users
        self._describe()
        link = self.folder / TRAINER
        if link.is_symlink() and str(link.readlink()) == package:
            return
        new = self.folder / f".{secrets.token_hex(4)}"
        new.symlink_to(package)
        new.replace(link)  # never absent: replicas are importing from it

    def _describe(self) -> None:
        """Write the metadata that make the package a distribution: name and entry points."""
        info = self.folder / _INFO
        info.mkdir(exist_ok=True)
        info.chmod(_READABLE_FOLDER)
        for name, text in (("METADATA", _metadata()), ("entry_points.txt", ENTRY_POINTS)):
            path = info / name
            if not path.exists() or path.read_text(encoding="utf-8") != text:
                write_file(path, text.encode(), PUBLIC)


def _metadata() -> str:
    return f"Metadata-Version: 2.1\nName: {_DISTRIBUTION}\nVersion: {__version__}\n"


def _find_library() -> str | None:
    spec = importlib.util.find_spec(TRAINER)
    return next(iter((spec and spec.submodule_search_locations) or ()), None)
