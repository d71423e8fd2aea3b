"""The glossary is current, and words that stopped a reader do not come back."""

import re
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
ROWS = re.findall(
    r"^\| (.+?) \| (.+?) \| `(\w+)` \|$",
    (ROOT / "docs/glossary.md").read_text("utf-8"),
    re.MULTILINE,
)
SOURCES = {
    "trainshed_trainer": ROOT / "trainer/src/trainshed_trainer",
    **{path.parent.name: path.parent for path in (ROOT / "src/trainshed").glob("*/__init__.py")},
}
#: A name in parts, and each word of a sentence: ``QuotaBucket`` is quota and bucket.
WORD = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])")

#: The field has a word for each of these; it stands behind.
BANNED = {
    "harbour": "best safe trial",
    "hindrance": "blocking reason",
    "mend": "fix",
    "pot": "quota bucket",
    "pots": "quota buckets",
    "attendant": "supervisor, reader",
    "cage": "process group, cgroup",
    "desk": "client",
    "doom": "pending error",
    "errand": "spec, request",
    "ladder": "kill strategy",
    "mended": "fixed",
    "rung": "kill step",
    "rungs": "kill steps",
    "shelf": "storage",
    "standing": "state",
    "telling": "describe, notify, report",
    "told": "described, notified, reported",
    "verdict": "outcome, decision",
    "verdicts": "outcomes, decisions",
}

#: The steps of successive halving, by its authors' own word.
RUNGS = {"rung", "rungs"}
#: What users' scripts read stays as it is.
KEPT = {
    "cli": {"verdict", *RUNGS},  # a key of gpu-check's JSON
    "planning": {"told"},  # "no difference that can be told"
    **dict.fromkeys(("controller", "model", "service", "tuning", "workbench"), RUNGS),
}


@cache
def words_of(package):
    """Every word of a package's names, comments and texts, with a file that has it."""
    files = {}
    for path in SOURCES[package].rglob("*.py"):
        for word in WORD.findall(path.read_text("utf-8")):
            files.setdefault(word.lower(), path.name)
    return files


def test_the_rows_of_the_glossary_are_read():
    rows = (ROOT / "docs/glossary.md").read_text("utf-8").count("\n| ")
    headings = (ROOT / "docs/glossary.md").read_text("utf-8").count("| word | meaning | where |")
    assert len(ROWS) == rows - headings


@pytest.mark.parametrize(("word", "package"), [(row[0], row[2]) for row in ROWS])
def test_a_word_of_the_glossary_is_used_where_it_says(word, package):
    used = words_of(package)
    for part in re.split(r"[ -]", word):
        assert {part, f"{part}s"} & used.keys(), f"{package} does not say {word!r}"


@pytest.mark.parametrize("package", SOURCES)
def test_banned_words_do_not_come_back(package):
    used = words_of(package)
    words = BANNED.keys() & used.keys() - KEPT.get(package, set())
    assert {word: (used[word], BANNED[word]) for word in words} == {}
