"""The interface of engines, and the values that engines and the server exchange.

An engine runs attempts.  It gets a ``LaunchPlan`` and answers with the values of
``model.attempt``.  An engine raises ``EngineFault`` for a request that it can never meet.  If a
program of the job fails, that is an outcome, not a fault of the engine.
"""

import enum
import socket
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, NamedTuple, Protocol

from trainshed.engines.container_runtime import NONE, RuntimeChoice
from trainshed.model.attempt import AttemptKey, Measured, Observation, Phase
from trainshed.model.explanation import Explanation
from trainshed.model.launch_plan import Address, LaunchPlan, ReplicaPlan
from trainshed.model.network import NetworkLayout
from trainshed.model.resources import JobDemand, Node, SeatsOrClaim
from trainshed.model.roles import Role
from trainshed.model.stopping import StopOrder

Stream = Literal["stdout", "stderr"]


class OutputSink(Protocol):
    """Receives the output of replicas, and the messages of the engine itself."""

    def line(self, replica: ReplicaPlan, text: str, stream: Stream) -> None:
        """Receive one line of a replica's output, without its newline."""

    def note(self, text: str) -> None:
        """Receive one message of the engine itself, one line without its newline."""


class NotYet(Exception):
    """Raised by ``launch``: an earlier attempt of the job may still run; the caller tries again."""


class NodeLocation(enum.Enum):
    """The machines that may be nodes of an engine."""

    THIS_MACHINE = "THIS_MACHINE"
    """The only node is this machine, so all servers of the database must run on it."""
    ANY = "ANY"
    """The nodes may be any machines."""


class PlacedBy(enum.Enum):
    """The component that chooses the nodes of an attempt."""

    SERVER = "SERVER"
    """The server's planner: ``launch`` gets one seat for each replica."""
    ENGINE = "ENGINE"
    """The engine's own queue: ``launch`` gets a claim, and an attempt may be WAITING."""


class LaunchRefused(Exception):
    """Raised by ``launch``: the engine's queue does not accept the attempt now.

    The engine has kept nothing of the attempt, and the job continues to wait.  The reason in
    ``why`` is ENGINE_FULL, HELD or another reason of the queue.
    """

    def __init__(self, why: Explanation) -> None:
        """``why`` is the explanation that users see for the waiting job."""
        super().__init__(why.message)
        self.why = why


class Endpoint(NamedTuple):
    """One end of a TCP connection: an IPv4 address and a port."""

    host: str
    port: int


#: Returns the attempt of the process at the remote end of a connection; None: the process is of no
#: attempt.  The arguments are the remote endpoint and the local endpoint.
AttemptAt = Callable[[Endpoint, Endpoint], AttemptKey | None]


class JobListeners(NamedTuple):
    """Listening sockets in the network of an attempt, by which replicas connect to the gateway."""

    sockets: tuple[socket.socket, ...]
    """Empty if the attempt uses the network of the machine."""
    lifeline: socket.socket
    """A connection to the supervisor, which closes it when the attempt and its network end."""


class EngineFinding(NamedTuple):
    """The result of one check of the system on which an engine runs attempts."""

    check: str
    """The name of the check."""
    is_well: bool
    """Whether the check has passed."""
    found: str
    """The result in words."""
    advice: str = ""
    """The change that would make the check pass; empty if it has passed."""
    is_needed: bool = True
    """Whether all jobs need it; else a check that has not passed is only noted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Traits:
    """Constant properties of an engine; ``engines.capabilities`` has its optional calls."""

    reach: NodeLocation
    """The machines that may be nodes of the engine."""
    python: str
    """The interpreter on the nodes that has Trainshed: it runs reducers, and jobs that name no
    interpreter."""
    containers: RuntimeChoice = NONE
    """The container runtime of the nodes, or the reason why they have none."""
    isolation: str = ""
    """The isolation of jobs' programs, as text for people; empty: not known."""
    uids: tuple[int, int] | None = None
    """The first and the last user id for projects on the nodes; the user id of a project is the
    first id plus ``Owner.number``.  None: projects have no users of their own."""
    leftovers: str = ""
    """The means by which the engine ends processes that a killed supervisor has left, as text for
    people; empty: not known."""
    has_names: bool = False
    """Whether replicas can resolve the names in ``LaunchPlan.hosts``."""
    has_networks: bool = False
    """Whether an attempt may have a network of its own (``LaunchPlan.network``)."""
    network: str = ""
    """The network that jobs use, as text for people; empty: not known."""
    bridge: str | None = None
    """An address of the server's machine that containers with their own network can reach; None:
    there is no such address."""
    places: PlacedBy = PlacedBy.SERVER
    """The component that chooses the nodes of an attempt."""
    orders_nodes: str | None = None
    """The command with which the cluster's administrator drains a node, with ``NODE`` for the name
    of the node; None: the server drains and maintains the nodes."""
    launches_at_once: int = 1
    """The maximum of concurrent calls of ``launch``."""
    enqueued_max: int | None = None
    """The maximum of attempts in phase WAITING; None: no limit."""
    library: str | None = None
    """The entry of PYTHONPATH with which programs on the nodes import the trainer library, and
    ``python`` the reducer; None: the nodes can read the server's own copy."""
    path: str | None = None
    """PATH of programs on the nodes; None: the server's own PATH."""
    has_own_work_folders: bool = False
    """Whether the cluster makes a working folder for each replica, which the server and the other
    replicas do not see; otherwise the server makes ``FilesystemView.work``."""
    jobs: Path | None = None
    """The folder in which the server finds the log of an attempt, in ``UID/ATTEMPT/log``; None:
    ``EngineContext.jobs_dir``."""


class ReplicaShape(NamedTuple):
    """A replica, and the number of ports that its address must have."""

    role: Role
    index: int  # type: ignore[assignment] # tuples have a method of that name
    ports: int = 1
    """The number of consecutive ports."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FilesystemView:
    """The addresses and folders of one attempt; paths are as its replicas see them."""

    addresses: Mapping[tuple[Role, int], Address]
    """The address of each replica, by role and index."""
    work: str
    """The working folder of the replicas."""
    exchange: str
    """The folder of files that the replicas and the engine exchange, such as progress files."""
    metrics: str
    """The folder of the metric files of a trial."""
    earlier: tuple[str, ...]
    """The working folders of earlier attempts that the replicas can read."""
    buckets: str
    """The folder that contains one folder for each bucket."""


class LivingProcess(NamedTuple):
    """A living process of an attempt, as its node describes it."""

    key: AttemptKey
    pid: int
    """The process id; on a cluster, the number of the cluster's job."""
    command: str
    devices: frozenset[str] = frozenset()
    """The ids of the GPUs that the process may use."""


class ListedAttempt(NamedTuple):
    """An attempt, as ``Engine.list_attempts`` returns it."""

    key: AttemptKey
    phase: Phase
    """UNKNOWN: the attempt has no recorded end and no supervisor, or it was never launched."""
    living: tuple[LivingProcess, ...] = ()
    suspended: int | None = None
    """The pid of the attempt's supervisor if it is suspended (SIGSTOP) and so obeys no order."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JobNeeds:
    """The needs of a job that decide whether an engine can ever run it."""

    demand: JobDemand
    running_s_max: float | None = None
    """The maximum time in state RUNNING, in seconds; None: no limit."""
    sets_time: bool = True
    """Whether the job sets this time; if it is the server's default, an engine may permit less."""
    wants: Mapping[str, str] = field(default_factory=dict)
    """Labels that the engine reads, as in ``Claim.wants``."""
    images: tuple[str, ...] = ()
    """The container images of the replicas, except those that an environment replaces."""
    project: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineContext:
    """The settings that a server passes to the factory of an engine."""

    jobs_dir: Path
    """The folder of jobs, which no other installation uses.  The log of an attempt is in
    ``UID/ATTEMPT/log`` below this folder."""
    name: str = ""
    """The name of the engine in the configuration; empty: the name of its kind."""
    installation: str = ""
    """The id of this installation, of letters and digits.  It is part of the names of jobs and
    folders on a cluster, so that two installations do not touch each other's."""
    buckets: Path
    """The folder that contains one folder for each bucket."""
    cache_dir: Path | None = None
    """The folder of the cache of installed packages; None: the engine's default."""
    environments: Mapping[str, str] = field(default_factory=dict)
    """The path of an interpreter on the nodes for each environment that ``[[image]]`` tables
    name."""
    usage_s: float = 10.0
    """Seconds between two samples of the usage of replicas (``SupportsUsage``); 0: no samples."""
    options: Mapping[str, Any] = field(default_factory=dict)
    """The engine's own settings, not yet validated."""


class Engine(Protocol):
    """The calls of a server to an engine.  Every call is thread-safe and safe to repeat.

    The tests in ``trainshed.testing.engine_contract`` check an implementation.
    """

    name: str

    @property
    def traits(self) -> Traits:
        """The properties of the engine, which never change."""

    def fleet(self) -> Sequence[Node]:
        """Return the nodes in their present state."""

    def sight(
        self, key: AttemptKey, shape: Sequence[ReplicaShape], layout: NetworkLayout | None = None
    ) -> FilesystemView:
        """Return the addresses and folders for the replicas of an attempt; change nothing.

        The server composes the launch plan from them.  ``layout`` says how the replicas share
        the attempt's own network; None: they use the machine's network.  The server passes a
        ``layout`` only if ``Traits.has_networks`` is true.

        A second call may return other addresses, but always the same folders.  Raises EngineFault.
        """

    def health(self) -> Explanation | None:
        """Return why the engine does not work, and since when; None: it works.

        Answer from memory.  An engine that does not work still returns its last known nodes, and
        every attempt of the engine is UNKNOWN.
        """

    def judge(self, needs: JobNeeds) -> Explanation | None:
        """Return why the engine can never run a job, in terms of the request.

        The explanation names the accepted values.  None: the engine can run the job at some time,
        or does not know.  A lack of free nodes is not a reason.  Answer from memory.
        """

    def manifest(self, key: AttemptKey, plan: LaunchPlan, place: SeatsOrClaim) -> Mapping[str, str]:
        """Return the texts that ``launch`` would send, by name, without secrets; change nothing."""

    def launch(self, key: AttemptKey, plan: LaunchPlan, place: SeatsOrClaim) -> None:
        """Start an attempt; do nothing if the attempt was started or stopped before.

        Return when the engine has stored the plan durably, even if no replica runs yet.

        Raises EngineFault if the attempt can never start; LaunchRefused if the engine does not
        accept it now, and the job returns to the server's queue; NotYet or a transient OSError if
        the caller must try again.
        """

    def stop(self, key: AttemptKey, order: StopOrder) -> None:
        """Begin to end an attempt and return at once; an attempt that has not started never will.

        The engine first gives notice to the replicas.  A later order can only shorten the
        remaining time.  Raises EngineFault or OSError if the caller must try again.
        """

    def observe(self, keys: Collection[AttemptKey]) -> Sequence[Observation]:
        """Return the present state of these attempts; only read, and never block for long.

        ENDED and LOST are final.  If the engine cannot reach its nodes, the phase is UNKNOWN.
        """

    def measured(self, key: AttemptKey, after: int) -> Measured:
        """Return the metric reports of a trial after a mark; mark 0 is before the first report.

        Only read.  For an unknown attempt, return no report and the same mark.  Raises OSError if
        the reports cannot be read now.
        """

    def list_attempts(self) -> Sequence[ListedAttempt]:
        """List all attempts of this installation that the engine finds, with living processes.

        Only read.  Leave out attempts of other installations on the same machines.  Raises OSError.
        """

    def forget(self, uid: int) -> bool:
        """Remove all files of a job, its logs included; False: a process of the job still lives.

        Raises OSError if the caller must try again.
        """

    def listen(self, callback: Callable[[Collection[AttemptKey]], None]) -> None:
        """Call ``callback``, from any thread, with attempts whose state may have changed.

        A call may be superfluous, and a change may cause no call, so the caller must also poll.
        """

    def close(self) -> None:
        """End threads and connections within two seconds; attempts continue to run."""
