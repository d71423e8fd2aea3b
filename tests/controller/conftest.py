"""Worlds on real SQLite files; each is asked at its end whether what must never happen did."""

import pytest

from controller.world import World, nodes


@pytest.fixture
def make_world(tmp_path):
    made = []

    def make(fleet=None, **more):
        folder = tmp_path / str(len(made))
        made.append(World(folder, nodes() if fleet is None else fleet, **more))
        return made[-1]

    yield make
    for world in made:
        world.close()
