"""Worlds on real SQLite files; at its end, each checks the invariants."""

import pytest

from controller.world import World, nodes, runs
from trainshed.engines.base import PlacedBy


@pytest.fixture
def make_world(tmp_path):
    worlds = []

    def make(fleet=None, **more):
        folder = tmp_path / str(len(worlds))
        worlds.append(World(folder, nodes() if fleet is None else fleet, **more))
        return worlds[-1]

    yield make
    for world in worlds:
        world.close()


@pytest.fixture
def queue_world(make_world):
    """A world whose engine has its own queue."""

    def make(fleet=None, script=None, **traits):
        script = script or runs()
        return make_world(fleet or nodes(4), script=script, places=PlacedBy.ENGINE, **traits)

    return make
