"""The flags for what a study has before its first trial: their request, and the answer as text."""

import argparse
import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from trainshed.cli.connecting import ServerContext
from trainshed.client.faults import Json
from trainshed.model.faults import UsageFault
from trainshed.model.study_start import (
    GIVEN_RESULTS_MAX,
    GIVEN_TEXT_MAX,
    GIVEN_VALUES_MAX,
    describe_source,
)

if TYPE_CHECKING:
    from trainshed.model.study_start import PointRow, ResultRow, StartCall
    from trainshed.service.jobs.study_answers import StudyStartReport

#: How many JSON values a result has beside its parameters, metrics and cells, and the job.
_ROW_VALUES: Final = 7
_JOB_VALUES: Final = 10_000
_POINT: Final = re.compile(r"start\.points\[(?P<position>\d+)\](?:\..*)?")
_STUDY: Final = re.compile(r"start\.studies\[(?P<position>\d+)\]")
_LEFT_OUT_MAX: Final = 12


def read_start(args: argparse.Namespace, context: ServerContext) -> Json:
    """Read the files of ``--warm-start`` and ``--enqueue``; empty without these flags.

    Raises UsageFault for a file without results, and as ``find_job`` for a name of no job.
    """
    if not _is_given(args):
        return {}
    from trainshed.cli.jobs.job_names import find_job

    call = _read_files(args)
    studies = [find_job(context, name).name.rpartition("/")[2] for name in call.studies]
    start = {
        "results": [_render_row(row, is_named=len(call.sources) > 1) for row in call.results],
        "sources": [source[:GIVEN_TEXT_MAX] for source in call.sources],
        "studies": studies,
        "points": [_render_point(point) for point in call.points],
    }
    return {"start": {name: value for name, value in start.items() if value}}


def read_start_files(args: argparse.Namespace) -> "StartCall":
    """Read the same files without a server.  Raises UsageFault, also for the name of a study."""
    from trainshed.model.study_start import NO_START

    if not _is_given(args):
        return NO_START
    call = _read_files(args)
    if call.studies:
        message = f"--warm-start must name files here, got {call.studies[0]}"
        raise UsageFault(f"{message}; a study is read by the server: create it with --dry-run")
    return call


def _is_given(args: argparse.Namespace) -> bool:
    return bool(getattr(args, "warm_start", None) or getattr(args, "enqueue", None))


def _read_files(args: argparse.Namespace) -> "StartCall":
    """Read the files of both flags; ``studies`` has the other names of ``--warm-start``."""
    from trainshed.model.study_start import StartCall
    from trainshed.workbench.known_results.sources import read_points, read_results

    results = read_results(args.warm_start)
    _check_size(results.rows)
    return StartCall(
        results=tuple(results.rows),
        sources=tuple(results.sources),
        studies=tuple(results.studies),
        points=tuple(read_points(args.enqueue)),
    )


def _check_size(rows: Sequence["ResultRow"]) -> None:
    if len(rows) > GIVEN_RESULTS_MAX:
        message = f"--warm-start must have at most {GIVEN_RESULTS_MAX:,} results"
        raise UsageFault(f"{message}, got {len(rows):,}")
    values = sum(len(r.parameters) + len(r.metrics) + len(r.cells) + _ROW_VALUES for r in rows)
    if values > GIVEN_VALUES_MAX - _JOB_VALUES:
        message = f"--warm-start must have at most {GIVEN_VALUES_MAX - _JOB_VALUES:,} values"
        raise UsageFault(f"{message}, got {values:,}; leave out columns or results")


def _render_row(row: "ResultRow", *, is_named: bool) -> Json:
    """Render a result; only one of several sources is named in it."""
    unnamed = [
        {"value": one.value, "goal": one.goal.value if one.goal else None}
        for one in row.unnamed
        if math.isfinite(one.value)
    ]
    content = {
        "name": row.name[:GIVEN_TEXT_MAX],
        "parameters": _render_values(row.parameters),
        "metrics": _render_values(row.metrics),
        "cells": _render_values(row.cells),
        "unnamed": unnamed,
        "fault": row.fault[:GIVEN_TEXT_MAX],
        "source": row.source[:GIVEN_TEXT_MAX] if is_named else "",
    }
    return {name: value for name, value in content.items() if value}


def _render_point(point: "PointRow") -> Json:
    source = {"source": point.source[:GIVEN_TEXT_MAX]} if point.source else {}
    parameters = _render_values(point.parameters)
    return {"name": point.name[:GIVEN_TEXT_MAX], "parameters": parameters, **source}


def _render_values(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return values for JSON, which has no NaN; a longer text cannot be a value of a study."""
    return {name: _render_value(value) for name, value in values.items()}


def _render_value(value: Any) -> Any:
    if isinstance(value, str):
        return value[:GIVEN_TEXT_MAX]
    return str(value) if isinstance(value, float) and not math.isfinite(value) else value


def name_fields(words: Callable[[str], str], start: Json) -> Callable[[str], str]:
    """Return a function that names the flag, and the point, of a field of the request."""
    return partial(_name_field, words, start.get("start", {}))  # messages name the parameter


def _name_field(words: Callable[[str], str], start: Json, field: str) -> str:
    if match := _POINT.fullmatch(field):
        return f"--enqueue {start['points'][int(match['position'])]['name']}"
    if match := _STUDY.fullmatch(field):
        return f"--warm-start {start['studies'][int(match['position'])]}"
    flags = {"start.results": "--warm-start", "start.points": "--enqueue"}
    return flags.get(field) or words(field)


def name_start_field(field: str, call: "StartCall") -> str:
    """Return the flag, and the point, of a field of what is given with a study."""
    return _name_field(str, {"points": [{"name": point.name} for point in call.points]}, field)


def render_report(report: "StudyStartReport") -> Json:
    """Return a report as a server's answer has it, without the server's packages."""
    content: Json = _rename(asdict(report))
    return content


def _rename(value: Any) -> Any:
    from trainshed.wire.native_v1 import json_name

    if isinstance(value, dict):
        return {json_name(key): _rename(one) for key, one in value.items() if one is not None}
    return [_rename(one) for one in value] if isinstance(value, list | tuple) else value


def list_start_lines(report: Json) -> Iterator[str]:
    """Yield what a new study has before its first trial, and what is ignored and why."""
    if report.get("message"):
        yield f"known results: {report['results']} used, {report['ignored']} ignored"
        if len(sources := report.get("sources", ())) > 1:
            yield f"  {list_sources(sources)}"
    for reason in report.get("reasons", ()):
        yield f"  ignored {reason['count']}: {reason['reason']} ({_list_examples(reason)})"
    if left_out := report.get("leftOut"):
        yield f"  left out of the results: {_list_names(left_out)}"
    points, tried = report.get("firstPoints", 0), report.get("firstPointsKnown", 0)
    if points or tried:
        text = f"first points: {points}, tried before the search"
        yield text + (f"; {tried} not tried again, with known results" if tried else "")


def list_sources(sources: Sequence[Json]) -> str:
    """List how many results of each source a study uses."""
    return ", ".join(describe_source(s["name"], s["used"], s["ignored"]) for s in sources)


def _list_examples(reason: Json) -> str:
    examples = [
        f"{one['name']}: {one['value']}" if one.get("value") else str(one["name"])
        for one in reason["examples"]
    ]
    return ", ".join([*examples, *(["..."] if reason["count"] > len(examples) else [])])


def _list_names(names: Sequence[str]) -> str:
    rest = len(names) - _LEFT_OUT_MAX
    return ", ".join(names[:_LEFT_OUT_MAX]) + (f" and {rest} more" if rest > 0 else "")
