"""Watches running replicas: their progress, usage and checkpoints, and the metrics of a trial."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from trainshed.engines.supervise.loop import Loop
from trainshed.engines.supervise.record.facts import Facts
from trainshed.engines.supervise.record.folder import AttemptFolder
from trainshed.engines.supervise.record.records import Recovered
from trainshed.engines.supervise.record.spec import AttemptSpec
from trainshed.engines.supervise.replicas import Gang
from trainshed.engines.supervise.watch.watch_checkpoints import CheckpointWatch
from trainshed.engines.supervise.watch.watch_hang import HangWatch
from trainshed.engines.supervise.watch.watch_usage import UsageWatch
from trainshed.model.attempt import Hang, MetricsPlan
from trainshed.model.roles import Role

if TYPE_CHECKING:
    from trainshed.engines.supervise.watch.watch_metrics import MetricWatch

#: Seconds in which a program that resumes opens its checkpoint.
CHECKPOINT_S: Final = 60.0
#: Number of checks within the time after which a replica counts as hung.
_LOOKS: Final = 10
_LOOK_S_MIN: Final = 0.1


class Watching:
    """All watches of one attempt, which write to the attempt's log and records."""

    def __init__(  # noqa: PLR0913 - the objects that the watches use
        self,
        loop: Loop,
        folder: AttemptFolder,
        spec: AttemptSpec,
        *,
        replicas: Gang,
        facts: Facts,
        note: Callable[[str, str], object],
    ) -> None:
        """Start the watches of files; call this before any process of the attempt runs.

        ``note`` gets a line for the log and its severity.
        """
        self._loop = loop
        self._folder = folder
        self._spec = spec
        self._replicas = replicas
        self._facts = facts
        self._note = note
        self._names = tuple(replica.task_name for replica in spec.replicas)
        self._is_over = False
        self._files = tuple(folder.progress(name) for name in self._names)
        self._hangs: HangWatch | None = None
        self._checkpoints: CheckpointWatch | None = None
        self._usage: UsageWatch | None = None
        self._roots = (folder.job, spec.buckets)
        if spec.checkpoints and not spec.has_wardens:  # inotify sees only this machine
            self._checkpoints = CheckpointWatch(spec.checkpoints, self._roots)
            if self._checkpoints.fileno() >= 0:
                loop.on_readable(self._checkpoints, self._handle_opened_files)
        self._metrics = None if spec.metrics is None else self._watch_metrics(folder, spec.metrics)

    def begin(self) -> None:
        """Start to watch; the caller has started all replicas."""
        if self._spec.usage_s:
            self._usage = UsageWatch(
                self._loop,
                self._folder,
                self._names,
                self._spec.usage_s,
                replicas=self._replicas,
                note=self._note,
            )
        if self._spec.hang.after_s is not None:
            now = self._loop.now()
            self._hangs = HangWatch(self._spec.hang.after_s, self._files, now)
            for index, replica in enumerate(self._spec.replicas):
                if replica.role is Role.REDUCER:  # idle while workers compute
                    self._hangs.ignore(index)
            self._look_again(self._spec.hang.after_s)
        if self._checkpoints is not None:
            self._loop.after(CHECKPOINT_S, self._judge_checkpoints)

    def wrote(self, index: int) -> None:
        """Note that a replica has written output."""
        if self._hangs is not None:
            self._hangs.add_output(index, self._loop.now())

    def stop(self) -> None:
        """Stop the reports, because the supervisor ends the replicas."""
        self._is_over = True
        self._replicas.stop_reading_stacks()

    def close(self) -> bool:
        """Make the last reports after the end of all processes.  False: call this again later."""
        self._is_over = True
        self._judge_checkpoints()
        usage, self._usage = self._usage, None
        if usage is not None:
            usage.finish()
        return self._metrics is None or self._metrics.finish()

    def _watch_metrics(self, folder: AttemptFolder, metrics: MetricsPlan) -> "MetricWatch":
        """Return a watch of a trial's metrics; import its module only for trials."""
        from trainshed.engines.supervise.watch.watch_metrics import MetricWatch  # noqa: PLC0415 - see above

        return MetricWatch(self._loop, folder, metrics, self._roots)

    def _look_again(self, after_s: float) -> None:
        self._loop.after(max(_LOOK_S_MIN, min(after_s / _LOOKS, after_s)), self._look)

    def _look(self) -> None:
        """Report the replicas that began to hang, or progress again, since the last call."""
        if self._hangs is None or self._spec.hang.after_s is None or self._is_over:
            return
        for index in self._replicas.exits:
            self._hangs.ignore(index)
        cpu_ns = [self._replicas.usage(index).cpu_ns for index in range(len(self._names))]
        hangs = self._hangs.find_hangs(self._loop.now(), cpu_ns)
        for index in self._hangs.take_recovered():
            self._note(f"{self._names[index]} makes progress again", "INFO")
            self._facts.write(Recovered(self._names[index]))
        for index, seconds in hangs:
            self._report_hang(index, seconds)
        self._look_again(self._spec.hang.after_s)

    def _report_hang(self, index: int, seconds: float) -> None:
        name = self._names[index]
        self._note(f"{name} has shown no progress for {seconds:.0f} s", "WARNING")

        def report(stacks: str) -> None:
            for line in stacks.splitlines():
                self._note(f"{name}: {line}", "WARNING")
            self._facts.write(Hang(name, seconds, stacks))

        if not self._spec.hang.stacks or not self._replicas.read_stacks(index, report):
            report("")

    def _handle_opened_files(self) -> None:
        if self._checkpoints is not None and self._checkpoints.were_opened():
            self._judge_checkpoints()  # unread events would wake the loop in each turn

    def _judge_checkpoints(self) -> None:
        """Warn if no program has opened an existing checkpoint; then stop this watch."""
        watch, self._checkpoints = self._checkpoints, None
        if watch is None:
            return
        warning = watch.warning()
        if warning is not None:
            self._note(warning, "WARNING")
        if watch.fileno() >= 0:
            self._loop.forget(watch)
        watch.close()
