"""Implements list, describe, cancel and delete for every collection of jobs."""

import sys
from collections.abc import Callable, Iterator, Mapping
from itertools import islice
from typing import Any, Final

from trainshed.cli import flags
from trainshed.cli.connecting import ServerContext, context_of
from trainshed.cli.jobs.job_names import report_other_project, resource_name
from trainshed.cli.jobs.job_titles import JobTitles
from trainshed.cli.jobs.list_words import make_arranger
from trainshed.cli.jobs.resource_texts import date_of, wait_lines, yaml_text
from trainshed.cli.projection import print_resource, print_resources
from trainshed.cli.terminal import note, out, out_json, print_result, table, wants_colour
from trainshed.client.collections import (
    PAGE_SIZE,
    JobCollection,
    collection_of,
    id_of,
    native_path,
    pages,
    state_of,
)
from trainshed.client.faults import Json
from trainshed.model.visible import visible_line

_SUMMARIES = {
    "list": "Lists the {noun}s of a project, newest first.",
    "describe": "Shows a {noun} as the API returns it, and why it waits.",
    "cancel": "Cancels a {noun}; a {noun} that has ended does not change.",
    "delete": "Deletes a {noun} that has ended.",
}


def parser(prog: str) -> flags.Parser:
    """Return the parser of one action in one group of commands."""
    group, _, action = prog.removeprefix("trainshed ").rpartition(" ")
    noun, example = flags.NOUNS[group]
    parser = flags.Parser(
        prog,
        summary=_SUMMARIES[action].format(noun=noun),
        example=f"  {prog}" if action == "list" else f"  {prog} {example}",
        usage=f"{prog} [flags]" if action == "list" else f"{prog} NAME [flags]",
    )
    parser.set_defaults(group=group, action=action, summarize=False)
    if action == "list":
        flags.add_list_flags(parser)
    else:
        parser.add_argument("name", metavar="NAME", help=flags.name_help(group, noun))
    add = flags.adder(parser)
    if action == "describe" and group != "ai pipelines":
        add("--summarize", "Show the main fields in tables", action="store_true")
    is_read = action in ("list", "describe")
    flags.add_client_flags(parser, located=group.startswith("ai "), projected=is_read)
    return parser


_COLUMNS: Final[Mapping[str, Callable[[Json], str]]] = {
    "ID": id_of,
    "NAME": lambda resource: str(resource.get("displayName", "")),
    "STATE": state_of,
    "CREATED": lambda resource: date_of(resource.get("createTime")),
}


def run(request: flags.Request) -> int:
    """Carry out one action."""
    args = request.args
    context, collection = context_of(args), collection_of(args.group)
    if args.action == "list":
        _list(context, collection, flags.list_flags_of(args), args.format)
        return 0
    name = resource_name(context, collection, args.name)
    with report_other_project(context, name):
        if args.action == "describe":
            _describe(
                context, collection, name, args.format, summary if args.summarize else yaml_text
            )
        else:
            act = {"cancel": _cancel, "delete": _delete}[args.action]
            act(context, collection, name, args.format)
    return 0


def _list(
    context: ServerContext, collection: JobCollection, order: flags.ListFlags, form: str
) -> None:
    rows = list(_list_rows(context, collection, order))
    if not rows and form == "text":
        where = f" in {context.region}" if collection.located else ""
        condition = " that matches the filter" if order.filter else ""
        note(f"project {context.project} has no {collection.noun}{where}{condition}")
    print_resources(form, rows, lambda: _table(rows, collection))


def _table(rows: list[Json], collection: JobCollection) -> str:
    headers = [name for name in _COLUMNS if collection.located or name != "NAME"]
    cells = ([_COLUMNS[name](row) for name in headers] for row in rows)
    return table(headers, cells, colour=wants_colour("auto", sys.stdout)) if rows else ""


def _list_rows(
    context: ServerContext, collection: JobCollection, order: flags.ListFlags
) -> Iterator[Json]:
    """Yield the rows; without ``--sort-by`` only as many pages are read as ``--limit`` needs."""
    arrange = make_arranger(order.filter, order.sort_by)
    parent = collection.parent(context.project, context.region)
    query = {"pageSize": order.page_size or PAGE_SIZE}
    return islice(arrange(pages(context.server, parent, collection.word, query)), order.limit)


#: The states whose explanation has facts for which Google's documents have no field.
_EXPLAINED_STATES: Final = frozenset({"QUEUED", "RUNNING", "SUCCEEDED", "FAILED"})


def _describe(
    context: ServerContext,
    collection: JobCollection,
    name: str,
    form: str,
    render: Callable[[Json], str],
) -> None:
    resource = context.server.call("GET", collection.path(name, context.project, context.region))
    print_resource(form, resource, lambda: render(resource))
    if collection.word != "trainingPipelines" and _is_explained(resource):
        path = native_path(str(resource.get("name", name)), context.project)
        explanation = context.server.call("GET", f"{path}/explain")
        for line in _explain(explanation, JobTitles(context.server)):
            note(line)
        if _is_running_study(resource):
            note(explanation["message"])


def _is_explained(job: Json) -> bool:
    return state_of(job) in _EXPLAINED_STATES or _has_reducers(job) or _is_running_study(job)


def _is_running_study(job: Json) -> bool:
    has_trials = "studySpec" in job or "hyperparameters" in job.get("trainingInput", {})
    return has_trials and state_of(job) == "RUNNING"


def _explain(explanation: Json, titles: JobTitles) -> Iterator[str]:
    """Yield facts for which Google's documents have no field: why the job waits, its results."""
    yield from wait_lines(titles.name_waiting(explanation.get("waiting", {})))
    for part in ("warning", "reduction", "steps", "outcome"):
        if part in explanation:
            yield explanation[part]


def _has_reducers(job: Json) -> bool:
    """Return whether a worker pool runs the image of Google's reducers."""
    pools = (job.get("jobSpec") or job.get("trialJobSpec") or {}).get("workerPoolSpecs", ())
    uris = (pool.get("containerSpec", {}).get("imageUri", "") for pool in pools)
    return any("reductionserver" in uri for uri in uris)


def _cancel(context: ServerContext, collection: JobCollection, name: str, form: str) -> None:
    path = collection.path(name, context.project, context.region)
    response = context.server.call("POST", f"{path}:cancel", {})
    if form == "json":
        out_json(response)
    else:
        state = state_of(context.server.call("GET", path))
        out(f"{collection.noun} {name}: {state}")


def _delete(context: ServerContext, collection: JobCollection, name: str, form: str) -> None:
    response = context.server.call("DELETE", collection.path(name, context.project, context.region))
    print_result(form, response, f"{collection.noun} {name} is deleted")


_ROLES = (("master", "master"), ("worker", "worker"), ("parameterServer", "parameter server"),
          ("evaluator", "evaluator"))  # fmt: skip
_SUMMARY_FIELDS = ("scaleTier", "runtimeVersion", "pythonModule", "region", "jobDir")


def summary(job: Json) -> str:
    """Return the tables of ``--summarize``, one below the other."""
    rows = list(_overview(job))
    width = max(len(name) for name, _ in rows)
    parts = ["\n".join(f"{name:<{width}}  {visible_line(str(value))}" for name, value in rows)]
    replicas = list(replica_groups(job))
    if replicas:
        parts.append(table(("ROLE", "COUNT", "MACHINE TYPE", "ACCELERATORS"), replicas))
    return "\n\n".join(parts)


def _overview(job: Json) -> Iterator[tuple[str, Any]]:
    yield "id", id_of(job)
    if name := job.get("displayName"):
        yield "name", name
    yield "state", state_of(job)
    for event in ("create", "start", "end"):
        if stamp := job.get(f"{event}Time"):
            yield f"{event} time", date_of(stamp)
    training_input = job.get("trainingInput", {})
    for field in _SUMMARY_FIELDS:
        if field in training_input:
            yield field, training_input[field]
    if trials := job.get("trainingOutput", {}).get("completedTrialCount"):
        yield "trials", trials
    message = job.get("errorMessage") or job.get("error", {}).get("message")
    if message:
        yield "message", message


def replica_groups(job: Json) -> Iterator[tuple[Any, ...]]:
    """Yield the role, count, machine type and accelerators of each replica group of a job."""
    training_input = job.get("trainingInput", {})
    for field, role in _ROLES:
        count = training_input.get(f"{field}Count", 1 if field == "master" else 0)
        if f"{field}Type" in training_input:
            accelerator = training_input.get(f"{field}Config", {}).get("acceleratorConfig", {})
            accelerators = _accelerators(accelerator.get("count"), accelerator.get("type"))
            yield role, count, training_input[f"{field}Type"], accelerators
    spec = job.get("jobSpec") or job.get("trialJobSpec") or {}
    for index, pool in enumerate(spec.get("workerPoolSpecs", ())):
        if pool:
            machine = pool.get("machineSpec", {})
            machine_type = machine.get("machineType", "")
            accelerators = _accelerators(
                machine.get("acceleratorCount"), machine.get("acceleratorType")
            )
            yield f"pool {index}", pool.get("replicaCount", 0), machine_type, accelerators


def _accelerators(count: Any, kind: Any) -> str:
    return f"{count} {kind}" if count else ""
