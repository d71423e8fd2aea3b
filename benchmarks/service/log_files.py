"""Writes logs of simulated jobs, whose attempts print nothing, as a supervisor would."""

import time
from collections.abc import Iterable, Sequence
from itertools import count, islice
from pathlib import Path
from typing import Final

from trainshed.engines.supervise.record.segments import SEGMENT_BYTES_MAX
from trainshed.model.log_line import LOG_FOLDER, LogLine, encode, segment_name

#: Lines of a segment; a supervisor's segments have about as many short ones.
SEGMENT_LINES: Final = 50_000


def attempt_log(data_dir: Path, uid: str, attempt: int = 1) -> Path:
    """Make the folder of an attempt's segments; return its path."""
    folder = data_dir / "jobs" / uid / str(attempt) / LOG_FOLDER
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def write_log(folder: Path, lines: Iterable[LogLine]) -> None:
    """Write the segments of an attempt that has printed nothing yet."""
    rest = iter(lines)
    for number in count(1):
        part = b"".join(map(encode, islice(rest, SEGMENT_LINES)))
        if not part:
            return
        (folder / segment_name(number)).write_bytes(part)


def append_lines(folder: Path, lines: Iterable[LogLine]) -> None:
    """Append lines to the last segment, or to a new one when the last is full."""
    newest = max(folder.iterdir())
    if newest.stat().st_size >= SEGMENT_BYTES_MAX:
        newest = folder / segment_name(int(newest.stem) + 1)
    with newest.open("ab") as file:
        file.write(b"".join(map(encode, lines)))


def training_lines(
    number: int, tasks: Sequence[str], *, first_ns: int | None = None, first_step: int = 0
) -> Iterable[LogLine]:
    """Yield lines of a training, a millisecond apart, of each task in turn; none is an error."""
    begin_ns = time.time_ns() - number * 1_000_000 if first_ns is None else first_ns
    steps = islice(count(first_step), number)
    for step in steps:
        yield LogLine(
            stamp_ns=begin_ns + (step - first_step) * 1_000_000,
            task_name=tasks[step % len(tasks)],
            text=f"epoch {step // 1000} step {step} loss={1 / (1 + step / 5000):.4f} "
            f"examples/s={900 + step % 97}",
        )
