"""The spec of an attempt: all that its supervisor has to run, written by an engine or a preparer.

It contains argv, environment and limits of each replica, so that the supervisor does not depend on
plans, packages or devices.
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

#: Last arguments of a supervisor's command: a supervisor reads its folder from its environment; a
#: fork server forks supervisors (``fork_server``).  Command lines are public: none names a folder.
SUPERVISOR: Final = "supervisor"
FORK_SERVER: Final = "fork-server"
#: The variable with the folder of the attempt; the supervisor removes it from its environment.
FOLDER: Final = "TRAINSHED_ATTEMPT_FOLDER"


class ReplicaSpec(NamedTuple):
    """One process to start, with its whole environment."""

    task_name: str
    role: Role
    index: int  # type: ignore[assignment] # tuples have a method of that name
    argv: tuple[str, ...]
    env: Mapping[str, str]
    cwd: str
    trial: str = ""
    limits: ReplicaLimits = ReplicaLimits()
    hosts: tuple[tuple[str, str], ...] = ()
    """Names that the replica can resolve, as (address, name)."""
    binds: tuple[tuple[str, str], ...] = ()
    """(folder here, folder there)."""
    cleanup: tuple[tuple[str, ...], ...] = ()
    """Programs that remove its containers when all replicas have ended, before the end is
    recorded."""
    isolation: Optional[ReplicaView] = None
    """The isolation of the replica; None: it has the user and the view of its supervisor."""
    container: str = ""
    """The runtime (apptainer or singularity) whose command the warden has to complete; ``env`` is
    then the container's (``engines.warden.images``).  Empty: the command starts the program."""
    python: str = ""
    """The interpreter that runs the program; empty for the interpreter of an image."""
    host_name: str = ""
    """The host name of a replica with its own network; empty: that of the machine."""


class HangRule(NamedTuple):
    """When a replica counts as hung, and whether to read its stacks."""

    after_s: Optional[float] = None
    """Seconds without a sign of progress; None: never."""
    stacks: bool = True
    """Whether to read the stacks of its threads, if that is possible."""


class LogRule(NamedTuple):
    """How much the replicas of an attempt may write to its log; no limit if None."""

    bytes_per_s: Optional[int] = None
    """Lines beyond this rate are dropped and counted; short bursts may exceed it."""
    bytes_kept: Optional[int] = None
    """How much of a job's log remains; the oldest lines are removed."""


class StepRule(NamedTuple):
    """One command that starts wardens on other machines, one for each of its tasks."""

    argv: tuple[str, ...]
    first: int = 0
    """The index in the plan of the replica of its first task; the other tasks follow in order."""
    tasks: int = 1


class ReplicaMarks(NamedTuple):
    """Placeholders in commands and variables for a replica's address, unknown before the start."""

    host: str
    ports: tuple[int, ...] = ()
    """Numbers that replace neighbouring ports, in their order."""
    rendezvous: int = 0
    """The number that replaces the rendezvous port; 0: there is none."""


class RemoteRule(NamedTuple):
    """How replicas run on other machines, each owned by a warden (``engines.warden``)."""

    steps: tuple[StepRule, ...]
    marks: tuple[ReplicaMarks, ...]
    """One for each replica, in the order of the plan."""
    packages: Mapping[str, Any] = {}
    """Packages to install on every node first (``model.launch_plan.Environment``), if any."""
    keeps: tuple[str, ...] = ()
    """Names of further variables of the nodes that programs get; * matches any text."""
    unset: tuple[str, ...] = ()
    """Names of variables that programs never get."""
    listen_variable: str = ""
    """The variable of a node that may contain an address of the first node."""
    cache: str = ""
    """The folder for installed packages on a node; empty: the user's cache folder."""
    start_timeout_s: float = 300.0
    """How long the wardens may take to connect."""
    ends_s: Optional[float] = None
    """Seconds after which the launcher ends the attempt; None: never."""
    package_bytes_max: Optional[int] = None
    relax_pins: bool = False
    hold_s: float = 0.0
    """How long the launcher keeps the nodes for a next attempt, if one may follow."""


class AttemptSpec(NamedTuple):
    """One attempt: all replicas, or none, are started; the first is the primary."""

    uid: int
    attempt: int
    job_id: str
    grace_s: float
    """From SIGTERM to SIGKILL if the order to stop names no other time."""
    settle_s: float
    """How long workers may take to end by themselves after the primary has ended."""
    replicas: tuple[ReplicaSpec, ...]
    """With a preparer, it completes them; their limits are valid before that."""
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
    """Where a trial reports its metrics; None: the attempt is not a trial."""
    buckets: str = ""
    """The folder of all buckets; programs of any job may write below it."""
    remote: Optional[RemoteRule] = None
    """Set if the replicas run on other machines than their supervisor."""
    network: Optional[NetworkRule] = None
    """The network namespaces of the replicas; None: they have the network of the machine."""

    @property
    def mark(self) -> str:
        """UID/ATTEMPT, which every process of the attempt has in its environment."""
        return f"{self.uid}/{self.attempt}"

    def completed(self, answer: Mapping[str, Any]) -> "AttemptSpec":
        """Return the spec with the replicas that its preparer has completed.  Raises ValueError."""
        prepared = decode(PreparerAnswer, answer)
        return self._replace(replicas=prepared.replicas, after=prepared.after or None)


class PreparerAnswer(NamedTuple):
    """The answer of a preparer."""

    replicas: tuple[ReplicaSpec, ...]
    after: Optional[tuple[str, ...]] = None
    devices: tuple[str, ...] = ()
    """Descriptions for people."""


def read(path: str) -> AttemptSpec:
    """Read the spec in a plan file.  Raises OSError or ValueError."""
    return decode(AttemptSpec, json.loads(read_file(PathBeneath.of_file(path))))
