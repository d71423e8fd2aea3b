"""Writes docs/compatibility: what becomes of every field of each dialect.

The field tables say which fields there are, ``coverage.toml`` what becomes of them.  Idempotent.
"""

from collections.abc import Iterator
from pathlib import Path

from coverage_rows import EVERY, FieldStatus, Row, Rows, coverage, row_of

from trainshed.wire.fields import MessageInfo, Table, table

DOCS = Path(__file__).parent.parent / "docs/compatibility"
TITLE = {
    "ml_v1": "AI Platform Training (`ml/v1`)",
    "aiplatform_v1": "Vertex AI custom training (`aiplatform/v1`)",
}
INTRODUCTION = """\
What becomes of every field of a job. Rendered by `scripts/gen_compatibility.py` from
`src/trainshed/wire/{dialect}/coverage.toml`; a test fails when a field has no row.

- **honoured**: it does what it says.
- **noted**: accepted and echoed; the last column says why it changes nothing here.
- **refused**: a job that has it is refused, with the rule `unsupported-field`.

*Output* fields are written where a job is rendered for a client; a request's value for one is
read over.
"""


def page(dialect: str) -> str:
    """The page of a dialect, as Markdown."""
    rows, fields = coverage(dialect), table(dialect)
    lines = [
        f"# {TITLE[dialect]}",
        "",
        INTRODUCTION.format(dialect=dialect),
        *_counts(rows, fields),
    ]
    for message in rows:
        lines += ["", f"## {message}", "", *_message(rows, fields.messages[message])]
    return "\n".join(lines) + "\n"


def _counts(rows: Rows, fields: Table) -> Iterator[str]:
    statuses = [
        _row(rows, message.name, field.json_name).status
        for message in fields.messages.values()
        for field in message.fields
    ]
    counts = ", ".join(f"{statuses.count(status)} {status.value}" for status in FieldStatus)
    yield f"{len(statuses)} fields of {len(fields.messages)} messages: {counts}."


def _message(rows: Rows, message: MessageInfo) -> Iterator[str]:
    whole = rows[message.name].get(EVERY)
    if whole:
        yield f"All fields are {_status(whole)}: {whole.sentence}"
        yield ""
        yield ", ".join(f"`{field.json_name}`" for field in message.fields)
        return
    yield "| field | here | |"
    yield "|---|---|---|"
    for name, row in rows[message.name].items():
        yield f"| `{name}` | {_status(row)} | {row.sentence} |"


def _status(row: Row) -> str:
    return f"{row.status.value} (output)" if row.is_output else row.status.value


def _row(rows: Rows, message: str, field: str) -> Row:
    row = row_of(rows, message, field)
    if row is None:
        raise SystemExit(f"{message}.{field} has no row in coverage.toml")
    return row


def main() -> None:
    """Write the pages."""
    DOCS.mkdir(parents=True, exist_ok=True)
    for dialect in TITLE:
        (DOCS / f"{dialect}.md").write_text(page(dialect), encoding="utf-8")
        print(f"docs/compatibility/{dialect}.md")


if __name__ == "__main__":
    main()
