"""``trainshed projects list``."""

from trainshed.cli import flags
from trainshed.cli.connecting import context_of
from trainshed.cli.terminal import note, print_result, table

EXAMPLE = "  trainshed projects list\n  trainshed projects list --format json"


def parser(prog: str) -> flags.Parser:
    """Return the parser."""
    parser = flags.Parser(
        prog,
        summary="Lists the projects that the token may read, with the number of their jobs that "
        "have not ended. A project exists once it has a job or a token.",
        example=EXAMPLE,
        usage=f"{prog} [flags]",
    )
    flags.add_client_flags(parser)
    return parser


def run(request: flags.Request) -> int:
    """List the projects."""
    args = request.args
    projects = context_of(args).server.call("GET", "/trainshed/v1/projects")["projects"]
    if not projects:
        note("no project has a job or a token yet")
    rows = (
        (row["id"], ", ".join(f"{count} {state}" for state, count in row["open"].items()) or "none")
        for row in projects
    )
    text = table(("PROJECT", "OPEN JOBS"), rows) if projects else ""
    print_result(args.format, projects, text)
    return 0
