import pytest

from databases import new_database
from service.submitting import Desk
from trainshed.store.opening import open_store


@pytest.fixture
def store(tmp_path):
    found = open_store(new_database(tmp_path))
    yield found
    found.close()


@pytest.fixture
def desk(store):
    return Desk(store)
