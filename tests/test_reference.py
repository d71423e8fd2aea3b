"""The reference pages are drawn from the tables, and no reason is used that is not listed."""

from pathlib import Path

from golden import check_golden
from trainshed.lifecycle.diagram import diagram
from trainshed.model.rules import NAMES, page

ROOT = Path(__file__).parent.parent


def test_the_page_of_rules_is_current():
    check_golden(ROOT / "docs/reference/rules.md", page())


def test_the_page_of_states_is_current():
    text = f"# The states of a job\n\n```mermaid\n{diagram()}```\n"
    check_golden(ROOT / "docs/reference/lifecycle.md", text)


def test_every_rule_is_used_somewhere():
    sources = "\n".join(
        path.read_text()
        for path in (ROOT / "src/trainshed").rglob("*.py")
        if path.name != "rules.py"
    )
    assert {name for name in NAMES if f'"{name}"' not in sources} == set()
