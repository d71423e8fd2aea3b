"""One PostgreSQL for the tests that need it, and gcloud from the conformance tests."""

import pytest

from conformance.conftest import (
    gcloud,
    gcloud_at,
    gcloud_env,
    met,
    own_folder,
    server,
    trainer,
    warm,
)
from e2e import support
from e2e import world as two_projects
from e2e.support import serving
from postgres_server import bin_folder, running_postgres

__all__ = ["gcloud", "gcloud_at", "gcloud_env", "met", "own_folder", "server", "trainer", "warm"]


@pytest.fixture(autouse=True, scope="module")
def _walls(request):
    """Serve without isolation only the jobs that exchange files of the machine with a test."""
    tells = getattr(request.module, "JOBS_TELL_BY_FILES", False)
    support.WALLS["settings"] = support.WITHOUT_WALLS if tells else ""
    yield
    support.WALLS["settings"] = ""


@pytest.fixture(scope="session")
def postgres():
    if bin_folder() is None:
        pytest.skip("PostgreSQL is not installed (apt install postgresql)")
    with running_postgres() as server:
        yield server


@pytest.fixture(scope="module")
def world(tmp_path_factory):
    """Two projects; in every test, bravo keeps its data, and alpha gets none of it."""
    never_too_many = "[server]\nfailed_sign_ins_a_minute = 0\n"
    folder = tmp_path_factory.mktemp("isolation") / "data"
    with serving(folder, config=never_too_many) as started:
        world = two_projects.build(started)
        before = world.all_of_bravo()
        assert all(status == 200 for status, _ in before.values()), before
        yield world
        assert world.all_of_bravo() == before
        two_projects.end(world)
