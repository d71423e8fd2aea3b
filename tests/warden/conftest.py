"""Launchers of one test, and a check that no process of them is left."""

import pytest

from trainshed.engines.supervise.leftovers import list_marked
from warden.attempts import KEY, Launchers, eventually
from warden.pods import Pods


@pytest.fixture
def launchers(tmp_path, tmp_path_factory):
    started = Launchers(tmp_path / "jobs", str(tmp_path_factory.getbasetemp()))
    yield started
    started.close()
    eventually(lambda: not list_marked(str(KEY)), "no program is left")


@pytest.fixture
def pods(launchers, tmp_path):
    started = Pods(launchers, tmp_path)
    yield started
    started.close()
