"""What a supervisor is to run, as the engine or a preparer wrote it for this machine.

Everything is in it: argv, environment and limits of each replica, so that the supervisor needs to
know nothing of plans, packages or devices.
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

#: Last words of a supervisor's command: it finds its folder in its environment, or it is to fork
#: others (``fork_server``).  A command line is public, and so never names a folder.
SUPERVISOR: Final = "supervisor"
FORK_SERVER: Final = "fork-server"
#: The variable with the folder of the attempt; a supervisor takes it out of its environment.
FOLDER: Final = "TRAINSHED_ATTEMPT_FOLDER"


class ReplicaSpec(NamedTuple):
    """One process to start, with the whole of its environment."""

    task_name: str
    role: Role
    index: int  # type: ignore[assignment] # tuples have a method of that name
    argv: tuple[str, ...]
    env: Mapping[str, str]
    cwd: str
    trial: str = ""
    limits: ReplicaLimits = ReplicaLimits()
    hosts: tuple[tuple[str, str], ...] = ()
    """(address, name): names that it can resolve."""
    binds: tuple[tuple[str, str], ...] = ()
    """(folder here, folder there)."""
    cleanup: tuple[tuple[str, ...], ...] = ()
    """Programs that end what its own end leaves alive (containers), before the end is recorded."""
    isolation: Optional[ReplicaView] = None
    """The walls around it; None: it is what its supervisor is."""
    container: str = ""
    """The runtime (apptainer or singularity) whose command its warden is to complete; ``env`` is
    then the container's (``engines.warden.images``).  Empty: the command is the program's."""
    python: str = ""
    """The interpreter that it runs in; empty for an image's own."""
    host_name: str = ""
    """Its host name in a network of its own; empty: that of the machine."""


class HangRule(NamedTuple):
    """When a replica hangs, and what is done about it."""

    after_s: Optional[float] = None
    """Seconds without a sign of progress; never if None."""
    stacks: bool = True
    """Whether to look what its threads do, where that is possible."""


class LogRule(NamedTuple):
    """How much the replicas of an attempt may write to its log; no limit if None."""

    bytes_per_s: Optional[int] = None
    """Lines beyond are dropped, and counted; for a while there may be more."""
    bytes_kept: Optional[int] = None
    """What the server keeps of a job: it removes the oldest lines."""


class StepRule(NamedTuple):
    """One command that starts wardens on other machines, one for each of its tasks."""

    argv: tuple[str, ...]
    first: int = 0
    """The place in the plan of the replica that its first task attends to; the others follow."""
    tasks: int = 1


class ReplicaMarks(NamedTuple):
    """What stands in commands and variables for an address that is not known before the start."""

    host: str
    ports: tuple[int, ...] = ()
    """Numbers that stand for neighbouring ports, in their order."""
    rendezvous: int = 0
    """The number that stands for a port of its own; none if 0."""


class RemoteRule(NamedTuple):
    """How replicas run on other machines, each attended to by a warden (``engines.warden``)."""

    steps: tuple[StepRule, ...]
    marks: tuple[ReplicaMarks, ...]
    """One a replica, in the order of the plan."""
    packages: Mapping[str, Any] = {}
    """What is installed on every node first (``model.launch_plan.Environment``); empty: nothing."""
    keeps: tuple[str, ...] = ()
    """Names of variables of the nodes, besides the usual, that programs have; * is anything."""
    unset: tuple[str, ...] = ()
    """Names of those that they never have."""
    listen_variable: str = ""
    """The variable in which a node may find an address of the first node."""
    cache: str = ""
    """Where installed packages are kept on a node; the user's own place if empty."""
    start_timeout_s: float = 300.0
    """How long the wardens may take to be there."""
    ends_s: Optional[float] = None
    """Seconds after which the attempt ends by itself; never if None."""
    package_bytes_max: Optional[int] = None
    relax_pins: bool = False
    hold_s: float = 0.0
    """How long its nodes are kept for a next attempt, where its end may be followed by one."""


class AttemptSpec(NamedTuple):
    """One attempt: all replicas, or none, are started; the first is the primary."""

    uid: int
    attempt: int
    job_id: str
    grace_s: float
    """From SIGTERM to SIGKILL where no order says otherwise."""
    settle_s: float
    """How long workers may take to end by themselves after the primary has."""
    replicas: tuple[ReplicaSpec, ...]
    """Where there is a preparer: what it will complete, with the limits already in place."""
    notes: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    """What each job's log has to say besides, as a warning."""
    prepare: Optional[tuple[str, ...]] = None
    """The program that makes the replicas complete."""
    after: Optional[tuple[str, ...]] = None
    """A program that is run when no replica lives, before the end is recorded."""
    hang: HangRule = HangRule()
    log: LogRule = LogRule()
    checkpoints: tuple[str, ...] = ()
    """Folders with checkpoints of earlier attempts."""
    metrics: Optional[MetricsPlan] = None
    """Set for a trial."""
    buckets: str = ""
    """The folder of all buckets, where strangers write below each."""
    remote: Optional[RemoteRule] = None
    """Set where the replicas run on other machines than their supervisor."""
    network: Optional[NetworkRule] = None
    """The network namespaces of the replicas; None: they have the network of the machine."""

    @property
    def mark(self) -> str:
        """What every process of the attempt has in its environment."""
        return f"{self.uid}/{self.attempt}"

    def completed(self, answer: Mapping[str, Any]) -> "AttemptSpec":
        """The spec after its preparer has said what to run.  Raises ValueError."""
        prepared = decode(PreparerAnswer, answer)
        return self._replace(replicas=prepared.replicas, after=prepared.after or None)


class PreparerAnswer(NamedTuple):
    """What a preparer answers."""

    replicas: tuple[ReplicaSpec, ...]
    after: Optional[tuple[str, ...]] = None
    devices: tuple[str, ...] = ()
    """For people."""


def read(path: str) -> AttemptSpec:
    """The spec in a plan file.  Raises OSError or ValueError."""
    return decode(AttemptSpec, json.loads(read_file(PathBeneath.of_file(path))))
