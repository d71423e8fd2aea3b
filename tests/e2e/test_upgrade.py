"""An upgrade under running jobs: the release before wrote the data directory and supervises them.

The old server is killed, so nothing is handed over; the new one has what lies on the disk.
"""

import contextlib
import os
import subprocess
import sys
from pathlib import Path

import pytest

from e2e.support import (
    FINAL,
    WITHOUT_WALLS,
    check_the_end,
    custom_job,
    end_all,
    good,
    log_lines,
    ml_job,
    native,
    prepared,
    submit,
    wait_until,
)
from server_process import ServerProcess

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]

ROOT = Path(__file__).parents[2]
#: The commit before one codec and one plan file.
BEFORE = "084eaef"
#: The last commit whose jobs had no samples of their usage, and whose database had no such table.
WITHOUT_USAGE = "a273fc92"
START = "import sys; from trainshed.cli.main import main; sys.exit(main())"
USAGE = "/trainshed/v1/usage?by=project"
#: A release before took the default port for gRPC, which another server may have.
ANY_PORT = ("--grpc-port", "0")
#: As many as run at once, so that the last job waits.
SLOTS = "[fleet]\nslots = 5\n"

#: Leaves a line for each run of it, then counts until it may end.
COUNTS = """\
import itertools, os, time
with open({runs!r}, "a") as runs:
    runs.write({name!r} + "\\n")
for number in itertools.count(1):
    print(number, flush=True)
    time.sleep(0.01)
    if os.path.exists({go!r}):
        print("last", number, flush=True)
        break
"""


@pytest.fixture(
    scope="module", params=[BEFORE, pytest.param(WITHOUT_USAGE, marks=pytest.mark.full)]
)
def old_tree(request, tmp_path_factory):
    return sources_of(request.param, tmp_path_factory.mktemp("before"))


def sources_of(commit, folder):
    """The sources of a commit before, out of this repository's history."""
    archive = ["git", "-C", str(ROOT), "archive", commit, "src", "trainer"]
    history = subprocess.run(archive, capture_output=True, check=False)
    if history.returncode:
        pytest.skip(f"the history before {commit} is not here: {history.stderr.decode()[:200]}")
    subprocess.run(["tar", "-x", "-C", str(folder)], input=history.stdout, check=True)  # noqa: S607
    return folder


def path_of(old_tree):
    return f"{old_tree / 'src'}:{old_tree / 'trainer' / 'src'}"


@pytest.fixture
def servers(tmp_path, old_tree):
    # jobs look for files of the machine
    config = WITHOUT_WALLS * knows_walls(old_tree) + SLOTS
    with old_and_new(tmp_path / "data", old_tree, config=config) as both:
        yield both


@contextlib.contextmanager
def old_and_new(folder, old_tree, *flags, config):
    """The old server and the new one, on one data directory."""
    new = prepared(folder, *flags, config=config)
    environ = {**new._environ, "PYTHONPATH": path_of(old_tree)}
    old = ServerProcess(new.data_dir, *new._flags, *ANY_PORT, environ=environ)
    old.program = (sys.executable, "-P", "-c", START)
    try:
        yield old, new
    finally:
        end_all(old)
        end_all(new)


def knows_walls(old_tree):
    return (old_tree / "src/trainshed/engines/isolation").exists()


def test_jobs_of_the_release_before_go_on_and_end_under_this_one(servers, old_tree, tmp_path):
    old, new = servers
    errands = 0 if knows_walls(old_tree) else 4  # the oldest code runs its jobs by such files
    go, early, runs = tmp_path / "go", tmp_path / "early", tmp_path / "runs"

    def counting(name, until, end=""):
        return COUNTS.format(runs=str(runs), name=name, go=str(until)) + end

    old.start()
    succeeds = submit(old, custom_job("succeeds", counting("succeeds", go), workers=1))
    fails = submit(old, ml_job("fails", counting("fails", go, "raise SystemExit(3)")))
    unseen = submit(old, custom_job("unseen", counting("unseen", early)))
    stopped = submit(old, custom_job("stopped", counting("stopped", tmp_path / "never")))
    for name in (succeeds, fails, unseen, stopped):
        old.wait_for(f"/v1/{name}", {"JOB_STATE_RUNNING", "RUNNING"})
        wait_until(lambda name=name: log_lines(old, name), lambda name=name: f"{name} is silent")
    waits = submit(old, custom_job("waits", counting("waits", go)))
    old.wait_for(f"/v1/{waits}", {"JOB_STATE_QUEUED", "JOB_STATE_PENDING"})

    assert len(list(old.data_dir.glob("jobs/*/*/errand.json"))) == errands
    old.kill()
    assert "Traceback" not in old.output()
    os.truncate(old.data_dir / "serve.log", 0)  # that release printed the administrator's token
    file = new.data_dir / "config.toml"
    if not knows_walls(old_tree):
        file.write_text(WITHOUT_WALLS + file.read_text())
    early.touch()  # this one ends while no server lives
    new.start()
    assert new.wait_for(f"/v1/{unseen}", FINAL)["state"] == "JOB_STATE_SUCCEEDED"
    new.wait_for(f"/v1/{waits}", {"JOB_STATE_RUNNING"})
    good(new.call("POST", f"/v1/{stopped}:cancel", {}))
    assert new.wait_for(f"/v1/{stopped}", FINAL)["state"] == "JOB_STATE_CANCELLED"
    go.touch()
    for name in (succeeds, waits):
        assert new.wait_for(f"/v1/{name}", FINAL)["state"] == "JOB_STATE_SUCCEEDED"
    failed = new.wait_for(f"/v1/{fails}", {"FAILED", "SUCCEEDED"})
    assert failed["state"] == "FAILED"
    assert "exited with a non-zero status of 3" in failed["errorMessage"]
    assert len(list(old.data_dir.glob("jobs/*/*/errand.json"))) == errands
    ran = sorted(runs.read_text().split())
    assert ran == ["fails", "stopped", "succeeds", "succeeds", "unseen", "waits"]
    for name in (succeeds, fails, unseen, waits):
        assert_whole(new, name)
        assert native(new, name)["attempt"] == 1
    for name in (succeeds, fails, unseen, stopped, waits):
        assert_figures(new, name)
    wait_until(lambda: good(new.call("GET", USAGE))["total"]["jobs"] == 5)
    new.stop()
    check_the_end(new)


def assert_figures(server, name):
    """It has the times that it held its machines, and says of what it has no samples."""
    project, _, job = name.removeprefix("projects/").partition("/")
    path = f"/trainshed/v1/projects/{project}/jobs/{job.rpartition('/')[2]}"
    goodput = good(server.call("GET", f"{path}/goodput"))
    assert 0 < goodput["seconds"]["held"] <= goodput["seconds"]["wall"] < 900
    assert goodput["goodput"] is None, "it reports no steps"
    assert 0 <= goodput["at_most"] <= 1
    usage = good(server.call("GET", f"{path}/usage"))
    assert usage["series"] or usage["missing"]


def assert_whole(server, name):
    """Each replica has written 1, 2, 3 ... and how many it were; nothing is missing or twice."""
    by_task = {}
    for line in log_lines(server, name):
        by_task.setdefault(line["task"], []).append(line["message"])
    del by_task["service"]
    assert by_task
    for *numbers, last in by_task.values():
        assert numbers == [str(n) for n in range(1, len(numbers) + 1)]
        assert last == f"last {len(numbers)}"
