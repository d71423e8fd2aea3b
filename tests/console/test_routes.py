"""Every route that the console's sources call is documented, and a command does the same."""

import re
from pathlib import Path

import pytest

from console.routes import VERBS, find_route
from trainshed.cli.verbs import VERBS as COMMANDS

SOURCES = Path(__file__).parents[2] / "console" / "src"
#: A call with its path in place; other calls are recorded by test_every_page.py.
CALL = re.compile(r'"(GET|POST|DELETE)",\s*([`"])(/[^`"]*)\2')
WORDS = {"${word}": ("drain", "maintain", "resume")}


def calls():
    for file in SOURCES.rglob("*.ts*"):
        for method, _, path in CALL.findall(file.read_text()):
            for word in next((words for key, words in WORDS.items() if key in path), ("x",)):
                filled = re.sub(r"\$\{word\}", word, path)
                yield method, re.sub(r"\$\{.*?\}", "x", filled)


@pytest.mark.parametrize(("method", "path"), sorted(set(calls())))
def test_a_route_of_the_sources_is_documented_and_has_a_command(method, path):
    assert find_route(method, path) in VERBS


@pytest.mark.parametrize("route", VERBS, ids=" ".join)
def test_a_route_with_a_command_is_documented(route):
    method, path = route
    assert find_route(method, re.sub(r"\{[^}]*\}", "x", path)) == route
    assert VERBS[route] in {command.text for command in COMMANDS}
