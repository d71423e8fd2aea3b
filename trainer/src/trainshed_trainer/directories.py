"""Finds the directories for a replica's results: AIP_* variables, or folders in ``--job-dir``."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Mapping, Sequence

from trainshed_trainer import contract


@dataclass(frozen=True)
class Directories:
    """The directories of a job.  Each may be a URI; it is None if the job does not set it."""

    job_dir: str | None = None
    model_dir: str | None = None
    checkpoint_dir: str | None = None
    tensorboard_dir: str | None = None


def directories_of(environ: Mapping[str, str], argv: Sequence[str]) -> Directories:
    """Find the directories; a variable takes precedence over a folder below ``--job-dir``.

    Without ``--job-dir`` the job's directory is the parent of AIP_MODEL_DIR.
    """
    job_dir = job_dir_of(argv) or _parent(environ.get(contract.AIP_MODEL_DIR, ""))
    directories = {
        name: environ.get(name) or below(job_dir, contract.FOLDER[name]) for name in VARIABLES
    }
    return Directories(job_dir, *directories.values())


#: The variables, in the order of the fields of Directories.
VARIABLES = (contract.AIP_MODEL_DIR, contract.AIP_CHECKPOINT_DIR, contract.AIP_TENSORBOARD_LOG_DIR)


def job_dir_of(argv: Sequence[str]) -> str | None:
    """Read ``--job-dir DIR`` or ``--job-dir=DIR``; the last one counts.

    The service appends its own flag after the user's arguments.  For the same reason a bare ``--``
    among the user's arguments does not end the search.
    """
    directory = None
    for argument, next_argument in zip(argv, [*argv[1:], None]):
        if argument == contract.JOB_DIR_FLAG:
            directory = next_argument or directory
        elif argument.startswith(contract.JOB_DIR_FLAG + "="):
            directory = argument.split("=", 1)[1] or directory
    return directory


def below(base: str | None, folder: str) -> str | None:
    """Return the path of a folder below a directory, with a closing slash as in AIP_* variables."""
    return None if base is None else f"{base.rstrip('/')}/{folder}/"


def _parent(directory: str) -> str | None:
    return directory.rstrip("/").rpartition("/")[0] or None
