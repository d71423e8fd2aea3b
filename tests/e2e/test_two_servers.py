"""Two servers on one PostgreSQL and one data directory share the work; one is killed."""

import json
import os
import signal
from concurrent.futures import ThreadPoolExecutor

import pytest

from e2e.support import (
    FINAL,
    PARENT,
    all_pages,
    check_the_end,
    custom_job,
    end_all,
    log_lines,
    metrics_of,
    native,
    prepared,
    submit,
    wait_until,
)

#: Its jobs run without walls (conftest.py).
JOBS_TELL_BY_FILES = True

pytestmark = pytest.mark.slow

JOBS = 8
#: Says which process it is, once, and ends when a file is there.
WAIT = """\
import os, time
print("I am", os.getpid(), flush=True)
while not os.path.exists({go!r}):
    time.sleep(0.05)
print("done", flush=True)
"""


@pytest.fixture(scope="module")
def servers(postgres, tmp_path_factory):
    """Both at once, from an empty database and an empty folder."""
    database = postgres.new_database()
    folder = tmp_path_factory.mktemp("two") / "data"
    both = [prepared(folder, "--database", database) for _ in range(2)]
    try:
        both[0].start()
        both[1].start()
        yield both
        for server in both:
            server.stop()
        check_the_end(both[0])
    finally:
        for server in both:
            server.kill()
        end_all(both[0])


def attempts_of(server, name):
    """The attempts of a job that were ever prepared, and how many runners took each."""
    folder = server.data_dir / "jobs" / name.rpartition("/")[2]
    return {
        path.name: sum(
            json.loads(line)["is"] == "Began"
            for line in (path / "records.jsonl").read_text().splitlines()
            if line
        )
        for path in folder.iterdir()
    }


def check_that_it_ran_once(server, name):
    assert attempts_of(server, name) == {"1": 1}
    assert native(server, name)["attempt"] == 1
    texts = [line["message"] for line in log_lines(server, name, task="workerpool0-0")]
    assert [text.split()[0] for text in texts] == ["I", "done"], texts


def sums_of(*servers):
    """The servers that lead and the jobs that run, summed over the pages of metrics."""
    pages = [metrics_of(server) for server in servers]
    running = [
        sum(value for name, value in page.items() if name.startswith("trainshed_jobs{"))
        for page in pages
    ]
    return sum(page["trainshed_server_leader"] for page in pages), sum(running)


def test_one_of_two_servers_is_killed_and_its_jobs_end(servers, tmp_path):
    first, second = servers
    assert first.url != second.url
    go = [tmp_path / "go-0", tmp_path / "go-1"]
    codes = [WAIT.format(go=str(go[number // 2 % 2])) for number in range(JOBS)]
    with ThreadPoolExecutor(JOBS) as pool:
        submits = [
            pool.submit(submit, servers[number % 2], custom_job(f"job-{number}", code))
            for number, code in enumerate(codes)
        ]
        names = [future.result() for future in submits]
    for server in servers:
        jobs = all_pages(server, f"/v1/{PARENT}/customJobs?pageSize=3", "customJobs")
        assert len(jobs) == len({job["name"] for job in jobs})
        assert {job["name"] for job in jobs} >= set(names)
    for number, name in enumerate(names):
        servers[1 - number % 2].wait_for(f"/v1/{name}", {"JOB_STATE_RUNNING"})
    wait_until(lambda: sums_of(first, second) == (1, JOBS), lambda: sums_of(first, second))

    first.kill()
    go[0].touch()
    late = submit(second, custom_job("late"))
    wait_until(lambda: metrics_of(second)["trainshed_server_leader"] == 1)
    for number, name in enumerate(names):
        if number // 2 % 2 == 0:
            assert second.wait_for(f"/v1/{name}", FINAL)["state"] == "JOB_STATE_SUCCEEDED"
    assert second.wait_for(f"/v1/{late}", FINAL)["state"] == "JOB_STATE_SUCCEEDED"

    first.start()
    go[1].touch()
    for name in names:
        assert first.wait_for(f"/v1/{name}", FINAL)["state"] == "JOB_STATE_SUCCEEDED"
    for name in names:
        check_that_it_ran_once(second, name)


def test_a_server_that_was_frozen_past_its_lease_starts_nothing_twice(servers, tmp_path):
    """It wakes up in the middle of a thought, and the other has done the work meanwhile."""
    first, second = servers
    go = tmp_path / "go"
    code = WAIT.format(go=str(go))
    names = [submit(server, custom_job("early", code)) for server in servers for _ in range(2)]
    os.kill(first.pid, signal.SIGSTOP)
    try:
        names += [submit(second, custom_job("meanwhile", code)) for _ in range(4)]
        for name in names:
            second.wait_for(f"/v1/{name}", {"JOB_STATE_RUNNING"})
    finally:
        os.kill(first.pid, signal.SIGCONT)
    names += [submit(server, custom_job("after", code)) for server in servers for _ in range(2)]
    go.touch()
    for name in names:
        assert first.wait_for(f"/v1/{name}", FINAL)["state"] == "JOB_STATE_SUCCEEDED"
        check_that_it_ran_once(second, name)


def test_a_job_is_cancelled_through_either_server(servers):
    first, second = servers
    name = submit(first, custom_job("endless", "import time; time.sleep(7200)"))
    second.wait_for(f"/v1/{name}", {"JOB_STATE_RUNNING"})
    status, _ = second.call("POST", f"/v1/{name}:cancel", {})
    assert status == 200
    assert first.wait_for(f"/v1/{name}", FINAL)["state"] == "JOB_STATE_CANCELLED"
    assert attempts_of(first, name) == {"1": 1}


def test_a_token_revoked_on_one_server_is_soon_worthless_on_the_other(servers):
    first, second = servers
    status, token = first.call("POST", "/trainshed/v1/tokens", {"name": "short", "role": "viewer"})
    assert status == 200
    path = f"/v1/{PARENT}/customJobs"
    assert second.call("GET", path, token=token["token"])[0] == 200
    assert first.call("DELETE", f"/trainshed/v1/tokens/{token['id']}")[0] == 200
    wait_until(lambda: second.call("GET", path, token=token["token"])[0] == 401)
