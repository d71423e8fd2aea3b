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
from functools import partial
from pathlib import Path

from trainshed.engines.local.environments import content
from trainshed.engines.local.environments.unpack import check_wheel
from trainshed.engines.local.processes.tree import die_with_parent
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


def ask(arguments: Sequence[str]) -> Answer:
    """Run uv and wait for it."""
    command = (find_uv(), *arguments)
    with tempfile.TemporaryFile() as said:
        try:
            process = subprocess.Popen(  # noqa: S603 - our own installer
                command,
                env={**os.environ, "NO_COLOR": "1"},
                stdin=subprocess.DEVNULL,
                stdout=said,
                stderr=said,
                start_new_session=True,
                preexec_fn=partial(die_with_parent, os.getpid()),  # noqa: PLW1509 - one thread
            )
        except OSError as error:
            raise EngineFault(f"cannot run uv: {error.filename}: {error.strerror}") from error
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
    work: Path,
    note: Callable[[str], None],
    *,
    builds: bool,
    bytes_max: int | None = None,
) -> None:
    """Fill ``work/target``.  ``builds``: the interpreter can build setuptools packages itself.

    Raises EngineFault with the builder's or resolver's own last lines, and for a package that
    unpacks to more than ``bytes_max``.
    """
    ignored = environment.ignored
    names = [Path(package).name for package in environment.packages]
    note(f"installing {', '.join([*names, *environment.requirements])} (kept for the next time)")
    wheels = [
        _wheel(Path(package), python, work / f"package-{number}", ignored,
               builds=builds, bytes_max=bytes_max)
        for number, package in enumerate(environment.packages)
    ]  # fmt: skip
    for wheel in wheels:
        check_wheel(wheel, bytes_max)
    wanted = [*map(str, wheels), *environment.requirements]
    lacking = _lacking(wanted, wheels, python, work)
    if lacking:
        note(f"also installing what {python} lacks: {', '.join(lacking)}")
    (work / TARGET).mkdir(mode=0o700)
    if not (wheels or lacking):
        return  # the interpreter has all of it
    arguments = ["pip", "install", "--quiet", "--no-deps", "--python", python]
    answer = ask([*arguments, "--target", str(work / TARGET), *map(str, wheels), *lacking])
    _check(answer, "cannot install the packages", work)
    (work / TARGET / ".lock").unlink(missing_ok=True)  # uv's own


def _wheel(  # noqa: PLR0913 - how one package is built
    package: Path,
    python: str,
    work: Path,
    ignored: Sequence[str],
    *,
    builds: bool,
    bytes_max: int | None,
) -> Path:
    if package.suffix == content.WHEEL_SUFFIX:
        return package.absolute()
    work.mkdir()
    tree = content.source_tree(package, work, ignored, bytes_max=bytes_max)
    isolation = builds and content.builds_with_setuptools(tree)
    arguments = ["build", "--wheel", "--python", python, "--out-dir", str(work / "out")]
    answer = ask([*arguments, *(["--no-build-isolation"] * isolation), str(tree)])
    _check(answer, f"the package {package.name} does not build", work)
    return next((work / "out").glob(f"*{content.WHEEL_SUFFIX}"))


def _lacking(
    wanted: Sequence[str], wheels: Sequence[Path], python: str, work: Path
) -> tuple[str, ...]:
    # --break-system-packages: a dry run breaks none, and refuses a distribution's Python without it
    arguments = ["pip", "install", "--dry-run", "--break-system-packages", "--python", python]
    answer = ask([*arguments, "--offline", *wanted])
    if answer.code:
        answer = ask([*arguments, *wanted])
    _check(answer, "the packages' requirements cannot be met", work)
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
