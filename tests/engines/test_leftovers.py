"""Whatever a killed supervisor leaves of its attempt is ended by anybody who knows its places."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from engines.cages import DAEMON, DEAF, SLEEPER, TRAINERS, boxes_left, needs, owned
from engines.support import assert_no_survivor, marked_processes, wait_until
from trainshed.engines.processes import cgroup
from trainshed.engines.supervise.kernel.kill import (
    CGROUP_KILL,
    KILL_STRATEGIES,
    KILLPG,
    SWEEP,
    V1_FREEZER,
)
from trainshed.engines.supervise.leftovers import end_leftovers, list_marked
from trainshed.model.trainer_contract import JOB

SOURCE = Path(__file__).parents[2] / "src"

#: A trainer that changes its environment, so that the mark is gone.
UNMARKED = (
    "import os, sys\n"
    f"code = 'import os, time; os.write(1, b\"ready\\\\n\"); time.sleep(600)'\n"
    f"env = {{k: v for k, v in os.environ.items() if k != {JOB!r}}}\n"
    "os.execve(sys.executable, [sys.executable, '-c', code], env)"
)

#: The same for a daemon.
DAEMON_UNMARKED = DAEMON.replace(
    "        time.sleep(600)",
    f"        env = {{k: v for k, v in os.environ.items() if k != {JOB!r}}}\n"
    "        os.execve('/bin/sleep', ['sleep', '600'], env)",
)

in_a_box = pytest.mark.parametrize(
    "rung", [pytest.param(rung, marks=needs(rung)) for rung in (CGROUP_KILL, V1_FREEZER)]
)


def places_of(owner):
    """As they come back from the attempt's records."""
    return json.loads(json.dumps(owner.places))


@pytest.fixture
def job(mark):
    """The mark of one attempt."""
    return f"{mark}/1"


@pytest.mark.parametrize("trainer", TRAINERS.values(), ids=TRAINERS)
def test_all_that_a_killed_supervisor_left_is_ended(trainer, mark, job):
    with owned(mark, trainer, DEAF, job=job) as owner:
        owner.die()
        assert end_leftovers(places_of(owner), job) == []
        assert_no_survivor(mark)
        assert not boxes_left(owner)


@in_a_box
def test_what_hides_its_mark_is_found_by_its_box(rung, mark, job):
    with owned(mark, UNMARKED, job=job, allow=[rung]) as owner:
        owner.die()
        assert end_leftovers(places_of(owner), mark) == []
        assert_no_survivor(mark)


def test_what_has_written_over_its_environment_is_found_where_there_are_no_boxes(mark, job):
    """As setproctitle does; it has left its session and its parents too."""
    with owned(mark, DAEMON_UNMARKED, job=job, allow=[SWEEP]) as owner:
        owner.die()
        assert end_leftovers(places_of(owner), job) == []
        assert_no_survivor(mark)


@in_a_box
def test_a_box_goes_though_its_processes_take_their_time_to_leave(rung, mark, job, monkeypatch):
    monkeypatch.setattr(cgroup, "_EMPTY_S_MAX", 0.0)
    with owned(mark, *[DAEMON] * 4, job=job, allow=[rung]) as owner:
        owner.die()
        assert end_leftovers(places_of(owner), job) == []
        assert not boxes_left(owner)


def test_what_is_in_no_box_is_found_by_its_mark(mark, job):
    with owned(mark, DAEMON, TRAINERS["nohup"], job=job, allow=[KILLPG]) as owner:
        owner.die()
        assert end_leftovers(places_of(owner), job) == []
        assert_no_survivor(mark)


@needs(V1_FREEZER)
def test_a_supervisor_that_was_killed_while_it_froze_its_box(mark, job):
    with owned(mark, SLEEPER, job=job, allow=[V1_FREEZER]) as owner:
        (box,) = owner.places["boxes"]
        for state in (Path(box, "0/freezer.state"), Path(box, "freezer.state")):
            state.write_text("FROZEN")
            wait_until(lambda state=state: state.read_text() == "FROZEN\n", "it is frozen")
        owner.die()
        assert end_leftovers(places_of(owner), job) == []
        assert_no_survivor(mark)


def test_nothing_of_a_living_supervisor_is_touched_but_all_of_it_is_told(mark, job):
    with owned(mark, SLEEPER, SLEEPER, job=job) as owner:
        if not owner.places["boxes"]:
            pytest.skip("no control groups here: run as root, with a writable cgroup2")
        running = marked_processes(mark)
        assert set(owner.pids) < set(end_leftovers(places_of(owner), job))
        assert marked_processes(mark) == running


def test_other_attempts_are_not_touched(mark, job):
    allow = [rung for rung in KILL_STRATEGIES if rung not in {CGROUP_KILL, V1_FREEZER}]
    with owned(mark, SLEEPER, job=job + "0", allow=allow) as other:
        assert end_leftovers({}, job) == []
        assert other.pids[0] in list_marked(job + "0")


def test_neither_the_caller_nor_who_started_it_is_ended(job):
    """A command of the service may itself run in a job."""
    code = (
        f"import sys; sys.path.insert(0, {str(SOURCE)!r})\n"
        "from trainshed.engines.supervise.leftovers import end_leftovers\n"
        f"print(end_leftovers({{}}, {job!r}))"
    )
    shell = 'sleep 600 & "$@"; echo "$?"; kill %1 2>/dev/null || echo ended'
    output = subprocess.run(
        ["/bin/sh", "-c", shell, "sh", sys.executable, "-c", code],
        env={**os.environ, JOB: job},
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    ).stdout
    assert output.split("\n")[:2] == ["[]", "0"]
    wait_until(lambda: not list_marked(job), "what the shell itself has killed is gone")


@pytest.mark.parametrize(
    "places", [{}, {"boxes": []}, {"boxes": ["/sys/fs/cgroup/trainshed-gone"]}, {"boxes": ["/"]}]
)
def test_places_that_are_no_boxes_do_no_harm(places, job):
    assert end_leftovers(places, job) == []


def test_a_folder_that_is_not_a_cgroup_s_is_left_alone(tmp_path, job):
    folder = tmp_path / "trainshed-kept"
    folder.mkdir()
    assert end_leftovers({"boxes": [str(folder)]}, job) == []
    assert folder.is_dir()


@needs(SWEEP)
def test_the_mark_reaches_whatever_a_trainer_forks(mark, job):
    with owned(mark, TRAINERS["daemon beside"], job=job, allow=[SWEEP]) as owner:
        assert set(list_marked(job)) == set(marked_processes(mark))
        owner.kill_all()
