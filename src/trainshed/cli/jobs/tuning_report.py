"""``report``: a study as one HTML page and one CSV file."""

import shlex
from datetime import datetime

from trainshed.cli.connecting import continued, place_of
from trainshed.cli.flags import Request
from trainshed.cli.jobs.job_names import report_other_project, resource_name
from trainshed.cli.terminal import answer, note
from trainshed.client.collections import FINAL_STATES, collection_of
from trainshed.client.following import native_trials
from trainshed.workbench.study_report.files import ReportFiles, files_of, write
from trainshed.workbench.study_view import StudyView, view_of, with_native


def run(request: Request) -> int:
    """Write the report of a tuning job as it stands."""
    args = request.args
    place = place_of(args)
    collection = collection_of(args.group)
    name = resource_name(place, collection, args.name)
    trials = native_trials(place.server, name, place.project)
    with report_other_project(place, name):
        document = place.server.call("GET", collection.path(name, place.project, place.region))
    view = with_native(view_of(document), trials.ask())
    files = files_of(args.out, view)
    write(view, files, datetime.now().astimezone())
    answer(args, _as_json(view, files), f"page: {files.page}\ntable: {files.table}")
    if args.format == "text" and view.state not in FINAL_STATES:
        command = continued(args, f"{args.group} report {args.name}")
        out_to = f" {shlex.join(('--out', args.out))}" if args.out else ""
        note(f"the study is {view.state}; repeat this for more: {command}{out_to}")
    return 0


def _as_json(view: StudyView, files: ReportFiles) -> dict[str, object]:
    return {
        "name": view.name,
        "state": view.state,
        "trials": len(view.trials),
        "best": [trial.number for trial in view.leaders],
        "page": str(files.page),
        "table": str(files.table),
    }
