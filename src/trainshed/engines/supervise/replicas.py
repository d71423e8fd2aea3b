"""Starts the replicas of an attempt, all or none, sends them signals, and records their exits."""

import errno
import os
import signal
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Final, Protocol

from trainshed.engines.isolation.enter import (
    IsolatedProgram,
    find_program_pid,
    isolate_program,
    list_wrappers,
    signal_in,
)
from trainshed.engines.isolation.view import NO_FOLDERS, Mounts, ReplicaView
from trainshed.engines.processes import tree
from trainshed.engines.supervise.end_words import (
    describe_end,
    ran_out_of_memory,
    warn_of_refused_forks,
)
from trainshed.engines.supervise.helpers.stacks import Stacks
from trainshed.engines.supervise.kernel.kill import ProcessTree
from trainshed.engines.supervise.kernel.limits import START_USAGE, Usage
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
from trainshed.engines.supervise.record.spec import OWN_CONTAINER, ReplicaSpec
from trainshed.engines.supervise.record.tether import is_tethered
from trainshed.model.attempt import ReplicaExit

if TYPE_CHECKING:
    from trainshed.engines.supervise.network.join import AttemptNetwork
    from trainshed.engines.supervise.record.gpu_file import GpuFigures

_FAULT_BYTES_MAX: Final = 1 << 16
_PIPES: Final = 2
#: Open files that the supervisor itself needs: log, socket, connections, helper programs.
_SPARE_DESCRIPTORS: Final = 48
#: Seconds between two measurements of replicas whose processes a search has to find.
_SEARCH_EVERY_S: Final = 30.0
#: Errors that may not occur at a later try: the machine lacks a resource for some time.
_TRANSIENT: Final = frozenset(
    {errno.EAGAIN, errno.ENOMEM, errno.ENFILE, errno.ENOSPC, errno.EDQUOT}
)
#: SIGCONT lets a suspended process handle SIGTERM.
_SIGNALS = (signal.SIGTERM, signal.SIGCONT)


class Terminator:
    """Sends SIGTERM to processes, once to each.

    Many programs abort at a second SIGTERM, even while they save their state after the first.
    Examples are launchers of several processes, and programs whose handler raises an exception.
    """

    __slots__ = ("_signalled", "_spared")

    def __init__(self, spared: Callable[[], Collection[int]] = tuple) -> None:
        """``spared`` returns the pids of processes that never get the signal."""
        self._signalled: set[int] = set()
        self._spared = spared

    def signal_leaders(self, pairs: Collection[tuple[int, int]]) -> None:
        """Signal the child in each (parent, child) pair, but not the child's descendants."""
        self._signalled.update(child for _, child in pairs)
        for signum in _SIGNALS:
            tree.send_to_all(pairs, os.getpid(), signum)

    def signal_orphans(self, leaders: Iterable[int]) -> None:
        """Signal the processes that are not ``leaders`` and not descendants of one of them."""
        pairs = list(tree.descendants(os.getpid()))
        spared = set(leaders)
        for parent, child in pairs:  # parents come first
            if parent in spared:
                spared.add(child)
        self._signal(pairs, excluded=spared)

    def signal_all(self, excluded: Collection[int]) -> None:
        """Signal every descendant of this process except the pids in ``excluded``."""
        self._signal(list(tree.descendants(os.getpid())), excluded=excluded)

    def _signal(self, pairs: list[tuple[int, int]], *, excluded: Collection[int]) -> None:
        # forget ended processes: the kernel may give their pids to new ones
        self._signalled &= {child for _, child in pairs}
        spared = self._signalled.union(excluded, self._spared())
        new = [(parent, child) for parent, child in pairs if child not in spared]
        self._signalled.update(child for _, child in new)
        for signum in _SIGNALS:
            tree.send_to_all(new, os.getpid(), signum)


class Gang(ABC):
    """The replicas of an attempt, on this machine or on others: all start, or none."""

    def __init__(self) -> None:
        """Start no replica."""
        self.living: dict[int, int] = {}
        """The pids of the living replicas, by index."""
        self.exits: dict[int, ReplicaExit] = {}
        """The exits of ended replicas, by index, in the order in which this process saw them."""
        self.have_started = False
        """Whether every replica has started."""
        self.fault: str | None = None
        """The reason why the replicas could not start; None: no fault so far."""
        self.is_worth_another_try = False
        """Whether the machine caused the fault, and a later try may succeed."""
        self.lost: str | None = None
        """The reason why a replica's exit can never be read; None: all exits can be read."""
        self.lost_nodes: tuple[str, ...] = ()
        """The nodes that caused ``fault`` or ``lost``, by the cluster's names; empty: unknown."""
        self.reached_nodes: tuple[str, ...] = ()
        """The nodes of connected wardens, if ``fault`` or ``lost`` is that others never came up."""
        self.measured_every_s = 0.0
        """The least seconds between two measurements of usage for a curve: each has its cost."""
        self.out_of_memory = ""
        """The cluster's words if it has killed replicas for their memory; else empty."""

    @abstractmethod
    def gather(self) -> bool:
        """Return whether every replica can start; the caller repeats the call until True."""

    @abstractmethod
    def start(self, replicas: Sequence[ReplicaSpec], folder: AttemptFolder) -> None:
        """Start all replicas; ``have_started`` or ``fault`` has the result later."""

    @abstractmethod
    def end_words(self, task_name: str) -> str:
        """Describe how a replica ended and how much memory it used; empty while it lives."""

    @abstractmethod
    def usage(self, index: int) -> Usage:
        """Return the CPU time and memory that a replica has used so far."""

    def usage_at_start(self, index: int) -> Usage:
        """Return the counters from which what a replica uses is counted."""
        del index
        return START_USAGE

    @abstractmethod
    def read_report(self, index: int) -> bytes:
        """Return a program's last report for ``model.usage.parse_progress``; empty: none."""

    @abstractmethod
    def read_gpus(self, now_s: float) -> "Mapping[str, GpuFigures]":
        """Return the newest readings of the attempt's GPUs by UUID, without a call of the driver.

        ``now_s`` is in seconds since 1970.  A GPU that is not measured now is absent.
        """

    @abstractmethod
    def read_stacks(self, index: int, callback: Callable[[str], object]) -> bool:
        """Read the stacks of a replica and pass them to ``callback`` later, one frame a line.

        False: the stacks cannot be read.
        """

    @abstractmethod
    def stop_reading_stacks(self) -> None:
        """End every read of stacks that is in progress."""


class Pipes(Protocol):
    """Makes the pipes to which replicas on this machine write; ``Output`` implements this."""

    def open(self, source: OutputSource, stream: str) -> int:
        """Make a pipe; return the program's end, which the caller closes after the fork."""

    def note(self, text: str, severity: str = "INFO") -> None:
        """Write a line of the engine to the log."""


class Replicas(Gang):
    """The processes of the replicas on this machine."""

    def __init__(  # noqa: PLR0913 - the objects that replicas use
        self,
        loop: Loop,
        children: Children,
        output: Pipes,
        tree: ProcessTree,
        descriptors: tuple[int, int],
        *,
        network: "AttemptNetwork | None" = None,
    ) -> None:
        """Start no process.

        ``descriptors`` are the soft and the hard limit of open files for the programs.  The caller
        must create ``network`` before ``start``; None: the replicas use the machine's network.
        """
        super().__init__()
        self._loop = loop
        self._children = children
        self._output = output
        self._tree = tree
        self._descriptors = descriptors
        self._replicas: Sequence[ReplicaSpec] = ()
        self._folder: AttemptFolder | None = None
        self.gpu_file = ""
        """The file with the GPUs of a cluster's replica; empty: the server's file, if any."""
        self._began_s: dict[int, float] = {}
        self._stopped: set[int] = set()
        self._network = network
        self._terminator = Terminator(self._spared)
        self._looks_for_orphans = False
        self._is_in_foreground = is_tethered()  # a user in the foreground sees no memory figures
        self.measured_every_s = 0.0 if tree.has_boxes else _SEARCH_EVERY_S
        self._is_over = False
        self._terminated_s: float | None = None
        self._killed: set[int] = set()
        self._end_texts: dict[str, str] = {}
        self._faults = b""
        self._stacks = Stacks(loop, children, descriptors)

    def gather(self) -> bool:
        """Return True: replicas on this machine need no preparation."""
        return True

    def read_stacks(self, index: int, callback: Callable[[str], object]) -> bool:
        """Read the stacks of a replica and pass them to ``callback`` later, one frame a line.

        False: the replica has ended, or the stacks cannot be read.
        """
        return index in self.living and self._stacks.read(self.find_program_pid(index), callback)

    def stop_reading_stacks(self) -> None:
        """End every read of stacks that is in progress."""
        self._stacks.stop()

    def start(self, replicas: Sequence[ReplicaSpec], folder: AttemptFolder) -> None:
        """Fork all replicas; ``have_started`` or ``fault`` has the result later."""
        self._replicas = replicas
        self._folder = folder
        self._stacks.cwd = folder.path
        if descriptors_left() < _PIPES * len(replicas) + _SPARE_DESCRIPTORS:
            self.fault = (
                f"cannot start {len(replicas)} processes: the limit of open files is too low; "
                "raise it (ulimit -n, or LimitNOFILE of the server's systemd unit)"
            )
            return
        fault_reader, fault_writer = os.pipe()
        try:
            for index, replica in enumerate(replicas):
                program = self._isolate_replica(replica, folder)
                self._fork(index, replica, fault_writer, program)
        except OSError as error:
            self.fault = f"cannot start {len(replicas)} processes: {error.strerror}"
            self.is_worth_another_try = error.errno in _TRANSIENT
        finally:
            os.close(fault_writer)
        self._loop.on_readable(fault_reader, partial(self._read_faults, fault_reader))

    def end_words(self, task_name: str) -> str:
        """Describe how a replica ended and how much memory it used; empty while it lives."""
        return self._end_texts.get(task_name, "")

    def usage(self, index: int) -> Usage:
        """Return the CPU time and memory that a replica has used so far."""
        return self._tree.usage(index)

    def read_report(self, index: int) -> bytes:
        """Return a program's last report for ``model.usage.parse_progress``; empty: none."""
        return self._folder.read_report(self._replicas[index].task_name) if self._folder else b""

    def read_gpus(self, now_s: float) -> "Mapping[str, GpuFigures]":
        own = {uuid: replica.task_name for replica in self._replicas for uuid in replica.gpus}
        if not (self._folder and (own or self.gpu_file)):
            return {}
        from trainshed.engines.supervise.record import gpu_file  # noqa: PLC0415 - few have GPUs

        path = self.gpu_file or gpu_file.locate_gpu_file(self._folder, is_on_cluster=False)
        gpus = gpu_file.read_own_gpus(path, own, now_s)
        return {uuid: one._replace(task=own.get(uuid)) for uuid, one in gpus.items()}

    def find_program_pid(self, index: int) -> int:
        """Return the pid of a living replica's program, below the processes that isolate it."""
        return find_program_pid(self._view(index), self.living[index])

    def terminate(self) -> None:
        """Send SIGTERM to the replicas' own processes, and to processes of ended replicas.

        The descendants of a living replica do not get the signal yet, as in a container: the
        replica may need them to save its state (the workers of a data loader, of torchrun).
        """
        self._stopped |= set(self.living)
        self._terminated_s = self._loop.now()
        self._terminator.signal_leaders([self._find_leader(index) for index in self.living])
        self._terminate_orphans()

    def terminate_all(self) -> None:
        """Send SIGTERM to every process of the replicas that has not received it yet."""
        self._stopped |= set(self.living)
        wrappers = (list_wrappers(self._view(index), pid) for index, pid in self.living.items())
        self._terminator.signal_all(excluded=[pid for pids in wrappers for pid in pids])

    def close(self) -> None:
        """Send no more signals: all processes of the replicas have ended."""
        self._is_over = True

    def _terminate_orphans(self) -> None:
        """Send SIGTERM to processes that ended replicas have left."""
        self._looks_for_orphans = False
        if not self._is_over:
            self._terminator.signal_orphans(self.living.values())

    def kill(self) -> None:
        """Kill every process of the replicas; the caller repeats this until no process lives."""
        self._stopped |= set(self.living)
        self._killed |= set(self.living)
        self._tree.kill()

    def _fork(
        self, index: int, replica: ReplicaSpec, fault_writer: int, program: IsolatedProgram
    ) -> None:
        """Start the program of one replica; the fork writes an error to ``fault_writer``."""
        parent = os.getpid()

        def enter() -> None:
            self._tree.enter(index, None if replica.isolation is None else replica.isolation.uid)
            if self._network is not None:
                self._network.enter_replica(index, replica.host_name)
            if program.enter is not None:
                program.enter()
            tree.die_with_parent(parent)  # the kernel clears it when a process changes its user

        source = OutputSource(index, replica.task_name, replica.trial)
        wiring = Wiring(self._output.open(source, "stdout"), self._output.open(source, "stderr"))
        command = ProcessSpec(program.argv, program.env, replica.cwd)
        try:
            pid = fork_exec(
                command,
                wiring,
                fault_writer,
                descriptors=self._descriptors,
                enter=enter,
                number=index,
            )
        finally:
            for descriptor in (wiring.stdout, wiring.stderr, *program.descriptors):
                os.close(descriptor)
        self._tree.add_replica(index, pid)
        self.living[index] = pid
        self._began_s[index] = self._loop.now()
        self._children.expect(pid, partial(self._handle_exit, index))

    def _spared(self) -> Collection[int]:
        """Return the pids of helper processes of the attempt's network, which end later."""
        return () if self._network is None else self._network.way_out.processes

    def _isolate_replica(self, replica: ReplicaSpec, folder: AttemptFolder) -> IsolatedProgram:
        """Prepare the program of a replica with its isolation and its mounts."""
        if replica.hosts and not os.path.exists(folder.hosts):
            from trainshed.engines.isolation import mounts  # noqa: PLC0415 - few replicas need it

            mounts.write_hosts(folder.hosts, replica.hosts)
        private = NO_FOLDERS
        if replica.isolation is not None:
            from trainshed.engines.isolation import mounts  # noqa: PLC0415 - few replicas need it

            private = mounts.compose_private(replica.isolation, folder)
        if self._network is not None:
            private = private._replace(resolver=folder.resolver)
        mounted = Mounts(folder.hosts if replica.hosts else None, replica.binds, private)
        return isolate_program(replica.isolation, replica.argv, mounted, replica.env)

    def _find_leader(self, index: int) -> tuple[int, int]:
        """Return the process of a replica that gets SIGTERM first, as (parent, child)."""
        parents = (os.getpid(), *list_wrappers(self._view(index), self.living[index]))
        leader = self.find_program_pid(index)
        return next(parent for parent in reversed(parents) if parent != leader), leader

    def _view(self, index: int) -> ReplicaView | None:
        return self._replicas[index].isolation

    def _read_faults(self, fault_reader: int) -> None:
        """Read errors of the forks until each has executed its program or has ended."""
        data = os.read(fault_reader, _FAULT_BYTES_MAX)
        self._faults += data
        if data:
            return
        self._loop.forget(fault_reader)
        os.close(fault_reader)
        if self._faults and self.fault is None:
            fault = read_fault(self._faults)
            name = self._replicas[fault.number].task_name
            self.fault = f"{name} cannot be started: {fault.reason}"
        self.have_started = self.fault is None

    def _handle_exit(self, index: int, death: Death) -> None:
        """Record the exit of a replica, and end the processes that it left during a teardown."""
        del self.living[index]
        replica = self._replicas[index]
        signum = signal_in(replica.isolation, death.exit_code)
        if signum is not None:
            death = death._replace(exit_code=None, signal=signum)
        self._tree.add_usage(index, death.cpu_s, death.max_rss_kib)
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
            notice_s=None if self._terminated_s is None else self._loop.now() - self._terminated_s,
            oom=ran_out_of_memory(usage, index in self._killed, was_killed=was_killed),
            # with docker, the process is only the client of the container
            peak_memory_bytes=None if replica.cleanup else usage.peak_bytes,
        )
        if self._is_in_foreground and not ended.oom:
            ended = ended._replace(peak_memory_bytes=None)
        self._end_texts[replica.task_name] = describe_end(
            ended, usage, replica.limits, is_contained=replica.container == OWN_CONTAINER
        )
        if usage.refused_forks:
            warning = warn_of_refused_forks(replica.task_name, usage.refused_forks)
            self._output.note(warning, "WARNING")
        if self._stopped and not self._looks_for_orphans:
            # only one call for all replicas that end together
            self._looks_for_orphans = True
            self._loop.after(0.0, self._terminate_orphans)


def task_names(replicas: Sequence[ReplicaSpec]) -> tuple[str, ...]:
    """Return the task names of the replicas, in the order of the replicas."""
    return tuple(replica.task_name for replica in replicas)


def exits_in_order(exits: Mapping[int, ReplicaExit]) -> tuple[ReplicaExit, ...]:
    """Return the exits in the order of the replicas in the plan."""
    return tuple(exits[index] for index in sorted(exits))
