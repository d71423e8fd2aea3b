"""Old pins: the nearest version runs if that is wished, and the ways out are said if not."""

import subprocess
import sys
import sysconfig
import venv
from pathlib import Path

import pytest

from engines.packages import prepare
from engines.wheels import make_sdist, make_wheel
from trainshed.engines.environments import pins, uv
from trainshed.engines.environments.nearest import Index, nearest
from trainshed.model.faults import EngineFault
from trainshed.model.launch_plan import Environment

#: A Python that nobody runs any more.
GONE = "cp27-cp27m-any"
FOUND = "frame==2.8.0 cannot be installed for this Python; installing {} instead"
NEAREST = " on this machine (the nearest version that has a wheel is"


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


def index_of(python, tmp_path):
    work = tmp_path / "ask"
    work.mkdir(exist_ok=True)
    return Index(python, lambda words: uv.ask(words, uv.UvContext(work), work), work)


@pytest.mark.parametrize(
    ("version", "expected"),
    [
        ("2.12.0", "2.12.0"),
        ("2.12.*", "2.12.0"),
        ("2.8.0", "2.12.0"),
        ("2.8.*", "2.12.0"),
        ("3.0.0", "2.15.0"),
    ],
)
def test_the_next_version_up_is_nearest_and_then_the_last_before(
    version, expected, python, tmp_path
):
    assert nearest("frame", version, index_of(python, tmp_path)).version == expected


def test_what_nobody_has_made_has_no_nearest(python, tmp_path):
    assert nearest("nobody-made-this", "1.0", index_of(python, tmp_path)) is None


def prepared(tmp_path, python, requires, *, relaxes):
    package = make_wheel(tmp_path / "packages", "trainer", "0.1", requires=requires)
    notes = []
    environment = Environment(python=python, packages=(str(package),))
    cache = tmp_path / "cache"
    job_python = prepare(environment, cache_dir=cache, note=notes.append, relaxes=relaxes)
    return job_python, notes


def version_in(job_python, name="frame"):
    code = f"import {name} as module; print(module.__version__)"
    env = {"PYTHONPATH": ":".join(job_python.python_path_entries)}
    return subprocess.check_output([job_python.python, "-c", code], env=env, text=True).strip()


def test_a_pin_that_cannot_be_met_fails_with_the_ways_out(tmp_path, python):
    with pytest.raises(EngineFault) as caught:
        prepared(tmp_path, python, ["frame==2.8.0"], relaxes=False)
    message = str(caught.value)
    assert "frame==2.8.0 (the nearest is 2.12.0)" in message
    assert "relax_pins" in message
    assert "[[environment]]" in message


def test_relaxed_the_nearest_runs_and_the_log_says_so(tmp_path, python):
    job_python, notes = prepared(tmp_path, python, ["frame (==2.8.0)"], relaxes=True)
    assert version_in(job_python) == "2.12.0"
    assert FOUND.format("2.12.0") in notes


def test_relaxed_a_pin_that_can_be_met_is_kept(tmp_path, python):
    job_python, notes = prepared(tmp_path, python, ["frame==2.7.1"], relaxes=True)
    assert version_in(job_python) == "2.7.1"
    assert not any(" instead" in note for note in notes)


def test_what_the_interpreter_has_is_nearest_of_all(tmp_path, python):
    words = ["pip", "install", "--quiet", "--python", python, "frame==2.15.0"]
    subprocess.run([uv.find_uv(), *words], check=True)
    job_python, notes = prepared(tmp_path, python, ["frame==2.8.0"], relaxes=True)
    assert version_in(job_python) == "2.15.0"
    assert FOUND.format("2.15.0") in notes
    assert not list(Path(job_python.python_path_entries[0]).glob("frame*")), (
        "it is not installed again"
    )


def test_a_package_that_is_nowhere_is_no_matter_of_pins(tmp_path):
    with pytest.raises(EngineFault, match="nobody-made-this==1") as caught:
        prepared(tmp_path, sys.executable, ["nobody-made-this==1"], relaxes=True)
    assert "What to do" not in str(caught.value)


#: As of compiled packages: their wheels are for one platform, and old versions are sources alone.
COMPILED = f"py3-none-{sysconfig.get_platform().replace('-', '_').replace('.', '_')}"


@pytest.fixture
def sources(tmp_path):
    """compiled 1.0 and old 1.0 do not build; pure 1.0 and alone 1.0 do."""
    folder = tmp_path / "index"
    make_sdist(folder, "compiled", "1.0", builds=False)
    make_wheel(folder, "compiled", "1.5.0", tag=COMPILED)
    make_sdist(folder, "old", "1.0", builds=False, says="2.1")
    make_wheel(folder, "old", "2.0")
    make_sdist(folder, "pure", "1.0")
    make_wheel(folder, "pure", "2.0")
    make_sdist(folder, "alone", "1.0")
    make_sdist(folder, "broken", "1.0", builds=False)


@pytest.mark.usefixtures("sources")
def test_relaxed_a_source_that_compiles_is_not_even_tried(tmp_path, python):
    """It would take minutes."""
    job_python, notes = prepared(tmp_path, python, ["compiled==1.0", "pure==1.0"], relaxes=True)
    assert version_in(job_python, "compiled") == "1.5.0"
    assert not (tmp_path / "index" / "compiled-1.0.tried").exists()
    assert "compiled==1.0 cannot be installed for this Python; installing 1.5.0 instead" in notes
    assert version_in(job_python, "pure") == "1.0"
    assert not any("pure==1.0 cannot" in note for note in notes)


@pytest.mark.usefixtures("sources")
def test_relaxed_a_source_that_does_not_build_is_relaxed_too(tmp_path, python):
    job_python, notes = prepared(tmp_path, python, ["old==1.0", "alone==1.0"], relaxes=True)
    assert version_in(job_python, "old") == "2.0"
    assert (tmp_path / "index" / "old-1.0.tried").exists()
    assert "old==1.0 cannot be installed for this Python; installing 2.0 instead" in notes
    assert version_in(job_python, "alone") == "1.0"


@pytest.mark.usefixtures("sources")
@pytest.mark.parametrize(
    ("pin", "relaxes", "detail"),
    [
        ("compiled==1.0", False, f"{NEAREST} 1.5.0), "),
        ("old==1.0", False, f"{NEAREST} 2.0), "),
        ("broken==1.0", True, " on this machine, "),
    ],
)
def test_a_source_that_does_not_build_fails_with_the_ways_out(
    pin, relaxes, detail, tmp_path, python
):
    with pytest.raises(EngineFault) as caught:
        prepared(tmp_path, python, [pin], relaxes=relaxes)
    version = "{}.{}".format(*sys.version_info)
    lines = str(caught.value).splitlines()
    _, sentence, ways_out, *its_own = lines
    assert (
        sentence == f"{pin} has no wheel for Python {version}{detail}and its source does not build."
    )
    assert ways_out.startswith("What to do: ")
    assert ("relax_pins" in ways_out) is not relaxes
    assert "[[environment]]" in ways_out
    assert any("fatal error: frame.h is gone" in line for line in its_own)


def test_a_package_of_very_many_pins_is_looked_at_for_a_bounded_time(tmp_path):
    queries = []

    def ask(words):
        queries.append(words)
        return uv.UvResult(code=1, text="")

    many = pins.pinned([f"frame-{number}==1.0" for number in range(5000)], ())
    assert list(pins.unmet(many, Index(sys.executable, ask, tmp_path))) == []
    assert len(queries) < 500
