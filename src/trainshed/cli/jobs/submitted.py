"""Prints a new job, and follows a job until it has ended."""

import queue
import sys
import threading
from collections.abc import Iterable, Iterator
from typing import Final, TypeVar

from trainshed.cli.connecting import ServerContext
from trainshed.cli.jobs.job_titles import JobTitles
from trainshed.cli.jobs.log_lines import LinePrinter
from trainshed.cli.jobs.resource_texts import wait_lines
from trainshed.cli.jobs.study_starts import list_start_lines
from trainshed.cli.terminal import err, note, out, out_json
from trainshed.client.collections import commands_of, native_path, state_of
from trainshed.client.faults import Json
from trainshed.client.following import ALL_LINES, FollowedJob, LineSelection, exit_code_of

EXIT_INTERRUPTED = 130


def report_created(context: ServerContext, group: str, name: str, job: Json) -> None:
    """Print the job, and the commands that show more about it."""
    key = "jobId" if "jobId" in job else "name"
    out(f"{key}: {job.get(key, name)}\nstate: {state_of(job)}")
    for line in list_start_lines(job.get("studyStart", {})):
        out(line)
    note(f"show it with: {context.command(f'{group} describe {name}')}")
    if "studySpec" in job or "hyperparameters" in job.get("trainingInput", {}):
        note(f"watch its trials with: {context.command(f'{group} watch {name}')}")
    note(f"print its log with: {context.command(f'{group} stream-logs {name}')}")


def follow_created(context: ServerContext, group: str, name: str, *, as_json: bool) -> int:
    """Print the log of a new job until the job ends; return its exit code."""
    note(f"{name} is submitted; Ctrl-C leaves it running")
    followed = FollowedJob(context.server, native_path(name, context.project), note)
    try:
        stream(followed, LinePrinter(sys.stderr if as_json else sys.stdout))
        end = followed.end()
    except KeyboardInterrupt:
        return report_left_running(context, group, name)
    if as_json:
        path = f"/v1/{end['name']}"
        out_json(context.server.call("GET", path))
    else:
        print_end(end)
    return exit_code_of(end)


def stream(
    followed: FollowedJob, printer: LinePrinter, selection: LineSelection = ALL_LINES
) -> None:
    """Print why the job waits while it waits, then its log lines until it has ended."""
    titles = JobTitles(followed.server)
    for waiting in followed.until_placed():
        for text in wait_lines(titles.name_waiting(waiting)):
            note(text)
    for line in interruptible(followed.lines(selection)):
        printer.print_line(line)


def report_left_running(context: ServerContext, group: str, name: str) -> int:
    """Print after Ctrl-C that the job continues, and how to watch or cancel it."""
    err("")
    note(f"the job continues; cancel it with: {context.command(f'{group} cancel {name}')}")
    note(f"watch it again with: {context.command(f'jobs watch {name}')}")
    return EXIT_INTERRUPTED


def report_job_continues(context: ServerContext, noun: str, name: str) -> int:
    """Print after Ctrl-C that the job with a full name continues, and how to cancel it."""
    group, short = commands_of(name)
    note(f"the {noun} continues; cancel it with: {context.command(f'{group} cancel {short}')}")
    return EXIT_INTERRUPTED


def print_end(end: Json) -> None:
    """Print the job's final state; the log has already ended with its error, if it has one."""
    out(f"state: {end['state']}")


T = TypeVar("T")

#: Seconds after which a waiting main thread lets Python handle a Ctrl-C.
POLL_S: Final = 0.2
#: The most items that the thread reads before the consumer needs them; a pager may be slow.
AHEAD_MAX: Final = 1000


class _End:
    """The mark after the last item, with the exception that ended the reading, or None."""

    def __init__(self, fault: Exception | None = None) -> None:
        self.fault = fault


def interruptible(items: Iterable[T]) -> Iterator[T]:
    """Yield the items, which a daemon thread reads, so that Ctrl-C always ends the command.

    Python runs a signal handler between two steps of the main thread.  If the signal arrives just
    before a blocking read, the handler waits as long as the read.  Therefore the main thread only
    waits with a timeout.  An exception of the items is raised here.
    """
    buffer: queue.Queue[T | _End] = queue.Queue(AHEAD_MAX)
    threading.Thread(target=_read, args=(items, buffer), name="reading", daemon=True).start()
    while True:
        try:
            item = buffer.get(timeout=POLL_S)
        except queue.Empty:
            continue
        if not isinstance(item, _End):
            yield item
        elif item.fault:
            raise item.fault
        else:
            return


def _read(items: Iterable[T], buffer: queue.Queue[T | _End]) -> None:
    try:
        for item in items:
            buffer.put(item)
    except Exception as fault:  # noqa: BLE001  # the main thread raises it
        buffer.put(_End(fault))
    else:
        buffer.put(_End())
