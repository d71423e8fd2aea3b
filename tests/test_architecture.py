"""The map is current: every package has its line, and every link leads somewhere."""

import importlib.util
import os
import re
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
LINK = re.compile(r"\]\((?!https?://|#|mailto:)([^)#\s]+)")
#: What is made here and not kept; it may go while it is looked at.
MADE = {"build", "dist", "node_modules", "runs"}


def pages():
    for folder, below, names in os.walk(ROOT):
        below[:] = [name for name in below if name[0] != "." and name not in MADE]
        yield from (Path(folder, name) for name in names if name.endswith(".md"))


PAGES = sorted(pages())


def test_every_package_has_its_line_in_the_architecture():
    text = (ROOT / "ARCHITECTURE.md").read_text()
    packages = {p.parent.name for p in (ROOT / "src/trainshed").glob("*/__init__.py")}
    assert packages
    missing = {name for name in packages if f"`trainshed.{name}`" not in text}
    assert not missing


def test_the_architecture_names_no_package_that_is_gone():
    text = (ROOT / "ARCHITECTURE.md").read_text()
    named = re.findall(r"^\| `trainshed\.(\w+)`", text, re.MULTILINE)
    assert all((ROOT / "src/trainshed" / name / "__init__.py").exists() for name in named)


@pytest.mark.parametrize("page", PAGES, ids=lambda p: str(p.relative_to(ROOT)))
def test_every_link_of_a_page_leads_somewhere(page):
    broken = [link for link in LINK.findall(page.read_text()) if not (page.parent / link).exists()]
    assert not broken


def test_the_picture_is_drawn_from_the_contracts():
    spec = importlib.util.spec_from_file_location("drawing", ROOT / "scripts/draw_architecture.py")
    drawing = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(drawing)
    drawn = drawing.picture(tomllib.loads((ROOT / "pyproject.toml").read_text()))
    text = (ROOT / "ARCHITECTURE.md").read_text()
    assert text == drawing.page(text, drawn), "run python scripts/draw_architecture.py"


def test_the_architecture_names_the_rooms_of_the_engines():
    text = (ROOT / "ARCHITECTURE.md").read_text()
    engines = ROOT / "src/trainshed/engines"
    packages = {path.parent.relative_to(engines) for path in engines.rglob("*/__init__.py")}
    rooms = {".".join(package.parts) for package in packages if package.parts}
    _, _, section = text.partition("| room of `engines` |")
    named = set(re.findall(r"^\| `([\w.]+)` \|", section, re.MULTILINE))
    assert named == rooms - {"local"}


def test_the_files_that_the_checklists_name_are_there():
    named = re.findall(
        r"`((?:src|tests|docs|scripts)/[\w./-]+)`", (ROOT / "CONTRIBUTING.md").read_text()
    )
    assert named
    assert [path for path in named if not (ROOT / path).exists()] == []


def test_the_files_that_the_suite_begins_with_exist():
    names = (ROOT / "tests" / "longest.txt").read_text().split()
    assert [name for name in names if not (ROOT / "tests" / name).is_file()] == []
