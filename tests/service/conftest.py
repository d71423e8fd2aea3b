import pytest

from databases import new_database
from service.submitting import Desk
from trainshed.service.auth.access import Access
from trainshed.store.opening import open_store


@pytest.fixture
def store(tmp_path):
    store = open_store(new_database(tmp_path))
    yield store
    store.close()


@pytest.fixture
def desk(store):
    return Desk(store)


class Clock:
    """The time of day, in seconds since 1970, as a test sets it."""

    now = 1_800_000_000.0

    def __call__(self):
        return self.now


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def access(store, clock):
    return Access(store, anonymous=False, clock=clock)
