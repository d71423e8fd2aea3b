import pytest

from service.submitting import Desk
from trainshed.store.opening import open_store


@pytest.fixture
def store(tmp_path):
    found = open_store(f"sqlite:///{tmp_path}/trainshed.db")
    yield found
    found.close()


@pytest.fixture
def desk(store):
    return Desk(store)
