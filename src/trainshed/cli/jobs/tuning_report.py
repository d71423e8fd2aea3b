"""``report``: writes a study as one HTML page and one CSV file."""

import shlex
from datetime import datetime

from trainshed.cli import flags
from trainshed.cli.connecting import context_of
from trainshed.cli.jobs.job_names import report_other_project, resource_name
from trainshed.cli.terminal import note, print_result
from trainshed.client.collections import FINAL_STATES, collection_of
from trainshed.client.following import native_study, native_trials


def parser(prog: str) -> flags.Parser:
    """Return the parser in one group of commands."""
    group = prog.removeprefix("trainshed ").rpartition(" ")[0]
    _, example = flags.NOUNS[group]
    parser = flags.Parser(
        prog,
        summary="Writes a report on a tuning job, also while it runs: one HTML page with Optuna's "
        "plots, the best trial with its arguments and a table of all trials, which needs no "
        "network and no other file; and the same table as CSV.",
        example=f"  {prog} {example}\n  {prog} {example} --out reports/",
        usage=f"{prog} NAME [flags]",
    )
    parser.set_defaults(group=group)
    parser.add_argument("name", metavar="NAME", help=flags.name_help(group, "tuning job"))
    add = flags.adder(parser)
    add(
        "--out PLACE",
        "File of the page, with the suffix .html (the table is written beside it), or a "
        "folder for both; default: the current folder",
    )
    flags.add_client_flags(parser, located=group.startswith("ai "))
    return parser


def run(request: flags.Request) -> int:
    """Write the report on the present state of a tuning job."""
    from trainshed.workbench.study_report.files import files_of, write
    from trainshed.workbench.study_view import add_native_study, add_native_trials, read_view

    args = request.args
    context = context_of(args)
    collection = collection_of(args.group)
    name = resource_name(context, collection, args.name)
    trials = native_trials(context.server, name, context.project)
    with report_other_project(context, name):
        document = context.server.call(
            "GET", collection.path(name, context.project, context.region)
        )
    view = add_native_trials(read_view(document), trials.read())
    view = add_native_study(view, native_study(context.server, name, context.project))
    files = files_of(args.out, view)
    write(view, files, datetime.now().astimezone())
    document = {
        "name": view.name,
        "state": view.state,
        "trials": len(view.trials),
        "best": [trial.number for trial in view.leaders],
        "page": str(files.page),
        "table": str(files.table),
    }
    print_result(args.format, document, f"page: {files.page}\ntable: {files.table}")
    if args.format == "text" and view.state not in FINAL_STATES:
        command = context.command(f"{args.group} report {args.name}")
        out_flag = f" {shlex.join(('--out', args.out))}" if args.out else ""
        note(f"the study is {view.state}; for a newer report: {command}{out_flag}")
    return 0
