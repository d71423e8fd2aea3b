"""Compares whole texts with golden files.

``UPDATE_GOLDEN=1 pytest`` rewrites them; reviewers read the diff.
"""

import os
from pathlib import Path


def check_golden(path: Path, text: str) -> None:
    """Compare ``text`` with the file at ``path``, or rewrite the file with UPDATE_GOLDEN=1."""
    if os.environ.get("UPDATE_GOLDEN"):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    assert path.is_file(), f"no golden file {path.name}; run with UPDATE_GOLDEN=1 and review it"
    assert path.read_text(encoding="utf-8") == text
