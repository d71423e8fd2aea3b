"""Implements gcloud's ``--format``: text, json, yaml, and projections: ``value(name,state)``.

A projection has a shape and keys.  A key is a dotted path (``workerPoolSpecs[0].replicaCount``)
with an optional ``.basename()`` and an optional ``:label=TEXT``.  gcloud's other transforms and
attributes are refused by name.
"""

import argparse
import re
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final, NamedTuple

from trainshed.cli.terminal import out, out_json, table
from trainshed.client.faults import Json
from trainshed.model.csv_text import csv_text
from trainshed.model.faults import UsageFault
from trainshed.model.visible import visible_line

METAVAR: Final = "{text,json,yaml,csv(KEY,...),table(KEY,...),value(KEY,...)}"
_ACCEPTED: Final = (
    "text, json, yaml, json(KEY,...), csv(KEY,...), table(KEY,...) or value(KEY,...); a KEY is a "
    "dotted path such as name or labels.team, with an optional .basename() or :label=TEXT after it"
)
_PLAIN: Final = frozenset({"text", "json", "yaml"})
#: Compiled on use, because most commands use no projection.
_SHAPE: Final = r"(?s)(csv|table|value|json)(\[no-heading\])?\((.+)\)"
_KEY: Final = (
    r"(?P<path>[\w-]+(?:\[\d+\]|\.[\w-]+)*)(?P<base>\.basename\(\))?(?::label=(?P<label>[^,:]+))?"
)
_STEP: Final = r"[\w-]+"
#: Separates the items of a list, as gcloud does.
_SEPARATOR: Final = ";"


class Key(NamedTuple):
    """A column of a projection: the path of its value, and its heading."""

    path: Sequence[str]
    is_base: bool
    label: str

    def find_value(self, resource: Any) -> Any:
        """Return the value in a resource, or None."""
        value = resource
        for step in self.path:
            if isinstance(value, dict):
                value = value.get(step)
            elif isinstance(value, list) and step.isdecimal() and int(step) < len(value):
                value = value[int(step)]
            else:
                return None
        return value.rpartition("/")[2] if self.is_base and isinstance(value, str) else value


class Projection(NamedTuple):
    """A format that selects fields."""

    shape: str
    keys: Sequence[Key]
    has_heading: bool


def add_format(parser: argparse.ArgumentParser) -> None:
    """Add ``--format`` with projections; ``args.format`` is the checked text."""
    parser.add_argument(
        "--format",
        metavar=METAVAR,
        type=_check_format,
        default="text",
        help="Format of the results; a KEY is a dotted path of the JSON, as in value(name,state)",
    )


def _check_format(text: str) -> str:
    try:
        projection_of(text)
    except UsageFault as fault:
        raise argparse.ArgumentTypeError(str(fault)) from None
    return text


def projection_of(text: str) -> Projection | None:
    """Parse a format; return None for text, json and yaml.  Raises UsageFault."""
    if text in _PLAIN:
        return None
    match = re.fullmatch(_SHAPE, text.strip())
    if match is None:
        raise UsageFault(f"must be {_ACCEPTED}, got {text!r}")
    shape, no_heading, keys = match.groups()
    return Projection(shape, [_key_of(key.strip()) for key in keys.split(",")], not no_heading)


def _key_of(text: str) -> Key:
    match = re.fullmatch(_KEY, text)
    if match is None:
        raise UsageFault(f"cannot read the key {text!r} (accepted: {_ACCEPTED})")
    path = re.findall(_STEP, match["path"])
    names = [step for step in path if not step.isdecimal()]
    return Key(path, bool(match["base"]), match["label"] or _heading(names[-1]))


def _heading(name: str) -> str:
    """Return the heading of a field: ``CREATE_TIME`` for ``createTime``."""
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).upper()


def print_resources(form: str, resources: Sequence[Json], text: Callable[[], str]) -> None:
    """Print a list in a format; for the format text call ``text``, and print its result if any."""
    if projection := projection_of(form):
        _print_projected(projection, resources)
    elif form == "json":
        out_json(resources)
    elif form == "yaml":
        out("\n---\n".join(map(_yaml, resources)))
    elif body := text():
        out(body)


def print_resource(form: str, resource: Json, text: Callable[[], str]) -> None:
    """Print one resource in a format."""
    projection = projection_of(form)
    if projection and projection.shape == "json":
        out_json(_select_fields(projection, resource))
    elif form == "json":
        out_json(resource)
    else:
        print_resources(form, [resource], text)


def _yaml(resource: Json) -> str:
    from trainshed.cli.jobs.resource_texts import yaml_text

    return yaml_text(resource)


def _print_projected(projection: Projection, resources: Iterable[Json]) -> None:
    if projection.shape == "json":
        out_json([_select_fields(projection, resource) for resource in resources])
        return
    labels = [key.label for key in projection.keys]
    rows = ([_text(key.find_value(resource)) for key in projection.keys] for resource in resources)
    if projection.shape == "table":
        text = table(labels, rows)
        out(text if projection.has_heading else "\n".join(text.splitlines()[2:]))
        return
    is_csv = projection.shape == "csv"
    lines = list(rows)
    if is_csv and projection.has_heading:
        lines.insert(0, [label.lower() for label in labels])
    cells = [[visible_line(cell) for cell in line] for line in lines]
    text = csv_text(cells) if is_csv else "\n".join("\t".join(line) for line in cells)
    if lines:
        out(text.removesuffix("\n"))


def _select_fields(projection: Projection, resource: Json) -> Json:
    """Return the resource with only the selected fields, each at its path."""
    selected: Json = {}
    for key in projection.keys:
        if (value := key.find_value(resource)) is None:
            continue
        node = selected
        names = [step for step in key.path if not step.isdecimal()]
        for name in names[:-1]:
            node = node.setdefault(name, {})
        node[names[-1]] = value
    return selected


def _text(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, dict):
        return _SEPARATOR.join(f"{name}={_text(value[name])}" for name in sorted(value))
    if isinstance(value, list):
        return _SEPARATOR.join(map(_text, value))
    return str(value)
