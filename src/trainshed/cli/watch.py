"""``watch``: a job until its end, in the form that the reader can take."""

import argparse
import json
import shutil
import sys
import threading
import time
from collections import deque
from typing import Final

from trainshed.cli.connecting import Place, continued, place_of
from trainshed.cli.flags import Request
from trainshed.cli.log_lines import LinePrinter
from trainshed.cli.notes import note
from trainshed.cli.submitted import EXIT_INTERRUPTED, print_end, stream
from trainshed.cli.terminal import out, wants_colour
from trainshed.cli.watch_view import Screen, View, replica_table
from trainshed.client.collections import FINAL_STATES, collection_of, native_path
from trainshed.client.faults import Json, ServerRefusal, Unreachable
from trainshed.client.following import Followed, exit_code_of

#: How often the job is asked for, and how often at most the screen is drawn.
ASK_S: Final = 0.5
DRAW_S: Final = 0.1
#: How many lines are kept for the screen.
TAIL: Final = 200


def run(request: Request) -> int:
    """Watch a job; gives its exit code."""
    args = request.args
    place = place_of(args)
    if path := _study_path(args, place):
        from trainshed.cli import tuning_watch  # noqa: PLC0415  # most jobs are none

        return tuning_watch.follow(args, place, path)
    followed = Followed(place.server, native_path(args.job, place.project), note)
    try:
        if args.format == "json":
            end = _changes(followed)
        elif sys.stdout.isatty():
            end = _live(followed)
        else:
            end = _plain(followed)
    except KeyboardInterrupt:
        return _left(args, followed)
    return exit_code_of(end)


def _study_path(args: argparse.Namespace, place: Place) -> str | None:
    """Where a tuning job is found in its own dialect; None for a job of another kind."""
    if args.group == "ai hp-tuning-jobs":
        return collection_of(args.group).path(args.job, place.project, place.region)
    name = str(place.server.call("GET", native_path(args.job, place.project))["name"])
    path = f"/v1/{name}"
    if name.split("/")[-2] == "hyperparameterTuningJobs":
        return path
    if name.split("/")[0::2] != ["projects", "jobs"]:
        return None
    training = place.server.call("GET", path).get("trainingInput", {})
    return path if "hyperparameters" in training else None


def _left(args: argparse.Namespace, followed: Followed) -> int:
    name = str(followed.job()["name"])
    group = "ai custom-jobs" if "/locations/" in name else "ai-platform jobs"
    short = name if "/locations/" in name else name.rpartition("/")[2]
    note(f"the job goes on; stop it with: {continued(args, f'{group} cancel {short}')}")
    return EXIT_INTERRUPTED


def _changes(followed: Followed) -> Json:
    told: Json = {}
    for job in followed.states():
        if job != told:
            told = job
            out(json.dumps(job, ensure_ascii=False))
    return told


def _plain(followed: Followed) -> Json:
    stream(followed, LinePrinter())
    end = followed.end()
    if end["replicas"]:
        out("\n".join(["", *replica_table(end["replicas"])]))
    print_end(end)
    return end


def _live(followed: Followed) -> Json:
    tail = _Tail(followed)
    view = View(colour=wants_colour("auto", sys.stdout))
    followed.note = view.say
    with Screen(sys.stdout) as screen:
        job, asked = followed.job(), time.monotonic()
        tail.start()
        while True:
            has_all = tail.is_over
            screen.draw(view.lines(job, tail.lines, shutil.get_terminal_size()))
            if job["state"] in FINAL_STATES and has_all:
                return job
            tail.grown.wait(DRAW_S)
            if time.monotonic() - asked > ASK_S or (tail.is_over and not has_all):
                job, asked = followed.job(), time.monotonic()
            time.sleep(DRAW_S / 2)


class _Tail:
    """The last lines of a job, read beside the drawing."""

    def __init__(self, followed: Followed) -> None:
        """Read nothing yet."""
        self.lines: deque[Json] = deque(maxlen=TAIL)
        self.grown = threading.Event()
        self.is_over = False
        self._followed = Followed(followed.server, followed.path, lambda _: None)

    def start(self) -> None:
        """Read until the job has ended; the thread does not keep the command from ending."""
        threading.Thread(target=self._read, name="tail", daemon=True).start()

    def _read(self) -> None:
        try:
            for line in self._followed.lines(tail=TAIL):
                self.lines.append(line)
                self.grown.set()
        except (ServerRefusal, Unreachable):
            pass  # whoever asks for the job itself is told
        finally:
            self.is_over = True
            self.grown.set()
