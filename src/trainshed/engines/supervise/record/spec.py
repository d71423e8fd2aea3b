"""Defines the spec of an attempt: the processes that its supervisor runs, and their limits.

An engine writes the spec, and a preparer may complete its replicas.  The spec contains argv and
environment of each replica, so that the supervisor does not depend on launch plans, packages or
devices.
"""

import json
from collections.abc import Mapping
from typing import Any, Final, NamedTuple, Optional

from trainshed.engines.isolation.view import ReplicaView
from trainshed.engines.network.rule import NetworkRule
from trainshed.engines.supervise.kernel.limits import ReplicaLimits
from trainshed.engines.supervise.record.folder import read_file
from trainshed.files.beneath import PathBeneath
from trainshed.model.attempt import MetricsPlan
from trainshed.model.codec import decode
from trainshed.model.roles import Role

#: The last argument of the command: a supervisor reads its folder from its environment; a fork
#: server forks supervisors (``fork_server``).  No argument names a folder, because other users can
#: read command lines.
SUPERVISOR: Final = "supervisor"
FORK_SERVER: Final = "fork-server"
#: The variable with the folder of the attempt; the supervisor removes it from its environment.
FOLDER: Final = "TRAINSHED_ATTEMPT_FOLDER"
#: The value of ``ReplicaSpec.container`` for a replica whose warden runs in its container.
OWN_CONTAINER: Final = "own"
#: Prefixes of variables that only programs of Slurm and launchers of MPI need.
SLURM_VARIABLES: Final = ("SLURM_", "SLURMD_", "SRUN_", "SBATCH_", "PMI_", "PMI2_", "PMIX_",
                          "PALS_", "OMPI_")  # fmt: skip


class ReplicaSpec(NamedTuple):
    """One process to start, with its whole environment."""

    task_name: str
    role: Role
    index: int  # type: ignore[assignment] # tuples have a method of that name
    argv: tuple[str, ...]
    env: Mapping[str, str]
    cwd: str
    """The working folder; empty: that of the warden, which is the image's own in a container."""
    trial: str = ""
    limits: ReplicaLimits = ReplicaLimits()
    hosts: tuple[tuple[str, str], ...] = ()
    """Names that the replica can resolve, as (address, name)."""
    binds: tuple[tuple[str, str], ...] = ()
    """Mounts of the container, as (folder of the machine, folder in the container)."""
    cleanup: tuple[tuple[str, ...], ...] = ()
    """Programs that remove the replica's containers when all replicas have ended; the supervisor
    records the end after that."""
    isolation: Optional[ReplicaView] = None
    """The isolation of the replica; None: it has the user and the view of its supervisor."""
    container: str = ""
    """The runtime (apptainer or singularity) whose command the warden has to complete; ``env`` is
    then the container's (``engines.warden.images``).  ``OWN_CONTAINER``: the command starts the
    program, which gets all variables of its image.  Empty: the command starts the program."""
    python: str = ""
    """The interpreter that runs the program; empty for the interpreter of an image."""
    host_name: str = ""
    """The host name of a replica with its own network; empty: that of the machine."""
    gpus: tuple[str, ...] = ()
    """The UUIDs of its GPUs; empty: it has none, or a cluster assigns them on its node."""


class HangRule(NamedTuple):
    """The rule that says when a replica counts as hung, and whether to read its stacks."""

    after_s: Optional[float] = None
    """Seconds without a sign of progress; None: never."""
    stacks: bool = True
    """Whether to read the stacks of its threads, if that is possible."""


class LogRule(NamedTuple):
    """The limits of an attempt's log; None: no limit."""

    bytes_per_s: Optional[int] = None
    """Lines beyond this rate are dropped and counted; short bursts may exceed it."""
    bytes_kept: Optional[int] = None
    """The largest size of a job's log; the oldest lines beyond it are removed."""


class StepRule(NamedTuple):
    """One command that starts wardens on other machines, one for each of its tasks."""

    argv: tuple[str, ...]
    first: int = 0
    """The index of the replica that the first task runs; the other tasks run the next replicas."""
    tasks: int = 1


class ReplicaMarks(NamedTuple):
    """Placeholders in commands and variables for a replica's address, unknown before the start."""

    host: str
    ports: tuple[int, ...] = ()
    """Numbers in place of the consecutive ports of the replica, in order."""
    rendezvous: int = 0
    """The number in place of the rendezvous port; 0: the replica has none."""


class RemoteRule(NamedTuple):
    """The rules for replicas on a cluster, each owned by a warden (``engines.warden``).

    Without steps and port, the launcher runs the only replica itself, on its own node.
    """

    steps: tuple[StepRule, ...]
    """The commands that start the wardens; empty with a port: the cluster starts every warden, as
    the first process of its replica's container."""
    marks: tuple[ReplicaMarks, ...]
    """One for each replica, in the order of the plan."""
    packages: Mapping[str, Any] = {}
    """Packages to install on every node first (``model.launch_plan.Environment``), if any."""
    keeps: tuple[str, ...] = ()
    """Names of the variables of a node that its programs get too; * matches any text."""
    unset: tuple[str, ...] = ()
    """Names of variables that programs never get."""
    listen_variable: str = ""
    """The variable of a node that may contain an address of the first node."""
    cache: str = ""
    """The folder for installed packages on a node; empty: the user's cache folder."""
    start_timeout_s: float = 300.0
    """The time, in seconds, in which the wardens have to connect."""
    ends_s: Optional[float] = None
    """Seconds after which the launcher ends the attempt; None: never."""
    ends_why: str = ""
    """Why this is earlier than the job's own limit, after a comma; empty: it is not earlier."""
    package_bytes_max: Optional[int] = None
    """The limit of a package's size when it is unpacked; None: no limit."""
    relax_pins: bool = False
    """Whether to install the nearest version if a pinned version does not exist for this Python."""
    hold_s: float = 0.0
    """The time, in seconds, for which the launcher keeps the nodes for a possible next attempt."""
    port: int = 0
    """The TCP port on which the launcher listens; its environment then has the secret of the
    attempt.  0: any free port, and a new secret."""
    drops: tuple[str, ...] = SLURM_VARIABLES
    """Prefixes of the variables of a node that its programs never get."""
    gpus: tuple[int, ...] = ()
    """The number of GPUs of each replica, in the order of the plan; empty: not to be measured."""
    has_shared_folder: bool = True
    """Whether wardens can write to the attempt's folder; otherwise only the launcher can."""

    @property
    def has_wardens(self) -> bool:
        """Whether wardens run the replicas, not the launcher."""
        return bool(self.steps or self.port)

    def has_gpus(self, index: int) -> bool:
        """Return whether the replica with this index has GPUs."""
        return index < len(self.gpus) and self.gpus[index] > 0


class AttemptSpec(NamedTuple):
    """One attempt: the supervisor starts all replicas or none; the first is the primary."""

    uid: int
    attempt: int
    job_id: str
    grace_s: float
    """The time from SIGTERM to SIGKILL, in seconds, unless the order to stop has another."""
    settle_s: float
    """The time, in seconds, in which workers may end by themselves after the primary."""
    replicas: tuple[ReplicaSpec, ...]
    """The replicas; a preparer may still complete them, but their limits are final."""
    notes: tuple[str, ...] = ()
    """Sentences for the job's log."""
    warnings: tuple[str, ...] = ()
    """Sentences for the job's log, as warnings."""
    prepare: Optional[tuple[str, ...]] = None
    """The preparer's command; None: the replicas are complete."""
    after: Optional[tuple[str, ...]] = None
    """The program to run after the end of all replicas, before the end is recorded."""
    hang: HangRule = HangRule()
    log: LogRule = LogRule()
    checkpoints: tuple[str, ...] = ()
    """Folders with checkpoints of earlier attempts."""
    metrics: Optional[MetricsPlan] = None
    """The files in which a trial reports its metrics; None: the attempt is not a trial."""
    buckets: str = ""
    """The folder of all buckets; programs of any job may write below it."""
    remote: Optional[RemoteRule] = None
    """Set if a launcher runs the attempt on a cluster."""
    usage_s: float = 0.0
    """Seconds between two samples of the replicas' usage (``watch_usage``); 0: no samples."""
    network: Optional[NetworkRule] = None
    """The network namespaces of the replicas; None: they have the network of the machine."""

    @property
    def mark(self) -> str:
        """UID/ATTEMPT, which every process of the attempt has in its environment."""
        return f"{self.uid}/{self.attempt}"

    @property
    def has_wardens(self) -> bool:
        """Whether the replicas run on other machines than their supervisor."""
        return self.remote is not None and self.remote.has_wardens

    def completed(self, answer: Mapping[str, Any]) -> "AttemptSpec":
        """Return the spec with the replicas that its preparer has completed.  Raises ValueError."""
        prepared = decode(PreparerAnswer, answer)
        return self._replace(replicas=prepared.replicas, after=prepared.after or None)


class PreparerAnswer(NamedTuple):
    """The answer of a preparer."""

    replicas: tuple[ReplicaSpec, ...]
    after: Optional[tuple[str, ...]] = None
    devices: tuple[str, ...] = ()
    """Descriptions of the assigned devices, for people."""


def read(path: str) -> AttemptSpec:
    """Read the spec in a plan file.  Raises OSError or ValueError."""
    return decode(AttemptSpec, json.loads(read_file(PathBeneath.of_file(path))))
