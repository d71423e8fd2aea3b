"""``environments build``: what a runtime version had, on the Python that is there."""

import sys

import pytest

from engines.wheels import make_wheel
from trainshed.model.faults import UsageFault
from trainshed.service.starts.interpreters import installed
from trainshed.workbench import runtime_environments as module
from trainshed.workbench.find_pythons import find_pythons
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
    make_wheel(folder, "setuptools", "80.9.0")
    make_wheel(folder, "setuptools", "83.0.0")
    monkeypatch.setenv("UV_FIND_LINKS", str(folder))
    monkeypatch.setenv("UV_OFFLINE", "1")
    monkeypatch.setenv("UV_PYTHON_DOWNLOADS", "never")
    monkeypatch.delenv("UV_CACHE_DIR", raising=False)
    monkeypatch.setenv("TRAINSHED_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setattr(module, "packages_of", lambda _: ("numpy", "pandas"))
    monkeypatch.setattr(module, "_IMPORTS", "import tensorflow, pandas")


def test_it_has_the_nearest_tensorflow_and_the_packages_and_says_how_it_is_used(tmp_path):
    notes = []
    built = build(tmp_path / "old", "2.11", sys.executable, notes.append)
    assert built.content == installed(str(tmp_path / "old" / "bin" / "python"))
    assert built.content.frameworks == {"TensorFlow": "2.12.0"}
    assert built.content.packages == {"numpy", "pandas"}
    assert built.lacks == ()
    assert f'python = "{tmp_path}/old/bin/python"' in built.settings
    assert any("TensorFlow 2.11 was not built for this Python" in line for line in notes)
    assert list((tmp_path / "old/lib").glob("python*/site-packages/setuptools-80.9.0*"))
    assert any(f"uv's cache {tmp_path}/cache/uv has 0 MB" in line for line in notes)
    assert not list((tmp_path / "cache/uv").rglob("*.whl"))


def test_what_cannot_be_built_leaves_nothing_behind(tmp_path, monkeypatch):
    monkeypatch.setattr(module, "packages_of", lambda _: ("nobody-made-this",))
    with pytest.raises(UsageFault, match="could not install the packages: No solution found"):
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
    for folder, runtime, python, reason in [
        ("new", "9.9", None, "--runtime must be one of 1.0, .*, got 9.9"),
        ("used", "2.11", None, "is not empty"),
        ("new", "2.11", "2.6", "this machine has no Python 2.6"),
    ]:
        with pytest.raises(UsageFault, match=reason):
            build(tmp_path / folder, runtime, python, print)
    assert not (tmp_path / "new").exists()


@pytest.mark.parametrize(
    ("runtime", "python"), [("1.15", "3.7"), ("2.1", "3.7"), ("2.4", "3.8"), ("2.11", "3.10")]
)
def test_the_python_is_the_newest_that_its_tensorflow_was_built_for(runtime, python):
    assert python_for(runtime) == python


def pyenv_with(folder, *versions):
    """A folder of pyenv: placeholders on PATH that run nothing, and interpreters in folders."""
    (folder / "shims").mkdir(parents=True)
    for name in versions:
        placeholder = folder / "shims" / f"python{name}"
        placeholder.write_text("#!/bin/sh\necho 'pyenv: command not found' >&2\nexit 127\n")
        placeholder.chmod(0o755)
        program = folder / f"versions/{name}.9/bin/python"
        program.parent.mkdir(parents=True)
        # it says that it is of that version, and is ours otherwise
        program.write_text(
            f'#!/bin/sh\ncase "$*" in *%d.%d*version_info*) echo {name};; '
            f'*) exec {sys.executable} "$@";; esac\n'
        )
        program.chmod(0o755)
    return folder


@pytest.fixture
def pyenv(tmp_path, monkeypatch):
    root = tmp_path / "pyenv"
    monkeypatch.setenv("PYENV_ROOT", str(root))
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("PATH", f"{root}/shims:/bin")
    return root


def test_the_python_of_pyenv_is_found_although_its_placeholder_runs_nothing(
    pyenv, tmp_path, monkeypatch
):
    pyenv_with(pyenv, "3.10")
    used = []
    monkeypatch.setattr(module, "_venv_error", lambda _, python: used.append(python) or "stop")
    with pytest.raises(UsageFault):
        build(tmp_path / "old", "2.11", "3.10", print)
    assert used == [f"{pyenv}/versions/3.10.9/bin/python"]


def test_the_nearest_python_serves_where_the_right_one_cannot_be_had(pyenv, tmp_path, monkeypatch):
    pyenv_with(pyenv, "3.7", "3.11", "3.13")
    tried, notes = [], []

    def venv_error(_directory, python):
        tried.append(python)
        return "no download found" if python == "3.10" else "stop"

    monkeypatch.setattr(module, "_venv_error", venv_error)
    with pytest.raises(UsageFault, match="stop"):
        build(tmp_path / "old", "2.11", None, notes.append)
    assert tried[0] == "3.10"
    assert f"using the nearest, Python 3.11 ({tried[1]})" in notes[-1]
    assert "no download found" in notes[-1]


def test_a_python_that_was_asked_for_is_not_replaced_and_those_here_are_named(pyenv, tmp_path):
    pyenv_with(pyenv, "3.8")
    with pytest.raises(UsageFault, match=r"no Python 3\.4.*this machine has .*3\.8 \("):
        build(tmp_path / "old", "2.11", "3.4", print)


def test_conda_and_its_environments_are_found(tmp_path):
    for place in ("miniconda3/bin", "miniconda3/envs/tf/bin"):
        program = tmp_path / place / "python"
        program.parent.mkdir(parents=True)
        program.write_text("#!/bin/sh\necho 3.9\n")
        program.chmod(0o755)
    environ = {"HOME": str(tmp_path), "PATH": ""}
    paths = {python.path for python in find_pythons(environ) if python.version == "3.9"}
    assert f"{tmp_path}/miniconda3/bin/python" in paths
    assert f"{tmp_path}/miniconda3/envs/tf/bin/python" in paths


def test_what_uv_calls_its_error_is_shown_and_not_its_last_line():
    output = """error: Failed to inspect Python
  interpreter
  cause: Querying Python at `/shims/python3.7` failed

         [stderr]
         pyenv: python3.7: command not found
warning: another
         Python versions to be found at the same time.
"""
    assert module._error_line(output) == (
        "Failed to inspect Python interpreter: Querying Python at `/shims/python3.7` failed"
    )
