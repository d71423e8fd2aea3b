"""Builds a Python environment with the packages of a runtime version: ``environments build``.

TensorFlow is a release of the runtime version's series if there is one for the chosen Python, and
otherwise the nearest one.  The other packages are the newest that this Python can install.
"""

import json
import os
import re
import shutil
import subprocess
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final, NamedTuple

from trainshed.catalog.software import packages_of, runtimes, version
from trainshed.engines.environments.nearest import Index, nearest
from trainshed.engines.environments.uv import UvContext, UvResult, ask, find_uv
from trainshed.files.caches import default_cache_dir
from trainshed.model.faults import UsageFault
from trainshed.service.starts.interpreters import Installed, installed
from trainshed.storage.buckets import cache_dir
from trainshed.workbench.find_pythons import FoundPython, find_pythons, nearest_python

#: (release of TensorFlow, the newest Python for which it and later releases were built).
_PYTHONS: Final = (
    ((2, 20), "3.13"),
    ((2, 16), "3.12"),
    ((2, 12), "3.11"),
    ((2, 8), "3.10"),
    ((2, 5), "3.9"),
    ((2, 2), "3.8"),
)
_OLDEST: Final = "3.7"
#: (release of TensorFlow, a requirement that all earlier releases need but do not declare).
_BOUNDS: Final = (((2, 18), "numpy<2"), ((2, 12), "protobuf<3.21"))
#: TensorBoard, Google's older packages and programs of those years import pkg_resources, which
#: setuptools has up to release 80; a new environment has no setuptools at all.
_SETUPTOOLS: Final = "setuptools<81"
_IMPORTS: Final = "import pkg_resources, tensorflow, pandas, google.cloud.storage"
#: An error of uv, up to the next heading or blank line: it can have several lines.
_ERROR: Final = re.compile(
    r"^error: (.+?)(?=^(?:error|warning|hint): |^\s*$|\Z)", re.MULTILINE | re.DOTALL
)
#: The start of a line with an installed package: uv prints about a hundred in the end.
_INSTALLED_LINE: Final = " + "
_MINOR_VERSION: Final = re.compile(r"3\.\d+")
#: The most bytes that uv's cache keeps after a build; wheels built from source are worth keeping.
_CACHE_BYTES_MAX: Final = 1 << 30


class Built(NamedTuple):
    """A new environment of a runtime version."""

    name: str
    runtime: str
    python: Path
    """The path of its interpreter."""
    content: Installed
    lacks: tuple[str, ...]
    """Packages of the runtime version that are not in the environment."""

    @property
    def settings(self) -> str:
        """The lines for config.toml with which jobs of the runtime version run in it."""
        name = json.dumps(self.name, ensure_ascii=False)
        return (
            f"[[environment]]\nname = {name}\n"
            f"python = {json.dumps(str(self.python), ensure_ascii=False)}\n\n"
            f'[[image]]\nruntime_version = "{self.runtime}"\nenvironment = {name}'
        )


def build(
    directory: Path, runtime: str, python: str | None, progress: Callable[[str], None]
) -> Built:
    """Make an environment in a new or empty folder; ``progress`` gets a sentence for each step.

    ``python`` is a path, or a version that this machine has or uv downloads.  Without it the
    version is ``python_for(runtime)``, or the nearest one of this machine if uv cannot download it.
    Raises UsageFault for an unknown runtime version, a folder with files, a Python that is not
    available and packages that uv cannot install; then the folder is removed again.
    """
    if runtime not in runtimes():
        raise UsageFault(f"--runtime must be one of {', '.join(runtimes())}, got {runtime}")
    if directory.exists() and (not directory.is_dir() or any(directory.iterdir())):
        raise UsageFault(f"{directory} is not empty; name a new folder")
    folder_existed = directory.exists()
    try:
        return _build(directory.absolute(), runtime, python, progress)
    except BaseException:
        shutil.rmtree(directory, ignore_errors=True)
        if folder_existed:
            directory.mkdir()
        raise


def python_for(runtime: str) -> str:
    """Return the newest Python for which the TensorFlow of a runtime version was built."""
    tensorflow = version(runtime)
    return next((python for since, python in _PYTHONS if tensorflow >= since), _OLDEST)


def _build(
    directory: Path, runtime: str, python: str | None, progress: Callable[[str], None]
) -> Built:
    _make_venv(directory, runtime, python, progress)
    interpreter = directory / "bin" / "python"
    with TemporaryDirectory() as work:
        tensorflow = _tensorflow(runtime, interpreter, Path(work), progress)
    bounds = [bound for before, bound in _BOUNDS if version(tensorflow)[:2] < before]
    names = [f"tensorflow=={tensorflow}", *bounds, _SETUPTOOLS, *packages_of(runtime)]
    progress(f"installing {', '.join(names)}")
    _install(["pip", "install", "--python", str(interpreter), *names], progress)
    _check(interpreter)
    _bound_uv_cache(progress)
    installed.cache_clear()
    content = installed(str(interpreter))
    lacks = tuple(name for name in packages_of(runtime) if name not in content.packages)
    return Built(directory.name, runtime, interpreter, content, lacks)


def _make_venv(
    directory: Path, runtime: str, choice: str | None, progress: Callable[[str], None]
) -> None:
    """Create an empty environment.  Raises UsageFault with uv's error and the available Pythons."""
    python_version = choice or python_for(runtime)
    pythons = find_pythons(os.environ) if _MINOR_VERSION.fullmatch(python_version) else []
    local_python = next((python for python in pythons if python.version == python_version), None)
    found_path = f" ({local_python.path})" if local_python else ""
    progress(f"making {directory} with Python {python_version}{found_path}")
    error = _venv_error(directory, local_python.path if local_python else python_version)
    if not error:
        return
    failure = f"this machine has no Python {python_version}, and uv could not download it: {error}"
    nearest = (
        None if choice else nearest_python(python_version, filter(_may_have_tensorflow, pythons))
    )
    if nearest is None:
        versions = ", ".join(f"{python.version} ({python.path})" for python in pythons)
        local_versions = f"; this machine has {versions}" if versions else ""
        raise UsageFault(f"{failure}{local_versions}; give --python another version or a path")
    progress(f"{failure}; using the nearest, Python {nearest.version} ({nearest.path})")
    if error := _venv_error(directory, nearest.path):
        raise UsageFault(
            f"cannot make an environment of {nearest.path}: {error}; give --python another version "
            "or a path"
        )


def _venv_error(directory: Path, python: str) -> str:
    """Make an environment with uv; return the reason of a failure, else an empty text."""
    answer = _uv(["venv", "--quiet", "--allow-existing", "--python", python, str(directory)])
    return _error_line(answer.stderr) if answer.returncode else ""


def _may_have_tensorflow(python: FoundPython) -> bool:
    return version(_OLDEST) <= version(python.version) <= version(_PYTHONS[0][1])


def _tensorflow(
    runtime: str, interpreter: Path, work: Path, progress: Callable[[str], None]
) -> str:
    def ask_uv(arguments: Sequence[str]) -> UvResult:
        return ask([*_cache_flags(), *arguments], UvContext(work), work)

    pattern = f"{runtime}.*"
    release = nearest("tensorflow", pattern, Index(str(interpreter), ask_uv, work))
    if release is None:
        raise UsageFault(
            f"no release of TensorFlow supports {interpreter}; give --python another "
            f"version, such as {python_for(runtime)}"
        )
    if not release.version.startswith(f"{runtime}."):
        nearby = f"the nearest is {release.version}"
        progress(f"TensorFlow {runtime} was not built for this Python; {nearby}")
    return release.version


def _check(interpreter: Path) -> None:
    """Import the largest packages in one process.  Raises UsageFault if that fails."""
    command = [str(interpreter), "-c", _IMPORTS]
    process = subprocess.run(command, text=True, check=False, capture_output=True)  # noqa: S603 - ours
    if process.returncode:
        raise UsageFault(f"cannot import the installed packages: {_last_line(process.stderr)}")


def _install(arguments: Sequence[str], progress: Callable[[str], None]) -> None:
    """Run uv and pass its output on, line by line.  Raises UsageFault with its error."""
    command = (find_uv(), *_cache_flags(), *arguments)
    lines = []
    with subprocess.Popen(  # noqa: S603 - our own installer
        command, text=True, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE
    ) as process:
        for line in process.stderr or ():
            lines.append(line)
            if not line.startswith(_INSTALLED_LINE):
                progress(line.rstrip())
    if process.returncode:
        raise UsageFault(f"uv could not install the packages: {_error_line(''.join(lines))}")


def _uv(arguments: Sequence[str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(  # noqa: S603 - our own installer
        (find_uv(), *_cache_flags(), *arguments), text=True, check=False, capture_output=True
    )


def uv_cache() -> Path | None:
    """Return Trainshed's cache folder for uv; None if the user set UV_CACHE_DIR."""
    if os.environ.get("UV_CACHE_DIR"):
        return None
    return (cache_dir(os.environ) or default_cache_dir()).parent / "uv"


def _cache_flags() -> tuple[str, ...]:
    folder = uv_cache()
    return () if folder is None else ("--cache-dir", str(folder))


def _bound_uv_cache(progress: Callable[[str], None]) -> None:
    """Remove downloads from Trainshed's cache for uv, and report its size; keep a user's cache."""
    folder = uv_cache()
    if folder is None:
        progress(f"uv keeps its downloads in {os.environ['UV_CACHE_DIR']} (UV_CACHE_DIR)")
        return
    _uv(["cache", "prune", "--ci"])
    if _bytes_below(folder) > _CACHE_BYTES_MAX:
        _uv(["cache", "clean"])
    size_mb = _bytes_below(folder) / 1e6
    progress(f"uv's cache {folder} has {size_mb:.0f} MB; downloads were removed from it")


def _bytes_below(folder: Path) -> int:
    total = 0
    for path in folder.rglob("*"):
        with suppress(OSError):
            total += path.lstat().st_size
    return total


def _error_line(text: str) -> str:
    """Return uv's ``error:`` as one line; if there is none, the last line of the text."""
    match = _ERROR.search(text)
    if match is None:
        return _last_line(text)
    return " ".join(match[1].split()).replace(" cause: ", ": ")


def _last_line(text: str) -> str:
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[-1] if lines else "it printed no message"
