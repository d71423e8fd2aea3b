"""README's recording: its script still records, and what it draws is an SVG that fits a page."""

import re
import sys
from xml.etree import ElementTree as ET

import pytest

from docs.running import ROOT

BYTES_MAX = 300_000
SVG = "{http://www.w3.org/2000/svg}"


@pytest.fixture
def recorder(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "scripts"))
    import record_terminal  # noqa: PLC0415  # a script, not a module of ours

    yield record_terminal
    sys.modules.pop("record_terminal")


def test_commands_are_recorded_with_their_colours_and_drawn(recorder, tmp_path):
    command = r"printf 'one\n\033[1;32mtwo\033[0m < three\n'"
    lines = list(recorder.record([command, "echo four"], tmp_path))
    assert [recorder.SGR.sub("", line.text) for line in lines] == [
        f"$ {command}", "one", "two < three", "$ echo four", "four",
    ]  # fmt: skip
    assert [line.second for line in lines] == sorted(line.second for line in lines)
    root = ET.fromstring(recorder.draw(lines))  # noqa: S314  # our own
    assert "".join(list(root.iter(f"{SVG}text"))[2].itertext()) == "two < three"


def test_a_long_line_is_broken_where_the_terminal_would(recorder, tmp_path):
    lines = list(recorder.record(["printf '%0150d\n' 7"], tmp_path))[1:]
    assert [len(line.text) for line in lines] == [recorder.COLUMNS, 150 - recorder.COLUMNS]


def test_the_recording_of_readme_is_small_and_names_no_path_of_a_machine():
    path = ROOT / "docs/images/first-run.svg"
    text = path.read_text()
    assert path.stat().st_size < BYTES_MAX
    assert ET.fromstring(text).tag == f"{SVG}svg"  # noqa: S314  # our own
    assert not re.search(r"/(tmp|root|home|work)/", text)
