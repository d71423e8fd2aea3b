"""One gateway for all tests of a module: its objects are named after the tests."""

import pytest

from gateway.replica import ONE, Replica, World


@pytest.fixture(scope="module")
def _world(tmp_path_factory):
    world = World(tmp_path_factory.mktemp("data"))
    yield world
    world.close()


@pytest.fixture
def world(_world):
    _world.caller = ONE
    _world.ended.clear()
    _world.is_away = False
    _world.denied.clear()
    return _world


@pytest.fixture
def replica(world):
    replica = Replica(world)
    yield replica
    replica.close()
