"""``trainshed jobs cancel``: cancels jobs of either dialect."""

from collections.abc import Callable

from trainshed.cli import flags
from trainshed.cli.connecting import ServerContext, context_of
from trainshed.cli.failures import EXIT_FAILED, print_error, print_refusal
from trainshed.cli.jobs.job_names import HELP, find_job
from trainshed.cli.terminal import out, out_json
from trainshed.client.faults import Json, ServerRefusal
from trainshed.model.faults import UsageFault

EXAMPLE = """\
  trainshed jobs cancel census_1
  trainshed jobs cancel census_1 projects/shown/jobs/census_1"""


def parser(prog: str) -> flags.Parser:
    """Return the parser."""
    parser = flags.Parser(
        prog,
        summary="Cancels jobs. A job that has ended does not change. If one of several jobs cannot "
        "be cancelled, the others still are.",
        example=EXAMPLE,
        usage=f"{prog} JOB... [flags]",
    )
    parser.add_argument("job", metavar="JOB", nargs="+", help=HELP)
    flags.add_client_flags(parser)
    return parser


def run(request: flags.Request) -> int:
    """Cancel the jobs; return 1 if one does not exist or the server refuses it."""
    return order_jobs(request, _cancel)


def order_jobs(request: flags.Request, order: Callable[[ServerContext, str], str]) -> int:
    """Carry out an order for each job, and print the state of the job after it.

    ``order`` sends the order for the job that a text names, and returns the path of the job.

    Returns 1 if one of the jobs does not exist or the server refuses it; the others still are done.
    """
    args = request.args
    context = context_of(args)
    done: list[Json] = []
    for text in args.job:
        try:
            job = context.server.call("GET", order(context, text))
        except ServerRefusal as refusal:
            print_refusal(refusal)
        except UsageFault as fault:
            print_error(str(fault))
        else:
            done.append({"name": job["name"], "state": job["state"]})
            if args.format == "text":
                out(f"{job['name']}: {job['state']}")
    if args.format == "json":
        out_json(done)
    return 0 if len(done) == len(args.job) else EXIT_FAILED


def _cancel(context: ServerContext, text: str) -> str:
    named = find_job(context, text)
    if named.trial or "/trials/" in named.name:
        raise UsageFault(f"{text} is a trial; cancel its tuning job: {named.name}")
    context.server.call("POST", f"/v1/{named.name}:cancel", {})
    return named.path
