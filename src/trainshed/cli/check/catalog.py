"""``trainshed catalog NOUN list|describe``: what exists, as one edition saw it."""

import difflib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from trainshed.catalog import editions
from trainshed.catalog.open import load_catalog
from trainshed.cli.flags import Request
from trainshed.cli.terminal import out, out_json, table
from trainshed.model.faults import UsageFault
from trainshed.workbench.catalog_rows import COLUMNS, NOUNS, Row


def run(request: Request) -> int:
    """List rows, or describe one."""
    args = request.args
    edition = args.edition or editions()[-1].id
    catalog = load_catalog(edition, tuple(map(Path, args.overlay)), args.zone_snapshot)
    rows = NOUNS[args.noun](catalog)
    if args.name and args.action != "describe":
        raise UsageFault(
            f"list takes no name; use: trainshed catalog {args.noun} describe {args.name}"
        )
    if args.action == "describe":
        _describe(_row(rows, args), as_json=args.format == "json")
    elif args.format == "json":
        out_json(rows)
    else:
        columns = COLUMNS[args.noun]
        headers = [column.upper().replace("_", " ") for column in columns]
        out(table(headers, [[_cell(row[column]) for column in columns] for row in rows]))
    return 0


def _row(rows: Sequence[Row], args: Any) -> Row:
    if not args.name:
        raise UsageFault(f"describe what? give a name of trainshed catalog {args.noun} list")
    for row in rows:
        names = (row["name"], *row.get("aliases", ()))
        if any(args.name == name or args.name.endswith(f"/{name}") for name in names):
            return row
    by_plain = {_plain(row["name"]): row["name"] for row in rows}
    matches = difflib.get_close_matches(_plain(args.name), by_plain, n=3)
    near = [by_plain[name] for name in matches]
    hint = f"; did you mean {' or '.join(near)}?" if near else ""
    raise UsageFault(f"there is no {args.name} among the {args.noun}{hint}")


def _plain(name: str) -> str:
    return name.lower().replace("_", "-")


def _describe(row: Row, *, as_json: bool) -> None:
    if as_json:
        out_json(row)
        return
    width = max(map(len, row))
    for key, value in row.items():
        if value not in (None, [], {}):
            out(f"{key:<{width}}  {_cell(value)}")


def _cell(value: Any) -> Any:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, list):
        return ", ".join(map(str, value))
    if isinstance(value, dict):
        return "; ".join(f"{key}: {_cell(item)}" for key, item in value.items())
    return value
