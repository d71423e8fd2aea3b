"""Runs one attempt in the foreground: the command waits for it, and the attempt ends with it.

The supervisor is the same program as for a server's attempts.  Its folder is a temporary one, and
the command reads the log in it while the supervisor writes.  A socket connects the two processes
(``supervise.record.tether``), so that no process of the attempt outlives the command.
"""

import json
import os
import select
import signal
import socket
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import replace
from typing import Final, NamedTuple, Protocol, runtime_checkable

from trainshed.engines.base import OutputSink, Stream
from trainshed.engines.container_runtime import Runtime
from trainshed.engines.local.attempts.log_tail import LogTail
from trainshed.engines.local.attempts.plan_file import Preparation
from trainshed.engines.local.attempts.start import AttemptStarter
from trainshed.engines.local.devices import find, gpus
from trainshed.engines.supervise.record.folder import AttemptFolder, Order
from trainshed.engines.supervise.record.observe import (
    AttemptRecords,
    compose_observation,
    steps_of,
    with_report,
)
from trainshed.engines.supervise.record.spec import HangRule
from trainshed.engines.supervise.record.tether import remove_folder
from trainshed.model import success
from trainshed.model.attempt import AttemptKey, Observation, Outcome, Phase
from trainshed.model.faults import EngineFault
from trainshed.model.launch_plan import LaunchPlan
from trainshed.model.log_line import SERVICE_TASK, LogLine
from trainshed.model.reduction_report import ReductionReport
from trainshed.model.step_times import StepTimes
from trainshed.model.success import JobEnd

GRACE_S: Final = 10.0
_ENDING: Final = frozenset({signal.SIGINT, signal.SIGTERM, signal.SIGHUP})
_PRIVATE_FOLDER: Final = 0o700
_UID_BYTES: Final = 7
_READ_BYTES: Final = 1 << 12
_PAUSE_S: Final = 0.01
#: The time between two calls of ``enough``, in milliseconds.
_CHECK_MS: Final = 500


def run(  # noqa: PLR0913 - what differs between machines and tests, each with its default
    plan: LaunchPlan,
    sink: OutputSink,
    *,
    cache_dir: str | None = None,
    runtime: Runtime | None = None,
    fake_gpus: int = 0,
    grace_s: float = GRACE_S,
    uid: int | None = None,
    enough: "Enough | None" = None,
) -> "Ran":
    """Run a job and return its end; the exit code is that of the primary replica.

    ``uid`` is the number of the job, a random one if None.  ``enough`` is called twice a second,
    and the job is stopped when it returns a reason.

    ``grace_s`` is the time from SIGTERM to SIGKILL.  SIGINT, SIGTERM and SIGHUP stop the job (exit
    code 128 + N), and a second signal kills it.  Outside of the main thread, signals keep their
    effect.  Raises EngineFault when a replica cannot be started, or packages cannot be installed.
    """
    devices = find.devices(fake_gpus)
    preparation = Preparation(
        plan=plan if devices else _remove_gpus(plan),
        cache_dir=cache_dir,
        runtime=runtime,
        fake_gpus=fake_gpus,
        takes_free=bool(devices) and (_asks_for_gpus(plan) or gpus.takes_all(plan.replicas)),
    )
    start = AttemptStarter(devices=devices, hang=HangRule(), grace_s=grace_s)
    with _open_signals() as signals:
        number = new_uid() if uid is None else uid
        return _Run(plan, sink, signals, grace_s, number, enough).follow(start, preparation)


def new_uid() -> int:
    """Return a random number for a job, which no other job has."""
    return int.from_bytes(os.urandom(_UID_BYTES))


@runtime_checkable
class Stamped(Protocol):
    """A sink that needs the time at which each line was read: lines reach the sink in batches."""

    def stamp(self, stamp_ns: int) -> None:
        """Take the time of the next line, in nanoseconds since 1970."""


class Ran(NamedTuple):
    """The end of a job, with the reports of its workers about reducers and steps."""

    outcome: Outcome
    reduction: ReductionReport | None
    steps: Mapping[str, StepTimes]
    """The step times by task name, of the replicas that have reported some."""


#: Returns why the job has run long enough, from the step times by task name; empty: continue.
Enough = Callable[[Mapping[str, StepTimes]], str]


class _Run:
    """One attempt, as the command in the foreground starts and follows it."""

    def __init__(  # noqa: PLR0913, PLR0917 - what run was given
        self,
        plan: LaunchPlan,
        sink: OutputSink,
        signals: int,
        grace_s: float,
        uid: int,
        enough: Enough | None,
    ) -> None:
        self._key = AttemptKey(uid, 1)
        self._folder = AttemptFolder(f"{_temporary_folder()}/trainshed-{uid}/{self._key}")
        self._replicas = {replica.task_name: replica for replica in plan.replicas}
        self._sink = sink
        self._stamped = sink if isinstance(sink, Stamped) else None
        self._signals = signals
        self._grace_s = grace_s
        self._enough = enough
        self._tail = LogTail(self._folder.log)
        self._tether, self._supervisor_end = socket.socketpair()
        self._records = AttemptRecords()
        self._pid: int | None = None
        self._stop: JobEnd | None = None
        self._has_enough = False
        self._sink_error: OSError | None = None

    def follow(self, start: AttemptStarter, preparation: Preparation) -> Ran:
        """Start the attempt, pass its output on, and wait for its end."""
        try:
            with self._tether:
                with self._supervisor_end:
                    self._pid = self._start(start, preparation)
                self._forward_output()
            self._wait_for_supervisor()
            return self._read_result(preparation)
        finally:
            self._tail.close()
            self._wait_for_supervisor()
            remove_folder(self._folder)

    def _start(self, start: AttemptStarter, preparation: Preparation) -> int:
        try:
            os.mkdir(os.path.dirname(self._folder.job), _PRIVATE_FOLDER)  # noqa: PTH102, PTH120 - folders of attempts are strings
            tether = self._supervisor_end.fileno()
            return start.begin(self._key, self._folder, preparation, tether).pid
        except OSError as error:
            raise EngineFault(f"cannot start the job: {error}") from error

    def _forward_output(self) -> None:
        """Pass output on until the supervisor has ended and all of its log was read."""
        poll = select.poll()
        poll.register(self._tether, select.POLLIN)
        if self._signals >= 0:
            poll.register(self._signals, select.POLLIN)
        is_over = has_more = False
        while has_more or not is_over:
            pause = None if self._enough is None else _CHECK_MS
            for descriptor, _ in poll.poll(0 if has_more or is_over else pause):
                if descriptor == self._signals:
                    self._on_signals()
                elif not is_over:
                    is_over = self._is_over()
            has_more = self._deliver()
            if self._enough is not None and not is_over:
                self._end_if_enough(self._enough)

    def _end_if_enough(self, enough: Enough) -> None:
        if self._stop is None and (why := enough(self._read_steps())):
            self._has_enough = True
            self._send_order(self._grace_s, success.interrupted(signal.SIGTERM, why))

    def _read_steps(self) -> dict[str, StepTimes]:
        steps = {name: steps_of(self._folder, name) for name in self._replicas}
        return {name: times for name, times in steps.items() if times is not None}

    def _is_over(self) -> bool:
        with suppress(ConnectionError):
            return not self._tether.recv(_READ_BYTES)
        return True

    def _deliver(self) -> bool:
        """Send some lines to the sink; return whether there may be more."""
        lines = self._tail.read()
        for line in lines:
            self._write_line(line)
        return bool(lines)

    def _write_line(self, line: LogLine) -> None:
        if self._sink_error is not None:
            return
        try:
            if line.task_name == SERVICE_TASK:
                self._sink.note(_add_severity(line))
            else:
                stream: Stream = "stderr" if line.stream == "stderr" else "stdout"
                if self._stamped:
                    self._stamped.stamp(line.stamp_ns)
                self._sink.line(self._replicas[line.task_name], line.text, stream)
        except OSError as error:
            self._sink_error = error
            self._send_order(self._grace_s, success.output_gone(error))

    def _on_signals(self) -> None:
        for number in os.read(self._signals, _READ_BYTES):
            if number not in _ENDING:
                continue
            self._records.read(self._folder.records)
            signum = signal.Signals(number)
            if self._has_enough:  # the signal decides the exit code from now on
                self._stop, self._has_enough = success.interrupted(signum), False
            if self._stop is not None or self._records.decided is not None:
                self._send_order(0.0, self._stop)
                continue
            words = f"{signum.name}: stopping all replicas; again to kill them at once"
            self._send_order(self._grace_s, success.interrupted(signum), words)

    def _send_order(self, grace_s: float, stop: JobEnd | None, words: str = "") -> None:
        self._stop = self._stop or stop
        order = Order(grace_s, message=success.message(stop) if stop else "")
        message = {"do": "stop", "order": order._asdict(), "words": words}
        with suppress(OSError):  # the supervisor has ended already
            self._tether.sendall(json.dumps(message).encode() + b"\n")

    def _read_result(self, preparation: Preparation) -> Ran:
        """Return the end of the job.  Raises EngineFault if the job could not run."""
        observation = self._observe_end(preparation)
        if observation.phase is Phase.LOST and self._records.began and not self._records.ended:
            raise EngineFault("the supervisor was killed, and all replicas too; run the job again")
        if observation.fault is not None or observation.outcome is None:
            no_record = "the supervisor did not record the end of the job; run the job again"
            raise EngineFault(observation.fault or no_record)
        outcome = observation.outcome
        if self._stop is not None and outcome.interrupted:
            message = success.message(self._stop)
            outcome = outcome._replace(exit_code=self._stop.exit_code, message=message)
        return Ran(outcome, observation.reduction, self._read_steps())

    def _observe_end(self, preparation: Preparation) -> Observation:
        """Read the end from the records; without a record, first kill leftover processes."""
        self._records.read(self._folder.records)
        if self._records.ended is not None:
            return with_report(compose_observation(self._key, self._records), self._folder)
        # rarely needed, and slow to import
        from trainshed.engines.local.attempts.attempt import TrackedAttempt  # noqa: PLC0415 - see above
        from trainshed.engines.local.attempts.sweep import Sweeper  # noqa: PLC0415 - see above

        attempt = TrackedAttempt(self._key, self._folder, self._records, was_ours=True)
        sweeper = Sweeper(preparation.runtime, os.environ)
        while (observation := attempt.observation(sweeper)).phase not in {Phase.ENDED, Phase.LOST}:
            time.sleep(_PAUSE_S)
        return observation

    def _wait_for_supervisor(self) -> None:
        """Wait until the supervisor has ended; its replicas end before it unless it is killed."""
        pid, self._pid = self._pid, None
        if pid is not None:
            with suppress(ChildProcessError):
                os.waitpid(pid, 0)


def _add_severity(line: LogLine) -> str:
    """Return a line of the service, with its severity in front if it is not INFO."""
    return line.text if line.severity == "INFO" else f"{line.severity}: {line.text}"


def _temporary_folder() -> str:
    """Return the temporary folder; importing ``tempfile`` takes longer than starting a job."""
    return os.environ.get("TMPDIR") or "/tmp"  # noqa: S108 - names there are private and random


def _asks_for_gpus(plan: LaunchPlan) -> bool:
    return any(replica.gpu_count for replica in plan.replicas)


def _remove_gpus(plan: LaunchPlan) -> LaunchPlan:
    """Return the plan for a machine without GPUs, with a warning that names the requested GPUs."""
    if not _asks_for_gpus(plan):
        return plan
    none = gpus.deal(plan.replicas, 0)
    shortage = gpus.shortage(plan.replicas, none, machine=0, free=0)
    replicas = tuple(replace(replica, gpu_count=0) for replica in plan.replicas)
    return replace(plan, replicas=replicas, warnings=(*plan.warnings, shortage))


@contextmanager
def _open_signals() -> Iterator[int]:
    """Yield a descriptor from which to read the numbers of SIGINT, SIGTERM and SIGHUP.

    In the block these signals have no other effect.  A signal that the command ignored from its
    start (nohup, a background job of a script) stays ignored.  Outside of the main thread, which
    alone gets signals, yield -1.
    """
    read_end, write_end = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
    old_handlers = {number: signal.getsignal(number) for number in _ENDING}
    try:
        old_wakeup = signal.set_wakeup_fd(write_end, warn_on_full_buffer=False)
    except ValueError:
        os.close(read_end)
        os.close(write_end)
        yield -1
        return
    try:
        for number, handler in old_handlers.items():
            if handler not in {signal.SIG_IGN, None}:
                signal.signal(number, lambda *_: None)
        yield read_end
    finally:
        for number, handler in old_handlers.items():
            if handler is not None:
                signal.signal(number, handler)
        signal.set_wakeup_fd(old_wakeup)
        os.close(read_end)
        os.close(write_end)
