"""A program on this machine, for a Vertex job; gcloud would pack the program into an image.

``--script`` and ``--python-module`` replace the program of every pool, as gcloud's autopackaged
image does (docs/sources/gcloud.md 5.2); the Reduction Server's pool keeps its own.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from trainshed.catalog.software import is_reduction_server
from trainshed.model.faults import UsageFault
from trainshed.service.jobs import submit_flags
from trainshed.service.starts.programs import Source
from trainshed.workbench.pool_flags import Pool

#: The pool that may be a Reduction Server.
REDUCER_POOL = 2

#: The default name of an image; an image with this name is not pulled.
NO_IMAGE = "local"


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalProgram:
    """The program of the flags; paths are relative to ``folder``."""

    folder: Path
    script: str | None = None
    module: str | None = None
    image: str | None = None
    requirements: tuple[str, ...] = ()
    packages: tuple[str, ...] = ()

    @property
    def command(self) -> tuple[str, ...]:
        """The command that starts the program; empty if the flags name no program."""
        if self.module:
            return ("python", "-m", self.module)
        if self.script:
            return ("python" if self.script.endswith(".py") else "bash", self.script)
        return ()

    def source(self) -> Source:
        """Return the folder, the packages, and the requirements of its file and the flags."""
        path = self.folder / "requirements.txt"
        requirements = _requirements(path) if path.is_file() and self.command else ()
        return Source(
            folder=self.folder,
            packages=tuple(str(self.folder / package) for package in self.packages),
            requirements=(*requirements, *self.requirements),
        )


def program_of(flags: Mapping[str, str | None], first_pool: Mapping[str, str]) -> LocalProgram:
    """Return the program of the flags; for flags not given, the first pool's own keys count.

    Raises UsageFault for a folder or a script that does not exist, or two programs at once.
    """

    def text(name: str) -> str | None:
        return flags.get(name) or first_pool.get(name)

    is_local = "local-package-path" in first_pool or "script" in first_pool
    module = flags.get("python-module") or (first_pool.get("python-module") if is_local else None)
    program = LocalProgram(
        folder=Path(text("local-package-path") or ".").expanduser().absolute(),
        script=text("script"),
        module=module,
        image=text("executor-image-uri"),
        requirements=_read_list(flags, first_pool, "requirements"),
        packages=_read_list(flags, first_pool, "extra-packages"),
    )
    _check(program)
    return program


def install_program(pools: Sequence[Pool], program: LocalProgram) -> list[Pool]:
    """Return the pools with the program instead of their own."""
    if not program.command:
        return list(pools)
    return [
        pool if not pool or is_reducer(index, pool) else _replace_program(pool, program)
        for index, pool in enumerate(pools)
    ]


def _replace_program(pool: Pool, program: LocalProgram) -> Pool:
    container = pool.get("containerSpec") or {}
    package = pool.get("pythonPackageSpec") or {}
    image = container.get("imageUri") or package.get("executorImageUri") or program.image
    rest = {key: value for key, value in pool.items() if key != "pythonPackageSpec"}
    package_fields = {key: package[key] for key in ("args", "env") if key in package}
    program_fields = {"imageUri": image or NO_IMAGE, "command": list(program.command)}
    return {**rest, "containerSpec": {**package_fields, **container, **program_fields}}


def is_reducer(index: int, pool: Pool) -> bool:
    """Return whether a pool runs reducers, to which no option of the command line applies."""
    image: Any = (pool.get("containerSpec") or {}).get("imageUri")
    return index == REDUCER_POOL and isinstance(image, str) and is_reduction_server(image)


def _read_list(
    flags: Mapping[str, str | None], first_pool: Mapping[str, str], name: str
) -> tuple[str, ...]:
    """Read a list, separated by commas in its flag and by semicolons in a pool's key."""
    words = submit_flags.words(flags.get(name) or "")
    return tuple(words or submit_flags.words(first_pool.get(name, ""), ";"))


def _requirements(path: Path) -> tuple[str, ...]:
    lines = (line.split(" #")[0].strip() for line in path.read_text("utf-8").splitlines())
    requirements = tuple(line for line in lines if line and not line.startswith("#"))
    if option := next((line for line in requirements if line.startswith("-")), None):
        raise UsageFault(
            f"{path}: {option!r} is an option of pip; the file must have requirements only"
        )
    return requirements


def _check(program: LocalProgram) -> None:
    if not program.folder.is_dir():
        raise UsageFault(f"--local-package-path {program.folder} is not a folder")
    if program.script and program.module:
        raise UsageFault("at most one of --script and --python-module can be given")
    if program.script and not (program.folder / program.script).is_file():
        raise UsageFault(f"there is no script {program.script} in {program.folder}")
