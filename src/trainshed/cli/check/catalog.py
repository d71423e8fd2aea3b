"""``trainshed catalog NOUN list|describe``: prints entries of one edition of the catalog."""

import difflib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from trainshed.cli import flags
from trainshed.cli.terminal import out, out_json, table
from trainshed.model.faults import UsageFault

Row = Mapping[str, Any]

#: The kinds of entries; ``workbench.catalog_rows`` has a function for each of them.
NOUNS = ("machine-types", "accelerators", "regions", "runtimes", "images", "editions")

EXAMPLE = """\
  trainshed catalog machine-types list --edition 2020-08
  trainshed catalog accelerators describe NVIDIA_TESLA_T4 --edition 2020-08 --format json"""


def parser(prog: str) -> flags.Parser:
    """Return the parser."""
    parser = flags.Parser(
        prog,
        summary="Shows the entries of one edition of the catalog, and their sources.",
        example=EXAMPLE,
        usage=f"{prog} NOUN [list | describe NAME] [flags]",
    )
    parser.add_argument("noun", choices=NOUNS, metavar="NOUN", help=", ".join(NOUNS))
    parser.add_argument(
        "action", choices=("list", "describe"), nargs="?", default="list", help="default: list"
    )
    parser.add_argument("name", metavar="NAME", nargs="?", help="entry to describe")
    add = flags.adder(parser)
    add("--edition ID", "edition of the catalog; default: the newest")
    add("--zone-snapshot ID", "version of the zone data, for regions")
    add(
        "--overlay FILE", "TOML file with your own entries; repeatable", action="append", default=[]
    )
    flags.add_format(parser)
    return parser


def run(request: flags.Request) -> int:
    """Print all rows, or one row in full."""
    from trainshed.catalog import editions
    from trainshed.catalog.open import load_catalog
    from trainshed.workbench import catalog_rows

    args = request.args
    edition = args.edition or editions()[-1].id
    catalog = load_catalog(edition, tuple(map(Path, args.overlay)), args.zone_snapshot)
    rows = catalog_rows.NOUNS[args.noun](catalog)
    if args.name and args.action != "describe":
        raise UsageFault(
            f"list takes no NAME; use: trainshed catalog {args.noun} describe {args.name}"
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


def _find_row(rows: Sequence[Row], noun: str, entry: str | None) -> Row:
    if not entry:
        raise UsageFault(f"describe needs a NAME; list them with: trainshed catalog {noun} list")
    for row in rows:
        names = (row["name"], *row.get("aliases", ()))
        if any(entry == name or entry.endswith(f"/{name}") for name in names):
            return row
    names_by_key = {_name_key(row["name"]): row["name"] for row in rows}
    similar = difflib.get_close_matches(_name_key(entry), names_by_key, n=3)
    suggestions = [names_by_key[key] for key in similar]
    hint = f"; did you mean {' or '.join(suggestions)}?" if suggestions else ""
    raise UsageFault(f"the catalog has no {entry} in its {noun}{hint}")


def _name_key(name: str) -> str:
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
