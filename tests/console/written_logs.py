"""Log files of jobs on simulated nodes, which print nothing."""

import shutil

from trainshed.model.log_line import LOG_FOLDER, LogLine, encode, segment_name

BEGIN_NS = 1_795_991_680_000_000_000
#: Nanoseconds between two lines.
STEP_NS = 2_000_000
TASKS = ("workerpool0-0", "workerpool1-0", "workerpool1-1")
SEGMENT_LINES = 30_000


class WrittenLog:
    """The log of one attempt; lines have numbers from 1 in the order of the calls."""

    def __init__(self, server, uid, attempt=1):
        self._folder = server.data_dir / "jobs" / str(uid) / str(attempt) / LOG_FOLDER
        shutil.rmtree(self._folder, ignore_errors=True)
        self._folder.mkdir(parents=True)
        self._segment = 1
        self.count = 0

    def add(self, texts, *, task=None, severity="INFO"):
        """Write lines, of each replica in turn unless a task is given."""
        lines = [self._line(text, task, severity) for text in texts]
        with (self._folder / segment_name(self._segment)).open("ab") as file:
            file.write(b"".join(map(encode, lines)))

    def add_bytes(self, data):
        """Write bytes that are no line."""
        with (self._folder / segment_name(self._segment)).open("ab") as file:
            file.write(data)

    def begin_segment(self):
        self._segment += 1

    def remove_segment(self, number):
        """Remove old lines, as the supervisor of a job with too many lines does."""
        (self._folder / segment_name(number)).unlink()

    def tear(self):
        """Leave a last line without its end."""
        with (self._folder / segment_name(self._segment)).open("ab") as file:
            file.write(b'[1795999999000000000, "workerpool0-0", "INFO", "stdout", "torn')

    def _line(self, text, task, severity):
        self.count += 1
        return LogLine(
            stamp_ns=BEGIN_NS + self.count * STEP_NS,
            task_name=task or TASKS[self.count % len(TASKS)],
            text=text,
            severity=severity,
        )


def write_long_log(server, uid, length):
    """Write a log whose line N is ``step N``; a NaN at two thirds, an error at each tenth."""
    log = WrittenLog(server, uid)
    nan, tenth = length * 2 // 3, length // 10
    for first in range(1, length + 1, SEGMENT_LINES):
        numbers = range(first, min(first + SEGMENT_LINES, length + 1))
        if first > 1:
            log.begin_segment()
        for run, kind in _runs(numbers, nan, tenth):
            text, severity = _WORDS.get(kind, ("step {}", "INFO"))
            log.add([text.format(number) for number in run], severity=severity)
    return log


_WORDS = {"nan": ("step {} loss nan", "WARNING"), "error": ("CUDA error at step {}", "ERROR")}


def _runs(numbers, nan, tenth):
    """Yield runs of numbers of one kind of line."""
    run = []
    for number in numbers:
        kind = "nan" if number == nan else "error" if number % tenth == 0 else ""
        if not kind:
            run.append(number)
            continue
        yield run, ""
        yield [number], kind
        run = []
    yield run, ""
