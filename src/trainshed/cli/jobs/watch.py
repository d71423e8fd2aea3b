"""``watch``: a job until its end, in the form that the reader can take."""

import shutil
import sys
import threading
import time
from collections import deque
from typing import Final

from trainshed.cli import flags
from trainshed.cli.connecting import ServerPlace, place_of
from trainshed.cli.jobs.job_names import HELP, find_job, report_other_project, resource_name
from trainshed.cli.jobs.log_lines import LinePrinter
from trainshed.cli.jobs.submitted import print_end, report_leaving, stream
from trainshed.cli.jobs.watch_view import JobView, Screen, replica_table
from trainshed.cli.terminal import note, out, out_json, wants_colour
from trainshed.client.collections import FINAL_STATES, collection_of
from trainshed.client.faults import Json, ServerRefusal, Unreachable
from trainshed.client.following import Followed, exit_code_of
from trainshed.model.resource_names import TUNING_JOBS, ResourceName

_SHOWN = (
    "redrawn in place on a terminal, line by line elsewhere. Of a tuning job it shows the trials: "
    "those that run, the best and the newest. It ends with the job, as the primary replica did (a "
    "tuning job: with 0 if it succeeds); Ctrl-C leaves the job running. With --format json it "
    "prints the job as one line whenever it has changed; the trials of a tuning job have lines of "
    "their own."
)
EXAMPLE = """\
  trainshed jobs watch census_1
  trainshed jobs watch projects/local/locations/us-central1/customJobs/4611686018427387904"""


def parser(prog: str) -> flags.Parser:
    """The command line."""
    group = prog.removeprefix("trainshed ").rpartition(" ")[0]
    noun, example = flags.NOUNS.get(group, ("job", ""))
    parser = flags.Parser(
        prog,
        summary=f"Shows a {noun} while it runs: its state, its replicas and its last lines, "
        f"{_SHOWN}",
        example=f"  {prog} {example}" if example else EXAMPLE,
        usage=f"{prog} JOB [flags]",
    )
    parser.set_defaults(group=group)
    named = flags.named(group, noun) if example else HELP
    parser.add_argument("job", metavar="JOB", help=named)
    flags.add_client_flags(parser, located=group.startswith("ai "))
    return parser


#: How often the job is asked for, and how often at most the screen is drawn.
ASK_S: Final = 0.5
DRAW_S: Final = 0.1
#: How many lines are kept for the screen.
TAIL: Final = 200


def run(request: flags.Request) -> int:
    """Watch a job; gives its exit code."""
    args = request.args
    place = place_of(args)
    if args.group == "ai hp-tuning-jobs":
        collection = collection_of(args.group)
        name = resource_name(place, collection, args.job)
        with report_other_project(place, name):
            path = collection.path(name, place.project, place.region)
            return _follow_study(place, name, path, args.format)
    job = find_job(place, args.job)
    if study_path := _study_path(place, job.name):
        return _follow_study(place, args.job, study_path, args.format)
    followed = Followed(place.server, job.path, note)
    try:
        if args.format == "json":
            end = _print_changes(followed)
        elif sys.stdout.isatty():
            end = _draw_live(followed)
        else:
            end = _print_lines(followed)
    except KeyboardInterrupt:
        return report_leaving(place, "job", str(followed.job()["name"]))
    return exit_code_of(end)


def _follow_study(place: ServerPlace, name: str, path: str, form: str) -> int:
    from trainshed.cli.jobs import tuning_watch

    return tuning_watch.follow(place, name, path, as_json=form == "json")


def _study_path(place: ServerPlace, full_name: str) -> str | None:
    """Where a tuning job is found in its own dialect; None for a job of another kind."""
    name = ResourceName.parse(full_name)
    path = f"/v1/{name}"
    if name.collection == TUNING_JOBS:
        return path
    if name.location or "/" in name.id:
        return None
    training = place.server.call("GET", path).get("trainingInput", {})
    return path if "hyperparameters" in training else None


def _print_changes(followed: Followed) -> Json:
    last: Json = {}
    for job in followed.states():
        if job != last:
            last = job
            out_json(job, indent=None)
    return last


def _print_lines(followed: Followed) -> Json:
    stream(followed, LinePrinter())
    end = followed.end()
    if end["replicas"]:
        out("\n".join(["", *replica_table(end["replicas"])]))
    print_end(end)
    return end


def _draw_live(followed: Followed) -> Json:
    tail = _Tail(followed)
    view = JobView(colour=wants_colour("auto", sys.stdout))
    followed.note = view.say
    with Screen(sys.stdout) as screen:
        job, poll_time = followed.job(), time.monotonic()
        tail.start()
        while True:
            has_all = tail.is_over
            screen.draw(view.lines(job, tail.lines, shutil.get_terminal_size()))
            if job["state"] in FINAL_STATES and has_all:
                return job
            tail.grown.wait(DRAW_S)
            if time.monotonic() - poll_time > ASK_S or (tail.is_over and not has_all):
                job, poll_time = followed.job(), time.monotonic()
            time.sleep(DRAW_S / 2)


class _Tail:
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
            pass  # the caller that asks for the job itself gets the error
        finally:
            self.is_over = True
            self.grown.set()
