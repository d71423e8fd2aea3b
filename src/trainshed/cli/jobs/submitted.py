"""What a create prints, and how its job is followed to the end."""

import queue
import sys
import threading
from collections.abc import Iterable, Iterator
from typing import Final, TypeVar

from trainshed.cli.connecting import ServerPlace
from trainshed.cli.jobs.log_lines import LinePrinter
from trainshed.cli.jobs.resource_texts import why_it_waits
from trainshed.cli.terminal import err, note, out, out_json
from trainshed.client.collections import commands_of, native_path, state_of
from trainshed.client.faults import Json
from trainshed.client.following import Followed, exit_code_of

EXIT_INTERRUPTED = 130


def report_created(place: ServerPlace, group: str, name: str, job: Json) -> None:
    """Print the job, and the commands that show more of it."""
    key = "jobId" if "jobId" in job else "name"
    out(f"{key}: {job.get(key, name)}\nstate: {state_of(job)}")
    note(f"see it: {place.command(f'{group} describe {name}')}")
    if "studySpec" in job or "hyperparameters" in job.get("trainingInput", {}):
        note(f"watch its trials: {place.command(f'{group} watch {name}')}")
    note(f"its log: {place.command(f'{group} stream-logs {name}')}")


def follow_created(place: ServerPlace, group: str, name: str, *, as_json: bool) -> int:
    """Print the log of a new job until the job ends; gives its exit code."""
    note(f"{name} is submitted; Ctrl-C leaves it running")
    followed = Followed(place.server, native_path(name, place.project), note)
    try:
        stream(followed, LinePrinter(sys.stderr if as_json else sys.stdout))
        end = followed.end()
    except KeyboardInterrupt:
        return left_running(place, group, name)
    if as_json:
        path = f"/v1/{end['name']}"
        out_json(place.server.call("GET", path))
    else:
        print_end(end)
    return exit_code_of(end)


def stream(
    followed: Followed,
    printer: LinePrinter,
    task: str | None = None,
    trial: str | None = None,
    *,
    tail: int | None = None,
) -> None:
    """Print why the job waits while it does, then its lines until it has ended.

    ``tail``: of what it has written so far only so many last lines.
    """
    for waiting in followed.until_placed():
        for text in why_it_waits(waiting):
            note(text)
    for line in interruptible(followed.lines(task=task, tail=tail, trial=trial)):
        printer.show(line)


def left_running(place: ServerPlace, group: str, name: str) -> int:
    """Say after Ctrl-C that the job goes on, and how to come back or to stop it."""
    err("")
    note(f"the job goes on; stop it with: {place.command(f'{group} cancel {name}')}")
    note(f"come back with: {place.command(f'jobs watch {name}')}")
    return EXIT_INTERRUPTED


def report_leaving(place: ServerPlace, what: str, name: str) -> int:
    """Say after Ctrl-C that the job of a full name goes on, and how to stop it."""
    group, short = commands_of(name)
    note(f"the {what} goes on; stop it with: {place.command(f'{group} cancel {short}')}")
    return EXIT_INTERRUPTED


def print_end(end: Json) -> None:
    """The last word; the error, if there is one, is the log's last line."""
    out(f"state: {end['state']}")


T = TypeVar("T")

#: How long a Ctrl-C may go unnoticed.
LOOK_S: Final = 0.2
#: How many items are read ahead of a reader that is slow; a pager may stand still for hours.
AHEAD_MAX: Final = 1000


class _End:
    """What stands behind the last item: the fault that ended the reading, or None."""

    def __init__(self, fault: Exception | None = None) -> None:
        self.fault = fault


def interruptible(items: Iterable[T]) -> Iterator[T]:
    """The items, read by a thread that does not keep the command from ending.

    Python runs a signal's handler between two steps of the main thread.  One that comes in the
    moment before a read begins would wait as long as the read does, so that the main thread never
    waits without end itself.  What the items raise is raised here.
    """
    buffer: queue.Queue[T | _End] = queue.Queue(AHEAD_MAX)
    threading.Thread(target=_read, args=(items, buffer), name="reading", daemon=True).start()
    while True:
        try:
            item = buffer.get(timeout=LOOK_S)
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
    except Exception as fault:  # noqa: BLE001  # it is the caller's
        buffer.put(_End(fault))
    else:
        buffer.put(_End())
