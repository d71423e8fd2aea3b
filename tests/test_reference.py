"""The reference pages are drawn from the tables, and no reason is used that is not listed."""

from pathlib import Path

from golden import check_golden
from trainshed.lifecycle.decide import TRANSITIONS
from trainshed.model.rules import NAMES, page
from trainshed.model.status import FINAL, JobState

ROOT = Path(__file__).parent.parent


def diagram():
    """The transition table as a Mermaid state diagram."""
    lines = ["stateDiagram-v2", f"    [*] --> {JobState.QUEUED.name}"]
    lines += [
        f"    {before.name} --> {after.name}: {event.__name__}"
        for (before, event), after in TRANSITIONS.items()
    ]
    lines += [f"    {state.name} --> [*]" for state in JobState if state in FINAL]
    return "\n".join(lines) + "\n"


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
