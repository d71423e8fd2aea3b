"""Finds the interpreter, the folder and the packages of a job's program.

Code runs in place where possible, as with gcloud's local train.  A package with build settings
(setup.py, or a pyproject.toml with a project or a build system) is installed, because this also
installs its dependencies.
"""

import errno
import stat
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from trainshed.files.beneath import Beneath
from trainshed.model.faults import UsageFault
from trainshed.model.job import JobSpec
from trainshed.model.launch_plan import Environment
from trainshed.storage.buckets import SCHEME, Buckets

#: The variable that names the interpreter of the replicas, unless ``--python`` names it.
PYTHON_VARIABLE = "TRAINSHED_PYTHON"


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """The program's options on the command line.

    ``package_path`` is gcloud's ``--package-path``; ``folder`` is where the replicas run if there
    is none.  ``packages`` are files to install, beside those that the job names.
    """

    folder: Path
    package_path: Path | None = None
    packages: tuple[str, ...] = ()
    requirements: tuple[str, ...] = ()


def interpreter(flag: str | None, environ: Mapping[str, str]) -> str:
    """Return the Python of the replicas: the flag, TRAINSHED_PYTHON, else this process's Python."""
    return flag or environ.get(PYTHON_VARIABLE) or sys.executable


def working_folder(source: Source, module: str | None) -> Path:
    """Return the folder of the replicas: the package's parent (docs/sources/gcloud.md 9.1).

    Without ``--package-path``, gcloud takes the current folder as the package.  If the module is in
    the package folder itself and not in its parent, return the package folder.
    """
    package = (source.package_path or source.folder).absolute()
    is_beside, is_inside = _holds(package.parent, module), _holds(package, module)
    if source.package_path:
        return package if is_inside and not is_beside else package.parent
    return package.parent if is_beside and not is_inside else package


def _holds(folder: Path, module: str | None) -> bool:
    """Whether a folder has the file of a module, or of a package that can be run."""
    if not module:
        return False
    path = folder.joinpath(*module.split("."))
    return path.with_name(f"{path.name}.py").is_file() or (path / "__main__.py").is_file()


def environment_of(
    spec: JobSpec, source: Source, python: str, buckets: Buckets, base: Path
) -> Environment:
    """Return the environment of the replicas, with the packages in the order of the job.

    Relative paths are relative to ``base``.  Raises UsageFault for a missing package.
    """
    named = [uri for group in spec.groups if group.program for uri in group.program.package_uris]
    packages = [*_buildable(source), *_files([*named, *source.packages], buckets, base)]
    return Environment(
        python=python,
        packages=tuple(dict.fromkeys(packages)),
        requirements=source.requirements,
        buckets=str(buckets.root),
    )


def _files(uris: Iterable[str], buckets: Buckets, base: Path) -> list[str]:
    return [str(_find_package(uri, buckets, base)) for uri in uris]


def _find_package(uri: str, buckets: Buckets, base: Path) -> Path:
    if uri.startswith(SCHEME):
        return _in_bucket(uri, buckets)
    path = base / Path(uri).expanduser()
    if path.exists():
        return path
    raise UsageFault(f"the package {uri} does not exist")


def _in_bucket(uri: str, buckets: Buckets) -> Path:
    root, name = buckets.place_of(uri)
    path = root / name
    try:
        with Beneath(root) as bucket:
            is_link = stat.S_ISLNK(bucket.stat(name).st_mode)
    except OSError as error:
        if error.errno != errno.ELOOP:
            raise UsageFault(
                f"the package {uri} does not exist; its path on this machine is {path}"
            ) from None
        is_link = True
    if is_link:
        raise UsageFault(f"the package {uri} is behind a link; links in a bucket are not followed")
    return path


def _buildable(source: Source) -> list[str]:
    """Return the project of ``--package-path`` if it can be built, else an empty list."""
    if source.package_path is None:
        return []
    if not source.package_path.is_dir():
        raise UsageFault(f"--package-path {source.package_path} is not a folder")
    project = source.package_path.absolute().parent
    return [str(project)] if is_project(project) else []


def is_project(folder: Path) -> bool:
    """Whether a folder is a project that can be built.

    A pyproject.toml that has only settings of tools does not count.
    """
    if (folder / "setup.py").is_file():
        return True
    path = folder / "pyproject.toml"
    if not path.exists():
        return False
    import tomllib  # noqa: PLC0415 - slow to import; most folders have no such file

    try:
        document = tomllib.loads(path.read_text("utf-8"))
    except (OSError, ValueError, RecursionError):
        return False
    return "project" in document or "build-system" in document
