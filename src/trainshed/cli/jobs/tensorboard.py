"""``trainshed tensorboard``: starts TensorBoard on the output of a job or a local run."""

import os
import shlex
import shutil
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import NoReturn

from trainshed.cli import flags
from trainshed.cli.connecting import ServerContext, context_of
from trainshed.cli.jobs.job_names import HELP, find_job
from trainshed.cli.terminal import note, print_result
from trainshed.model.faults import UsageFault
from trainshed.model.texts import install_command
from trainshed.storage.buckets import SCHEME, buckets_of, data_dir

EXAMPLE = """\
  trainshed tensorboard census_1
  trainshed tensorboard 4611686018427387904 --port 7007
  trainshed tensorboard gs://my-bucket/out
  trainshed tensorboard runs/torch-ddp -- --samples_per_plugin scalars=1000"""
_MISSING = f"TensorBoard is not installed; {install_command('tensorboard')}"


def parser(prog: str) -> flags.Parser:
    """Return the parser."""
    parser = flags.Parser(
        prog,
        summary="Starts TensorBoard on the folder in which a job, a tuning job or a local run "
        "writes its results. The folder must be on this machine.",
        example=EXAMPLE,
        usage=f"{prog} JOB|FOLDER|gs://URI [flags] [-- TENSORBOARD_ARGS ...]",
    )
    parser.own_flags = ("dry-run", "data-dir", "project")
    parser.add_argument(
        "place",
        metavar="JOB",
        help=f"{HELP}; a folder, or a gs:// URI",
    )
    add = flags.adder(parser)
    add("--port", "Port of TensorBoard; default: 6006 or the next free port", type=int)
    add("--host", "Address of TensorBoard; default: localhost")
    add(
        "--dry-run",
        "Print the folder and the command; do not start TensorBoard",
        action="store_true",
    )
    flags.add_client_flags(parser)
    parser.add_argument_group(
        "-- TENSORBOARD_ARGS", "Everything after a bare -- goes to TensorBoard."
    )
    return parser


def run(request: flags.Request) -> int:
    """Replace this process by TensorBoard; return only with ``--dry-run``."""
    from trainshed.workbench.output_folders import event_folder, has_event_files, local_folder

    args, tensorboard_args = request
    is_folder = args.place.startswith((SCHEME, ".", "~", "/")) or Path(args.place).is_dir()
    output = args.place if is_folder else _find_output(context_of(args), args.place)
    buckets = buckets_of(data_dir(args.data_dir, os.environ))
    folder = event_folder(local_folder(output, buckets))
    port = [] if args.port is None else ["--port", str(args.port)]
    host = ["--host", args.host] if args.host else []
    command = [*_program(), "--logdir", str(folder), *port, *host, *(tensorboard_args or ())]
    if args.dry_run:
        print_result(args.format, {"folder": str(folder), "command": command}, shlex.join(command))
        return 0
    if not has_event_files(folder):
        note(f"{folder} has no event files yet; TensorBoard shows them once the job writes some")
    note(f"TensorBoard reads {folder}; Ctrl-C ends TensorBoard; jobs continue")
    return _execute(command)


def _execute(command: list[str]) -> NoReturn:
    """Execute the command in this process, so that it receives the signals."""
    sys.stdout.flush()
    os.execv(command[0], command)  # noqa: S606 - a program that is installed here


def _find_output(context: ServerContext, text: str) -> str:
    """Return the URI of the folder of a job's results.  Raises UsageFault."""
    from trainshed.workbench.output_folders import output_uri

    name = find_job(context, text).name
    if uri := output_uri(context.server.call("GET", f"/v1/{name}")):
        return uri
    raise UsageFault(
        f"{name} was submitted without a folder for its results, so its event files are in no "
        "bucket; submit it with --job-dir or baseOutputDirectory"
    )


def _program() -> list[str]:
    """Return the command of TensorBoard: of this interpreter, else of PATH.  Raises UsageFault."""
    if find_spec("tensorboard"):
        return [sys.executable, "-m", "tensorboard.main"]
    if program := shutil.which("tensorboard"):
        return [program]
    raise UsageFault(_MISSING)
