"""docs/invariants.md is current: its tests exist, and the doctor's checks are those it names."""

import ast
import functools
import re
from pathlib import Path

import pytest

from trainshed.workbench.doctor.examine import CHECKS

ROOT = Path(__file__).parent.parent
PAGE = (ROOT / "docs/invariants.md").read_text("utf-8")
ROWS = re.findall(r"^\| (\d+) \| (.+?) \| (.*?) \| (.*?)\|$", PAGE, re.MULTILINE)
NAMED = [(row[0], name) for row in ROWS for name in re.findall(r"`([^`]+)`", row[2])]


def test_promises_are_numbered_in_their_order():
    assert [int(number) for number, *_ in ROWS] == list(range(1, len(ROWS) + 1))
    assert len(ROWS) == len(re.findall(r"^\| \d", PAGE, re.MULTILINE)), "a row cannot be read"


def test_every_promise_is_held_by_a_test():
    assert [number for number, _, tests, _ in ROWS if "::test_" not in tests] == []


@pytest.mark.parametrize(("number", "name"), NAMED)
def test_the_test_of_a_promise_exists(number, name):
    path, _, function = name.partition("::")
    assert (ROOT / path).is_file(), f"promise {number}: there is no {path}"
    pattern = rf"^\s*(?:async )?def {re.escape(function)}\("
    assert re.search(pattern, (ROOT / path).read_text("utf-8"), re.MULTILINE), name


@pytest.mark.parametrize("number", sorted({number for number, _ in NAMED}, key=int))
def test_a_test_of_every_promise_is_in_the_short_suite(number):
    names = [name.split("::") for promise, name in NAMED if promise == number]
    assert not all(is_left_to_full(path, function) for path, function in names)


def is_left_to_full(path, function):
    """Whether ``make test`` leaves out all of a test: its own mark says so, or its file's."""
    nodes = nodes_of(path)
    marks = [node.value for node in nodes if isinstance(node, ast.Assign) and is_marks(node)]
    functions = (node for node in nodes if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef))
    marks += next(node.decorator_list for node in functions if node.name == function)
    return any("pytest.mark.full" in ast.unparse(mark).split("parametrize")[0] for mark in marks)


@functools.cache
def nodes_of(path):
    return list(ast.walk(ast.parse((ROOT / path).read_text("utf-8"))))


def is_marks(node):
    return any(isinstance(name, ast.Name) and name.id == "pytestmark" for name in node.targets)


def test_the_checks_of_the_doctor_are_those_of_the_page():
    named = [name for row in ROWS for name in re.findall(r"`([^`]+)`", row[3])]
    assert sorted(named) == sorted(check.name for check in CHECKS)
