"""The command line of a replica that runs as a process, with its interpreter."""

from pathlib import Path
from typing import Final

from trainshed.launch.site import ProgramSite
from trainshed.model.python_word import PYTHON_WORD
from trainshed.model.roles import Role

#: The words after the interpreter that start a reducer.  With -P Python searches modules in its own
#: packages, and not in the folder of the job.
_REDUCER: Final = ("-P", "-m", "trainshed.reduction")


def with_interpreter(
    argv: tuple[str, ...], role: Role, site: ProgramSite, job_python: str
) -> tuple[str, ...]:
    """Return the command with the replica's interpreter; the word ``python`` means the job's.

    Commands for images begin with python3 or the path of the image's interpreter, which is
    replaced.  A reducer is Trainshed's program and starts with Trainshed's interpreter.
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
