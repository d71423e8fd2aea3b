"""One gateway for all tests of a module: its objects are named after the tests."""

import pytest

from gateway.replica import ONE, Replica, World


@pytest.fixture(scope="module")
def _world(tmp_path_factory):
    found = World(tmp_path_factory.mktemp("data"))
    yield found
    found.close()


@pytest.fixture
def world(_world):
    _world.caller = ONE
    _world.ended.clear()
    _world.is_away = False
    _world.denied.clear()
    return _world


@pytest.fixture
def replica(world):
    found = Replica(world)
    yield found
    found.close()
