"""The spec of a job, the same for both dialects.

A spec is a value and never changes after admission.  It has the values that the core uses;
``request`` has the caller's own document, because both dialects promise to echo it and CLUSTER_SPEC
and TF_CONFIG carry it to the program.

A field that the caller left out is ``None``, never a guessed default: admission fills in defaults,
and can then say which ones.
"""

import enum
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from trainshed.model.roles import Dialect, Role
from trainshed.model.study import StudySpec, TrialSpec


class ScaleTier(enum.Enum):
    """A predefined cluster of AI Platform Training."""

    BASIC = "BASIC"
    STANDARD_1 = "STANDARD_1"
    PREMIUM_1 = "PREMIUM_1"
    BASIC_GPU = "BASIC_GPU"
    BASIC_TPU = "BASIC_TPU"
    CUSTOM = "CUSTOM"


class ProgramKind(enum.Enum):
    """The form in which a replica's program is delivered."""

    CONTAINER = "container"
    PYTHON_PACKAGE = "python_package"


@dataclass(frozen=True, slots=True, kw_only=True)
class Accelerator:
    """The requested devices of one machine; either part may be missing until admission."""

    type: str | None = None
    """The name as the caller wrote it, such as ``NVIDIA_TESLA_T4``."""
    count: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Disk:
    """The boot disk of one machine."""

    type: str | None = None
    size_gb: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Program:
    """The program of one replica.

    ``image_uri`` is the container's image, or the executor image of a Python package.
    ``runtime_version`` and ``python_version`` exist only in AI Platform Training.
    """

    kind: ProgramKind
    image_uri: str | None = None
    runtime_version: str | None = None
    python_version: str | None = None
    package_uris: tuple[str, ...] = ()
    module: str | None = None
    command: tuple[str, ...] = ()
    args: tuple[str, ...] = ()
    env: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaGroup:
    """All replicas of one role; Vertex AI calls them a worker pool."""

    role: Role
    count: int = 1
    machine_type: str | None = None
    accelerator: Accelerator | None = None
    tpu_topology: str | None = None
    disk: Disk | None = None
    program: Program | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Scheduling:
    """Limits on a job's waiting and running time, and its restarts.  Durations are in seconds."""

    running_s_max: float | None = None
    waiting_s_max: float | None = None
    priority: int | None = None
    strategy: str | None = None
    restart_job_on_worker_restart: bool = False
    disable_retries: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class JobSpec:
    """One job as the caller requested it.

    ``groups`` are in role order and have at most one group per role.  A group that the caller
    skipped (an empty worker pool) is absent.  ``study`` is set for a tuning job, whose spec
    describes one trial, and for the job of each trial.
    """

    dialect: Dialect
    job_id: str = ""
    """The caller's id (ml v1); empty where the server makes one (aiplatform v1)."""
    display_name: str = ""
    region: str | None = None
    scale_tier: ScaleTier | None = None
    groups: tuple[ReplicaGroup, ...] = ()
    job_dir: str | None = None
    """ml v1 ``jobDir``: handed to the program as ``--job-dir``."""
    base_output_dir: str | None = None
    """aiplatform v1 ``baseOutputDirectory.outputUriPrefix``: the parent of the AIP_*
    directories."""
    use_chief_in_tf_config: bool | None = None
    scheduling: Scheduling = field(default_factory=Scheduling)
    labels: Mapping[str, str] = field(default_factory=dict)
    study: StudySpec | None = None
    trial: TrialSpec | None = None
    """Set for the job of one trial; ``study`` is then the study of the trial."""
    request: str = "{}"
    """The caller's document as JSON text, normalised only in key case and number form."""
    envelope: str = "{}"
    """aiplatform v1: the message around the CustomJobSpec of ``request``, as JSON text; echoed."""

    @property
    def is_study(self) -> bool:
        """Whether this is a tuning job: only the jobs of its trials get nodes."""
        return self.study is not None and self.trial is None

    def group(self, role: Role) -> ReplicaGroup | None:
        """Return the group of a role; None if the job has no such group."""
        return next((g for g in self.groups if g.role is role), None)

    @property
    def replica_count(self) -> int:
        """The number of replicas in all groups."""
        return sum(g.count for g in self.groups)

    @property
    def world(self) -> Iterator[tuple[Role, int]]:
        """The replicas that take part in collective communication, in rank order."""
        for role in (Role.PRIMARY, Role.WORKER):
            group = self.group(role)
            for index in range(group.count if group else 0):
                yield role, index
