"""Runs the command line in this process: the real way in, without the price of a new Python."""

import json
from dataclasses import dataclass

import pytest

from trainshed.cli.main import main


@dataclass(frozen=True, slots=True)
class Answer:
    code: int
    out: str
    err: str

    @property
    def json(self):
        return json.loads(self.out)


@pytest.fixture
def home(tmp_path_factory):
    """The user's own folders: data and cache, outside the folder of the job."""
    return tmp_path_factory.mktemp("home")


@pytest.fixture
def trainshed(capfd, monkeypatch, tmp_path, home):
    """``trainshed("validate", path)`` gives the exit code and both outputs."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TRAINSHED_DATA_DIR", str(home / "data"))
    monkeypatch.setenv("TRAINSHED_CACHE_DIR", str(home / "cache"))
    for name in ("TRAINSHED_PYTHON", "TRAINSHED_DEBUG", "NO_COLOR"):
        monkeypatch.delenv(name, raising=False)

    def run(*argv):
        code = main([str(word) for word in argv])
        captured = capfd.readouterr()
        return Answer(code, captured.out, captured.err)

    return run


@pytest.fixture
def trainer(tmp_path):
    """Writes ``trainer/task.py`` with the given code; the tests run in its parent."""

    def write(code):
        package = tmp_path / "trainer"
        package.mkdir(exist_ok=True)
        (package / "__init__.py").write_text("")
        (package / "task.py").write_text(code)
        return package

    return write


@pytest.fixture
def written(tmp_path):
    """Writes a file of the working folder."""

    def write(name, content):
        text = content if isinstance(content, str) else json.dumps(content)
        (tmp_path / name).write_text(text)
        return name

    return write
