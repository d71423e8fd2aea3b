"""Installs the packages of a job into an empty folder, in three steps that uv performs.

1. Every source tree or sdist becomes a wheel.
2. uv resolves the wheels and requirements against the interpreter, as a dry run.  Its answer names
   exactly the packages that the interpreter lacks, by all conditions and extras.  The first run is
   offline: if no package is lacking, the job needs no network.
3. uv installs the wheels and the lacking packages, without resolving again.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, Final

from trainshed.engines.environments import content, uv
from trainshed.engines.environments.interpreter import Interpreter
from trainshed.engines.environments.plan import Plan
from trainshed.engines.environments.unpack import Room, check_wheel
from trainshed.engines.environments.uv import UvContext
from trainshed.files.beneath import Beneath
from trainshed.model.faults import EngineFault
from trainshed.model.launch_plan import Environment

_WHEEL: Final = content.WHEEL_SUFFIX
_PIECE_BYTES: Final = 1 << 20
#: Modes of folders and files that builders may read but not write, whatever the umask.
_ENTERED, _READABLE = 0o755, 0o644


def install(  # noqa: PLR0913 - the parts of an install
    environment: Environment,
    interpreter: Interpreter,
    context: UvContext,
    note: Callable[[str], None],
    *,
    bytes_max: int | None = None,
    relaxes: bool = False,
) -> None:
    """Install the packages into the target folder of ``context``.

    ``relaxes``: install the nearest version for a pin that the interpreter cannot have.

    Raises EngineFault with the builder's or resolver's own last lines, and for a package that
    unpacks to more than ``bytes_max``.
    """
    names = [Path(package).name for package in environment.packages]
    note(f"installing {', '.join([*names, *environment.requirements])} (kept for the next time)")
    context.wheels.mkdir()
    context.wheels.chmod(_ENTERED)
    wheels = [
        _make_wheel(Path(package), interpreter, context, f"package-{number}",
               ignored=environment.ignored, bytes_max=bytes_max)
        for number, package in enumerate(environment.packages)
    ]  # fmt: skip
    for wheel in wheels:
        check_wheel(wheel, bytes_max)
    plan = Plan(environment.requirements, wheels, interpreter, context, note if relaxes else None)
    context.target.mkdir(mode=0o700, parents=True)
    while _needs_retry(plan, wheels, interpreter.path, context, note):
        pass  # the next try relaxes another pin


def _needs_retry(
    plan: Plan, wheels: Sequence[Path], python: str, context: UvContext, note: Callable[[str], None]
) -> bool:
    """Try to install; return whether to retry.  Raises EngineFault if a retry cannot help."""
    lacking = plan.lacking()
    if not (wheels or lacking):
        return False  # the interpreter has all packages
    if lacking:
        note(f"also installing what {python} lacks: {', '.join(lacking)}")
    words = ["pip", "install", "--quiet", "--no-deps", "--python", python]
    words += ["--target", str(context.target), *map(str, wheels), *lacking]
    answer = uv.ask(words, context, context.target.parent)
    if plan.relaxes(answer):
        return True
    plan.check(answer, "cannot install the packages")
    return False


def _make_wheel(  # noqa: PLR0913 - one package, and where it is built
    package: Path,
    interpreter: Interpreter,
    context: UvContext,
    name: str,
    *,
    ignored: Sequence[str],
    bytes_max: int | None,
) -> Path:
    (context.wheels / name).mkdir()
    (context.wheels / name).chmod(_ENTERED)
    if package.suffix == _WHEEL:
        with package.open("rb") as file:
            return _copy_wheel(file, context.wheels / name / package.name, bytes_max)
    work = context.work / name
    work.mkdir()
    tree = content.source_tree(package, work, ignored, bytes_max=bytes_max)
    isolation = interpreter.builds and content.builds_with_setuptools(tree)
    arguments = ["build", "--wheel", "--python", interpreter.path, "--out-dir", str(work / "out")]
    answer = uv.ask([*arguments, *(["--no-build-isolation"] * isolation), str(tree)], context, work)
    uv.check(answer, f"the package {package.name} does not build", context)
    with _open_built_wheel(work, package.name) as (file, wheel):
        return _copy_wheel(file, context.wheels / name / wheel, bytes_max)


@contextmanager
def _open_built_wheel(work: Path, package: str) -> Iterator[tuple[BinaryIO, str]]:
    """Yield the wheel that a builder has made, and its name.  Raises EngineFault without one."""
    with Beneath(work) as folder:
        try:
            names = [name for name, _ in folder.entries("out") if name.endswith(_WHEEL)]
            file = folder.read(f"out/{names[0]}")
        except (OSError, IndexError) as error:
            raise EngineFault(f"the package {package} does not build: it made no wheel") from error
        with file:
            yield file, names[0]


def _copy_wheel(wheel: BinaryIO, path: Path, bytes_max: int | None) -> Path:
    """Copy a wheel, so that builders cannot change it after its check; they can read the copy."""
    room = Room(path.name, bytes_max)
    with path.open("xb") as copy:
        while piece := wheel.read(_PIECE_BYTES):
            room.take(len(piece))
            copy.write(piece)
    path.chmod(_READABLE)
    return path
