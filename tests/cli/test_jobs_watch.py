"""``jobs watch``: in place on a terminal, line by line elsewhere, ending as the job does."""

import json
import os
import secrets
import signal
import subprocess
import sys
from datetime import UTC, datetime

import pytest

from cli.conftest import ELSEWHERE, FINAL, PARENT, new_server, pool
from cli.terminal_process import Terminal
from server_process import TRAINSHED
from trainshed.cli.jobs.watch_view import JobView

#: Ends when the file that it is told of is there.
STEPS = """\
import os, time
print("first line", flush=True)
while not os.path.exists({0!r}): time.sleep(0.02)
print("last line", flush=True)
raise SystemExit(6)
"""

#: A command that waits for its server for as long as a busy machine takes to start one.
PATIENT = """\
import sys
from trainshed.cli.main import main
from trainshed.client import following
following.RETURN_S_MAX = 240.0
sys.exit(main(sys.argv[1:]))
"""


def test_a_terminal_shows_the_job_in_place_until_it_ends(created, environ, server):
    go = server.data_dir / "buckets/staging" / secrets.token_hex(8)  # jobs see it too
    name = created(STEPS.format(str(go)), pool("import time; time.sleep(600)"))
    with Terminal(
        [TRAINSHED, "jobs", "watch", name], env=environ, lines=20, columns=90
    ) as terminal:
        running = terminal.wait_until(
            lambda screen: "RUNNING" in screen[0] and any("first line" in line for line in screen)
        )
        go.touch()
        code = terminal.wait()
        ended = terminal.screen()
    assert code == 6
    assert running[0].startswith("made: RUNNING for 0:")
    assert any(line.split()[:2] == ["worker", "workerpool1-0"] for line in running)
    assert ended[0].startswith("made: FAILED after 0:")
    assert any(line.split() == ["primary", "workerpool0-0", *line.split()[2:3], "FAILED", "6"]
               for line in ended)  # fmt: skip
    assert any(line.endswith("│ last line") for line in ended)
    assert sum("RUNNING" in line for line in ended) == 0, "nothing of older views is left"
    assert all(len(line) <= 90 for line in ended)
    assert len(ended) <= 20
    assert terminal.text.index("\x1b[?25l") < terminal.text.rindex("\x1b[?25h")


def test_ctrl_c_on_a_terminal_leaves_the_job_and_the_cursor(created, environ, server):
    name = created("import time; print('here', flush=True); time.sleep(600)")
    with Terminal([TRAINSHED, "jobs", "watch", name], env=environ) as terminal:
        terminal.wait_until(
            lambda screen: "RUNNING" in screen[0] and any("here" in line for line in screen)
        )
        terminal.process.send_signal(signal.SIGINT)
        assert terminal.wait() == 130
    assert f"trainshed ai custom-jobs cancel {name}" in terminal.text
    assert "\x1b[?7h\x1b[?25h" in terminal.text
    assert server.call("GET", f"/v1/{name}")[1]["state"] == "JOB_STATE_RUNNING"
    server.call("POST", f"/v1/{name}:cancel", {})
    server.wait_for(f"/v1/{name}", FINAL)


def test_elsewhere_it_prints_lines_and_then_the_replicas(client, created):
    name = created("print('hello'); raise SystemExit(7)")
    run = client("jobs", "watch", name)
    lines = run.out.splitlines()
    assert run.code == 7
    of_log = [line for line in lines if "│" in line]
    assert [line for line in of_log if line.endswith("│ hello")]
    assert "│ Goodput " in of_log[-1]
    assert lines[-2].split()[-2:] == ["FAILED", "7"]
    assert lines[-1] == "state: FAILED"
    assert "\x1b" not in run.out


def test_json_is_a_line_whenever_the_job_has_changed(client, created):
    name = created("print('hello')")
    run = client("jobs", "watch", name, "--format", "json")
    states = [json.loads(line)["state"] for line in run.out.splitlines()]
    assert run.code == 0
    assert states[-1] == "SUCCEEDED"
    assert len(set(map(str, run.out.splitlines()))) == len(states)


def test_a_stream_goes_on_where_it_was_when_the_server_comes_back(tmp_path):
    """The server is killed while a command follows a job, and started again at its address."""
    server = new_server(tmp_path / "data")
    port = server.url.rpartition(":")[2]
    go = server.data_dir / "buckets/staging" / secrets.token_hex(8)  # jobs see it too
    spec = {"workerPoolSpecs": [pool(STEPS.format(str(go)))]}
    document = {"displayName": "made", "jobSpec": spec}
    name = server.call("POST", f"/v1/{PARENT}/customJobs", document)[1]["name"]
    environ = {key: value for key, value in os.environ.items() if key not in ELSEWHERE}
    environ |= {"TRAINSHED_URL": server.url, "TRAINSHED_TOKEN": server.token}
    words = [sys.executable, "-c", PATIENT, "ai", "custom-jobs", "stream-logs", name,
             "--format", "json"]  # fmt: skip
    try:
        with subprocess.Popen(
            words, env=environ, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE
        ) as command:
            lines = [json.loads(next(command.stdout))]
            while lines[-1]["message"] != "first line":
                lines.append(json.loads(next(command.stdout)))
            server.kill()
            server._flags = ("--port", port, "--grpc-port", "none")
            server.start()
            go.touch()
            lines += map(json.loads, command.stdout)
            err = command.stderr.read()
        assert command.returncode == 0, err
        server.wait_for(f"/v1/{name}", FINAL)
    finally:
        server.stop()
    messages = [line["message"] for line in lines]
    assert messages.count("first line") == messages.count("last line") == 1
    assert len({line["time"] for line in lines}) == len(lines)


JOB = {"displayName": "big", "state": "RUNNING", "attempt": 2, "createTime": "2026-01-01T00:00:00Z",
       "startTime": "2026-01-01T00:01:00.5Z", "replicas": []}  # fmt: skip
NOW = datetime(2026, 1, 1, 1, 1, 3, tzinfo=UTC)


def replica(index, state="RUNNING"):
    return {"role": "worker", "taskName": f"worker-replica-{index}", "node": "n", "state": state}


def line(text, task="worker-replica-0"):
    return {"severity": "INFO", "time": "2026-01-01T00:00:00.000000000Z", "task": task,
            "message": text}  # fmt: skip


@pytest.mark.parametrize("count", [0, 1, 5, 500])
@pytest.mark.parametrize("size", [(80, 24), (40, 10), (120, 60)])
def test_a_view_fits_on_its_screen_and_counts_what_it_leaves_out(count, size):
    job = {
        **JOB,
        "replicas": [replica(i, "FAILED" if i == 499 else "RUNNING") for i in range(count)],
    }
    log = [line(f"{number} " + "x" * 200) for number in range(100)]
    rows = JobView(colour=False).lines(job, log, os.terminal_size(size), NOW)
    assert len(rows) < size[1]
    assert max(map(len, rows)) <= size[0]
    assert rows[0] == "big: RUNNING, attempt 2 for 1:00:02"
    assert "│ 99" in rows[-1]
    if count == 500:
        hidden = 500 - sum("worker-replica-" in row and "│" not in row for row in rows)
        assert f"and {hidden - 1} RUNNING, 1 FAILED" in rows


def test_what_a_job_prints_cannot_move_the_cursor():
    log = [line("up\x1b[2Aand\rover\ttab\nnext")]
    rows = JobView(colour=False).lines(JOB, log, os.terminal_size((80, 24)), NOW)
    assert rows[-1].endswith("│ up\\x1b[2Aand\\rover    tab next") or "\\x1b" in rows[-1]
    assert not any(c in rows[-1] for c in "\x1b\r\n\t")


def test_a_waiting_job_shows_why():
    waiting = {
        "reason": "QUOTA",
        "message": "8 of 8 are in use",
        "queuePosition": 3,
        "blockers": ["projects/p/jobs/j"],
        "change": {"text": "would start with 2"},
    }
    job = {**JOB, "state": "QUEUED", "attempt": 0, "waiting": waiting}
    del job["startTime"]
    rows = JobView(colour=False).lines(job, [], os.terminal_size((80, 24)), NOW)
    assert rows == [
        "big: QUEUED for 1:01:03",
        "waits: QUOTA: 8 of 8 are in use",
        "place in the queue: 3",
        "blocked by: projects/p/jobs/j",
        "would start with 2",
    ]
