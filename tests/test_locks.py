"""What ``make`` installs is known by its hash, and is all that is needed."""

import re
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parent.parent
LOCKS = sorted((ROOT / "locks").glob("*.txt"))
HASH = re.compile(r"    --hash=sha256:[0-9a-f]{64}( \\)?")
#: Held by its version alone: many machines have a build of their own.
UNLOCKED = {"torch"}
#: Extras whose packages ``make test`` does without: tensorflow-cpu stands in for tensorflow.
UNUSED = {"tensorflow"}
BYTES_MAX = 1_000_000


def pins_of(path):
    """The versions that a lock, or the constraints, have of each package."""
    pins = {}
    for line in path.read_text().splitlines():
        if match := re.match(r"([A-Za-z0-9._-]+)==([^\s;]+)", line):
            pins.setdefault(canonicalize_name(match[1]), set()).add(match[2])
    return pins


def needed(extras):
    """What our distributions require, with those of some extras."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    requirements = project["optional-dependencies"]
    texts = [text for extra in extras for text in requirements[extra]]
    own = (ROOT / "setup.py").read_text()
    return [Requirement(text) for text in (*texts, *re.findall(r'(?m)^        "([^"]+)",', own))]


def all_extras():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    return project["optional-dependencies"].keys() - UNUSED


def image_extras():
    dockerfile = (ROOT / "deploy/Dockerfile").read_text()
    match = re.search(r'^ARG EXTRAS="(.+)"$', dockerfile, re.MULTILINE)
    return match[1].split(",")


@pytest.mark.parametrize("path", LOCKS, ids=lambda path: path.name)
def test_a_lock_is_versions_and_hashes_and_names_no_place(path):
    assert path.stat().st_size < BYTES_MAX
    lines = [line for line in path.read_text().splitlines() if not line.startswith("#")]
    for line, below in zip(lines, [*lines[1:], ""], strict=True):
        if not HASH.fullmatch(line):
            assert re.fullmatch(r"[a-z0-9._-]+==[^/@]+ \\", line), line
            assert HASH.fullmatch(below), f"{line} has no hash"


@pytest.mark.parametrize(("name", "extras"), [("test", all_extras()), ("server", image_extras())])
def test_what_a_lock_is_installed_without_asking_for_is_in_it(name, extras):
    pins = pins_of(ROOT / f"locks/{name}.txt")
    requirements = [
        requirement
        for requirement in needed(extras)
        if canonicalize_name(requirement.name) not in UNLOCKED
    ]
    assert len(requirements) > 15
    for requirement in requirements:
        versions = pins[canonicalize_name(requirement.name)]
        assert all(requirement.specifier.contains(version) for version in versions), requirement


@pytest.mark.parametrize("name", ["test", "demo", "server", "gs"])
def test_a_lock_has_the_versions_that_the_suite_was_run_with(name):
    constraints = pins_of(ROOT / "constraints.txt")
    for package, versions in pins_of(ROOT / f"locks/{name}.txt").items():
        assert versions == constraints.get(package, versions), package


@pytest.mark.parametrize("name", ["google-clients", "google-clients-old"])
def test_google_s_clients_are_those_of_their_lists(name):
    pins = pins_of(ROOT / f"locks/{name}.txt")
    for package, versions in pins_of(ROOT / f"scripts/{name}.txt").items():
        assert pins[package] == versions


def test_make_installs_nothing_else():
    """PyTorch is held by constraints.txt, and each library of the tuning benchmark by its file."""
    lines = [line for line in (ROOT / "Makefile").read_text().splitlines() if line[:1] == "\t"]
    named = ("$(PIP)", "$(INSTALL)", "pip install")
    installs = [line.strip() for line in lines if any(word in line for word in named)]
    assert set(installs) == {
        "$(PIP) torch",
        ".venv-gs/bin/python $(INSTALL) -c constraints.txt torch",
        "$(PIP) --no-deps --no-build-isolation -e trainer -e .",
        ".venv-$*/bin/python $(INSTALL) -r $<",
    }
