"""The command line of a replica that runs as a process, with its interpreter."""

from pathlib import Path
from typing import Final

from trainshed.launch.site import ProgramSite
from trainshed.model.launch_plan import PYTHON_WORD
from trainshed.model.roles import Role

#: Follows the interpreter in the place of the name of the reducer's program.  With -P it searches
#: modules in its own packages, and not in the folder of the job.
_REDUCER: Final = ("-P", "-m", "trainshed.reduction")


def with_interpreter(
    argv: tuple[str, ...], role: Role, site: ProgramSite, job_python: str
) -> tuple[str, ...]:
    """Name the interpreter in a command: the word ``python`` stands for that of the job.

    Images name their interpreter python3 or give its path; here it is the replica's.  A reducer is
    Trainshed's program and starts with Trainshed's interpreter.
    """
    first, *rest = argv
    if role is Role.REDUCER:
        return (site.python, *_REDUCER, *rest) if site.python else argv
    if not _is_python(first):
        return argv
    return (PYTHON_WORD if site.python in {"", job_python} else site.python, *rest)


def _is_python(word: str) -> bool:
    name = Path(word).name
    return name in {"python", "python3"} or name.startswith("python3.")
