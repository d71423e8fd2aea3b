"""Worlds on real SQLite files; each is asked at its end whether what must never happen did."""

import pytest

from controller.world import World, nodes


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
