"""Every command of README and of the how-to pages runs, and prints what the page shows.

A block runs in a clean folder like a fresh clone.  A block that cannot run says why, in a comment
before it.  Blocks marked `full` run in `make test-full` only.
"""

import shutil

import pytest

from cli.conftest import FINAL, listed
from conftest import FULL
from docs.pages import read_blocks
from docs.running import ROOT, BlockError, has_commands, make_place, run_page, starts_server
from server_process import ServerProcess

PAGES = [
    ROOT / "README.md",
    ROOT / "docs/index.md",
    *sorted((ROOT / "docs" / "how-to").glob("*.md")),
]


#: The project of all pages: a bucket that was deleted keeps its name for its project.
PROJECT = "demo-proj"


def name(page):
    return str(page.relative_to(ROOT))


@pytest.fixture(scope="module")
def shared_server(tmp_path_factory):
    data = tmp_path_factory.mktemp("service")
    server = ServerProcess(data, environ={"TRAINSHED_CACHE_DIR": str(data / "cache")}).start()
    yield server
    server.stop()


@pytest.fixture
def clean_server(shared_server):
    """The server without the buckets and jobs of an earlier page."""
    yield shared_server
    end_jobs(shared_server)
    for folder in shared_server.data_dir.glob("buckets/*"):
        if not folder.name.startswith("."):
            empty(folder)
            status, answer = shared_server.call("DELETE", f"/storage/v1/b/{folder.name}")
            assert status in (200, 204), answer


def end_jobs(server):
    """Jobs outlive their server; those of pages must not."""
    vertex = f"projects/{PROJECT}/locations/us-central1"
    for parent, word in (
        (f"projects/{PROJECT}", "jobs"),
        (vertex, "customJobs"),
        (vertex, "hyperparameterTuningJobs"),
    ):
        for job in listed(server, f"/v1/{parent}/{word}", word):
            if job["state"] not in FINAL:
                path = f"/v1/{job.get('name') or parent + '/jobs/' + job['jobId']}"
                server.call("POST", f"{path}:cancel", {})
                server.wait_for(path, FINAL)


def empty(folder):
    for path in folder.iterdir():
        shutil.rmtree(path) if path.is_dir() else path.unlink()


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_the_commands_of_a_page_run_and_print_what_it_shows(page, request, tmp_path):
    blocks = read_blocks(page)
    is_own = starts_server(blocks) or not has_commands(blocks)
    server = None if is_own else request.getfixturevalue("clean_server")
    place = make_place(tmp_path, None if is_own else server.data_dir, full=FULL)
    difference = ""
    try:
        run_page(page, place, full=FULL, name=name(page))
    except BlockError as error:
        difference = str(error)
    if difference:
        pytest.fail(difference, pytrace=False)


def test_readme_is_short():
    assert len((ROOT / "README.md").read_text().splitlines()) <= 200
