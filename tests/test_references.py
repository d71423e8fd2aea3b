"""What a comment or a page refers to is in the repository."""

import re
import subprocess
from collections import Counter
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
HEADING = re.compile(r"^#+ (.*)$", re.MULTILINE)
SOURCE = re.compile(r"docs/sources/([\w-]+)\.md(?: (\d+(?:\.\d+)*))?")
#: Requirements, design notes and recordings that are not in the repository.
ELSEWHERE = re.compile(
    r"\bcontracts/[\w-]+\.md|\bDESIGN(?:\.md)? \d|\bMISSION\.md|\bPEERS\.md|\(R\d{1,2}(?:[,)] ?|$)"
)
#: Files of other programs that pages name.
OF_OTHERS = {"airflow_local_settings.py", "tensorflow/python/tpu/client/client.py"}


def tracked(*patterns):
    argv = ["git", "ls-files", *patterns]
    output = subprocess.run(argv, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    return [name for name in output.split("\n") if name and (ROOT / name).is_file()]


def lines_of(*patterns):
    for name in tracked(*patterns):
        if name != "tests/test_references.py":
            for number, line in enumerate((ROOT / name).read_text("utf-8").splitlines(), 1):
                yield f"{name}:{number}", line


def test_no_reference_leads_to_a_paper_that_a_reader_does_not_have():
    rows = [place for place, line in lines_of("*.py", "*.md", "*.toml") if ELSEWHERE.search(line)]
    assert rows == []


def test_every_section_of_a_source_that_is_cited_is_there():
    lost = []
    for place, line in lines_of("*.py", "*.md", "*.toml"):
        for page, section in SOURCE.findall(line):
            path = ROOT / f"docs/sources/{page}.md"
            headings = HEADING.findall(path.read_text("utf-8")) if path.exists() else []
            numbers = {heading.split()[0].rstrip(".") for heading in headings}
            if not headings or (section and section not in numbers):
                lost.append(f"{place}: {page} {section}")
    assert lost == []


def test_every_module_that_a_page_names_is_there():
    modules = tracked("*.py")
    lost = []
    for place, line in lines_of("*.md"):
        if place.startswith(("CHANGELOG.md", "changes/", "docs/sources/")):  # of then, of others
            continue
        for name in re.findall(r"`([\w./-]+\.py)\b[^`]*`", line):
            is_ours = any(f"/{module}".endswith(f"/{name}") for module in modules)
            if not is_ours and name not in OF_OTHERS:
                lost.append(f"{place}: {name}")
    assert lost == []


@pytest.mark.parametrize("page", [*sorted(tracked("*.md"))])
def test_no_heading_of_a_page_stands_twice_or_is_empty(page):
    text = re.sub(
        r"^```.*?^```", "code", (ROOT / page).read_text("utf-8"), flags=re.DOTALL | re.MULTILINE
    )
    counts = Counter(re.findall(r"^## (.*)$", text, re.MULTILINE))
    assert [heading for heading, count in counts.items() if count > 1] == []
    assert re.findall(r"^## .*\n+(?=## )", text, re.MULTILINE) == []
