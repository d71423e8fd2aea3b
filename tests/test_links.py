"""Every link between our pages leads to something."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PAGES = [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), *(ROOT / "examples").rglob("*.md")]
PAGES += [ROOT / "trainer/README.md"]
LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
HEADING = re.compile(r"^#+ (.*)$", re.MULTILINE)


def name(page):
    return str(page.relative_to(ROOT))


def anchors(text):
    """What a heading is called in a link."""
    return {
        re.sub(r"[^\w\- ]", "", heading.strip().lower()).replace(" ", "-")
        for heading in HEADING.findall(text)
    }


@pytest.mark.parametrize("page", sorted(PAGES), ids=name)
def test_links_of_a_page_lead_to_something(page):
    lost = []
    for link in LINK.findall(page.read_text("utf-8")):
        place, _, anchor = link.partition("#")
        if "://" in link:
            continue
        target = (page.parent / place) if place else page
        exists = target.exists() and (
            not anchor or target.suffix != ".md" or anchor in anchors(target.read_text("utf-8"))
        )
        if not exists:
            lost.append(link)
    assert lost == []


def test_the_index_links_every_page_for_users():
    index = ROOT / "docs/index.md"
    linked = {link.partition("#")[0] for link in LINK.findall(index.read_text("utf-8"))}
    folders = ("how-to", "reference", "compatibility")
    pages = {
        f"{folder}/{path.name}"
        for folder in folders
        for path in (ROOT / "docs" / folder).glob("*.md")
    }
    assert pages - linked == set()
