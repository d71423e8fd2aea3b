"""The replicas of an attempt, all started or none, and what is known of their ends."""

import errno
import os
import signal
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Final, Protocol

from trainshed.engines.isolation import mounts
from trainshed.engines.isolation.enter import (
    Walled,
    program,
    signal_in,
    walled,
    wrappers,
)
from trainshed.engines.isolation.view import Mounts, ReplicaView
from trainshed.engines.processes import tree
from trainshed.engines.supervise.helpers.stacks import Stacks
from trainshed.engines.supervise.kernel.kill import ProcessTree
from trainshed.engines.supervise.kernel.limits import ReplicaLimits, Usage
from trainshed.engines.supervise.kernel.spawn import (
    ProcessSpec,
    Wiring,
    descriptors_left,
    fork_exec,
    read_fault,
)
from trainshed.engines.supervise.loop import Children, Death, Loop
from trainshed.engines.supervise.record.folder import AttemptFolder
from trainshed.engines.supervise.record.output import OutputSource
from trainshed.engines.supervise.record.spec import ReplicaSpec
from trainshed.engines.supervise.record.tether import is_tethered
from trainshed.model import exits
from trainshed.model.attempt import ReplicaExit

if TYPE_CHECKING:
    from trainshed.engines.supervise.network.join import AttemptNetwork

_FAULT_BYTES_MAX: Final = 1 << 16
_PIPES: Final = 2
#: Open files that are needed while replicas run: the log, the socket, those who ask, helpers.
_SPARE_DESCRIPTORS: Final = 48
#: What a machine lacks for a while.
_PASSES: Final = frozenset({errno.EAGAIN, errno.ENOMEM, errno.ENFILE, errno.ENOSPC, errno.EDQUOT})
#: A suspended one hears it too.
_SIGNALS = (signal.SIGTERM, signal.SIGCONT)


class Terminator:
    """Asks processes to end, each of them once, and remembers who has been asked.

    Many programs take a second SIGTERM for an order to drop everything, also while they still save
    what the first had asked them to: launchers of several processes, handlers that raise.
    """

    __slots__ = ("_signalled", "_spared")

    def __init__(self, spared: Callable[[], Collection[int]] = tuple) -> None:
        """No process is asked yet; ``spared`` lists processes that never are."""
        self._signalled: set[int] = set()
        self._spared = spared

    def leaders(self, listed: Collection[tuple[int, int]]) -> None:
        """Ask some (parent, child), and nobody below them."""
        self._signalled.update(child for _, child in listed)
        for signum in _SIGNALS:
            tree.send_to_all(listed, os.getpid(), signum)

    def orphans(self, leaders: Iterable[int]) -> None:
        """Ask those that none of these has below it."""
        listed = list(tree.descendants(os.getpid()))
        spared = set(leaders)
        for parent, child in listed:  # parents come first
            if parent in spared:
                spared.add(child)
        self._ask(listed, but=spared)

    def everybody(self, but: Collection[int]) -> None:
        """Ask every process, wherever it stands, but for some."""
        self._ask(list(tree.descendants(os.getpid())), but=but)

    def _ask(self, listed: list[tuple[int, int]], *, but: Collection[int]) -> None:
        self._signalled &= {child for _, child in listed}  # the numbers of others may be given away
        spared = self._signalled.union(but, self._spared())
        new = [(parent, child) for parent, child in listed if child not in spared]
        self._signalled.update(child for _, child in new)
        for signum in _SIGNALS:
            tree.send_to_all(new, os.getpid(), signum)


class Gang(ABC):
    """The replicas of an attempt, wherever they run: all are started, or none."""

    def __init__(self) -> None:
        """Nothing is started yet."""
        self.living: dict[int, int] = {}
        """By index: the pid."""
        self.exits: dict[int, ReplicaExit] = {}
        """By index, in the order in which they were learned."""
        self.have_started = False
        self.fault: str | None = None
        """Why they could not be started, if so."""
        self.is_worth_another_try = False
        """Whether that is the machine's fault, and passes."""
        self.lost: str | None = None
        """Why the exit of one of them can never be read; None: it can."""

    @abstractmethod
    def gather(self) -> bool:
        """Have a place for each, with what it needs there; to be called until it is True."""

    @abstractmethod
    def start(self, replicas: Sequence[ReplicaSpec], folder: AttemptFolder) -> None:
        """Start all of them; ``have_started`` or ``fault`` says later how that went."""

    @abstractmethod
    def end_words(self, task_name: str) -> str:
        """How a replica ended, with the memory that it used; empty while it lives."""

    @abstractmethod
    def usage(self, index: int) -> Usage:
        """What one of them uses now."""

    @abstractmethod
    def look(self, index: int, tell: Callable[[str], object]) -> bool:
        """Tell later what one of them does, one frame a line; False: nobody can look."""

    @abstractmethod
    def stop_looking(self) -> None:
        """End every look that is under way."""


class Pipes(Protocol):
    """Where replicas of this machine write to (``Output``)."""

    def open(self, source: OutputSource, stream: str) -> int:
        """Make a pipe; its end for the program, to be closed here once that has it."""

    def note(self, text: str, severity: str = "INFO") -> None:
        """Say something in the engine's own name."""


class Replicas(Gang):
    """Processes that start together and end together."""

    def __init__(  # noqa: PLR0913 - what their supervisor has
        self,
        loop: Loop,
        children: Children,
        output: Pipes,
        tree: ProcessTree,
        descriptors: tuple[int, int],
        *,
        network: "AttemptNetwork | None" = None,
    ) -> None:
        """Start nothing yet; ``descriptors`` is the limit that programs get.

        ``network`` has been made before the start; None: they have the machine's.
        """
        super().__init__()
        self._loop = loop
        self._children = children
        self._output = output
        self._tree = tree
        self._descriptors = descriptors
        self._replicas: Sequence[ReplicaSpec] = ()
        self._began_s: dict[int, float] = {}
        self._stopped: set[int] = set()
        self._network = network
        self._terminator = Terminator(self._spared)
        self._looks_for_orphans = False
        self._is_watched = is_tethered()  # its message is for who looks on, and has one line
        self._is_over = False
        self._asked_s: float | None = None
        self._killed: set[int] = set()
        self._hows: dict[str, str] = {}
        self._faults = b""
        self._stacks = Stacks(loop, children, descriptors)

    def gather(self) -> bool:
        """They are all here."""
        return True

    def look(self, index: int, tell: Callable[[str], object]) -> bool:
        """Tell later what one of them does, one frame a line; False: nobody can look."""
        return index in self.living and self._stacks.look(self.program(index), tell)

    def stop_looking(self) -> None:
        """End every look that is under way."""
        self._stacks.stop()

    def start(self, replicas: Sequence[ReplicaSpec], folder: AttemptFolder) -> None:
        """Fork all of them; ``have_started`` or ``fault`` says later how that went."""
        self._replicas = replicas
        self._stacks.cwd = folder.path
        if descriptors_left() < _PIPES * len(replicas) + _SPARE_DESCRIPTORS:
            self.fault = f"cannot start {len(replicas)} processes: too few open files are allowed"
            return
        faults, errors = os.pipe()
        try:
            for index, replica in enumerate(replicas):
                self._fork(index, replica, errors, self._build_walls(replica, folder))
        except OSError as error:
            self.fault = f"cannot start {len(replicas)} processes: {error.strerror}"
            self.is_worth_another_try = error.errno in _PASSES
        finally:
            os.close(errors)
        self._loop.on_readable(faults, partial(self._hear, faults))

    def end_words(self, task_name: str) -> str:
        """How a replica ended, with the memory that it used; empty while it lives."""
        return self._hows.get(task_name, "")

    def usage(self, index: int) -> Usage:
        """What one of them uses now."""
        return self._tree.usage(index)

    def program(self, index: int) -> int:
        """The process of one that lives, behind what is around it."""
        return program(self._view(index), self.living[index])

    def terminate(self) -> None:
        """Ask the replicas to end, and whoever outlives one that has ended.

        A replica's own process hears it first, as in a container: what it has forked may be what it
        needs to save its state (the workers of a data loader, of torchrun).
        """
        self._stopped |= set(self.living)
        self._asked_s = self._loop.now()
        self._terminator.leaders([self._leader(index) for index in self.living])
        self._terminate_orphans()

    def terminate_all(self) -> None:
        """Ask everybody to end who has not been asked, wherever it stands."""
        self._stopped |= set(self.living)
        walls = (wrappers(self._view(index), pid) for index, pid in self.living.items())
        self._terminator.everybody(but=[pid for pids in walls for pid in pids])

    def close(self) -> None:
        """Nothing of them lives; whoever is started from now on is none of theirs."""
        self._is_over = True

    def _terminate_orphans(self) -> None:
        self._looks_for_orphans = False
        if not self._is_over:
            self._terminator.orphans(self.living.values())

    def kill(self) -> None:
        """Kill every process, at once; to be repeated until none lives."""
        self._stopped |= set(self.living)
        self._killed |= set(self.living)
        self._tree.kill()

    def _fork(self, index: int, replica: ReplicaSpec, errors: int, walls: Walled) -> None:
        parent = os.getpid()

        def enter() -> None:
            self._tree.enter(index, None if replica.isolation is None else replica.isolation.uid)
            if self._network is not None:
                self._network.enter_replica(index, replica.host_name)
            if walls.enter is not None:
                walls.enter()
            tree.die_with_parent(parent)  # a process that becomes another user has lost that

        source = OutputSource(index, replica.task_name, replica.trial)
        wiring = Wiring(self._output.open(source, "stdout"), self._output.open(source, "stderr"))
        command = ProcessSpec(walls.argv, walls.env, replica.cwd)
        try:
            pid = fork_exec(
                command,
                wiring,
                errors,
                descriptors=self._descriptors,
                enter=enter,
                number=index,
            )
        finally:
            for descriptor in (wiring.stdout, wiring.stderr, *walls.descriptors):
                os.close(descriptor)
        self._tree.started(index, pid)
        self.living[index] = pid
        self._began_s[index] = self._loop.now()
        self._children.expect(pid, partial(self._ended, index))

    def _spared(self) -> Collection[int]:
        return () if self._network is None else self._network.processes

    def _build_walls(self, replica: ReplicaSpec, folder: AttemptFolder) -> Walled:
        if replica.hosts and not os.path.exists(folder.hosts):
            mounts.write_hosts(folder.hosts, replica.hosts)
        more = _private_folders(replica.isolation, folder)
        if self._network is not None:
            more = more._replace(resolver=folder.resolver)
        mounted = Mounts(folder.hosts if replica.hosts else None, replica.binds, more)
        return walled(replica.isolation, replica.argv, mounted, replica.env)

    def _leader(self, index: int) -> tuple[int, int]:
        """The parent of the process that is asked first, and that process."""
        around = (os.getpid(), *wrappers(self._view(index), self.living[index]))
        leader = self.program(index)
        return next(parent for parent in reversed(around) if parent != leader), leader

    def _view(self, index: int) -> ReplicaView | None:
        return self._replicas[index].isolation

    def _hear(self, faults: int) -> None:
        """The end of the pipe says that every fork has become its program, or has ended."""
        data = os.read(faults, _FAULT_BYTES_MAX)
        self._faults += data
        if data:
            return
        self._loop.forget(faults)
        os.close(faults)
        if self._faults and self.fault is None:
            fault = read_fault(self._faults)
            name = self._replicas[fault.number].task_name
            self.fault = f"{name} cannot be started: {fault.reason}"
        self.have_started = self.fault is None

    def _ended(self, index: int, death: Death) -> None:
        del self.living[index]
        replica = self._replicas[index]
        signum = signal_in(replica.isolation, death.exit_code)
        if signum is not None:
            death = death._replace(exit_code=None, signal=signum)
        self._tree.ended(index, death.cpu_s, death.max_rss_kib)
        usage = self._tree.usage(index)
        was_killed = death.signal == signal.SIGKILL
        ended = self.exits[index] = ReplicaExit(
            role=replica.role,
            index=replica.index,
            task_name=replica.task_name,
            exit_code=death.exit_code,
            signal=death.signal,
            seconds=self._loop.now() - self._began_s[index],
            stopped_by_us=index in self._stopped,
            killed=was_killed and index in self._killed,
            notice_s=None if self._asked_s is None else self._loop.now() - self._asked_s,
            oom=ran_out_of_memory(usage, index in self._killed, was_killed=was_killed),
            peak_memory_bytes=None if replica.cleanup else usage.peak_bytes,  # not docker's client
        )
        if self._is_watched and not ended.oom:
            ended = ended._replace(peak_memory_bytes=None)
        self._hows[replica.task_name] = end_words(ended, usage, replica.limits)
        if usage.refused_forks:
            self._output.note(too_many(replica.task_name, usage.refused_forks), "WARNING")
        if self._stopped and not self._looks_for_orphans:  # one look for all that end together
            self._looks_for_orphans = True
            self._loop.after(0.0, self._terminate_orphans)


def _private_folders(view: ReplicaView | None, folder: AttemptFolder) -> mounts.PrivateFolders:
    """The folders and files of a replica besides names and buckets; writes the files once."""
    if view is None:
        return mounts.NO_FOLDERS
    user = view.uid and (view.uid, view.gid or view.uid)
    home = next((there for _, there in view.folders if there == mounts.HOME), folder.work)
    if user and not os.path.exists(folder.passwd):
        mounts.write_passwd(folder.passwd, *user, home)
    has_profile = bool(view.folders) and (
        os.path.exists(folder.profile) or mounts.write_profile(folder.profile)
    )
    return mounts.PrivateFolders(
        root=folder.root if view.folders else "",
        folders=view.folders,
        passwd=folder.passwd if user else None,
        profile=folder.profile if has_profile else None,
    )


def end_words(ended: ReplicaExit, usage: Usage, limits: ReplicaLimits) -> str:
    """How it ended, with what only its supervisor knows."""
    return exits.describe_exit(
        ended,
        limit_bytes=limits.memory_bytes,
        children_killed=usage.oom_kills,
        machine_oom=ended.oom and not usage.oom_kills,
    )


def too_many(task_name: str, refused: int) -> str:
    """The sentence of a replica that wanted more processes than it may have."""
    times = "once" if refused == 1 else f"{refused} times"
    return (
        f"{task_name} was refused a process or thread {times}: it had as many as it may "
        "(limits.processes_max)."
    )


def ran_out_of_memory(usage: Usage, by_us: bool, *, was_killed: bool) -> bool:  # noqa: FBT001
    """Whether the kernel ended it, or a process of it, because memory ran out."""
    if usage.oom_kills:
        return True
    return was_killed and not by_us and usage.machine_oom_kills > 0


def task_names(replicas: Sequence[ReplicaSpec]) -> tuple[str, ...]:
    """Their names, in their order."""
    return tuple(replica.task_name for replica in replicas)


def exits_in_order(exits: Mapping[int, ReplicaExit]) -> tuple[ReplicaExit, ...]:
    """The ends in the order of the plan."""
    return tuple(exits[index] for index in sorted(exits))
