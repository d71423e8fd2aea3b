"""Moves the fragments of ``changes/`` into CHANGELOG.md.

A fragment is one file for each change, so that two branches never edit the same line.  Its name is
``KIND-words.md``; its text is one entry, without a bullet (CONTRIBUTING.md, "Describe a change").

    python scripts/changelog.py                      # print what a release would add
    python scripts/changelog.py 0.2.0 2027-03-01     # write it, and remove the fragments
"""

import argparse
import re
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parent.parent
KINDS: Final = ("security", "removed", "changed", "added", "fixed")  # in the order of a release
NAME: Final = re.compile(rf"({'|'.join(KINDS)})-[a-z0-9]+(-[a-z0-9]+)*\.md")
WIDTH: Final = 158  # two characters less than a line, for the bullet
TITLE: Final = "# Changelog\n"


@dataclass(frozen=True)
class Fragment:
    """One file: its name, and the entry that is its text."""

    name: str
    text: str

    @property
    def kind(self) -> str:
        """One of ``KINDS``, if the name is valid."""
        return self.name.partition("-")[0]

    def list_problems(self) -> list[str]:
        """Why the fragment cannot be assembled; an empty list if it can."""
        lines = self.text.rstrip("\n").split("\n")
        checks = {
            f"must be named KIND-words.md, KIND one of {KINDS}": NAME.fullmatch(self.name),
            "must not be empty": self.text.strip(),
            "must be one entry without blank lines": all(line.strip() for line in lines),
            "must start without a bullet, heading or space": not self.text.startswith(
                tuple("-*# ")
            ),
            "must end with a full stop": lines[-1].endswith("."),
            f"must have at most {WIDTH} characters a line": max(map(len, lines)) <= WIDTH,
        }
        return [f"{self.name}: {problem}" for problem, holds in checks.items() if not holds]


def read_fragments(folder: Path) -> list[Fragment]:
    """Every file of a folder, in the order of their names."""
    paths = sorted(path for path in folder.iterdir() if path.name != "README.md")
    return [Fragment(path.name, path.read_text("utf-8")) for path in paths]


def render_entries(fragments: Iterable[Fragment]) -> str:
    """The fragments as bullets, by kind and then by name."""
    ordered = sorted(fragments, key=lambda fragment: (KINDS.index(fragment.kind), fragment.name))
    return "".join("- " + entry.text.rstrip("\n").replace("\n", "\n  ") + "\n" for entry in ordered)


def add_release(changelog: str, entries: str, version: str, day: date) -> str:
    """The changelog with the release on top; an unreleased section of this version is completed."""
    heading = f"## {version} ({day.isoformat()})\n\n"
    unreleased = f"## {version} (unreleased)\n\n"
    rest = changelog.removeprefix(TITLE).lstrip("\n")
    if rest.startswith(unreleased):
        return f"{TITLE}\n{heading}{entries}{rest.removeprefix(unreleased)}"
    return f"{TITLE}\n{heading}{entries}\n{rest}"


def main() -> int:
    """Print the entries, or write them into CHANGELOG.md and remove their files."""
    parser = argparse.ArgumentParser(
        description="Moves the fragments of changes/ into CHANGELOG.md."
    )
    parser.add_argument("version", nargs="?", help="the version of the release")
    parser.add_argument("day", nargs="?", type=date.fromisoformat, help="the day of the release")
    arguments = parser.parse_args()
    fragments = read_fragments(ROOT / "changes")
    if problems := [problem for fragment in fragments for problem in fragment.list_problems()]:
        sys.exit("\n".join(problems))
    entries = render_entries(fragments)
    if arguments.version is None:
        print(entries, end="")
        return 0
    if arguments.day is None:
        parser.error("a release needs a day, such as 2027-03-01")
    path = ROOT / "CHANGELOG.md"
    text = add_release(path.read_text("utf-8"), entries, arguments.version, arguments.day)
    path.write_text(text, "utf-8")
    for fragment in fragments:
        (ROOT / "changes" / fragment.name).unlink()
    return 0


if __name__ == "__main__":
    sys.exit(main())
