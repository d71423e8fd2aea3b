"""Measures the replicas and their GPUs every few seconds, and writes lines to ``usage.jsonl``.

This needs no thread and no process: the supervisor does it in its own turn.  A failure to write, as
on a full disk, is reported once in the log; the job runs on.
"""

import time
from collections.abc import Callable
from typing import Final

from trainshed.engines.supervise.kernel.limits import Usage
from trainshed.engines.supervise.loop import Loop
from trainshed.engines.supervise.record.folder import AttemptFolder
from trainshed.engines.supervise.record.usage_file import UsageFile
from trainshed.engines.supervise.replicas import Gang
from trainshed.engines.supervise.watch.usage_lines import LineMaker, Samples
from trainshed.model.usage import ReportedProgress, encode_lines, parse_progress

#: The most CPU time for measuring one replica, as a share of a core; if the replica has so many
#: processes that it takes more, it is measured less often, but at least once a minute.
_SHARE_MAX: Final = 0.0005
_PAUSE_S_MAX: Final = 60.0


class UsageWatch:
    """Writes the usage of one attempt, from its start to its end."""

    def __init__(  # noqa: PLR0913 - the objects that the watch uses
        self,
        loop: Loop,
        folder: AttemptFolder,
        names: tuple[str, ...],
        every_s: float,
        *,
        replicas: Gang,
        note: Callable[[str, str], object],
    ) -> None:
        """Begin to measure; the replicas with the task names ``names`` have just started.

        ``every_s`` are the seconds between two samples; ``note`` gets a line for the log and its
        severity.
        """
        self._loop = loop
        self._names = names
        self._every_s = every_s
        self._replicas = replicas
        self._note = note
        self._file = UsageFile(folder)
        self._reports = [0] * len(names)
        """The hash of the last report of each program."""
        self._measured_s = loop.now()
        self._pause_s = replicas.measured_every_s
        self._is_over: set[int] = set()
        self._has_failed = self._is_broken = False
        began = Samples(
            self._measured_s,
            time.time(),
            usages={name: replicas.usage_at_start(index) for index, name in enumerate(names)},
            gpus=replicas.read_gpus(time.time()),
        )
        self._lines = LineMaker(every_s, began)
        self._timer = loop.after(every_s, self._sample_again)

    def finish(self) -> None:
        """Write the last line, after the end of all replicas."""
        self._timer.cancel()
        if not self._is_broken:
            self._try_sample(is_last=True)

    def _sample_again(self) -> None:
        self._try_sample()
        if not self._is_broken:
            self._timer = self._loop.after(self._every_s, self._sample_again)

    def _try_sample(self, *, is_last: bool = False) -> None:
        try:
            self._sample(is_last=is_last)
        except Exception as error:  # noqa: BLE001 - a job must not end because of its samples
            self._is_broken = True
            why = f"cannot measure the usage of this attempt: {type(error).__name__}: {error}"
            self._note(f"{why}; the job runs on, and its usage ends here", "WARNING")

    def _sample(self, *, is_last: bool = False) -> None:
        now_s, at = self._loop.now(), time.time()
        samples = Samples(
            now_s,
            at,
            usages=self._measure(now_s, is_last=is_last),
            progress=self._read_progress(),
            gpus=self._replicas.read_gpus(at),
        )
        for line in self._lines.add(samples, is_last=is_last):
            self._write(encode_lines(line), are_last=is_last)

    def _measure(self, now_s: float, *, is_last: bool) -> dict[str, Usage]:
        """Measure the replicas that had not ended before; none if the last time is too recent."""
        if now_s - self._measured_s < self._pause_s - self._every_s / 2 and not is_last:
            return {}
        self._measured_s, began_s = now_s, time.process_time()
        usages = {}
        for index, name in enumerate(self._names):
            if index in self._is_over:
                continue
            usage = self._replicas.usage(index)
            if index in self._replicas.exits:
                self._is_over.add(index)
                usage = usage._replace(memory_bytes=None, tasks=None)
            usages[name] = usage
        pause_s = (time.process_time() - began_s) / (_SHARE_MAX * len(self._names))
        self._pause_s = max(self._replicas.measured_every_s, min(_PAUSE_S_MAX, pause_s))
        return usages

    def _read_progress(self) -> dict[str, ReportedProgress]:
        """Read the reports of the programs that have changed since the last call."""
        changed = {}
        for index, name in enumerate(self._names):
            report = self._replicas.read_report(index)
            if hash(report) != self._reports[index]:
                self._reports[index] = hash(report)
                changed[name] = parse_progress(report)
        return changed

    def _write(self, lines: list[bytes], *, are_last: bool) -> None:
        try:
            self._file.append(lines, time.time(), are_last=are_last)
        except OSError as error:
            if not self._has_failed:
                self._has_failed = True
                self._note(
                    f"cannot write the usage of this attempt: {error.strerror}; the job runs on, "
                    "and its usage has a gap",
                    "WARNING",
                )
