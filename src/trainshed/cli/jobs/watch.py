"""``watch``: shows a job until it has ended, on a terminal, as lines or as JSON."""

import shutil
import sys
import threading
import time
from collections import deque
from typing import Final
from urllib.parse import unquote

from trainshed.cli import flags
from trainshed.cli.connecting import ServerContext, context_of
from trainshed.cli.jobs.job_names import HELP, find_job, report_other_project, resource_name
from trainshed.cli.jobs.job_titles import JobTitles
from trainshed.cli.jobs.log_lines import LinePrinter
from trainshed.cli.jobs.progress_texts import read_progress
from trainshed.cli.jobs.submitted import print_end, report_job_continues, stream
from trainshed.cli.jobs.watch_view import JobView, Screen, replica_table
from trainshed.cli.terminal import note, out, out_json, wants_colour
from trainshed.client.collections import FINAL_STATES, collection_of
from trainshed.client.faults import Json, ServerRefusal, Unreachable
from trainshed.client.following import FollowedJob, LineSelection, exit_code_of
from trainshed.model.resource_names import TUNING_JOBS, ResourceName

_DETAILS = (
    "redrawn in place on a terminal, and line by line in other output. For a tuning job it shows "
    "the running, the best and the newest trials. The command ends when the job ends, with the "
    "exit code of the primary replica (a tuning job: 0 if it succeeds). Ctrl-C leaves the job "
    "running. With --format json it prints the job as one line whenever it changes; each trial of "
    "a tuning job has lines of its own."
)
EXAMPLE = """\
  trainshed jobs watch census_1
  trainshed jobs watch projects/local/locations/us-central1/customJobs/4611686018427387904"""


def parser(prog: str) -> flags.Parser:
    """Return the parser, in one group of commands or for all jobs."""
    group = prog.removeprefix("trainshed ").rpartition(" ")[0]
    noun, example = flags.NOUNS.get(group, ("job", ""))
    parser = flags.Parser(
        prog,
        summary=f"Shows a {noun} while it runs: its state, its replicas and its last log "
        f"lines, {_DETAILS}",
        example=f"  {prog} {example}" if example else EXAMPLE,
        usage=f"{prog} JOB [flags]",
    )
    parser.set_defaults(group=group)
    name_help = flags.name_help(group, noun) if example else HELP
    parser.add_argument("job", metavar="JOB", help=name_help)
    flags.add_client_flags(parser, located=group.startswith("ai "))
    return parser


#: Seconds between two reads of the job, and at least between two drawings of the screen.
POLL_S: Final = 0.5
DRAW_S: Final = 0.1
#: Seconds between two reads of the job's progress: the server computes it as seldom.
PROGRESS_S: Final = 10.0
#: The number of the last log lines that are kept for the screen.
TAIL: Final = 200


def run(request: flags.Request) -> int:
    """Watch a job; return its exit code."""
    args = request.args
    context = context_of(args)
    if args.group == "ai hp-tuning-jobs":
        collection = collection_of(args.group)
        name = resource_name(context, collection, args.job)
        with report_other_project(context, name):
            path = collection.path(name, context.project, context.region)
            return _follow_study(context, name, path, args.format)
    job = find_job(context, args.job)
    if study_path := _study_path(context, job.name):
        return _follow_study(context, args.job, study_path, args.format)
    followed = FollowedJob(context.server, job.path, note)
    try:
        if args.format == "json":
            end = _print_changes(followed)
        elif sys.stdout.isatty():
            end = _draw_live(followed)
        else:
            end = _print_lines(followed)
    except KeyboardInterrupt:
        return report_job_continues(context, "job", str(followed.job()["name"]))
    return exit_code_of(end)


def _follow_study(context: ServerContext, name: str, path: str, form: str) -> int:
    from trainshed.cli.jobs import tuning_watch

    return tuning_watch.follow(context, name, path, as_json=form == "json")


def _study_path(context: ServerContext, full_name: str) -> str | None:
    """Return the path of a tuning job in its own dialect; None for a job of another kind."""
    name = ResourceName.parse(full_name)
    path = f"/v1/{name}"
    if name.collection == TUNING_JOBS:
        return path
    if name.location or "/" in name.id:
        return None
    training = context.server.call("GET", path).get("trainingInput", {})
    return path if "hyperparameters" in training else None


def _print_changes(followed: FollowedJob) -> Json:
    last: Json = {}
    for job in followed.states():
        if job != last:
            last = job
            out_json(job, indent=None)
    return last


def _print_lines(followed: FollowedJob) -> Json:
    stream(followed, LinePrinter())
    end = followed.end()
    if end["replicas"]:
        out("\n".join(["", *replica_table(end["replicas"])]))
    print_end(end)
    return end


def _draw_live(followed: FollowedJob) -> Json:
    tail = _Tail(followed)
    view = JobView(colour=wants_colour("auto", sys.stdout))
    reader = _JobReader(followed)
    followed.note = view.set_remark
    with Screen(sys.stdout) as screen:
        job, poll_time = reader.read(), time.monotonic()
        tail.start()
        while True:
            has_all = tail.is_over
            screen.draw(view.lines(job, tail.lines, shutil.get_terminal_size()))
            if job["state"] in FINAL_STATES and has_all:
                return job
            tail.has_grown.wait(DRAW_S)
            if time.monotonic() - poll_time > POLL_S or (tail.is_over and not has_all):
                job, poll_time = reader.read(), time.monotonic()
            time.sleep(DRAW_S / 2)


class _JobReader:
    def __init__(self, followed: FollowedJob) -> None:
        """Prepare to read a job with the titles of its blockers and its progress."""
        self._followed = followed
        self._titles = JobTitles(followed.server)
        self._progress: Json = {}
        self._progress_time = -PROGRESS_S

    def read(self) -> Json:
        """Read the job.  Raises as ``FollowedJob.job`` does."""
        job = self._followed.job()
        waiting = self._titles.name_waiting(job.get("waiting", {}))
        return {**job, "waiting": waiting, "progress": self._read_progress(job)}

    def _read_progress(self, job: Json) -> Json | None:
        """Return the progress of a running job, at most ``PROGRESS_S`` old; None without any."""
        if job["state"] != "RUNNING":
            return None
        if time.monotonic() - self._progress_time >= PROGRESS_S:
            project = ResourceName.parse(str(job["name"])).project
            job_id = unquote(self._followed.path.rpartition("/")[2])
            self._progress = dict(read_progress(self._followed.server, project, job_id))
            self._progress_time = time.monotonic()
        return self._progress.get(job["name"])


class _Tail:
    def __init__(self, followed: FollowedJob) -> None:
        """Prepare to read the log of a job."""
        self.lines: deque[Json] = deque(maxlen=TAIL)
        self.has_grown = threading.Event()
        self.is_over = False
        self._followed = FollowedJob(followed.server, followed.path, lambda _: None)

    def start(self) -> None:
        """Read in a daemon thread until the job has ended."""
        threading.Thread(target=self._read, name="tail", daemon=True).start()

    def _read(self) -> None:
        try:
            for line in self._followed.lines(LineSelection(tail=TAIL)):
                self.lines.append(line)
                self.has_grown.set()
        except (ServerRefusal, Unreachable):
            pass  # the main thread, which reads the job itself, gets the same error
        finally:
            self.is_over = True
            self.has_grown.set()
