"""Every message of the troubleshooting page is one that the product has."""

import ast
import re
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs/how-to/troubleshooting.md"
SOURCE = ROOT / "src/trainshed"
VALUE = "…"
#: A row's first cell: code between one backtick or two.
ROW = re.compile(r"^\| (?:``(?P<double>.+?)``|`(?P<single>[^`]+)`) \|", re.MULTILINE)
MESSAGES = [match["double"] or match["single"] for match in ROW.finditer(PAGE.read_text("utf-8"))]


def template_of(node):
    """A string of the source with its values as ``…``; None for what is no string."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return re.sub(r"\{[^{}]*\}", VALUE, node.value)
    if isinstance(node, ast.JoinedStr):
        parts = (template_of(part) or VALUE for part in node.values)
        return "".join(VALUE if part is None else part for part in parts)
    return None


@cache
def sources():
    """The text of each file of the product."""
    return {path: path.read_text("utf-8") for path in SOURCE.rglob("*.py")}


@cache
def templates(path):
    """All strings of a file; neighbouring values are one, as a reader sees them."""
    texts = filter(None, map(template_of, ast.walk(ast.parse(sources()[path]))))
    return {re.sub(f"{VALUE}+", VALUE, text) for text in texts}


def is_of_the_product(message):
    """Whether a string of the product has the message; only files with its words are parsed."""
    words = re.findall(r"\w{4,}", message)
    paths = (path for path, text in sources().items() if all(word in text for word in words))
    return any(message in text for path in paths for text in templates(path))


def test_the_page_has_the_likeliest_messages_once_each():
    assert 30 <= len(MESSAGES) == len(set(MESSAGES))
    rows = [line for line in PAGE.read_text("utf-8").splitlines() if line.startswith("| ")]
    headings = sum(line.startswith("| message |") for line in rows)
    assert len(rows) == len(MESSAGES) + headings, "a row whose first cell is no message in code"


@pytest.mark.parametrize("message", MESSAGES)
def test_a_message_of_the_page_is_one_of_the_product(message):
    assert is_of_the_product(message), f"no string of src has: {message}"


@pytest.mark.parametrize(
    "row", [m.string[m.start() :].split("\n")[0] for m in ROW.finditer(PAGE.read_text("utf-8"))]
)
def test_each_message_has_a_cause_and_an_answer(row):
    cells = [cell.strip() for cell in row.strip("|").split(" | ")]
    assert len(cells) == 3
    assert all(cell.rstrip("|").strip().endswith((".", "`", ")")) for cell in cells[1:])
