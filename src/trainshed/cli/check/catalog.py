"""``trainshed catalog NOUN list|describe``: the entries of one edition of the catalog."""

import difflib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from trainshed.cli import flags
from trainshed.cli.terminal import out, out_json, table
from trainshed.model.faults import UsageFault

Row = Mapping[str, Any]

#: What can be shown; ``workbench.catalog_rows`` has a function for each of them.
NOUNS = ("machine-types", "accelerators", "regions", "runtimes", "images", "editions")

EXAMPLE = """\
  trainshed catalog machine-types list --edition 2020-08
  trainshed catalog accelerators describe NVIDIA_TESLA_T4 --edition 2020-08 --format json"""


def parser(prog: str) -> flags.Parser:
    """The command line of ``trainshed catalog``."""
    parser = flags.Parser(
        prog,
        summary="Shows the catalog's entries and their sources, as of an edition.",
        example=EXAMPLE,
        usage=f"{prog} NOUN [list | describe NAME] [flags]",
    )
    parser.add_argument("noun", choices=NOUNS, metavar="NOUN", help=", ".join(NOUNS))
    parser.add_argument(
        "action", choices=("list", "describe"), nargs="?", default="list", help="default: list"
    )
    parser.add_argument("name", metavar="NAME", nargs="?", help="what to describe")
    parser.add_argument("--edition", metavar="ID", help="default: the newest")
    parser.add_argument("--zone-snapshot", metavar="ID", help="zone data, for regions")
    parser.add_argument("--overlay", metavar="FILE", action="append", default=[])
    flags.add_format(parser)
    return parser


def run(request: flags.Request) -> int:
    """List rows, or describe one."""
    from trainshed.catalog import editions
    from trainshed.catalog.open import load_catalog
    from trainshed.workbench import catalog_rows

    args = request.args
    edition = args.edition or editions()[-1].id
    catalog = load_catalog(edition, tuple(map(Path, args.overlay)), args.zone_snapshot)
    rows = catalog_rows.NOUNS[args.noun](catalog)
    if args.name and args.action != "describe":
        raise UsageFault(
            f"list takes no name; use: trainshed catalog {args.noun} describe {args.name}"
        )
    if args.action == "describe":
        _describe(_find_row(rows, args.noun, args.name), as_json=args.format == "json")
    elif args.format == "json":
        out_json(rows)
    else:
        columns = catalog_rows.COLUMNS[args.noun]
        headers = [column.upper().replace("_", " ") for column in columns]
        out(table(headers, [[_cell(row[column]) for column in columns] for row in rows]))
    return 0


def _find_row(rows: Sequence[Row], noun: str, wanted: str | None) -> Row:
    if not wanted:
        raise UsageFault(f"describe needs a NAME; list them with: trainshed catalog {noun} list")
    for row in rows:
        names = (row["name"], *row.get("aliases", ()))
        if any(wanted == name or wanted.endswith(f"/{name}") for name in names):
            return row
    by_plain = {_plain(row["name"]): row["name"] for row in rows}
    matches = difflib.get_close_matches(_plain(wanted), by_plain, n=3)
    near = [by_plain[name] for name in matches]
    hint = f"; did you mean {' or '.join(near)}?" if near else ""
    raise UsageFault(f"there is no {wanted} among the {noun}{hint}")


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
