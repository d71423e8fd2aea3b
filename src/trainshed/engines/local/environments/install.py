"""Installs the packages of a job into an empty folder, in three steps that uv performs.

1. Every source tree or sdist becomes a wheel.
2. uv resolves the wheels and requirements against the interpreter, as a dry run.  Its answer names
   exactly what the interpreter lacks, with all conditions and extras taken into account.  It is
   asked offline first: with nothing lacking, that needs no network.
3. The wheels and what is lacking are installed, without resolving again.
"""

import re
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from trainshed.engines.local.environments import content, uv
from trainshed.model.faults import EngineFault
from trainshed.model.launch_plan import Environment

#: The folder inside the working directory that holds the result.
TARGET = "target"

#: A line of uv's plan: ``name==version``, ``name @ url`` or ``name==version (from url)``.
_PLANNED = re.compile(
    r"^ \+ (?P<name>[^\s=]+)(?P<version>==\S+)?(?: @ (?P<url>\S+)| \(from (?P<origin>\S+)\))?$",
    re.MULTILINE,
)


def install(
    environment: Environment,
    python: str,
    work: Path,
    note: Callable[[str], None],
    *,
    builds: bool,
) -> None:
    """Fill ``work/target``.  ``builds``: the interpreter can build setuptools packages itself.

    Raises EngineFault with the builder's or resolver's own last lines.
    """
    ignored = environment.ignored
    names = [Path(package).name for package in environment.packages]
    note(f"installing {', '.join([*names, *environment.requirements])} (kept for the next time)")
    wheels = [
        _wheel(Path(package), python, work / f"package-{number}", ignored, builds=builds)
        for number, package in enumerate(environment.packages)
    ]
    wanted = [*map(str, wheels), *environment.requirements]
    lacking = _lacking(wanted, wheels, python, work)
    if lacking:
        note(f"also installing what {python} lacks: {', '.join(lacking)}")
    (work / TARGET).mkdir(mode=0o700)
    if not (wheels or lacking):
        return  # the interpreter has all of it
    arguments = ["pip", "install", "--quiet", "--no-deps", "--python", python]
    answer = uv.ask([*arguments, "--target", str(work / TARGET), *map(str, wheels), *lacking])
    _check(answer, "cannot install the packages", work)
    (work / TARGET / ".lock").unlink(missing_ok=True)  # uv's own


def _wheel(package: Path, python: str, work: Path, ignored: Sequence[str], *, builds: bool) -> Path:
    if package.suffix == content.WHEEL_SUFFIX:
        return package.absolute()
    work.mkdir()
    tree = content.source_tree(package, work, ignored)
    isolation = builds and content.builds_with_setuptools(tree)
    arguments = ["build", "--wheel", "--python", python, "--out-dir", str(work / "out")]
    answer = uv.ask([*arguments, *(["--no-build-isolation"] * isolation), str(tree)])
    _check(answer, f"the package {package.name} does not build", work)
    return next((work / "out").glob(f"*{content.WHEEL_SUFFIX}"))


def _lacking(
    wanted: Sequence[str], wheels: Sequence[Path], python: str, work: Path
) -> tuple[str, ...]:
    # --break-system-packages: a dry run breaks none, and refuses a distribution's Python without it
    arguments = ["pip", "install", "--dry-run", "--break-system-packages", "--python", python]
    answer = uv.ask([*arguments, "--offline", *wanted])
    if answer.code:
        answer = uv.ask([*arguments, *wanted])
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


def _check(answer: uv.Answer, failure: str, work: Path) -> None:
    if answer.disk_is_full:
        raise EngineFault(uv.disk_full(work.parent))
    if answer.code:
        raise EngineFault(f"{failure}:\n{answer.last_lines()}")
