"""What a real job used and reported is there while it runs, after a restart, and after its end."""

import json
import subprocess

import pytest

from e2e.support import FINAL, custom_job, good, native, serving, submit, wait_until
from engines.events import event, first, record, simple

pytestmark = [pytest.mark.slow, pytest.mark.full]

#: Samples come as often as they can, so that the job need not run for long.
CONFIG = '[usage]\nevery = "1s"\n'
EVENTS = [first(), *(record(event(simple("loss", 4 - n), step=n)) for n in range(4))]
TRAIN = f"""\
import os, pathlib, time
from trainshed_trainer import progress
runs = pathlib.Path("runs/first")
runs.mkdir(parents=True)
name = f"events.out.tfevents.{{int(time.time())}}.host.1.0"
(runs / name).write_bytes(bytes.fromhex("{b"".join(EVENTS).hex()}"))
end_s = time.monotonic() + 15
for step in range(1000):
    progress(step=step, total=1000, loss=1000.0 - step)
    sum(range(100_000))
    time.sleep(0.02)
    if time.monotonic() > end_s:
        break
"""


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """A server with a job that has ended, its name, and its progress while it ran."""
    with serving(tmp_path_factory.mktemp("figures") / "data", config=CONFIG) as server:
        name = submit(server, custom_job("curves", TRAIN))
        row = wait_until(lambda: progress_of(server, name))
        wait_until(lambda: good(server.call("GET", f"/v1/{name}"))["state"] in FINAL)
        yield server, name, row


def progress_of(server, name):
    """The row of a job in the list of progress, once it has steps."""
    rows = good(server.call("GET", "/trainshed/v1/projects/-/progress"))["rows"]
    return next((row for row in rows if row["job"] == name and row["step"]), None)


def series_of(server, name, path):
    return {(one["name"], one.get("run")): one for one in native(server, name, path)["series"]}


def test_a_running_job_has_its_step_and_its_rate(trained):
    _, _, row = trained
    assert row["total"] == 1000
    assert 0.02 <= row["step_s"] < 60
    assert row["cost"]["amount"] > 0
    assert row["gpu_use"] is None


def test_what_an_ended_job_used_is_still_there(trained):
    server, name, _ = trained
    usage = series_of(server, name, "/usage")
    assert max(point[3] for point in usage["cpu", None]["points"]) > 0
    assert min(point[1] for point in usage["memory", None]["points"]) > 1 << 20
    (attempt,) = native(server, name, "/usage")["attempts"]
    times = [point[0] for point in usage["cpu", None]["points"]]
    assert attempt["start"] <= min(times) <= max(times) <= attempt["end"] + 1


def test_its_values_and_its_event_files_are_scalars(trained):
    server, name, _ = trained
    scalars = series_of(server, name, "/scalars")
    step, _, low, _, _ = scalars["loss", "workerpool0-0"]["points"][-1]
    assert 1000 - low == step
    points = scalars["loss", "runs/first"]["points"]
    assert [(point[0], point[3]) for point in points] == [(n, 4 - n) for n in range(4)]


def test_the_command_line_prints_what_the_server_answers(trained):
    server, name, _ = trained
    for action in ("usage", "scalars"):
        command = [*server.program, "jobs", action, name, "--format", "json"]
        command += ["--data-dir", str(server.data_dir)]
        done = subprocess.run(command, capture_output=True, check=True, timeout=120)
        assert json.loads(done.stdout) == native(server, name, f"/{action}")


def test_a_server_that_was_started_again_has_the_same_figures(trained):
    server, name, _ = trained
    before = [native(server, name, path) for path in ("/usage", "/scalars")]
    server.stop()
    server.start()
    assert [native(server, name, path) for path in ("/usage", "/scalars")] == before
