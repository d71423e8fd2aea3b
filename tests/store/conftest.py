from pathlib import Path

import pytest

from databases import new_database
from postgres_server import bin_folder, running_postgres
from store.builders import HandClock
from trainshed.store.opening import open_store


@pytest.fixture(scope="session")
def postgres():
    if bin_folder() is None:
        pytest.skip("PostgreSQL is not installed (apt install postgresql)")
    with running_postgres() as server:
        yield server


@pytest.fixture
def sqlite_url(tmp_path):
    return f"sqlite:///{tmp_path}/data/trainshed.db"


@pytest.fixture
def postgres_url(postgres):
    return postgres.emptied_database()


@pytest.fixture(params=["sqlite", "postgres"])
def url(request):
    return request.getfixturevalue(f"{request.param}_url")


@pytest.fixture
def clock():
    return HandClock()


@pytest.fixture
def store(url, clock):
    if url.startswith("sqlite"):
        new_database(Path(url.removeprefix("sqlite:///")).parent)
    opened = open_store(url, clock)
    yield opened
    opened.close()
