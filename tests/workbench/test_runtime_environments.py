"""``environments build``: what a runtime version had, on the Python that is there."""

import sys

import pytest

from engines.wheels import make_wheel
from trainshed.model.faults import UsageFault
from trainshed.service.interpreters import installed
from trainshed.workbench import runtime_environments as module
from trainshed.workbench.runtime_environments import build, python_for


@pytest.fixture(autouse=True)
def _index(monkeypatch, tmp_path):
    """TensorFlow 2.11 was not made for this Python, and 2.12 was."""
    folder = tmp_path / "index"
    make_wheel(folder, "tensorflow", "2.11.1", tag="cp27-cp27m-any")
    make_wheel(folder, "tensorflow", "2.12.0")
    make_wheel(folder, "numpy", "1.26.0")
    make_wheel(folder, "numpy", "2.1.0")
    make_wheel(folder, "pandas", "2.2.0")
    make_wheel(folder, "protobuf", "3.20.3")
    monkeypatch.setenv("UV_FIND_LINKS", str(folder))
    monkeypatch.setenv("UV_OFFLINE", "1")
    monkeypatch.setenv("UV_PYTHON_DOWNLOADS", "never")
    monkeypatch.setenv("UV_CACHE_DIR", str(tmp_path / "uv-cache"))
    monkeypatch.setattr(module, "packages_of", lambda _: ("numpy", "pandas"))
    monkeypatch.setattr(module, "_IMPORTS", "import tensorflow, pandas")


def test_it_has_the_nearest_tensorflow_and_the_packages_and_says_how_it_is_used(tmp_path):
    said = []
    built = build(tmp_path / "old", "2.11", sys.executable, said.append)
    assert built.content == installed(str(tmp_path / "old" / "bin" / "python"))
    assert built.content.frameworks == {"TensorFlow": "2.12.0"}
    assert built.content.packages == {"numpy", "pandas"}
    assert built.lacks == ()
    assert f'python = "{tmp_path}/old/bin/python"' in built.settings
    assert any("TensorFlow 2.11 was not built for this Python" in line for line in said)


def test_what_cannot_be_built_leaves_nothing_behind(tmp_path, monkeypatch):
    monkeypatch.setattr(module, "packages_of", lambda _: ("nobody-made-this",))
    with pytest.raises(UsageFault, match="could not install"):
        build(tmp_path / "old", "2.11", sys.executable, print)
    assert not (tmp_path / "old").exists()


def test_what_cannot_be_imported_is_no_environment(tmp_path, monkeypatch):
    monkeypatch.setattr(module, "_IMPORTS", "import gone_since")
    with pytest.raises(UsageFault, match="gone_since"):
        build(tmp_path / "old", "2.11", sys.executable, print)
    assert not (tmp_path / "old").exists()


def test_bad_words_are_refused_before_anything_is_made(tmp_path):
    (tmp_path / "used").mkdir()
    (tmp_path / "used" / "file").touch()
    for folder, runtime, python, said in [
        ("new", "9.9", None, "--runtime: there is no 9.9; there are 1.0"),
        ("used", "2.11", None, "is not empty"),
        ("new", "2.11", "2.6", "there is no Python 2.6 here"),
    ]:
        with pytest.raises(UsageFault, match=said):
            build(tmp_path / folder, runtime, python, print)
    assert not (tmp_path / "new").exists()


@pytest.mark.parametrize(
    ("runtime", "python"), [("1.15", "3.7"), ("2.1", "3.7"), ("2.4", "3.8"), ("2.11", "3.10")]
)
def test_the_python_is_the_newest_that_its_tensorflow_was_built_for(runtime, python):
    assert python_for(runtime) == python
