"""Old pins: the nearest version runs if that is wished, and the ways out are said if not."""

import subprocess
import sys
import venv
from pathlib import Path

import pytest

from engines.wheels import make_wheel
from trainshed.engines.local.environments import install, pins
from trainshed.engines.local.environments.cache import prepare
from trainshed.engines.local.environments.nearest import nearest
from trainshed.model.faults import EngineFault
from trainshed.model.launch_plan import Environment

#: A Python that nobody runs any more.
GONE = "cp27-cp27m-any"
FOUND = "frame==2.8.0 cannot be had for this Python; {} runs in its place"


@pytest.fixture(autouse=True)
def _index(monkeypatch, tmp_path):
    """frame 2.8.0 was made for Python 2.7 alone."""
    folder = tmp_path / "index"
    make_wheel(folder, "frame", "2.8.0", tag=GONE)
    for version in ("2.7.1", "2.12.0", "2.15.0"):
        make_wheel(folder, "frame", version)
    monkeypatch.setenv("UV_FIND_LINKS", str(folder))
    monkeypatch.setenv("UV_OFFLINE", "1")
    monkeypatch.setenv("UV_CACHE_DIR", str(tmp_path / "uv-cache"))


@pytest.fixture
def python(tmp_path):
    venv.create(tmp_path / "venv", symlinks=True, with_pip=False)
    return str(tmp_path / "venv" / "bin" / "python")


def asked(tmp_path):
    work = tmp_path / "ask"
    work.mkdir(exist_ok=True)
    return lambda words: install.ask(words, install.Place(work), work)


@pytest.mark.parametrize(
    ("version", "found"),
    [
        ("2.12.0", "2.12.0"),
        ("2.12.*", "2.12.0"),
        ("2.8.0", "2.12.0"),
        ("2.8.*", "2.12.0"),
        ("3.0.0", "2.15.0"),
    ],
)
def test_the_next_version_up_is_nearest_and_then_the_last_before(version, found, python, tmp_path):
    assert nearest("frame", version, python, asked(tmp_path)) == found


def test_what_nobody_has_made_has_no_nearest(python, tmp_path):
    assert nearest("nobody-made-this", "1.0", python, asked(tmp_path)) is None


def prepared(tmp_path, python, requires, *, relaxes):
    package = make_wheel(tmp_path / "packages", "trainer", "0.1", requires=requires)
    notes = []
    environment = Environment(python=python, packages=(str(package),))
    cache = tmp_path / "cache"
    found = prepare(environment, cache_dir=cache, note=notes.append, relaxes=relaxes)
    return found, notes


def version_in(found):
    code = "import frame; print(frame.__version__)"
    env = {"PYTHONPATH": ":".join(found.python_path_entries)}
    return subprocess.check_output([found.python, "-c", code], env=env, text=True).strip()


def test_a_pin_that_cannot_be_met_fails_with_the_ways_out(tmp_path, python):
    with pytest.raises(EngineFault) as caught:
        prepared(tmp_path, python, ["frame==2.8.0"], relaxes=False)
    said = str(caught.value)
    assert "frame==2.8.0 (the nearest is 2.12.0)" in said
    assert "relax_pins" in said
    assert "[[environment]]" in said


def test_relaxed_the_nearest_runs_and_the_log_says_so(tmp_path, python):
    found, notes = prepared(tmp_path, python, ["frame (==2.8.0)"], relaxes=True)
    assert version_in(found) == "2.12.0"
    assert FOUND.format("2.12.0") in notes


def test_relaxed_a_pin_that_can_be_met_is_kept(tmp_path, python):
    found, notes = prepared(tmp_path, python, ["frame==2.7.1"], relaxes=True)
    assert version_in(found) == "2.7.1"
    assert not any("in its place" in note for note in notes)


def test_what_the_interpreter_has_is_nearest_of_all(tmp_path, python):
    words = ["pip", "install", "--quiet", "--python", python, "frame==2.15.0"]
    subprocess.run([install.find_uv(), *words], check=True)
    found, notes = prepared(tmp_path, python, ["frame==2.8.0"], relaxes=True)
    assert version_in(found) == "2.15.0"
    assert FOUND.format("2.15.0") in notes
    assert not list(Path(found.python_path_entries[0]).glob("frame*")), "it is not installed again"


def test_a_package_that_is_nowhere_is_no_matter_of_pins(tmp_path):
    with pytest.raises(EngineFault, match="nobody-made-this==1") as caught:
        prepared(tmp_path, sys.executable, ["nobody-made-this==1"], relaxes=True)
    assert "Ways out" not in str(caught.value)


def test_a_package_of_very_many_pins_is_looked_at_for_a_bounded_time():
    asked = []

    def ask(words):
        asked.append(words)
        return install.Answer(code=1, text="")

    many = [f"frame-{number}==1.0" for number in range(5000)]
    assert list(pins.unmet(many, (), sys.executable, ask)) == []
    assert len(asked) < 200
