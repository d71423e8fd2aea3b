"""Runs one attempt from its spec to its recorded end, a step at a time.

The steps: run the preparer, start all replicas or none, wait for the end of the job, record the
outcome, end every process, remove containers and wait for devices, sync the log to disk.  An order
to stop may arrive at any step.
"""

import os
import signal
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol

from trainshed.engines.network.rule import RESOLVER, NetworkRule
from trainshed.engines.processes import tree as processes
from trainshed.engines.supervise import uri_folders
from trainshed.engines.supervise.ending import Teardown
from trainshed.engines.supervise.helpers.helper import Cleanup
from trainshed.engines.supervise.judging import (
    STOPPED_EARLY,
    Judge,
    end_with_fault,
    end_without_memory,
    have_settled,
    settle_s,
)
from trainshed.engines.supervise.kernel.kill import ProcessTree
from trainshed.engines.supervise.loop import Children, Loop
from trainshed.engines.supervise.record.facts import Facts
from trainshed.engines.supervise.record.folder import AttemptFolder, Order, name_node
from trainshed.engines.supervise.record.output import Output
from trainshed.engines.supervise.record.records import Decided, Ended, Ready
from trainshed.engines.supervise.record.segments import SegmentWriter
from trainshed.engines.supervise.record.spec import AttemptSpec
from trainshed.engines.supervise.replicas import Gang, Replicas, exits_in_order, task_names
from trainshed.engines.supervise.watching import Watching
from trainshed.files import room
from trainshed.model import success
from trainshed.model.success import JobEnd

if TYPE_CHECKING:
    from trainshed.engines.supervise.helpers.preparer import Preparer
    from trainshed.engines.supervise.network.join import AttemptNetwork

#: The reason of a stop after the end of the job; a value of ``model.stopping.StopReason``.
OVER: Final = "end"
_NETWORK_ADVICE: Final = (
    'to run the job without it, set [isolation] network = "host" and restart the server, or pass '
    "--network host to a local run"
)
#: Seconds between two checks whether processes still live.
_LOOK_S: Final = 0.1
#: Seconds between two tries to write the log to disk.
_RETRY_S: Final = 1.0


class RemoteContext(NamedTuple):
    """The objects and values from which ``RemoteFactory`` creates the replicas."""

    loop: Loop
    children: Children
    output: Output
    folder: AttemptFolder
    spec: AttemptSpec
    descriptors: tuple[int, int]
    """The soft and the hard limit of open files for programs."""
    obey: Callable[[Order, str], object]
    """Obeys an order to stop from another machine; the text is a sentence for the log."""


class Ending(Protocol):
    """Ends the replicas of an attempt; ``Teardown`` does so for replicas on this machine."""

    is_over: bool
    """Whether every process of the replicas has ended."""

    @property
    def has_begun(self) -> bool:
        """Whether the replicas have received a request to end."""

    @property
    def may_close(self) -> bool:
        """Whether no process is left that only a warden can list."""

    def begin(self, order: Order) -> None:
        """Begin to end the replicas; a later order can only shorten the remaining time."""

    def close(self) -> None:
        """Stop all timers; the caller has seen that every process has ended."""


#: Creates the replicas of an attempt on other machines, and the object that ends them.
RemoteFactory = Callable[[RemoteContext], tuple[Gang, Ending]]
#: Completes the spec of a folder with what its node knows and with the answer of its preparer; the
#: answer is empty without a preparer.  Raises OSError or ValueError.
Completer = Callable[[AttemptSpec, AttemptFolder, Mapping[str, Any]], AttemptSpec]


class LauncherFunctions(NamedTuple):
    """The functions with which the launcher of a cluster differs from a supervisor."""

    make_remote: RemoteFactory
    complete: Completer
    """Completes the only replica of an attempt without wardens."""
    watch_gpus: Callable[[RemoteContext], str]
    """Starts to read the GPUs of that replica; returns the file with them, or an empty text."""


class Attempt:
    """A running attempt: its state, and the step that ``advance`` performs next."""

    def __init__(  # noqa: PLR0913 - the objects that an attempt uses
        self,
        loop: Loop,
        folder: AttemptFolder,
        spec: AttemptSpec,
        *,
        facts: Facts,
        tree: ProcessTree,
        log: SegmentWriter,
        descriptors: tuple[int, int],
        launcher: LauncherFunctions | None = None,
    ) -> None:
        """Start no process; the first ``advance`` does that."""
        self._loop = loop
        self._folder = folder
        self._facts = facts
        self._tree = tree
        self._log = log
        self._descriptors = descriptors
        self._step: Callable[[], bool] = self._run_preparer
        self._complete = complete_from_answer if launcher is None else launcher.complete
        self._job_end: JobEnd | None = None
        self._order: Order | None = None
        self._preparer: Preparer | None = None
        self._settle_until_s = 0.0
        self._locks: list[int] = []
        self._end: Ended | None = None
        self.spec = spec
        self.children = Children()
        self.output = Output(loop, log, self._note_output, spec.log)
        self.replicas: Gang
        self._ending: Ending
        self._network: AttemptNetwork | None = None
        context = RemoteContext(
            loop, self.children, self.output, folder, spec, descriptors, self.obey
        )
        if launcher is not None and spec.has_wardens:
            self._step = self._await_wardens
            self.replicas, self._ending = launcher.make_remote(context)
        else:
            if spec.network is not None:
                self._network = self._create_network(spec.network)
                self._step = self._set_up_network
            local_replicas = Replicas(
                loop, self.children, self.output, tree, descriptors, network=self._network
            )
            if launcher is not None:
                local_replicas.gpu_file = launcher.watch_gpus(context)
            self.replicas = local_replicas
            self._ending = Teardown(loop, folder, local_replicas, self.output.note)
        self._judge = Judge(self.replicas, self.output)
        self.watching: Watching | None = None
        self._cleanup = Cleanup(loop, self.children, folder.path, self.output.note, descriptors)
        self.ended: Ended | None = None
        """The end of the attempt; None until no process lives and the log is on disk."""

    @property
    def is_empty(self) -> bool:
        """Whether all processes of the attempt have ended."""
        return self._ending.is_over

    @property
    def listeners(self) -> tuple[int, ...] | None:
        """The listening sockets in the attempt's network; None while they do not exist yet."""
        return () if self._network is None else self._network.listeners

    def advance(self) -> None:
        """Perform every step that is possible now."""
        self.output.deliver()
        while self.ended is None and self._step():
            self.output.deliver()

    def obey(self, order: Order, log_text: str = "") -> None:
        """Obey an order to stop, if it leaves less time than the last order.

        ``log_text`` is a line for the log; empty: a default text.
        """
        new = order.after(self._order)
        if new is None:
            return
        if self._job_end is None and self._end is None:
            self._job_end = success.interrupted(signal.SIGTERM, new.message)
            default_text = f"Stopping all replicas; they have {new.grace_s:g} s to end."
            self.output.note(log_text or default_text)
        self._order = new
        if self._preparer is not None:
            self._preparer.stop(new.grace_s)
        if self._ending.has_begun:
            self._ending.begin(new)

    def _await_wardens(self) -> bool:
        """Wait until every replica on another machine has its warden and its packages."""
        if self._order is None and self.replicas.fault is None and not self.replicas.gather():
            return False
        if self.replicas.fault is not None:
            self._end = self._end_with(self.replicas.fault, self.replicas.is_worth_another_try)
        return self._go_to(self._start_replicas)

    def _create_network(self, rule: NetworkRule) -> "AttemptNetwork":
        """Create the network object; import its module only for attempts that need it."""
        from trainshed.engines.supervise.network.join import AttemptNetwork  # noqa: PLC0415 - see above

        return AttemptNetwork(rule, self._loop, self.children, self.output.note)

    def _set_up_network(self) -> bool:
        """Create the network and wait until it works, because programs use it at once."""
        network = self._network
        if network is None or self._order is not None:
            return self._go_to(self._run_preparer)
        fault = self._make_network(network)
        if fault:
            reason = f"cannot make the network of the job: {fault}; {_NETWORK_ADVICE}"
            self._end = end_with_fault(reason)._replace(lost=True)  # the machine's fault
            return self._go_to(self._start_replicas)
        return network.way_out.is_ready and self._go_to(self._run_preparer)

    def _make_network(self, network: "AttemptNetwork") -> str:
        """Create the network if it does not exist; return why that failed, or an empty text."""
        try:
            if not network.is_made:
                from trainshed.engines.isolation.mounts import write_resolver  # noqa: PLC0415 - see above

                write_resolver(self._folder.resolver, RESOLVER)
                network.make()
        except OSError as error:
            return f"{error.filename or 'network namespaces'}: {error.strerror}"
        return network.way_out.fault

    def _run_preparer(self) -> bool:
        """Run the preparer, if the attempt needs one, and read its answer."""
        if self._preparer is None:
            if self.spec.prepare is None or self._order is not None:
                return self._complete_spec({})
            self._preparer = self._start_preparer(self.spec.prepare)
        if not self._preparer.has_ended:
            return False
        self._locks = self._preparer.locks
        answer, fault = self._preparer.read_answer()
        if answer is None:
            self._end = end_with_fault(fault)._replace(lost=self._preparer.is_worth_another_try)
        return self._complete_spec(answer or {})

    def _start_preparer(self, argv: Sequence[str]) -> "Preparer":
        """Start the preparer; import its module only for attempts that need it."""
        from trainshed.engines.supervise.helpers.preparer import Preparer  # noqa: PLC0415 - see above

        preparer = Preparer(self._loop, self.children, self.output.note, self._descriptors)
        box = len(self.spec.replicas)  # the replicas have the boxes with lower numbers
        enter = partial(self._enter_builder, box, os.getpid())
        preparer.start(argv, self._folder.path, self.spec.mark, self._folder.work, enter)
        return preparer

    def _enter_builder(self, box: int, parent: int) -> None:
        """Move a fork into the box and the network in which packages are built.

        The programs that build packages can connect to the same hosts as the replicas.
        """
        self._tree.enter(box)
        if self._network is not None:
            self._network.enter_hub()
            processes.die_with_parent(parent)  # the kernel clears it on entering a user namespace

    def _complete_spec(self, answer: Mapping[str, Any]) -> bool:
        """Complete the spec and go on, unless the attempt is to end."""
        if self._order is None and self._end is None:
            try:
                self.spec = self._complete(self.spec, self._folder, answer)
            except ValueError as error:
                self._end = end_with_fault(f"cannot read the preparer's answer: {error!r}")
            except OSError as error:
                fault = f"cannot complete the replica on {name_node()}: {error}"
                self._end = end_with_fault(fault)._replace(lost=True)  # the machine's fault
        return self._go_to(self._start_replicas)

    def _start_replicas(self) -> bool:
        """Start all replicas; after a fault or an order to stop, end the attempt instead."""
        if self._order is not None:
            message = self._order.message or STOPPED_EARLY.message
            self._end = Ended(STOPPED_EARLY._replace(message=message))
        if self._end is not None:
            return self._tear_down(Order(0.0, OVER))
        self.watching = Watching(
            self._loop,
            self._folder,
            self.spec,
            replicas=self.replicas,
            facts=self._facts,
            note=self.output.note,
        )
        self.replicas.start(self.spec.replicas, self._folder)
        self.output.get_ready()
        return self._go_to(self._await_start)

    def _await_start(self) -> bool:
        """Wait until every replica has started, and record that."""
        if self.replicas.fault is not None:
            self._end = self._end_with(self.replicas.fault, self.replicas.is_worth_another_try)
            return self._tear_down(Order(0.0, OVER))
        if self.replicas.have_started:
            self._facts.write(Ready(task_names(self.spec.replicas)))
            if self.watching is not None:
                self.watching.begin()
            return self._go_to(self._await_job_end)
        return self._order is not None and self._go_to(self._record_outcome)

    def _await_job_end(self) -> bool:
        """Wait until the exits of replicas decide the job."""
        self._job_end = self._job_end or self._judge.job_end(self.spec)
        if self._job_end is None:
            return self.replicas.lost is not None and self._lose(self.replicas.lost)
        self._settle_until_s = self._loop.now() + settle_s(self.spec, self._job_end)
        self._loop.at(self._settle_until_s, _do_nothing)
        return self._go_to(self._await_last_exits)

    def _lose(self, why: str) -> bool:
        """Stop all replicas because the exit of one is unknown; the attempt counts as lost."""
        self._end = self._end_with(why, is_lost=True)
        self.output.note(f"{why[0].upper()}{why[1:]}.", "WARNING")
        return self._go_to(self._record_outcome)

    def _end_with(self, why: str, is_lost: bool) -> Ended:  # noqa: FBT001 - as the field has it
        """Return the end after a fault of the replicas, with the nodes that caused a loss."""
        nodes, reached = self.replicas.lost_nodes, self.replicas.reached_nodes
        return end_with_fault(why)._replace(lost=is_lost, nodes=nodes, reached=reached)

    def _await_last_exits(self) -> bool:
        """Wait, for a limited time, for the replicas that end by themselves."""
        is_over = have_settled(self.spec, self.replicas) or self._loop.now() >= self._settle_until_s
        return (is_over or self._order is not None) and self._go_to(self._record_outcome)

    def _record_outcome(self) -> bool:
        """Record the outcome before the supervisor ends any process.

        So a crash during the teardown cannot lose the outcome.  If the disk is full, wait until the
        record is written.  After an order to stop, do not wait: the replicas may fill the disk.
        """
        if self._end is None and self._job_end is not None:
            for warning in uri_folders.list_warnings(self.spec):
                self.output.note(warning, "WARNING")
            outcome = self._judge.outcome(self.spec, self._job_end)
            self._end = Ended(outcome)
            decided = Decided(
                outcome.exit_code, outcome.message, outcome.last_words, outcome.interrupted
            )
            self._facts.write(decided, durably=True)
        if not self._facts.are_written and self._order is None:
            return False
        over = Order(self.spec.grace_s, OVER, "The job is over.")
        return self._tear_down(self._order or over)

    def _await_no_processes(self) -> bool:
        """Wait until no process of the attempt lives and the log has all their output."""
        self.children.reap()
        if self._network is not None:
            self._network.close_when_alone()
        if self.children.any_left or self._tree.living() or not self._ending.may_close:
            self._loop.after(_LOOK_S, _do_nothing)
            return False
        self._ending.close()
        room.release(self._folder.spare)
        return self.output.finish() and self._go_to(self._run_cleanup)

    def _run_cleanup(self) -> bool:
        """Run the programs that remove containers and wait for free devices."""
        if not self._cleanup.advance(self.spec):
            return False
        self.children.reap()
        if self.children.any_left:  # the cleanup programs have left processes
            self._tree.kill()
            self._loop.after(_LOOK_S, _do_nothing)
            return False
        return self._go_to(self._sync_log)

    def _sync_log(self) -> bool:
        """Sync the log to disk, unlock devices, and set ``ended``."""
        is_read = self.watching is None or self.watching.close()
        if not (is_read and self.output.deliver() and self._log.sync()):
            self._loop.after(_RETRY_S, _do_nothing)
            return False
        for descriptor in self._locks:
            os.close(descriptor)
        end = self._end or end_with_fault("the attempt ended without an outcome")
        if end.lost and self.replicas.out_of_memory:
            end = end_without_memory(end.outcome.message, self.replicas.out_of_memory)
        exits = exits_in_order(self.replicas.exits)
        self.ended = end._replace(outcome=end.outcome._replace(replicas=exits))
        return False

    def _go_to(self, step: Callable[[], bool]) -> bool:
        """Make ``step`` the next step; return True, so that ``advance`` performs it at once."""
        self._step = step
        return True

    def _tear_down(self, order: Order) -> bool:
        """Begin to end all processes of the attempt."""
        if self.watching is not None:
            self.watching.stop()
        if self._network is not None:
            # killing the replicas may kill slirp4netns too
            self._network.way_out.is_ending = True
        self._ending.begin(order)
        return self._go_to(self._await_no_processes)

    def _note_output(self, index: int) -> None:
        if self.watching is not None:
            self.watching.wrote(index)


def complete_from_answer(
    spec: AttemptSpec, _folder: AttemptFolder, answer: Mapping[str, Any]
) -> AttemptSpec:
    """Complete a spec on this machine (``Completer``); without a preparer, it is complete."""
    return spec if spec.prepare is None else spec.completed(answer)


def _do_nothing() -> None:
    """Wake the loop: the supervisor calls ``advance`` after each turn of the loop."""
