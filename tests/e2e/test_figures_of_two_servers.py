"""Two servers on one PostgreSQL, which are killed in turn: the figures of a job are whole.

Whichever server leads, its page describes the job and the GPU once.  Goodput, cost and usage are
those of the job's own log, on both servers, and its trace has each phase once.
"""

import os
import signal
import time
from dataclasses import replace

import pytest

from collector import Collector, skip_without_opentelemetry
from e2e import fleet
from e2e.chaos import records
from e2e.failpoints import FailingServer
from e2e.goodput_by_hand import check_goodput
from e2e.interrupting import STEP_S, small_job
from e2e.support import (
    PROJECT,
    check_the_end,
    end_all,
    good,
    metrics_of,
    native,
    wait_until,
)
from e2e.trace_by_events import check_trace

skip_without_opentelemetry()  # failing_server.py imports the exporter

#: Its jobs run without walls (conftest.py).
JOBS_TELL_BY_FILES = True

pytestmark = [pytest.mark.full, pytest.mark.slow, pytest.mark.timeout(900)]

STEPS = 100
#: Places at which the server that takes over kills itself (failing_server.py).
RESTARTED = "controller-observe: store.apply after"
UNACCOUNTED = "figures write_uses before"
ACCOUNTED = "figures write_uses after"
#: How long no server runs after the end of the training, in seconds.
AWAY_S = 15
HELD = "trainshed_gpu_held_seconds_total{"


@pytest.fixture
def collector():
    collector = Collector()
    yield collector
    collector.close()


@pytest.fixture
def servers(postgres, tmp_path, monkeypatch, collector):
    """Two servers that share a database, a folder and a GPU, and send traces."""
    monkeypatch.setenv("TRAINSHED_LOCK_DIR", str(tmp_path / "locks"))
    folder = tmp_path / "data"
    folder.mkdir()
    flags = ("--database", postgres.new_database())
    flags += ("--fleet-policy", "best-effort", "--fake-gpus", "1")
    config = f'[otel]\nendpoint = "{collector.url}"\n'
    both = [FailingServer(folder, *flags, number=number, config=config) for number in range(2)]
    try:
        for server in both:
            server.has_figures = True
            start(server)
        yield both
        for server in both:
            server.stop()
        check_the_end(both[0])
    finally:
        for server in both:
            server.kill()
        end_all(both[0])


def start(server, place=None):
    """Start a server that dies at a place."""
    server.arm(place)
    assert server.begin(), server.output()


class Pages:
    """Reads the pages of metrics of all servers that run, and checks their sums."""

    def __init__(self, servers):
        self._servers = servers
        self.leaders = []
        """The pid of the leading server, whenever it changed."""
        self.held_s = {}
        """The GPU-seconds that a server has counted last, by its pid."""

    def read(self):
        """Read all pages; return the server that leads, or None."""
        running = [server for server in self._servers if not server.has_ended]
        pages = [(server, metrics_of(server)) for server in running]
        leaders = [server for server, page in pages if page["trainshed_server_leader"]]
        assert len(leaders) <= 1
        for name in ("trainshed_jobs{", "trainshed_gpu_info{", "trainshed_gpu_job_info{"):
            total = sum(sum_of(page, name) for _, page in pages)
            assert total <= 1, (name, total)
        for server, page in pages:
            held_s = sum_of(page, HELD)
            assert held_s >= self.held_s.get(server.pid, 0)
            self.held_s[server.pid] = held_s
        self.leaders += [one.pid for one in leaders if one.pid not in self.leaders[-1:]]
        return leaders[0] if leaders else None


def sum_of(page, prefix):
    return sum(value for name, value in page.items() if name.startswith(prefix))


def run_and_change_the_leader(pages, servers):
    """Run a training of three attempts, and kill the leading server in each; return it."""
    finish = servers[0].data_dir / "finish"
    training = small_job(servers[0], "killed", STEPS, STEP_S, gpus=1, finish=finish)
    for number, place in ((1, RESTARTED), (2, UNACCOUNTED)):
        training = await_attempt(pages, training, number)
        leader = training.server
        (other,) = (server for server in servers if server is not leader)
        other.kill()
        start(other, place)
        pid = records(training.folder, "Began")[0]["pid"]
        pages.read()
        leader.kill()
        os.kill(pid, signal.SIGKILL)
        assert other.await_death(), (place, other.reached_places())  # it restarts the job
        for server in (leader, other):
            start(server)
    return await_attempt(pages, training, 3)


def await_attempt(pages, training, number):
    """Wait until an attempt makes steps; return the training with the server that leads."""
    leader = wait_until(pages.read)
    wait_until(lambda: pages.read() and is_running(leader, training.name, number))
    training = replace(training, server=leader)
    training.wait_for_checkpoints()
    return training


def is_running(server, name, attempt):
    job = native(server, name)
    assert job["state"] not in fleet.FINAL, fleet.story_text(server, name)
    return (job["state"], job["attempt"]) == ("RUNNING", attempt)


def end_without_a_server(training, servers):
    """Let the training end while no server runs; kill the next ones around the accounting.

    Return when a server came back.
    """
    folder = training.folder
    for server in servers:
        server.kill()
    (servers[0].data_dir / "finish").touch()
    wait_until(lambda: records(folder, "Ended"))
    time.sleep(AWAY_S)
    back_s = time.time()
    for server, place in zip(servers, (UNACCOUNTED, ACCOUNTED), strict=True):
        server.arm(place)
        server.begin()
        assert server.await_death(), (place, server.reached_places())
    for server in servers:
        start(server)
    return back_s


def figures_of(server, name):
    usage = [
        good(server.call("GET", f"/trainshed/v1/usage?by={by}&project={PROJECT}"))
        for by in ("project", "user", "type", "day")
    ]
    return native(server, name, "/goodput"), usage


def test_the_figures_of_a_job_are_whole_although_the_leading_server_is_killed(servers, collector):
    first, second = servers
    fleet.make_bucket(first)
    pages = Pages(servers)
    training = run_and_change_the_leader(pages, servers)
    name = training.name
    back_s = end_without_a_server(training, servers)
    training.weights()
    check_goodput(training.server, name, "workerpool0-0")
    goodput, usage = figures_of(first, name)
    assert figures_of(second, name) == (goodput, usage)
    assert goodput["attempts"][-1]["ended"] < back_s - AWAY_S + 1
    held_s = goodput["seconds"]["held"]
    for report in usage:
        used_s = sum(sum(row["gpu_seconds"].values()) for row in report["rows"])
        assert used_s == pytest.approx(held_s, abs=0.01)
    assert 0 < sum(pages.held_s.values()) <= held_s
    check_trace(first, collector, name)
    assert len(pages.leaders) >= 3
