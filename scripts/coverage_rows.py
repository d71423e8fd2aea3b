"""The status of every field of a dialect: honoured, noted or refused.

Each dialect has a ``coverage.toml``: a table a message, a row a field, read as
``status [output]: sentence``.  ``output`` marks fields that only the server writes; they are read
over in a request.  A row named ``*`` speaks for all fields of a message that nothing here looks
into.  The compatibility pages are rendered from it, and ``scripts/gen_wire.py`` copies the refusals
into the field tables by which requests are parsed.
"""

import enum
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.resources import files

Rows = Mapping[str, Mapping[str, "Row"]]
EVERY = "*"


class FieldStatus(enum.Enum):
    """The treatment of a field's value."""

    HONOURED = "honoured"
    NOTED = "noted"
    """Accepted and echoed; the sentence says why it changes nothing."""
    REFUSED = "refused"


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    status: FieldStatus
    is_output: bool = False
    sentence: str = ""

    @classmethod
    def read(cls, text: str) -> "Row":
        """Read ``noted output: It says why.``  Raises ValueError for any other status."""
        head, _, sentence = text.partition(": ")
        status, _, mark = head.partition(" ")
        if mark not in ("", "output"):
            raise ValueError(f"a coverage row reads 'status [output]: sentence', not {text!r}")
        return cls(status=FieldStatus(status), is_output=bool(mark), sentence=sentence)


def coverage(dialect: str) -> Rows:
    """All rows of a dialect's package, such as ``ml_v1``: message, field, row."""
    text = files(f"trainshed.wire.{dialect}").joinpath("coverage.toml").read_text("utf-8")
    return {
        message: {field: Row.read(row) for field, row in fields.items()}
        for message, fields in tomllib.loads(text).items()
    }


def row_of(rows: Rows, message: str, field: str) -> Row | None:
    """The row that speaks for a field, or None: a gap that a test reports."""
    of_message = rows.get(message, {})
    return of_message.get(field) or of_message.get(EVERY)
