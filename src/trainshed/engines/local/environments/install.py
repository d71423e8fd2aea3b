"""Installs the packages of a job into an empty folder, in three steps that uv performs.

1. Every source tree or sdist becomes a wheel.
2. uv resolves the wheels and requirements against the interpreter, as a dry run.  Its answer names
   exactly what the interpreter lacks, with all conditions and extras taken into account.  It is
   asked offline first: with nothing lacking, that needs no network.
3. The wheels and what is lacking are installed, without resolving again.
"""

import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from trainshed.engines.local.environments import content
from trainshed.engines.local.environments.builder import Builder
from trainshed.engines.local.environments.unpack import check_wheel
from trainshed.model.faults import EngineFault
from trainshed.model.launch_plan import Environment

_LAST_LINES = 8
_DISK_FULL = "No space left on device"


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What uv said and how it ended."""

    code: int
    text: str

    def last_lines(self) -> str:
        """The end of what a builder said; where there was none, of what uv said itself."""
        built = self.text.partition("error: Failed to build")[0]
        return "\n".join((_relevant(built) or _relevant(self.text))[-_LAST_LINES:])

    @property
    def disk_is_full(self) -> bool:
        """Whether it failed for want of disk space."""
        return bool(self.code) and _DISK_FULL in self.text


def find_uv() -> str:
    """The uv beside our interpreter, or the one on PATH.

    Raises EngineFault when there is none.
    """
    beside = Path(sys.executable).parent / "uv"
    found = str(beside) if os.access(beside, os.X_OK) else shutil.which("uv")
    if found is None:
        raise EngineFault("uv is needed to install packages and was not found; pip install uv")
    return found


class Place(NamedTuple):
    """Where uv works, and for whom."""

    work: Path
    """The folder that it fills."""
    builder: Builder = Builder()

    @property
    def cache(self) -> Path:
        """The folder of the environments that it is beside of."""
        return self.work.parent


def ask(arguments: Sequence[str], place: Place) -> Answer:
    """Run uv and wait for it."""
    build = place.builder.build((find_uv(), *arguments), place.work, place.cache)
    with tempfile.TemporaryFile() as said:
        try:
            process = subprocess.Popen(  # noqa: S603 - our own installer
                build.argv,
                env=build.env,
                stdin=subprocess.DEVNULL,
                stdout=said,
                stderr=said,
                start_new_session=True,
                preexec_fn=build.enter,  # noqa: PLW1509 - one thread
                pass_fds=build.kept,
            )
        except OSError as error:
            raise EngineFault(f"cannot run uv: {error.filename}: {error.strerror}") from error
        finally:
            for descriptor in build.kept:
                os.close(descriptor)
        try:
            os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
        finally:
            os.killpg(process.pid, signal.SIGKILL)  # nothing of it may stay behind
            code = process.wait()
        said.seek(0)
        return Answer(code=code, text=said.read().decode("utf-8", errors="replace"))


def disk_full(cache_dir: Path) -> str:
    """The sentence for a disk that has no room for an environment."""
    return f"no space left for packages on the disk of {cache_dir}; nothing was kept"


def _relevant(text: str) -> list[str]:
    """The lines that say something of this failure."""
    lines = (line for line in text.splitlines() if line.strip())
    return [line for line in lines if not line.startswith(("hint:", "Building ", "Using "))]


#: The folder inside the working directory that holds the result.
TARGET = "target"

#: A line of uv's plan: ``name==version``, ``name @ url`` or ``name==version (from url)``.
_PLANNED = re.compile(
    r"^ \+ (?P<name>[^\s=]+)(?P<version>==\S+)?(?: @ (?P<url>\S+)| \(from (?P<origin>\S+)\))?$",
    re.MULTILINE,
)


def install(  # noqa: PLR0913 - what an install consists of
    environment: Environment,
    python: str,
    place: Place,
    note: Callable[[str], None],
    *,
    builds: bool,
    bytes_max: int | None = None,
) -> None:
    """Fill ``target`` in its folder.

    ``builds``: the interpreter can build setuptools packages by itself.

    Raises EngineFault with the builder's or resolver's own last lines, and for a package that
    unpacks to more than ``bytes_max``.
    """
    ignored, work = environment.ignored, place.work
    names = [Path(package).name for package in environment.packages]
    note(f"installing {', '.join([*names, *environment.requirements])} (kept for the next time)")
    wheels = [
        _wheel(Path(package), python, place, f"package-{number}", ignored,
               builds=builds, bytes_max=bytes_max)
        for number, package in enumerate(environment.packages)
    ]  # fmt: skip
    for wheel in wheels:
        check_wheel(wheel, bytes_max)
    wanted = [*map(str, wheels), *environment.requirements]
    lacking = _lacking(wanted, wheels, python, place)
    if lacking:
        note(f"also installing what {python} lacks: {', '.join(lacking)}")
    (work / TARGET).mkdir(mode=0o700)
    if not (wheels or lacking):
        return  # the interpreter has all of it
    arguments = ["pip", "install", "--quiet", "--no-deps", "--python", python]
    answer = ask([*arguments, "--target", str(work / TARGET), *map(str, wheels), *lacking], place)
    _check(answer, "cannot install the packages", work)
    (work / TARGET / ".lock").unlink(missing_ok=True)  # uv's own


def _wheel(  # noqa: PLR0913 - one package, and where it is built
    package: Path,
    python: str,
    place: Place,
    name: str,
    ignored: Sequence[str],
    *,
    builds: bool,
    bytes_max: int | None,
) -> Path:
    work = place.work / name
    if package.suffix == content.WHEEL_SUFFIX:
        return package.absolute()
    work.mkdir()
    tree = content.source_tree(package, work, ignored, bytes_max=bytes_max)
    isolation = builds and content.builds_with_setuptools(tree)
    arguments = ["build", "--wheel", "--python", python, "--out-dir", str(work / "out")]
    answer = ask([*arguments, *(["--no-build-isolation"] * isolation), str(tree)], place)
    _check(answer, f"the package {package.name} does not build", work)
    return next((work / "out").glob(f"*{content.WHEEL_SUFFIX}"))


def _lacking(
    wanted: Sequence[str], wheels: Sequence[Path], python: str, place: Place
) -> tuple[str, ...]:
    # --break-system-packages: a dry run breaks none, and refuses a distribution's Python without it
    arguments = ["pip", "install", "--dry-run", "--break-system-packages", "--python", python]
    answer = ask([*arguments, "--offline", *wanted], place)
    if answer.code:
        answer = ask([*arguments, *wanted], place)
    _check(answer, "the packages' requirements cannot be met", place.work)
    return tuple(_planned(answer.text, wheels))


def _planned(text: str, wheels: Sequence[Path]) -> Iterator[str]:
    ours = {wheel.as_uri() for wheel in wheels}
    for match in _PLANNED.finditer(text):
        url = match["url"] or match["origin"]
        if url is None:
            yield match["name"] + (match["version"] or "")
        elif url not in ours:
            yield f"{match['name']} @ {url}"


def _check(answer: Answer, failure: str, work: Path) -> None:
    if answer.disk_is_full:
        raise EngineFault(disk_full(work.parent))
    if answer.code:
        raise EngineFault(f"{failure}:\n{answer.last_lines()}")
