"""``environments build``: a Python with what a runtime version had (R25).

The versions are those of today, as far as its Python has them; TensorFlow is the runtime version's
own where it was built for that Python, and the nearest otherwise.
"""

import shutil
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final, NamedTuple

from trainshed.catalog.software import packages_of, runtimes, version
from trainshed.engines.environments.nearest import Index, nearest
from trainshed.engines.environments.uv import Answer, Place, ask, find_uv
from trainshed.model.faults import UsageFault
from trainshed.service.interpreters import Installed, installed

#: The newest Python that a release of TensorFlow was built for, from this release on.
_PYTHONS: Final = (
    ((2, 20), "3.13"),
    ((2, 16), "3.12"),
    ((2, 12), "3.11"),
    ((2, 8), "3.10"),
    ((2, 5), "3.9"),
    ((2, 2), "3.8"),
)
_OLDEST: Final = "3.7"
#: What TensorFlow before a release cannot be imported with, and does not say itself.
_BOUNDS: Final = (((2, 18), "numpy<2"), ((2, 12), "protobuf<3.21"))
_IMPORTS: Final = "import tensorflow, pandas, google.cloud.storage"


class Built(NamedTuple):
    """An environment that was made."""

    name: str
    runtime: str
    python: Path
    """Its interpreter."""
    content: Installed
    lacks: tuple[str, ...]
    """What the runtime version had and could not be installed."""

    @property
    def settings(self) -> str:
        """The lines of config.toml that have jobs of the runtime version run in it."""
        return (
            f'[[environment]]\nname = "{self.name}"\npython = "{self.python}"\n\n'
            f'[[image]]\nruntime_version = "{self.runtime}"\nenvironment = "{self.name}"'
        )


def build(
    directory: Path, runtime: str, python: str | None, progress: Callable[[str], None]
) -> Built:
    """Make an environment in a folder that is not there yet, or is empty.

    ``python`` is a version that uv finds on this machine or downloads, or a path.  Raises
    UsageFault for a runtime version that there never was, a folder that is in use, a Python that
    cannot be had and packages that cannot be installed; then nothing is left behind.
    """
    if runtime not in runtimes():
        raise UsageFault(f"--runtime: there is no {runtime}; there are {', '.join(runtimes())}")
    if directory.exists() and (not directory.is_dir() or any(directory.iterdir())):
        raise UsageFault(f"{directory} is not empty; name a new folder")
    was_there = directory.exists()
    try:
        return _build(directory.absolute(), runtime, python or python_for(runtime), progress)
    except BaseException:
        shutil.rmtree(directory, ignore_errors=True)
        if was_there:
            directory.mkdir()
        raise


def python_for(runtime: str) -> str:
    """The newest Python that the TensorFlow of a runtime version was built for."""
    tensorflow = version(runtime)
    return next((python for since, python in _PYTHONS if tensorflow >= since), _OLDEST)


def _build(directory: Path, runtime: str, python: str, progress: Callable[[str], None]) -> Built:
    progress(f"making {directory} with Python {python}")
    made = _uv(["venv", "--quiet", "--python", python, str(directory)])
    if made.returncode:
        raise UsageFault(
            f"there is no Python {python} here, and uv could not download it: "
            f"{_last_line(made.stderr)}; --python names another: a version, or a path"
        )
    interpreter = directory / "bin" / "python"
    with TemporaryDirectory() as work:
        tensorflow = _tensorflow(runtime, interpreter, Path(work), progress)
    bounds = [bound for before, bound in _BOUNDS if version(tensorflow)[:2] < before]
    names = [f"tensorflow=={tensorflow}", *bounds, *packages_of(runtime)]
    progress(f"installing {', '.join(names)}")
    words = ["pip", "install", "--python", str(interpreter), *names]
    if _uv(words, shows=True).returncode:
        raise UsageFault("uv could not install the packages; what it said is above")
    _check(interpreter)
    found = installed(str(interpreter))
    lacks = tuple(name for name in packages_of(runtime) if name not in found.packages)
    return Built(directory.name, runtime, interpreter, found, lacks)


def _tensorflow(
    runtime: str, interpreter: Path, work: Path, progress: Callable[[str], None]
) -> str:
    def asked(arguments: Sequence[str]) -> Answer:
        return ask(arguments, Place(work), work)

    wanted = f"{runtime}.*"
    found = nearest("tensorflow", wanted, Index(str(interpreter), asked, work))
    if found is None:
        raise UsageFault(
            f"no TensorFlow can be had for {interpreter}; --python names another Python, such as "
            f"{python_for(runtime)}"
        )
    if not found.version.startswith(f"{runtime}."):
        nearby = f"the nearest is {found.version}"
        progress(f"TensorFlow {runtime} was not built for this Python; {nearby}")
    return found.version


def _check(interpreter: Path) -> None:
    """See that the largest of them can be imported together."""
    words = [str(interpreter), "-c", _IMPORTS]
    tried = subprocess.run(words, text=True, check=False, capture_output=True)  # noqa: S603 - ours
    if tried.returncode:
        raise UsageFault(f"what was installed cannot be imported: {_last_line(tried.stderr)}")


def _uv(arguments: Sequence[str], *, shows: bool = False) -> subprocess.CompletedProcess[str]:
    """``shows``: what it says goes to stderr as it comes, with its progress."""
    return subprocess.run(  # noqa: S603 - our own installer
        (find_uv(), *arguments), text=True, check=False, capture_output=not shows
    )


def _last_line(text: str) -> str:
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[-1] if lines else "it said nothing"
