"""A program finds the trainer library in every Python of the machine; one's own comes first."""

import configparser
import os
import subprocess
import sys
import tomllib
import venv
from importlib import metadata
from pathlib import Path

import pytest

import trainshed_trainer
from service.submitting import Desk, custom_job, images, pool
from trainshed.config import ImageMapping, LocalEnvironment
from trainshed.engines.local.engine import LocalEngine
from trainshed.engines.several import Engines
from trainshed.service.starts.interpreters import ENTRY_POINTS, LIBRARY
from trainshed.service.starts.launching import Launching
from trainshed.storage.buckets import Buckets

OURS = Path(trainshed_trainer.__file__).parent
#: What torch does when it is imported, told in one line.
BACKENDS = """
from importlib.metadata import distribution, entry_points
found = entry_points()
found = found.get("torch.backends", ()) if isinstance(found, dict) else found.select(
    group="torch.backends")
print(*((each.name, each.value) for each in found), distribution("trainshed-trainer").version)
"""
WHERE = "import trainshed_trainer as t; print(t.__file__)"


@pytest.fixture
def bare(tmp_path):
    """A Python with nothing installed."""
    venv.create(tmp_path / "bare", symlinks=True)
    return tmp_path / "bare/bin/python"


@pytest.fixture
def started(store, tmp_path):
    """The environment in which a program starts whose image a Python stands in for."""

    def start(python, environ=None, env=()):
        other = LocalEnvironment(name="other", python=str(python))
        table = images(ImageMapping(environment="other", image="OWN/*"), environments=(other,))
        buckets = Buckets(root=tmp_path / "buckets")
        launching = Launching(
            store,
            Engines.from_engine(LocalEngine(tmp_path / "jobs")),
            images=table,
            buckets=buckets,
            library=tmp_path / LIBRARY,
            environ=environ or {},
        )
        container = pool(["python", "-c", "pass"], image="OWN/x")
        container["containerSpec"]["env"] = [{"name": n, "value": v} for n, v in env]
        plan = launching(Desk(store, table).custom(custom_job(container)), 1, [])
        return plan.primary.env

    return start


def imported(python, env):
    answer = subprocess.run(
        [python, "-c", WHERE], env=dict(env), capture_output=True, text=True, check=True
    )
    return Path(answer.stdout.strip()).resolve().parent


def test_a_python_without_the_library_is_given_the_server_s(started, bare, tmp_path):
    env = started(bare)
    assert imported(bare, env) == OURS
    library = tmp_path / LIBRARY
    assert env["PYTHONPATH"] == str(library)
    names = sorted(path.name for path in library.iterdir())
    assert names == ["trainshed_trainer", "trainshed_trainer.dist-info"], "and nothing else"


def test_one_that_has_it_keeps_its_own(started, bare, tmp_path):
    [packages] = (tmp_path / "bare").glob("lib/python*/site-packages")
    own = packages / "trainshed_trainer"
    own.mkdir()
    (own / "__init__.py").touch()
    env = started(bare)
    assert "PYTHONPATH" not in env
    assert imported(bare, env) == own
    assert "PYTHONPATH" not in started(sys.executable)


def test_what_is_on_the_path_comes_first(started, bare, tmp_path):
    library = str(tmp_path / LIBRARY)
    env = started(bare, environ={"PYTHONPATH": "/the/server/s"})
    assert env["PYTHONPATH"] == os.pathsep.join(["/the/server/s", library])
    env = started(bare, {"PYTHONPATH": "/the/server/s"}, [("PYTHONPATH", "/the/job/s")])
    assert env["PYTHONPATH"] == os.pathsep.join(["/the/job/s", library])


def test_torch_finds_the_reduction_backend_where_the_library_is_given(started, bare):
    """As if it had been installed there: the entry point has a name, and its package a version."""
    env = started(bare)
    answer = subprocess.run(
        [bare, "-c", BACKENDS], env=dict(env), capture_output=True, text=True, check=True
    )
    ours = metadata.version("trainshed-trainer")
    assert answer.stdout.strip() == (
        f"('trainshed_reduction', 'trainshed_trainer.reduction.torch_setup:register') {ours}"
    )


def test_what_is_given_is_what_an_installation_brings():
    with (OURS.parents[1] / "pyproject.toml").open("rb") as file:
        groups = tomllib.load(file)["project"]["entry-points"]
    parser = configparser.ConfigParser(delimiters=("=",))
    parser.read_string(ENTRY_POINTS)
    assert groups == {name: dict(parser[name]) for name in parser.sections()}


def test_an_older_server_s_entry_points_are_renewed(started, bare, tmp_path):
    started(bare)
    file = tmp_path / LIBRARY / "trainshed_trainer.dist-info/entry_points.txt"
    file.write_text("[torch.backends]\nold = nowhere:at_all\n")
    started(bare)
    assert file.read_text() == ENTRY_POINTS


def test_it_is_that_of_the_newest_server(started, bare, tmp_path):
    (tmp_path / LIBRARY).mkdir()
    (tmp_path / LIBRARY / "trainshed_trainer").symlink_to(tmp_path / "gone")
    assert imported(bare, started(bare)) == OURS
