"""The errors of a request, described so that the caller can correct them.

A ``Violation`` points at a field of the model (``FieldPath``), not of a dialect: rules do not know
the caller's dialect.  The dialect (or the command line) later turns the path into the caller's own
name of the field.
"""

import enum
import errno
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from trainshed.model.roles import Role
from trainshed.model.rules import NAMES
from trainshed.model.study_places import StudyPlace


class Field(enum.Enum):
    """The fields that a rule can name.  Fields of a group need a role in their path."""

    JOB = "job"
    JOB_ID = "job_id"
    DISPLAY_NAME = "display_name"
    LABELS = "labels"
    REGION = "region"
    SCALE_TIER = "scale_tier"
    JOB_DIR = "job_dir"
    STRATEGY = "strategy"
    PRIORITY = "priority"
    RUNNING_MAX = "running_max"
    WAITING_MAX = "waiting_max"
    STUDY = "study"
    GROUPS = "groups"
    # of one group
    GROUP = "group"
    COUNT = "count"
    MACHINE_TYPE = "machine_type"
    ACCELERATOR = "accelerator"
    ACCELERATOR_TYPE = "accelerator_type"
    ACCELERATOR_COUNT = "accelerator_count"
    TPU_TOPOLOGY = "tpu_topology"
    DISK_TYPE = "disk_type"
    DISK_SIZE = "disk_size"
    IMAGE_URI = "image_uri"
    RUNTIME_VERSION = "runtime_version"
    PYTHON_VERSION = "python_version"
    PACKAGE_URIS = "package_uris"
    MODULE = "module"
    COMMAND = "command"
    ARGS = "args"
    ENV = "env"


@dataclass(frozen=True)
class FieldPath:
    """A field of a JobSpec, and the role of its group, if the field is a group's.

    ``place`` is the part of the study, for the field STUDY only; the whole study if None.
    """

    field: Field
    role: Role | None = None
    place: StudyPlace | None = None


@dataclass(frozen=True)
class Violation:
    """One broken rule.

    ``field`` is a model path.  If the document could not be read as a model, it is the caller's
    name of the field: a dotted wire path or a flag.  ``rule`` is from the closed set of
    ``model.rules``.  ``accepted`` describes the accepted values.
    """

    field: FieldPath | str
    rule: str
    message: str
    accepted: str = ""

    def __post_init__(self) -> None:
        """Raise for a rule outside of the closed set, which is a bug."""
        if self.rule not in NAMES:
            raise AssertionError(f"{self.rule} is not listed in trainshed.model.rules")


class Fault(Exception):
    """The caller's mistake: every violation at once; nothing has been started."""

    def __init__(self, violations: Iterable[Violation]) -> None:
        """Keep the violations in the order in which they were found."""
        self.violations = tuple(violations)
        super().__init__("; ".join(v.message for v in self.violations))


class UsageFault(Exception):
    """A command line or file that cannot be parsed as a request (exit code 2)."""


class EngineFault(Exception):
    """An engine could not execute a valid plan; the message is for the user."""


#: The error numbers of a full, missing or read-only disk, and of exhausted resources.
_TRANSIENT: Final = frozenset(
    {
        errno.EAGAIN,
        errno.EDQUOT,
        errno.EIO,
        errno.EMFILE,
        errno.ENFILE,
        errno.ENOMEM,
        errno.ENOSPC,
        errno.EROFS,
        errno.ESTALE,
    }
)


class TransientFault(EngineFault):
    """A valid plan cannot be executed now, but may succeed later."""


def is_transient(error: BaseException) -> bool:
    """Whether an error comes from the machine and another try may succeed.

    The job then waits for the next try; ending it would lose an accepted job.
    """
    is_os_error = isinstance(error, OSError) and error.errno in _TRANSIENT
    return is_os_error or isinstance(error, TransientFault)
