"""list, describe, cancel and delete, for every collection: what differs is in two tables."""

import argparse
from collections.abc import Callable, Iterator, Mapping
from itertools import islice
from typing import Final

from trainshed.cli.connecting import Place, place_of
from trainshed.cli.flags import Request
from trainshed.cli.list_words import arranged
from trainshed.cli.notes import note
from trainshed.cli.resource_texts import date_of, printed, why_it_waits
from trainshed.cli.terminal import out, out_json, table
from trainshed.client.collections import (
    PAGE_SIZE,
    Collection,
    collection_of,
    id_of,
    native_path,
    pages,
    state_of,
)
from trainshed.client.faults import Json

_LISTED: Final[Mapping[str, Callable[[Json], str]]] = {
    "ID": id_of,
    "NAME": lambda found: str(found.get("displayName", "")),
    "STATE": state_of,
    "CREATED": lambda found: date_of(found.get("createTime")),
}


def run(request: Request) -> int:
    """Carry out one action."""
    args = request.args
    act = {"list": _list, "describe": _describe, "cancel": _cancel, "delete": _delete}[args.action]
    act(args, place_of(args), collection_of(args.group))
    return 0


def _list(args: argparse.Namespace, place: Place, of: Collection) -> None:
    rows = list(_listed(args, place, of))
    if args.format == "json":
        out_json(rows)
        return
    if rows:
        headers = [name for name in _LISTED if of.located or name != "NAME"]
        out(table(headers, ([_LISTED[name](row) for name in headers] for row in rows)))
    else:
        where = f" in {place.region}" if of.located else ""
        which = " that passes the filter" if args.filter else ""
        note(f"project {place.project} has no {of.noun}{where}{which}")


def _listed(args: argparse.Namespace, place: Place, of: Collection) -> Iterator[Json]:
    """Without an order of its own, a list ends as soon as it has all that was asked for."""
    arrange = arranged(args.filter, args.sort_by)
    parent = of.parent(place.project, place.region)
    query = {"pageSize": args.page_size or PAGE_SIZE}
    return islice(arrange(pages(place.server, parent, of.word, query)), args.limit)


def _describe(args: argparse.Namespace, place: Place, of: Collection) -> None:
    found = place.server.call("GET", of.path(args.name, place.project, place.region))
    if args.format == "json":
        out_json(found)
    elif args.summarize:
        from trainshed.cli.summaries import summary  # noqa: PLC0415  # few ask for it

        out(summary(found))
    else:
        out(printed(found))
    if of.word != "trainingPipelines" and (state_of(found) == "QUEUED" or _reduces(found)):
        path = native_path(str(found.get("name", args.name)), place.project)
        explained = place.server.call("GET", f"{path}/explain")
        for line in why_it_waits(explained.get("waiting", {})):
            note(line)
        if "reduction" in explained:
            note(explained["reduction"])


def _reduces(job: Json) -> bool:
    """Whether a worker pool runs the image of Google's reducers (R16)."""
    pools = (job.get("jobSpec") or job.get("trialJobSpec") or {}).get("workerPoolSpecs", ())
    uris = (pool.get("containerSpec", {}).get("imageUri", "") for pool in pools)
    return any("reductionserver" in uri for uri in uris)


def _cancel(args: argparse.Namespace, place: Place, of: Collection) -> None:
    path = of.path(args.name, place.project, place.region)
    answer = place.server.call("POST", f"{path}:cancel", {})
    if args.format == "json":
        out_json(answer)
    else:
        state = state_of(place.server.call("GET", path))
        out(f"{of.noun} {args.name}: {state}")


def _delete(args: argparse.Namespace, place: Place, of: Collection) -> None:
    answer = place.server.call("DELETE", of.path(args.name, place.project, place.region))
    if args.format == "json":
        out_json(answer)
    else:
        out(f"{of.noun} {args.name} is deleted")
