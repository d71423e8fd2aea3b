"""The server is killed in each phase of a job: its trace, its goodput and its cost are whole.

A training of three attempts, whose supervisors are killed too.  Its trace agrees with its events,
and what it used is what its own log says: a time without a server costs nothing.
"""

import os
import signal
import time

import pytest

from collector import Collector, skip_without_opentelemetry
from e2e import fleet
from e2e.chaos import cancel, records
from e2e.failpoints import FailingServer
from e2e.goodput_by_hand import check_goodput
from e2e.interrupting import STEP_S, small_job
from e2e.support import (
    PROJECT,
    check_the_end,
    custom_job,
    end_all,
    good,
    native,
    submit,
    wait_until,
)
from e2e.trace_by_events import check_trace

skip_without_opentelemetry()

#: Its jobs run without walls (conftest.py).
JOBS_TELL_BY_FILES = True

pytestmark = [pytest.mark.full, pytest.mark.slow, pytest.mark.timeout(900)]

HOLDER = "import time; time.sleep(7200)"
STEPS = 100
#: For how long no server runs after the end of the training, in seconds.
AWAY_S = 15
#: Places at which the server kills itself (failing_server.py).
LAUNCHED = "controller-perform: local launch after"
ENDED = "controller-observe: store.apply after"
COMMITTED = "figures _send_all before"
EXPORTED = "figures _send_all after"
UNACCOUNTED = "figures write_uses before"
ACCOUNTED = "figures write_uses after"


@pytest.fixture
def collector():
    collector = Collector()
    yield collector
    collector.close()


@pytest.fixture
def server(tmp_path, collector):
    """A server with one place, which sends traces."""
    folder = tmp_path / "data"
    folder.mkdir()
    config = f'[fleet]\nslots = 1\n\n[otel]\nendpoint = "{collector.url}"\n'
    server = FailingServer(folder, "--fleet-policy", "emulate", config=config)
    server.has_figures = True
    try:
        restart(server)
        yield server
        server.stop()
        check_the_end(server)
    finally:
        end_all(server)


def restart(server, place=None):
    """Kill a server, and start one that dies at a place; return whether it got ready."""
    server.kill()
    server.arm(place)
    return server.begin()


def die_at(server, place, act=lambda: None):
    """Start a server that kills itself at a place, to which it comes by itself or after an act."""
    if restart(server, place):
        act()
    assert server.await_death(), (place, server.reached_places())


def run_with_kills(server, collector):
    """Run a training of three attempts and kill servers in all of its phases.

    Return the training, and when a server came back after its end.
    """
    holder = submit(server, custom_job("holder", HOLDER))
    server.wait_for(f"/v1/{holder}", {"JOB_STATE_RUNNING"})
    finish = server.data_dir / "finish"
    training = small_job(server, "killed", STEPS, STEP_S, finish=finish)
    die_at(server, LAUNCHED, lambda: cancel(server, holder))  # it was queued, and prepares
    restart(server)
    for number, place in ((1, COMMITTED), (2, EXPORTED)):
        fleet.running(server, training.name, number)
        training.wait_for_checkpoints()
        pid = records(training.folder, "Began")[0]["pid"]
        server.kill()
        os.kill(pid, signal.SIGKILL)
        die_at(server, place)  # it restarts the job
        restart(server)
    fleet.running(server, training.name, 3)
    training.wait_for_checkpoints()
    folder = training.folder
    server.kill()
    finish.touch()
    wait_until(lambda: records(folder, "Ended"))
    time.sleep(AWAY_S)
    back_s = time.time()
    collector.status = 503  # the spans of the end wait
    for place in (ENDED, UNACCOUNTED, ACCOUNTED, COMMITTED):
        die_at(server, place)
    collector.status = 200
    die_at(server, EXPORTED)
    restart(server)
    training.weights()
    return training, back_s


def test_a_job_has_its_trace_goodput_and_cost_although_the_server_is_killed_in_each_phase(
    server, collector
):
    fleet.make_bucket(server)
    training, back_s = run_with_kills(server, collector)
    name = training.name
    check_goodput(server, name, "workerpool0-0")
    check_trace(server, collector, name)
    goodput = native(server, name, "/goodput")
    assert goodput["attempts"][-1]["ended"] < back_s - AWAY_S + 1
    assert goodput["seconds"]["wall"] > goodput["seconds"]["held"]
    check_cost(server, goodput)
    before = figures_of(server, name)
    restart(server)
    assert figures_of(server, name) == before


def check_cost(server, goodput):
    """Its seconds cost as much as those of a training that nothing stopped."""
    straight = small_job(server, "straight", 20, 0)
    straight.weights()
    fleet.accounted(server, straight.name)
    expected = native(server, straight.name, "/goodput")
    rates = [one["cost"]["amount"] / one["seconds"]["held"] for one in (goodput, expected)]
    assert rates[0] == pytest.approx(rates[1])


def figures_of(server, name):
    usage = [
        good(server.call("GET", f"/trainshed/v1/usage?by={by}&project={PROJECT}"))
        for by in ("project", "user", "type", "day")
    ]
    return native(server, name, "/goodput"), usage
