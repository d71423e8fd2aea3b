"""The process of one attempt: takes its folder, runs its plan, and tells what came of it.

It is started by the engine and outlives the server.  Whatever happens to the server, there is one
runner an attempt: the first to lock the folder and to write down that it began.

Imports are few on purpose: from here to a job's first line is the time that its user waits.
"""

import errno
import os
import signal
import sys
import time
from pathlib import Path

from trainshed.engines.base import Outcome
from trainshed.engines.local import identity, plan_file, records, verdict
from trainshed.engines.local.attempt_folder import AttemptFolder, sync_folder
from trainshed.engines.local.attendant import Attendant
from trainshed.engines.local.interrupts import ENDING
from trainshed.engines.local.nvml import devices
from trainshed.engines.local.plan_file import Errand
from trainshed.engines.local.records import Began, Decided, Ended, Known, Ready
from trainshed.engines.local.run import run
from trainshed.engines.local.segments import SegmentSink, last_stamp
from trainshed.model.faults import EngineFault

_GRACE_S = 10.0
_RETRY_S = 1.0
_NO_ROOM = frozenset({errno.ENOSPC, errno.EDQUOT})

#: What a job ends with that was to stop before it began.
STOPPED = verdict.interrupted(signal.SIGTERM).exit_code


def main() -> int:
    """Run the attempt whose folder is the only argument, unless somebody has begun it already.

    Signals wait until they can be understood: the order to stop must not kill the one who writes
    down that the attempt has ended.
    """
    signal.pthread_sigmask(signal.SIG_BLOCK, ENDING)
    folder = AttemptFolder(Path(sys.argv[1]))
    if folder.hold() is None:  # held as long as this process or its supervisor lives
        return 0
    known = Known()
    known.read(folder.records)
    order = folder.stop_order()
    if known.began is not None or (order is not None and order.lost):
        return 0  # somebody was quicker, or has given this attempt up
    records.append(folder.records, identity.myself(), durably=False)
    _tell(folder, _ended(folder))
    return 0


def _ended(folder: AttemptFolder) -> Ended:
    if folder.stop_order() is not None:
        return Ended(outcome=stopped_early())
    try:
        errand = plan_file.read(folder.plan)
        outcome = _perform(folder, errand)
    except EngineFault as fault:
        return _failed(str(fault))
    except Exception as error:  # noqa: BLE001 - whatever it is, somebody waits to be told
        sys.excepthook(*sys.exc_info())
        return _failed(f"the local engine failed: {type(error).__name__}: {error}")
    return Ended(outcome=outcome)


def stopped_early() -> Outcome:
    """The outcome of an attempt that was to stop before it began."""
    return Outcome(exit_code=STOPPED, replicas=(), message="stopped before it was started")


def _failed(message: str) -> Ended:
    return Ended(outcome=Outcome(exit_code=1, replicas=(), message=message), fault=message)


def _perform(folder: AttemptFolder, errand: Errand) -> Outcome:
    sink = SegmentSink(folder.log, after_ns=last_stamp(folder.path.parent))
    sync_folder(folder.log)
    folder.work.mkdir(exist_ok=True)
    os.chdir(folder.work)
    try:
        return run(
            errand.plan,
            sink=sink,
            grace_s=_GRACE_S,
            cache_dir=Path(errand.cache_dir) if errand.cache_dir else None,
            find_gpus=devices if errand.uses_gpus else tuple,
            lone_takes_all=False,
            attendant=_Recorder(folder, sink, errand),
        )
    finally:
        sink.close()


class _Recorder(Attendant):
    """Writes down what a server will ask for, and obeys the order to stop."""

    def __init__(self, folder: AttemptFolder, sink: SegmentSink, errand: Errand) -> None:
        self._folder = folder
        self._sink = sink
        self._task_names = tuple(replica.task_name for replica in errand.plan.replicas)

    def ready(self) -> None:
        self._append(Ready(task_names=self._task_names), durably=False)

    def decided(self, exit_code: int, message: str) -> None:
        self._append(Decided(exit_code=exit_code, message=message), durably=True)

    def caught_up(self) -> None:
        self._sink.flush()

    def stop_asked(self, signum: signal.Signals, grace_s: float) -> tuple[float, str]:
        order = self._folder.stop_order()
        if order is None:  # the machine goes down, or an administrator has sent it
            return grace_s, f"{signum.name}: stopping all replicas"
        return order.grace_s, f"Stopping all replicas; they have {order.grace_s:g} s to end."

    def kills_when_asked_again(self) -> bool:
        """An engine may repeat its order; only one that leaves no time means now."""
        order = self._folder.stop_order()
        return order is not None and order.grace_s <= 0

    def _append(self, record: Began | Ready | Decided, *, durably: bool) -> None:
        try:
            records.append(self._folder.records, record, durably=durably)
        except OSError as error:  # the end will be told in any case
            sys.stderr.write(f"cannot write {self._folder.records}: {error}\n")


def _tell(folder: AttemptFolder, ended: Ended) -> None:
    """Have the end on disk.  A full disk is waited for: an end that nobody knows of is a restart.

    Raises OSError of any other kind.
    """
    while True:
        try:
            records.append(folder.records, ended, durably=True)
        except OSError as error:
            if error.errno not in _NO_ROOM:
                raise
            time.sleep(_RETRY_S)
        else:
            break
    sync_folder(folder.path)


if __name__ == "__main__":
    sys.exit(main())
