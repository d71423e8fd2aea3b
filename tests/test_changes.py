"""A release can be assembled from the fragments of ``changes/``."""

import importlib.util
import sys
from datetime import date
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent


def load_script():
    spec = importlib.util.spec_from_file_location("changelog", ROOT / "scripts/changelog.py")
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # for its dataclass
    spec.loader.exec_module(module)
    return module


changelog = load_script()
Fragment = changelog.Fragment


def test_every_fragment_of_the_repository_can_be_assembled():
    fragments = changelog.read_fragments(ROOT / "changes")
    assert [problem for fragment in fragments for problem in fragment.list_problems()] == []


def test_no_line_of_the_changelog_is_too_long():
    lines = (ROOT / "CHANGELOG.md").read_text("utf-8").splitlines()
    assert [line for line in lines if len(line) > 160] == []


@pytest.mark.parametrize(
    ("name", "text", "problem"),
    [
        ("tab-in-yaml.md", "A tab is refused.\n", "named"),
        ("fixed.md", "A tab is refused.\n", "named"),
        ("fixed-tab.txt", "A tab is refused.\n", "named"),
        ("fixed-tab.md", "\n", "empty"),
        ("fixed-tab.md", "- A tab is refused.\n", "bullet"),
        ("fixed-tab.md", "## Fixed\n", "heading"),
        ("fixed-tab.md", "A tab is refused.\n\nA space is not.\n", "blank"),
        ("fixed-tab.md", "A tab is refused\n", "full stop"),
        ("fixed-tab.md", f"{'long ' * 40}line.\n", "characters"),
    ],
)
def test_a_fragment_that_cannot_be_assembled_is_refused_with_its_name(name, text, problem):
    problems = Fragment(name, text).list_problems()
    assert any(problem in line for line in problems)
    assert all(line.startswith(f"{name}: ") for line in problems)


def test_entries_stand_by_kind_and_keep_their_lines():
    fragments = [
        Fragment("fixed-b.md", "B is fixed.\n"),
        Fragment("added-c.md", "C is new,\nand takes two lines.\n"),
        Fragment("fixed-a.md", "A is fixed.\n"),
    ]
    assert changelog.render_entries(fragments) == (
        "- C is new,\n  and takes two lines.\n- A is fixed.\n- B is fixed.\n"
    )


def test_a_release_stands_above_the_earlier_ones():
    before = "# Changelog\n\n## 0.1.0 (2027-01-01)\n\n- First.\n"
    assert changelog.add_release(before, "- New.\n", "0.2.0", date(2027, 3, 1)) == (
        "# Changelog\n\n## 0.2.0 (2027-03-01)\n\n- New.\n\n## 0.1.0 (2027-01-01)\n\n- First.\n"
    )


def test_an_unreleased_section_becomes_the_release():
    before = "# Changelog\n\n## 0.1.0 (unreleased)\n\n- First.\n"
    assert changelog.add_release(before, "- New.\n", "0.1.0", date(2027, 1, 1)) == (
        "# Changelog\n\n## 0.1.0 (2027-01-01)\n\n- New.\n- First.\n"
    )
