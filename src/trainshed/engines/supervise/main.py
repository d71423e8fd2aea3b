"""The supervisor: the process that owns one attempt, from its start to its last record.

The engine starts the supervisor, which continues to run after the end of the server.  An attempt
has only one supervisor: the first process that locks the folder and records the beginning.

The supervisor has one thread and few imports, because imports delay the job's first line and need
memory as long as the job runs.  It imports all modules before the replicas start or right after
that.  Later, an upgrade of Trainshed may have replaced the files of the modules.
"""

import os
import signal
import sys
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from trainshed.engines.processes import identity
from trainshed.engines.processes.identity import Identity
from trainshed.engines.supervise.attempt import Attempt, LauncherFunctions
from trainshed.engines.supervise.judging import STOPPED_EARLY, end_with_fault
from trainshed.engines.supervise.kernel import kill
from trainshed.engines.supervise.kernel.kill import ProcessTree, open_process_tree
from trainshed.engines.supervise.kernel.reaper import fork_below_reaper
from trainshed.engines.supervise.kernel.signals import (
    ENDING,
    LOOK,
    close_inherited,
    wake_on_signals,
)
from trainshed.engines.supervise.kernel.spawn import raise_descriptor_limit
from trainshed.engines.supervise.loop import Loop
from trainshed.engines.supervise.record import spec as specs
from trainshed.engines.supervise.record.facts import Facts
from trainshed.engines.supervise.record.folder import (
    ENDS_PROCESSES,
    TIME_IS_OVER,
    AttemptFolder,
    Order,
    name_node,
    read_file,
    sync_folder,
)
from trainshed.engines.supervise.record.records import Began, Ended, decode_all
from trainshed.engines.supervise.record.segments import (
    FOREGROUND_TEXT_LENGTH_MAX,
    FOREGROUND_UNREAD_MAX,
    TEXT_LENGTH_MAX,
    SegmentWriter,
    last_stamp,
)
from trainshed.engines.supervise.record.spec import AttemptSpec
from trainshed.engines.supervise.record.tether import OrderChannel, is_tethered, remove_folder
from trainshed.engines.supervise.short_tmp import keep_short_name, remove_short_name
from trainshed.files import room
from trainshed.files.beneath import PathBeneath

if TYPE_CHECKING:
    from trainshed.engines.supervise.control import Control

#: Seconds between two reads of the order file, in case no message announces an order.
_LOOK_S: Final = 2.0
#: Seconds between two updates of the time of the link in ``/tmp`` (``short_tmp``): programs that
#: clean ``/tmp`` remove old files.
_KEEP_S: Final = 43_200.0
_WAKE_BYTES: Final = 4096
_POLL_S: Final = 0.01
_PRIVATE_FOLDER: Final = 0o700
#: Disk space reserved for the last lines and the end of an attempt, if programs fill the disk.
_SPARE_BYTES: Final = 1 << 18
#: Values of ``model.stopping.StopReason``.
_MAINTENANCE, _OVER, _TIMEOUT = "maintenance", "end", "timeout"


def main(path: str, launcher: LauncherFunctions | None = None) -> int:
    """Run the attempt of a folder, unless it has already begun; or run the fork server.

    ``path`` is the folder; or ``specs.SUPERVISOR``, if the variable ``specs.FOLDER`` names the
    folder; or ``specs.FORK_SERVER``.  ``launcher``: this process is the launcher of a cluster.
    """
    close_inherited()
    if path == specs.SUPERVISOR:
        path = os.environ.pop(specs.FOLDER)
    if path == specs.FORK_SERVER:
        from trainshed.engines.supervise.helpers import fork_server  # noqa: PLC0415 - imports much

        return fork_server.serve(main)
    has_reaper = launcher is None and not is_tethered() and not kill.find_box_strategy()
    reaper_pid = fork_below_reaper() if has_reaper else 0
    reaper = identity.find_identity(reaper_pid) if reaper_pid else None
    wake = wake_on_signals()
    folder = AttemptFolder(path)
    lock = folder.hold()
    if lock is None or _has_begun(folder):
        return 0
    order = folder.stop_order()
    if order is not None and order.lost:
        os.ftruncate(lock, 0)  # the server gave up the attempt: erase the id of this supervisor
        return 0
    _Supervisor(folder, lock, wake, reaper, launcher).run()
    return 0


class _Supervisor:
    def __init__(
        self,
        folder: AttemptFolder,
        lock: int,
        wake: int,
        reaper: Identity | None,
        launcher: LauncherFunctions | None,
    ) -> None:
        self._folder = folder
        self._launcher = launcher
        self._actor = "the local engine" if launcher is None else "the launcher"
        self._reaper = reaper
        self._lock = lock
        self._loop = Loop()
        self._facts = Facts(self._loop, folder.records, folder.spare)
        self._wake = wake
        self._tree: ProcessTree | None = None
        self._attempt: Attempt | None = None
        self._tether: OrderChannel | None = None
        self._loop.on_readable(wake, self._handle_signals)

    def run(self) -> None:
        """Run the attempt and record its end, unless the server has given the attempt up."""
        ended: Ended | None
        try:
            ended = self._run_attempt()
        except Exception as error:  # noqa: BLE001 - the server waits for a recorded end
            sys.excepthook(*sys.exc_info())
            self._end_everything()
            why = f"{self._actor} failed: {type(error).__name__}: {error}"
            ended = end_with_fault(why)._replace(lost=True)  # the job is not at fault
        remove_short_name(self._folder.tmp)
        if ended is not None:
            self._facts.write(ended, durably=True)
            self._wait_until_written()
            sync_folder(self._folder.path)
        room.release(self._folder.spare)
        if self._tree is not None:
            self._tree.remove()
        if self._tether is not None and self._tether.is_cut:
            remove_folder(self._folder)

    def _run_attempt(self) -> Ended | None:
        """Return the end of the attempt.

        None: the server has given the attempt up, or its folder was removed.
        """
        spec, fault = _read_spec(self._folder, self._actor)
        if spec is not None:
            self._tree = _open_tree(spec)
        places = {} if self._tree is None else self._tree.places
        if self._reaper is not None:
            places["reaper"] = [*self._reaper]
        self._facts.write(Began(*identity.read_own_identity(), places=places))
        self._wait_until_written()
        room.hold(self._folder.spare, _SPARE_BYTES)
        # read it after the record: a server first writes an order, then looks for the record
        order = self._folder.stop_order()
        if order is not None:
            return None if order.lost else Ended(STOPPED_EARLY)
        if spec is None or self._tree is None:
            return end_with_fault(fault)
        return self._perform(spec, self._tree)

    def _perform(self, spec: AttemptSpec, tree: ProcessTree) -> Ended | None:
        """Run the attempt until its end; None: its folder was removed before that."""
        log = SegmentWriter(
            self._folder.log,
            after_ns=last_stamp(self._folder.job),
            text_length_max=FOREGROUND_TEXT_LENGTH_MAX if is_tethered() else TEXT_LENGTH_MAX,
            unread_max=FOREGROUND_UNREAD_MAX if is_tethered() else None,
            bytes_max=spec.log.bytes_kept,
            leaves_room=not is_tethered(),
        )
        _make_folders(self._folder)
        attempt = self._attempt = Attempt(
            self._loop,
            self._folder,
            spec,
            facts=self._facts,
            tree=tree,
            log=log,
            descriptors=raise_descriptor_limit(),
            launcher=self._launcher,
        )
        for note in (*spec.notes, *tree.remarks):
            attempt.output.note(note)
        for warning in spec.warnings:
            attempt.output.note(warning, "WARNING")
        if is_tethered():
            self._tether = OrderChannel(self._loop, attempt.obey, log.forget_reader)
        self._advance(attempt)
        has_socket = self._tether is None and self._launcher is None
        control = self._open_control(attempt) if has_socket else None
        self._limit_time(attempt)
        self._poll_order_file()
        self._loop.after(_KEEP_S, self._keep_short_name)
        while attempt.ended is None and not (attempt.is_empty and self._is_removed()):
            self._loop.turn()
            self._advance(attempt)
        if control is not None:
            control.close()
        log.close()
        return attempt.ended

    def _advance(self, attempt: Attempt) -> None:
        attempt.advance()
        if self._tether is not None:
            self._tether.poke()

    def _limit_time(self, attempt: Attempt) -> None:
        """Stop an attempt on a cluster at its time limit, even if no server runs then."""
        rule = attempt.spec.remote
        if rule is not None and rule.ends_s is not None:
            message = f"{TIME_IS_OVER} for {rule.ends_s:.12g} s{rule.ends_why}"
            order = Order(attempt.spec.grace_s, _TIMEOUT, message)
            self._loop.after(rule.ends_s, lambda: attempt.obey(order, f"Time limit: {message}"))

    def _open_control(self, attempt: Attempt) -> "Control":
        """Open the control socket; import its module only now, after the start of the replicas."""
        from trainshed.engines.supervise.control import Control  # noqa: PLC0415 - see above

        return Control(self._loop, self._folder, attempt, self._obey_order_file)

    def _handle_signals(self) -> None:
        """Handle the received signals: a child has ended, or the attempt must stop."""
        try:
            signals = set(os.read(self._wake, _WAKE_BYTES))
        except BlockingIOError:
            return
        if self._attempt is not None:
            self._attempt.children.reap()
        ending = signals.intersection(ENDING)
        if ending:
            self._obey_order_file(signal.Signals(min(ending)))
        elif LOOK in signals:
            self._obey_order_file()

    def _obey_order_file(self, signum: signal.Signals | None = None) -> None:
        """Read the order file and obey the order to stop in it.

        ``signum`` is a received signal to end; without an order, it means that the machine shuts
        down.  If the folder was removed, stop the attempt too.
        """
        if self._attempt is None:
            return
        order = self._folder.find_order(is_expected=signum is not None)
        if order is not None:
            self._attempt.obey(order)
        elif signum is not None and self._tether is None:
            # in the foreground, the user's command handles signals instead
            order = _order_by_signal(self._attempt.spec)
            self._attempt.obey(order, f"{signum.name}: stopping all replicas")
        elif self._is_removed():
            why = "the attempt's folder was removed"
            self._attempt.obey(Order(self._attempt.spec.grace_s, _OVER, why))

    def _poll_order_file(self) -> None:
        self._obey_order_file()
        self._loop.after(_LOOK_S, self._poll_order_file)

    def _keep_short_name(self) -> None:
        keep_short_name(self._folder.tmp)
        self._loop.after(_KEEP_S, self._keep_short_name)

    def _wait_until_written(self) -> None:
        """Wait until the records are on disk, or their folder was removed."""
        while not self._facts.are_written and not self._is_removed():
            self._loop.turn()

    def _is_removed(self) -> bool:
        """Return whether the folder was removed, so that no process can read the records."""
        return not os.fstat(self._lock).st_nlink and not os.path.isdir(self._folder.path)

    def _end_everything(self) -> None:
        """Kill every process of the attempt, after an error in the supervisor itself."""
        while self._tree is not None:
            self._tree.kill()
            with suppress(ChildProcessError):
                while os.waitpid(-1, os.WNOHANG)[0]:
                    pass
            if not self._tree.living():
                return
            time.sleep(_POLL_S)


def _has_begun(folder: AttemptFolder) -> bool:
    """Return whether an earlier supervisor has recorded the beginning of the attempt."""
    try:
        records = decode_all(read_file(PathBeneath.of_file(folder.records)))
        return any(isinstance(record, Began) for record in records)
    except FileNotFoundError:
        return False


def _read_spec(folder: AttemptFolder, actor: str) -> tuple[AttemptSpec | None, str]:
    """Return the spec of the attempt, or None and the reason why it cannot be read."""
    try:
        return specs.read(folder.plan), ""
    except (OSError, ValueError) as error:
        return None, f"{actor} failed: {type(error).__name__}: {error}"


def _open_tree(spec: AttemptSpec) -> ProcessTree:
    """Open the process tree of the attempt, with a box for each replica and for the preparer."""
    limits = [replica.limits for replica in spec.replicas]
    if spec.prepare is not None:
        limits.append(limits[0])  # programs that build packages get the first replica's limits
    name = f"{spec.uid}-{spec.attempt}"
    if spec.remote is not None:  # the cluster makes the boxes
        return open_process_tree(name, 1, mark=spec.mark, allow=kill.WITHOUT_BOXES)
    return open_process_tree(name, len(limits), limits, mark=spec.mark)


def _order_by_signal(spec: AttemptSpec) -> Order:
    """Return the order that a signal to end means if the folder has no order.

    A launcher in a container, or with the only replica, gets the cluster's signal first; wardens
    that steps have started report it to their launcher.
    """
    gets_signal_first = spec.remote is not None and not spec.remote.steps
    message = f"{name_node()} {ENDS_PROCESSES}" if gets_signal_first else ""
    return Order(spec.grace_s, _MAINTENANCE, message)


def _make_folders(folder: AttemptFolder) -> None:
    """Make the folders of the replicas; ignore errors, which the programs will report."""
    for path in (folder.work, folder.shared):
        with suppress(OSError):
            os.mkdir(path, _PRIVATE_FOLDER)
