"""Installs the packages of a job into an empty folder, in three steps that uv performs.

1. Every source tree or sdist becomes a wheel.
2. uv resolves the wheels and requirements against the interpreter, as a dry run.  Its answer names
   exactly what the interpreter lacks, with all conditions and extras taken into account.  It is
   asked offline first: with nothing lacking, that needs no network.
3. The wheels and what is lacking are installed, without resolving again.
"""

import os
import re
import select
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Final, NamedTuple

from trainshed.engines.local.environments import content
from trainshed.engines.local.environments.builder import Builder
from trainshed.engines.local.environments.unpack import Room, check_wheel
from trainshed.files.beneath import Beneath
from trainshed.model.faults import EngineFault
from trainshed.model.launch_plan import Environment

_LAST_LINES = 8
_DISK_FULL = "No space left on device"
_WHEEL: Final = content.WHEEL_SUFFIX
_PIECE_BYTES: Final = 1 << 20
#: Of what builders read and do not write, whatever the umask is.
_ENTERED, _READABLE = 0o755, 0o644


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
    """Where uv works, and for whom.

    Each step has a folder of its own there.  What a builder has had is its for good: another
    program of its user may still hold it open.  So nothing of ours is written there afterwards.
    """

    work: Path
    builder: Builder = Builder()

    @property
    def cache(self) -> Path:
        """The folder of the environments that it is beside of."""
        return self.work.parent

    @property
    def wheels(self) -> Path:
        """What is to be installed, which no builder can change."""
        return self.work / "wheels"

    @property
    def target(self) -> Path:
        """What has been installed."""
        return self.work / "install" / "target"


def ask(arguments: Sequence[str], place: Place, step: Path) -> Answer:
    """Run uv, which may write to the folder ``step``, and wait for it."""
    command = (find_uv(), *arguments)
    build = place.builder.build(command, step, place.cache, reads=(str(place.wheels),))
    try:
        process = subprocess.Popen(  # noqa: S603 - our own installer
            build.argv,
            env=build.env,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
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
        said = _said_until_its_end(process, place.builder)
    finally:
        os.killpg(process.pid, signal.SIGKILL)  # nothing of it may stay behind
        code = process.wait()
        place.builder.end()
    return Answer(code=code, text=said.decode("utf-8", errors="replace"))


#: More of what a builder says is not kept: its last lines and uv's plan are all that is read.
_SAID_BYTES_MAX: Final = 1 << 20
#: How often a command is looked at that may wait for what it has left, in seconds.
_EVERY_S: Final = 1.0


def _said_until_its_end(process: subprocess.Popen[bytes], builder: Builder) -> bytes:
    """The last that a process says until it ends; what it has left may hold the pipe for longer."""
    said, pipe = b"", process.stdout
    if pipe is None:
        raise AssertionError("it was started with a pipe")
    os.set_blocking(pipe.fileno(), False)
    ended = os.pidfd_open(process.pid)
    watched, looked_s = {ended, pipe.fileno()}, time.monotonic()
    try:
        while True:
            ready, _, _ = select.select(watched, (), (), _EVERY_S)
            piece = _piece_of(pipe.fileno())
            said = (said + (piece or b""))[-_SAID_BYTES_MAX:]
            if ended in ready:
                return said
            if piece == b"":
                watched.discard(pipe.fileno())
            if time.monotonic() - looked_s >= _EVERY_S:
                builder.end_left(process.pid)
                looked_s = time.monotonic()
    finally:
        os.close(ended)
        pipe.close()


def _piece_of(pipe: int) -> bytes | None:
    """All that is in a pipe; None where that is nothing, empty where no more can come."""
    try:
        return os.read(pipe, _SAID_BYTES_MAX)
    except BlockingIOError:
        return None


def disk_full(cache_dir: Path) -> str:
    """The sentence for a disk that has no room for an environment."""
    return f"no space left for packages on the disk of {cache_dir}; nothing was kept"


def _relevant(text: str) -> list[str]:
    """The lines that say something of this failure."""
    lines = (line for line in text.splitlines() if line.strip())
    return [line for line in lines if not line.startswith(("hint:", "Building ", "Using "))]


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
    relaxes: bool = False,
) -> None:
    """Fill the target of a place.

    ``builds``: the interpreter can build setuptools packages by itself.  ``relaxes``: the nearest
    version is taken for a pin that the interpreter cannot have.

    Raises EngineFault with the builder's or resolver's own last lines, and for a package that
    unpacks to more than ``bytes_max``.
    """
    ignored = environment.ignored
    names = [Path(package).name for package in environment.packages]
    note(f"installing {', '.join([*names, *environment.requirements])} (kept for the next time)")
    place.wheels.mkdir()
    place.wheels.chmod(_ENTERED)
    wheels = [
        _wheel(Path(package), python, place, f"package-{number}", ignored,
               builds=builds, bytes_max=bytes_max)
        for number, package in enumerate(environment.packages)
    ]  # fmt: skip
    for wheel in wheels:
        check_wheel(wheel, bytes_max)
    wanted = [*map(str, wheels), *environment.requirements]
    lacking = _lacking(wanted, wheels, python, place, note if relaxes else None)
    if lacking:
        note(f"also installing what {python} lacks: {', '.join(lacking)}")
    place.target.mkdir(mode=0o700, parents=True)
    if not (wheels or lacking):
        return  # the interpreter has all of it
    arguments = ["pip", "install", "--quiet", "--no-deps", "--python", python]
    words = [*arguments, "--target", str(place.target), *map(str, wheels), *lacking]
    _check(ask(words, place, place.target.parent), "cannot install the packages", place)


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
    (place.wheels / name).mkdir()
    (place.wheels / name).chmod(_ENTERED)
    if package.suffix == _WHEEL:
        with package.open("rb") as file:
            return _kept(file, place.wheels / name / package.name, bytes_max)
    work = place.work / name
    work.mkdir()
    tree = content.source_tree(package, work, ignored, bytes_max=bytes_max)
    isolation = builds and content.builds_with_setuptools(tree)
    arguments = ["build", "--wheel", "--python", python, "--out-dir", str(work / "out")]
    answer = ask([*arguments, *(["--no-build-isolation"] * isolation), str(tree)], place, work)
    _check(answer, f"the package {package.name} does not build", place)
    with _built(work, package.name) as (file, wheel):
        return _kept(file, place.wheels / name / wheel, bytes_max)


@contextmanager
def _built(work: Path, package: str) -> Iterator[tuple[BinaryIO, str]]:
    """The wheel that a builder has left, and its name.  Raises EngineFault where it is no file."""
    with Beneath(work) as folder:
        try:
            names = [name for name, _ in folder.entries("out") if name.endswith(_WHEEL)]
            file = folder.read(f"out/{names[0]}")
        except (OSError, IndexError) as error:
            raise EngineFault(f"the package {package} does not build: it made no wheel") from error
        with file:
            yield file, names[0]


def _kept(wheel: BinaryIO, path: Path, bytes_max: int | None) -> Path:
    """A copy, for what is checked to be what is installed; builders can read it."""
    room = Room(path.name, bytes_max)
    with path.open("xb") as copy:
        while piece := wheel.read(_PIECE_BYTES):
            room.take(len(piece))
            copy.write(piece)
    path.chmod(_READABLE)
    return path


#: What helps where a pin cannot be met; who runs the server reads the first, a user the others.
_WAYS_OUT: Final = (
    "Ways out: relax_pins = true below [environments] in config.toml takes the nearest version; "
    "a container, or an [[environment]] whose Python has it; or another pin."
)


def _lacking(
    wanted: Sequence[str],
    wheels: Sequence[Path],
    python: str,
    place: Place,
    relaxed: Callable[[str], None] | None,
) -> tuple[str, ...]:
    """``relaxed`` hears of each pin that is not kept; None: all are."""
    # --break-system-packages: a dry run breaks none, and refuses a distribution's Python without it
    arguments = ["pip", "install", "--dry-run", "--break-system-packages", "--python", python]
    (step := place.work / "plan").mkdir()
    answer = ask([*arguments, "--offline", *wanted], place, step)
    if answer.code:
        answer = ask([*arguments, *wanted], place, step)
    if answer.code and not answer.disk_is_full:
        overrides = _overrides(wanted, wheels, python, place, relaxed)
        answer = ask([*arguments, *overrides, *wanted], place, step) if overrides else answer
    _check(answer, "the packages' requirements cannot be met", place)
    return tuple(_planned(answer.text, wheels))


def _overrides(
    wanted: Sequence[str],
    wheels: Sequence[Path],
    python: str,
    place: Place,
    relaxed: Callable[[str], None] | None,
) -> tuple[str, ...]:
    """Flags that put the nearest versions in place of pins that cannot be met, if there are any.

    Raises EngineFault where there are, and pins are to be kept.
    """
    from trainshed.engines.local.environments import pins  # noqa: PLC0415 - it imports this module

    (step := place.work / "pins").mkdir()
    found = list(pins.unmet(wanted, wheels, python, lambda words: ask(words, place, step)))
    if not found:
        return ()
    if relaxed is None:
        names = ", ".join(f"{each.pin} (the nearest is {each.nearest})" for each in found)
        raise EngineFault(
            "the packages' requirements cannot be met:\n"
            f"No version for the Python of this job: {names}.\n{_WAYS_OUT}"
        )
    for each in found:
        relaxed(f"{each.pin} cannot be had for this Python; {each.nearest} runs in its place")
    file = place.wheels / "overrides.txt"
    file.write_text("".join(f"{each.name}=={each.nearest}\n" for each in found))
    file.chmod(_READABLE)
    return ("--override", str(file))


def _planned(text: str, wheels: Sequence[Path]) -> Iterator[str]:
    ours = {wheel.as_uri() for wheel in wheels}
    for match in _PLANNED.finditer(text):
        url = match["url"] or match["origin"]
        if url is None:
            yield match["name"] + (match["version"] or "")
        elif url not in ours:
            yield f"{match['name']} @ {url}"


def _check(answer: Answer, failure: str, place: Place) -> None:
    if answer.disk_is_full:
        raise EngineFault(disk_full(place.cache))
    if answer.code:
        raise EngineFault(f"{failure}:\n{answer.last_lines()}")
