"""``trainshed jobs resume``: resumes jobs that are held."""

from trainshed.cli import flags
from trainshed.cli.connecting import ServerContext
from trainshed.cli.jobs.job_names import HELP, find_job
from trainshed.cli.jobs.jobs_cancel import order_jobs

EXAMPLE = """\
  trainshed jobs resume census_1
  trainshed jobs resume 4611686018427387904 4611686018427387905"""


def parser(prog: str) -> flags.Parser:
    """Return the parser."""
    parser = flags.Parser(
        prog,
        summary="Resumes jobs that are held, because a person stopped them in their cluster: with "
        "scancel on Slurm. They start again with their next attempt, which uses up no restart. For "
        "a tuning job, its held trials are resumed.",
        example=EXAMPLE,
        usage=f"{prog} JOB... [flags]",
    )
    parser.add_argument("job", metavar="JOB", nargs="+", help=HELP)
    flags.add_client_flags(parser)
    return parser


def run(request: flags.Request) -> int:
    """Resume the jobs; return 1 if one does not exist or is not held."""
    return order_jobs(request, _resume)


def _resume(context: ServerContext, text: str) -> str:
    path = find_job(context, text).path
    context.server.call("POST", f"{path}:resume", {})
    return path
