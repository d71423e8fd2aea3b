"""``trainshed jobs check``, ``submit`` and ``document``: jobs as texts, by the server's rules."""

import uuid
from collections.abc import Iterator
from typing import Final

from trainshed.cli import flags
from trainshed.cli.connecting import ServerContext, context_of
from trainshed.cli.failures import EXIT_FAILED
from trainshed.cli.jobs.job_names import HELP, find_job, list_path, title_of
from trainshed.cli.terminal import note, print_result, table
from trainshed.client.faults import Json, Unreachable
from trainshed.model.faults import UsageFault

_SUMMARIES = {
    "check": "Asks the server whether it would accept the job of a file: all violations with their "
    "lines, or the cluster, its price, and whether the job would start now. Nothing is stored.",
    "submit": "Submits the job of a file, which may be of any kind: an AI Platform job, a custom "
    "job, a tuning job or a training pipeline.",
    "document": "Prints a job as YAML, to submit it again; a copy of an AI Platform job has a new "
    "id. With --changed: with the change that would start a waiting job.",
}
_EXAMPLES = {
    "check": "  trainshed jobs check custom.yaml\n  trainshed jobs check custom.yaml --format json",
    "submit": "  trainshed jobs submit custom.yaml --region us-central1",
    "document": "  trainshed jobs document census_1",
}
FILE_HELP: Final = (
    "A whole job, as jobs document prints it: YAML or JSON; - reads stdin. A file for gcloud's "
    "--config is a part of a job: trainshed validate checks it"
)
_HEADERS = ("ROLE", "COUNT", "MACHINE TYPE", "VCPUS", "MEMORY GB", "ACCELERATORS")


def parser(prog: str) -> flags.Parser:
    """Return the parser of one of the three verbs."""
    action = prog.rsplit(maxsplit=1)[-1]
    operand = "JOB" if action == "document" else "FILE"
    parser = flags.Parser(
        prog,
        summary=_SUMMARIES[action],
        example=_EXAMPLES[action],
        usage=f"{prog} {operand} [flags]",
    )
    parser.set_defaults(action=action)
    if action == "document":
        parser.add_argument("job", metavar="JOB", help=HELP)
        flags.adder(parser)(
            "--changed", "With the change that would start the waiting job", action="store_true"
        )
    else:
        parser.add_argument("file", metavar="FILE", help=FILE_HELP)
    flags.add_client_flags(parser, located=action != "document")
    return parser


def run(request: flags.Request) -> int:
    """Check, submit or print a job; a check returns 1 if the server would refuse the job."""
    args = request.args
    context = context_of(args)
    if args.action == "document":
        _print_document(context, args.job, args.format, changed=args.changed)
        return 0
    from trainshed.workbench.documents import read_text

    body = {"text": read_text(args.file), "location": context.region}
    if args.action == "submit":
        job = _submit(context, body)
        print_result(args.format, job, f"{title_of(job['displayName'], job['job'])} is submitted")
        watch = context.command(f"jobs watch {job['job']}")
        note(f"follow it with: {watch}")
        return 0
    check = context.server.call("POST", f"{list_path(context.project)}:check", body)
    print_result(args.format, check, "\n".join(_describe_check(args.file, check)))
    is_refused = check.get("start", {}).get("refused", False)
    return 0 if check["valid"] and not is_refused else EXIT_FAILED


def _submit(context: ServerContext, body: Json) -> Json:
    """Submit a job; send it once more if the response is lost: its id makes that one job."""
    body = {**body, "requestId": uuid.uuid4().hex}
    try:
        return context.server.call("POST", list_path(context.project), body)
    except Unreachable:
        return context.server.call("POST", list_path(context.project), body)


def _print_document(context: ServerContext, name: str, form: str, *, changed: bool) -> None:
    document = context.server.call("GET", f"{find_job(context, name).path}/document")
    text = document.get("changedText") if changed else document["text"]
    location = document.get("changedLocation" if changed else "location")
    if text is None and location is None:
        raise UsageFault(f"no single change of {name} would start it now; see: jobs explain {name}")
    print_result(form, document, (text or document["text"]).rstrip("\n"))
    if changed:
        note(document["changeSentence"])
    if location:
        note(f"submit it with: --region {location}")


def _describe_check(file: str, check: Json) -> Iterator[str]:
    yield f"{file}: {'valid' if check['valid'] else 'refused'}"
    for violation in check["violations"]:
        yield f"  {_describe_violation(violation)}"
        if edit := violation.get("edit"):
            yield f"    {edit['line']}:{edit['column']}: {edit['title']}"
    if check["cluster"]:
        rows = table(_HEADERS, map(_row, check["cluster"]))
        yield from (f"  {line}" for line in rows.splitlines())
    yield from (f"  note: {text}" for text in check["notes"])
    if price := check.get("price"):
        yield f"  price: {_describe_price(price)}"
    if start := check.get("start"):
        yield f"  start: {_describe_start(start)}"


def _describe_violation(violation: Json) -> str:
    where = f"{violation['line']}:{violation['column']}: " if "line" in violation else ""
    field = f"{violation['field']}: " if violation["field"] else ""
    accepted = f" (accepted: {violation['accepted']})" if "accepted" in violation else ""
    return f"{where}{field}{violation['message']}{accepted}"


def _row(machines: Json) -> tuple[object, ...]:
    kind, count = machines.get("acceleratorType"), machines["acceleratorCount"]
    return (
        machines["role"].replace("_", " "),
        machines["count"],
        machines.get("machineType"),
        machines.get("vcpus"),
        machines.get("memoryGigabytes"),
        f"{count} x {kind}" if kind else "",
    )


def _describe_price(price: Json) -> str:
    if "hourly" not in price:
        return "; ".join(price["missing"])
    return f"{price['hourly']:.2f} {price['currency']} an hour (list of {price['listDate']})"


def _describe_start(start: Json) -> str:
    if start["now"]:
        nodes = ", ".join(start.get("emulatedOn", ()))
        return f"now, on {nodes}, whose GPUs are emulated" if nodes else "now"
    word = "the server would refuse it" if start["refused"] else "it would wait"
    change = start.get("change", {}).get("sentence")
    offer = f"; it {change}" if change else ""
    message = start["message"].rstrip(".")
    # a message may be a sentence, or begin with a name such as NVIDIA_TESLA_T4
    message = message.replace("It ", "it ", 1) if message.startswith("It ") else message
    return f"{word}: {message}{offer}"
