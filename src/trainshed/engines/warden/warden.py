"""The warden: owns one replica on a node, until the replica and all its processes have ended.

A warden obeys only its launcher.  If the launcher ends, or the step that started the warden ends,
the warden kills its processes and exits, so that no program runs without a launcher.
"""

import os
import select
import signal
import sys
import time
from _socket import gethostname, socket  # see protocol
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial
from typing import Any, Final

from trainshed.engines.processes import tree
from trainshed.engines.supervise.ending import Teardown
from trainshed.engines.supervise.kernel.kill import WITHOUT_BOXES, ProcessTree, open_process_tree
from trainshed.engines.supervise.kernel.limits import START_USAGE, Usage
from trainshed.engines.supervise.kernel.signals import ENDING, wake_on_signals
from trainshed.engines.supervise.kernel.spawn import raise_descriptor_limit
from trainshed.engines.supervise.loop import Children, Loop
from trainshed.engines.supervise.record.folder import (
    NODE,
    AttemptFolder,
    Order,
    name_node,
    write_json,
)
from trainshed.engines.supervise.record.spec import ReplicaSpec
from trainshed.engines.supervise.replicas import Replicas
from trainshed.engines.warden import program_files, protocol
from trainshed.engines.warden.beats import Beat, compose_beat
from trainshed.engines.warden.below_reaper import WardenProcess
from trainshed.engines.warden.completion import NodePython, complete_replica, compose_interpreter
from trainshed.engines.warden.dialing import DIAL_S, dial, remove_secret
from trainshed.engines.warden.duties import Duty, WardenFacts, list_due
from trainshed.engines.warden.exit_status import FAILED, WardenEnd, choose_status
from trainshed.engines.warden.forward import Forward
from trainshed.engines.warden.ports import PortReservation
from trainshed.engines.warden.protocol import Channel
from trainshed.engines.warden.repeat import write_error
from trainshed.files.trees import remove_tree
from trainshed.model.codec import decode, encode
from trainshed.model.exit_status import SIGNAL_BASE

_LOOK_S: Final = 0.1
_LOOK_FOR_PARENT_S: Final = 2.0
#: Seconds without a message after which the warden ends.  This is long, because the launcher may
#: wait for a file system; the kernel detects a lost machine earlier.
_LAUNCHER_SILENT_S: Final = 900.0
#: Seconds in which the launcher must send an order after a signal of the cluster to end.
_ANSWER_S: Final = 5.0
_RETRY_S: Final = 1.0
_WAKE_BYTES: Final = 4096
_PRIVATE_FOLDER: Final = 0o700
#: The umask of programs in containers: their group is the server's, which uses the same buckets.
_SHARED_WITH_GROUP: Final = 0o002
_MAINTENANCE, _OVER = "maintenance", "end"
#: Seconds in which the reader of repeated output may read its end.
_LAST_OUTPUT_S: Final = 0.5


def main(index: int, process: WardenProcess, dial_s: float | None = None) -> int:
    """Run the replica with this index in the plan; return the exit status.

    ``dial_s`` is the time, in seconds, within which the launcher must answer; None: the default.
    """
    devnull = os.open(os.devnull, os.O_RDONLY)
    os.dup2(devnull, 0)
    tree.adopt_orphans(True)
    wake = wake_on_signals()
    try:
        connection = dial(os.environ, DIAL_S if dial_s is None else dial_s, partial(_pause, wake))
    except _Terminated as end:
        return SIGNAL_BASE + end.signum
    except (OSError, KeyError, ValueError) as error:
        write_error(f"{name_node()}: {error}")
        return FAILED
    remove_secret(os.environ)
    return _Warden(index, connection, wake, process).run()


class _Terminated(Exception):
    """The cluster ends this process by a signal, before it has a launcher."""

    def __init__(self, signum: int) -> None:
        super().__init__(signum)
        self.signum = signum


def _pause(wake: int, seconds: float) -> None:
    """Wait for some seconds.  Raises _Terminated after a signal to end this process."""
    until_s = time.monotonic() + seconds
    while (remaining_s := until_s - time.monotonic()) > 0:
        if select.select([wake], [], [], remaining_s)[0]:
            signals = set(os.read(wake, _WAKE_BYTES)).intersection(ENDING)
            if signals:
                raise _Terminated(min(signals))


class _Parent:
    """The process that started the warden's reaper."""

    def __init__(self, process: WardenProcess) -> None:
        self._has_reaper = process.has_reaper
        self._own_parent = os.getppid()
        self._parent = process.parent

    @property
    def is_gone(self) -> bool:
        """Whether this process or the reaper has another parent than at the start."""
        if os.getppid() != self._own_parent:
            return True
        try:
            return self._has_reaper and tree.parent_of(self._own_parent) != self._parent
        except OSError:
            return True


class _Warden:
    def __init__(self, index: int, connection: socket, wake: int, process: WardenProcess) -> None:
        self._index = index
        self._wake = wake
        self._parent = _Parent(process)
        self._own_env = process.env
        self._switch = process.switch
        self._loop = Loop()
        self._children = Children()
        self._channel = Channel(
            self._loop,
            connection,
            protocol.LAUNCHER_FRAME_MAX,
            self._handle_frame,
            lambda why: self._kill_unattended(f"the launcher {why}"),
        )
        self._forward = Forward(self._loop, self._channel)
        self._descriptors = raise_descriptor_limit()
        self._ports = PortReservation()
        self._task: Mapping[str, Any] = {}
        self._folder = AttemptFolder(_make_private_folder())
        self._tree: ProcessTree | None = None
        self._replicas: Replicas | None = None
        self._teardown: Teardown | None = None
        self._preparer: Any = None
        self._node_python = NodePython()
        self._locks: list[int] = []
        self._order: Order | None = None
        self._done_duties: set[Duty] = set()
        self._is_over = False
        self._is_dismissed = False
        self._is_success = False
        self._checks_without_message = 0
        self._sent_ns: int | None = None
        self._start_s = self._loop.now()
        self._due_files = program_files.DueFiles(self._start_s)
        self._handlers: Mapping[str, Callable[[Mapping[str, Any]], object]] = {
            "take": self._take,
            "start": self._start,
            "stop": lambda message: self._stop(Order(**message["order"])),
            "kill": lambda _: self._kill(),
            "look": lambda _: self._look(),
            "ping": lambda _: self._beat(),
            "leave": self._leave_when_dismissed,
        }
        self._duties: Mapping[Duty, Callable[[Replicas], bool]] = {
            Duty.TELL_FAULT: self._tell_replica_fault,
            Duty.TELL_START: self._tell_start,
            Duty.TELL_EXIT: self._tell_exit,
            Duty.TELL_EMPTY: self._tell_empty,
            Duty.LEAVE: lambda _: self._leave(),
        }
        self._loop.on_readable(wake, self._handle_signals)

    def run(self) -> int:
        """Obey the launcher until all is over; return the exit status."""
        host, node = gethostname(), os.environ.get(NODE, "")
        self._channel.say(
            {"is": "here", "index": self._index, "host": host, "node": node, "pid": os.getpid()}
        )
        self._loop.after(_LOOK_FOR_PARENT_S, self._look_for_parent)
        try:
            while not self._is_over:
                self._loop.turn()
                self._advance()
        except Exception:  # noqa: BLE001 - after any error, no process may live on
            sys.excepthook(*sys.exc_info())
            return FAILED  # the reaper kills the remaining processes
        finally:
            with suppress(OSError):
                remove_tree(self._folder.path)
        return self._end()

    def _end(self) -> int:
        """Close the connection, write the last repeated output, and return the exit status."""
        self._channel.close()
        if self._task and not self._task["in_container"]:
            return 0  # the cluster would count the status of a step, not that of the launcher
        self._forward.finish_repeating(_LAST_OUTPUT_S)
        exits = {} if self._replicas is None else self._replicas.exits
        return choose_status(WardenEnd(exits.get(0), self._is_dismissed, self._is_success))

    def _handle_frame(self, kind: int, data: bytes) -> None:
        self._checks_without_message = 0
        message = protocol.parse_message(kind, data)
        self._handlers[message["do"]](message)

    def _take(self, message: Mapping[str, Any]) -> None:
        """Prepare this node for the replica: open its process tree and install its packages."""
        self._task = message
        if message["in_container"]:
            self._forward.repeat()
        else:
            self._switch.turn_off()
        os.mkdir(self._folder.shared, _PRIVATE_FOLDER)
        name = f"{message['uid']}-{message['attempt']}"
        mark = f"{message['uid']}/{message['attempt']}"
        self._tree = open_process_tree(name, 1, mark=mark, allow=WITHOUT_BOXES)
        self._replicas = Replicas(
            self._loop, self._children, self._forward, self._tree, self._descriptors
        )
        self._teardown = Teardown(self._loop, self._folder, self._replicas, self._forward.note)
        if message["packages"]:
            self._prepare(message, mark)
        else:
            self._tell_prepared()

    def _prepare(self, message: Mapping[str, Any], mark: str) -> None:
        from trainshed.engines.supervise.helpers.preparer import Preparer  # noqa: PLC0415 - few need it

        request = f"{self._folder.path}/packages.json"
        names = ("packages", "cache", "package_bytes_max", "relax_pins")
        write_json(request, {name: message[name] for name in names})
        self._preparer = Preparer(self._loop, self._children, self._forward.note, self._descriptors)
        argv = (*compose_interpreter(), "-I", "-S", os.path.abspath(sys.argv[0]), "prepare")
        self._preparer.start(argv, request, mark, self._folder.path, lambda: None)

    def _finish_prepare(self) -> None:
        preparer, self._preparer = self._preparer, None
        self._locks = preparer.locks
        answer, fault = preparer.read_answer()
        if answer is None:
            self._tell_fault(fault, passes=preparer.is_worth_another_try)
            return
        self._node_python = NodePython(str(answer["python"]), tuple(answer["entries"]))
        self._tell_prepared()

    def _tell_prepared(self) -> None:
        try:
            ports = [self._ports.take(count) for count in self._task["ports"]]
        except OSError as error:
            self._tell_fault(f"{name_node()}: {error}", passes=True)
            return
        self._channel.say({"is": "prepared", "ports": ports})

    def _tell_fault(self, why: str, *, passes: bool) -> None:
        self._channel.say({"is": "fault", "why": why, "passes": passes})

    def _start(self, message: Mapping[str, Any]) -> None:
        if self._replicas is None or self._order is not None:
            return
        replica = self._complete(decode(ReplicaSpec, message["replica"]))
        if self._task["in_container"]:
            os.umask(_SHARED_WITH_GROUP)
        self._ports.release()
        self._start_s = self._loop.now()
        self._replicas.start((replica,), self._folder)
        if self._task["has_gpus"]:
            self._start_gpu_helper(self._replicas)

    def _start_gpu_helper(self, replicas: Replicas) -> None:
        from trainshed.engines.warden import gpu_helper  # noqa: PLC0415 - few replicas have GPUs

        mark = f"{self._task['uid']}/{self._task['attempt']}"
        replicas.gpu_file = gpu_helper.start_helper(
            self._loop,
            self._children,
            self._descriptors,
            note=self._forward.note,
            mark=mark,
            folder=self._folder,
        )

    def _complete(self, replica: ReplicaSpec) -> ReplicaSpec:
        """Add the variables, the interpreter and the packages of this node."""
        node = self._own_env if self._task["in_container"] else os.environ
        return complete_replica(replica, self._task, node, self._folder, self._node_python)

    def _stop(self, order: Order) -> None:
        """Obey a stop order, unless an earlier order has the same or a shorter grace period.

        A warden without a replica and without a launcher exits at once.
        """
        new_order = order.after(self._order)
        if new_order is None:
            return
        self._order = new_order
        if self._preparer is not None:
            self._preparer.stop(new_order.grace_s)
        if self._teardown is not None:
            self._teardown.begin(new_order)
        else:
            self._is_over = not self._channel.is_open

    def _kill(self) -> None:
        self._stop(Order(0.0, _OVER))
        if self._replicas is not None:
            self._replicas.kill()

    def _look(self) -> None:
        def send_stacks(text: str) -> None:
            self._channel.say({"is": "stacks", "text": text})

        if self._replicas is None or not self._replicas.read_stacks(0, send_stacks):
            send_stacks("")

    def _beat(self, usage: Usage | None = None) -> None:
        """Send the usage of the replica, and the progress that its program has reported.

        The first beat is sent with the start, and the last one with the exit.  None: measure the
        usage now.
        """
        beat = Beat()
        if self._replicas is not None and Duty.TELL_EXIT not in self._done_duties:
            progress_ns = program_files.read_beat_ns(self._folder, self._task["task_name"])
            report = None if progress_ns == self._sent_ns else self._replicas.read_report(0)
            self._sent_ns = progress_ns
            gpus = self._replicas.read_gpus(time.time())
            usage, files = usage or self._replicas.usage(0), self._read_files()
            beat = Beat(usage, progress_ns, report, gpus, files)
        self._channel.say(compose_beat(beat))

    def _read_files(self) -> Mapping[str, str]:
        """Return the files of the program that are due, if the launcher cannot read them."""
        if self._task["folder"]:
            return {}
        return self._due_files.read(self._folder, self._task["task_name"], self._loop.now())

    def _leave_when_dismissed(self, message: Mapping[str, Any]) -> None:
        self._is_dismissed = True
        self._is_success = bool(message.get("is_success"))
        self._leave()

    def _leave(self) -> bool:
        self._is_over = True
        return True

    def _kill_unattended(self, why: str) -> None:
        """Kill the replica and exit, because the launcher or the step of this warden has ended."""
        write_error(f"{name_node()}: killing all processes of the replica: {why}")
        self._kill()

    def _handle_signals(self) -> None:
        signals = set(os.read(self._wake, _WAKE_BYTES))
        self._children.reap()
        ending = signals.intersection(ENDING)
        if ending and self._order is None:
            self._channel.say({"is": "ending", "signal": signal.Signals(min(ending)).name})
            self._loop.after(_ANSWER_S, self._end_unanswered)

    def _end_unanswered(self) -> None:
        """Stop the replica if the launcher has not sent an order in time."""
        if self._order is None:
            self._stop(Order(float(self._task.get("grace_s", 0.0)), _MAINTENANCE))

    def _look_for_parent(self) -> None:
        self._checks_without_message += 1
        is_silent = self._checks_without_message * _LOOK_FOR_PARENT_S > _LAUNCHER_SILENT_S
        if self._channel.is_open and (self._parent.is_gone or is_silent):
            self._channel.close()
            self._kill_unattended(
                f"the launcher sent no message for {_LAUNCHER_SILENT_S:g} s"
                if is_silent
                else "the step that started this warden has ended"
            )
        self._loop.after(_LOOK_FOR_PARENT_S, self._look_for_parent)

    def _advance(self) -> None:
        if self._preparer is not None and self._preparer.has_ended:
            self._finish_prepare()
        replicas = self._replicas
        if replicas is None:
            return
        for duty in list_due(partial(self._collect_facts, replicas), self._done_duties):
            if self._duties[duty](replicas):
                self._done_duties.add(duty)

    def _collect_facts(self, replicas: Replicas) -> WardenFacts:
        return WardenFacts(
            has_fault=replicas.fault is not None,
            has_started=replicas.have_started,
            has_exited=0 in replicas.exits,
            is_ordered=self._order is not None,
            has_launcher=self._channel.is_open,
        )

    def _tell_replica_fault(self, replicas: Replicas) -> bool:
        self._tell_fault(replicas.fault or "", passes=replicas.is_worth_another_try)
        return True

    def _tell_start(self, replicas: Replicas) -> bool:
        # a program may have ended by now: what it has used is counted from its start on
        self._beat(START_USAGE._replace(at_s=self._start_s))
        self._channel.say({"is": "started", "pid": replicas.living.get(0, 0)})
        return True

    def _tell_exit(self, replicas: Replicas) -> bool:
        """Report the exit, and write it to a file in case the launcher gets no message.

        A warden that cannot write to the attempt's folder sends the files of the program instead.
        """
        self._forward.drain()
        self._beat()
        task_name = self._task["task_name"]
        record = {"exit": encode(replicas.exits[0]), "how": replicas.end_words(task_name)}
        if self._task["folder"]:
            self._write_exit(record)
        else:
            record["files"] = program_files.read_texts(self._folder, task_name)
        self._channel.say({"is": "exit", **record})
        return True

    def _write_exit(self, record: Mapping[str, Any]) -> None:
        path = protocol.exit_path(self._task["folder"], self._task["task_name"])
        try:
            write_json(path, record, durably=True)
        except OSError:
            if Duty.TELL_EMPTY not in self._done_duties:
                self._loop.after(_RETRY_S, partial(self._write_exit, record))

    def _tell_empty(self, _replicas: Replicas) -> bool:
        """Report, after all output, that no process is left; return False while a process lives."""
        self._children.reap()
        if self._children.any_left or (self._tree is not None and self._tree.living()):
            self._loop.after(_LOOK_S, lambda: None)
            return False
        if self._teardown is not None:
            self._teardown.close()
        self._forward.finish()
        self._channel.say({"is": "empty"})
        return True


def _make_private_folder() -> str:
    """Make the folder on the node's disk that the warden and the program share.  Raises OSError."""
    path = f"{os.environ.get('TMPDIR') or '/tmp'}/trainshed-{os.urandom(8).hex()}"  # noqa: S108
    os.mkdir(path, _PRIVATE_FOLDER)
    return path
