"""Every hint that names an extra is a command that works while no package index has Trainshed."""

import re
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
EXTRAS = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
PAGES = [
    path
    for path in (
        *ROOT.glob("src/**/*.py"),
        *ROOT.glob("docs/**/*.md"),
        ROOT / "SECURITY.md",
        ROOT / "README.md",
    )
    if "pip install" in path.read_text("utf-8") and "decisions" not in path.parts
]
COMMAND = re.compile(r"pip install ([^`\n]*?)'?trainshed(?:-trainer)?(?:\[([^\]]*)\])?")


@pytest.mark.parametrize("path", PAGES, ids=lambda path: str(path.relative_to(ROOT)))
def test_a_hint_takes_our_wheels_from_the_folder_that_make_dist_makes(path):
    for match in COMMAND.finditer(path.read_text("utf-8")):
        assert "--find-links dist" in match[1], match[0]
        extras = set((match[2] or "").split(",")) - {"", "{extra}"}
        assert extras <= set(EXTRAS), match[0]
