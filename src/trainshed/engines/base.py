"""The port of engines: the calls of the controller to the systems that run attempts.

An engine gets a ``LaunchPlan`` and answers with the values of ``model.attempt``.  What it cannot do
at all it says with ``EngineFault``; a program that fails is not a fault of the engine but an
outcome.
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
    """Where an engine sends what replicas write and what it has to say itself."""

    def line(self, replica: ReplicaPlan, text: str, stream: Stream) -> None:
        """Take one line of a replica, without its newline."""

    def note(self, text: str) -> None:
        """Take one line of the engine itself."""


class NotYet(Exception):
    """``launch`` is to be tried again: an older attempt of the job may still live."""


class NodeLocation(enum.Enum):
    """Where the nodes of an engine are."""

    THIS_MACHINE = "THIS_MACHINE"
    """All servers of the database must run on the machine of the nodes."""
    ANY = "ANY"


class PlacedBy(enum.Enum):
    """The component that chooses the nodes of an attempt."""

    SERVER = "SERVER"
    """The server's planner: ``launch`` gets a seat a replica."""
    ENGINE = "ENGINE"
    """A queue of the engine's own: ``launch`` gets a claim, and an attempt may be WAITING."""


class LaunchRefused(Exception):
    """``launch`` did not take an attempt for now, and nothing of it is there: the job waits on.

    ``why`` is ENGINE_FULL or HELD or what else keeps the engine's queue from taking it.
    """

    def __init__(self, why: Explanation) -> None:
        """``why`` is for the job."""
        super().__init__(why.message)
        self.why = why


class Endpoint(NamedTuple):
    """One end of a TCP connection: an IPv4 address and a port."""

    host: str
    port: int


#: Finds the process at the remote end of a connection to this machine, from both addresses.
AttemptAt = Callable[[Endpoint, Endpoint], AttemptKey | None]


class JobListeners(NamedTuple):
    """Sockets that listen in the network of an attempt, where its replicas look for the gateway."""

    sockets: tuple[socket.socket, ...]
    """Empty where the attempt has the network of the machine."""
    lifeline: socket.socket
    """The supervisor closes its other end when the attempt, and its network, end."""


class EngineFinding(NamedTuple):
    """What an engine has found out about where its attempts run."""

    check: str
    is_well: bool
    found: str
    advice: str = ""
    """What to change where it is not well."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Traits:
    """What is constant for the life of an engine; ``engines.capabilities`` has what it can do."""

    reach: NodeLocation
    python: str
    """The interpreter on its nodes that has Trainshed: reducers and jobs that ask for none."""
    containers: RuntimeChoice = NONE
    """What runs the images of jobs there, or why nothing does."""
    isolation: str = ""
    """How programs of jobs are kept apart there, for people; empty where that is not known."""
    uids: tuple[int, int] | None = None
    """The first and the last number of the users that projects have there, in the order of
    ``Owner.number``; None: they have none of their own."""
    leftovers: str = ""
    """How what a killed supervisor leaves is ended there, for people; empty: not known."""
    has_names: bool = False
    """Whether processes that it starts resolve the names in ``LaunchPlan.hosts``."""
    has_networks: bool = False
    """Whether an attempt may have a network of its own (``LaunchPlan.network``)."""
    network: str = ""
    """Which network jobs have there, for people; empty where that is not known."""
    bridge: str | None = None
    """An address of the server's machine that containers with a network of their own reach."""
    places: PlacedBy = PlacedBy.SERVER
    orders_nodes: str | None = None
    """None: its nodes are drained and maintained by the server.  Else the command by which the
    cluster's own administrator does so, with ``NODE`` in the place of the node."""
    launches_at_once: int = 1
    """How many calls of ``launch`` may be under way together."""
    enqueued_max: int | None = None
    """How many attempts may be WAITING there together; no limit if None."""
    library: str | None = None
    """What is put on PYTHONPATH on its nodes so that programs find the trainer library, and
    ``python`` the reducer; None: the server's own is seen there."""
    path: str | None = None
    """PATH of programs there; None: the server's own."""
    jobs: Path | None = None
    """The folder in which the server finds the log of an attempt in ``UID/ATTEMPT/log``; None: the
    server's own (``EngineContext.jobs_dir``)."""


class ReplicaShape(NamedTuple):
    """What a replica needs of its address: so many neighbouring ports."""

    role: Role
    index: int  # type: ignore[assignment] # tuples have a method of that name
    ports: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class FilesystemView:
    """What the replicas of one attempt see around them; paths are those that they see."""

    addresses: Mapping[tuple[Role, int], Address]
    work: str
    """The folder in which they start."""
    exchange: str
    """The folder of what they and the engine tell each other."""
    metrics: str
    """The folder of the metric files of a trial."""
    earlier: tuple[str, ...]
    """The work folders of earlier attempts, as far as they can be seen."""
    buckets: str
    """The folder that holds a folder for every bucket."""


class Living(NamedTuple):
    """A process of an attempt that lives, in the words of its node."""

    key: AttemptKey
    pid: int
    command: str
    devices: frozenset[str] = frozenset()
    """The GPUs that it was given, by their own ids."""


class Known(NamedTuple):
    """An attempt that an engine finds without being asked for it."""

    key: AttemptKey
    phase: Phase
    """UNKNOWN: it was never launched or has no supervisor, and its end is not recorded."""
    living: tuple[Living, ...] = ()
    suspended: int | None = None
    """The process that attends to it, where that stands still (SIGSTOP) and obeys no order."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JobNeeds:
    """What a job asks of an engine, as far as that decides whether it can ever run there."""

    demand: JobDemand
    running_s_max: float | None = None
    wants: Mapping[str, str] = field(default_factory=dict)
    """As in a ``Claim``."""
    images: tuple[str, ...] = ()
    """The container images of its replicas that no environment stands in for."""
    project: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineContext:
    """What a server gives to the factory of its engine."""

    jobs_dir: Path
    """Of this installation alone.  The log of an attempt lies in ``UID/ATTEMPT/log`` below it."""
    name: str = ""
    """What the configuration calls it; empty: as its kind."""
    installation: str = ""
    """A short word of letters and digits that no other installation has; it is in the names of what
    the engine makes elsewhere, so that two installations on one cluster never touch each other."""
    buckets: Path
    """The folder that holds a folder for every bucket."""
    cache_dir: Path | None = None
    """Where installed packages are kept; None: the engine's own place."""
    environments: Mapping[str, str] = field(default_factory=dict)
    """Interpreters on its nodes by the names that ``[[image]]`` tables map images to."""
    options: Mapping[str, Any] = field(default_factory=dict)
    """The engine's own settings, not yet looked at."""


class Engine(Protocol):
    """What a server asks of an engine.  Every call is safe to repeat and thread-safe.

    ``trainshed.testing.engine_contract`` holds an implementation to these words.
    """

    name: str

    @property
    def traits(self) -> Traits:
        """The same for the life of the engine."""

    def fleet(self) -> Sequence[Node]:
        """The nodes as they are now."""

    def sight(
        self, key: AttemptKey, shape: Sequence[ReplicaShape], layout: NetworkLayout | None = None
    ) -> FilesystemView:
        """What replicas will see; changes nothing.  The plan that ``launch`` gets is made from it.

        ``layout`` is how they share a network of their own; None: they have the machine's.  Only an
        engine that ``has_networks`` is given one.

        Another call may return other addresses, but always the same folders.  Raises EngineFault.
        """

    def health(self) -> Explanation | None:
        """What keeps the engine from working, with since when; None: it is well.  From memory.

        One that is away keeps the nodes that it had, and every attempt of it is UNKNOWN.
        """

    def judge(self, needs: JobNeeds) -> Explanation | None:
        """Why a job can never run there, in the caller's words with what would be accepted.

        From memory.  None: it can, some day, or that is not known.  Never "busy".
        """

    def manifest(self, key: AttemptKey, plan: LaunchPlan, place: SeatsOrClaim) -> Mapping[str, str]:
        """What ``launch`` sends, by name, without secrets; changes nothing."""

    def launch(self, key: AttemptKey, plan: LaunchPlan, place: SeatsOrClaim) -> None:
        """Start an attempt, at most once for ever; it may have been started or stopped before.

        Returns when the engine has the plan durably, though not one replica may run.  Raises
        EngineFault: it can never start; Refused: not now, and the job goes back to the server's
        queue; NotYet or a transient OSError: to be tried again.
        """

    def stop(self, key: AttemptKey, order: StopOrder) -> None:
        """End an attempt and return at once; one that never started will not start any more.

        Its replicas are given notice first.  May be repeated; an order never gets milder.
        Raises EngineFault or OSError: to be tried again.
        """

    def observe(self, keys: Collection[AttemptKey]) -> Sequence[Observation]:
        """What is known of these attempts; reading only, cheap, and never blocking for long.

        ENDED and LOST are final.  An engine that cannot be reached says UNKNOWN.
        """

    def measured(self, key: AttemptKey, after: int) -> Measured:
        """What the trial of an attempt has reported behind a mark; 0 is the beginning.

        Reading only.  Of an attempt that is not known there is nothing, and the mark stays.
        Raises OSError when that cannot be read now.
        """

    def list_attempts(self) -> Sequence[Known]:
        """Every attempt of this installation that the engine finds, and what lives of it.

        Reading only; other installations on the same machines are not seen.  Raises OSError.
        """

    def forget(self, uid: int) -> bool:
        """Remove all that is left of a job, its logs included; False while anything of it lives.

        Raises OSError: to be tried again.
        """

    def listen(self, callback: Callable[[Collection[AttemptKey]], None]) -> None:
        """Call back, from any thread, when there may be news of attempts.

        News may be spurious or never come: the listener must still poll from time to time.
        """

    def close(self) -> None:
        """End threads and connections within two seconds; attempts run on."""
