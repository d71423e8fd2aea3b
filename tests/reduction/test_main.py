"""The command ``trainshed-reducer``: what it is told, what it says, when it ends."""

import os
import signal
import socket
import subprocess
import venv
from pathlib import Path

import psutil
import pytest

import trainshed
import trainshed_trainer
from reduction.reducer_process import (
    COMMAND,
    HOST,
    TOKEN,
    ReducerProcess,
    Working,
    cluster_spec,
    sum_over,
)
from trainshed.engines.processes.ports import free_runs
from trainshed_trainer.reduction.errors import ReductionError


def refused(*flags, python=COMMAND, **environ):
    """What it says and the status that it ends with, where it cannot begin."""
    base = {name: os.environ[name] for name in ("PATH", "HOME") if name in os.environ}
    process = subprocess.run(
        [*python, *flags],
        env={**base, "TRAINSHED_REDUCTION_TOKEN": TOKEN, **environ},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert process.stdout == ""
    assert "Traceback" not in process.stderr
    return process.returncode, process.stderr


def test_it_sums_for_the_workers_of_its_job_and_ends_when_it_is_told():
    with ReducerProcess() as first, ReducerProcess("--index", "1") as second:
        places = [(HOST, first.port), (HOST, second.port)]
        assert sum_over(places, world=2) == {0: {3.0}, 1: {3.0}}
        second.process.terminate()
        assert second.end() == 0
        assert second.lines[0] == f"reducer 1: listening on {HOST}:{second.port}"
        assert "reducer 1: ends: received SIGTERM" in second.lines


def test_whoever_has_another_token_gets_no_sum():
    with ReducerProcess() as reducer:
        with pytest.raises((ReductionError, OSError)):
            sum_over([(HOST, reducer.port)], world=1, token="x" * 64)
        assert sum_over([(HOST, reducer.port)], world=1) == {0: {1.0}}


@pytest.mark.parametrize(
    ("signum", "status"), [(signal.SIGINT, 130), (signal.SIGHUP, 129), (signal.SIGTERM, 0)]
)
def test_what_its_end_is_called(signum, status):
    with ReducerProcess() as reducer:
        reducer.process.send_signal(signum)
        assert reducer.end() == status


def test_workers_may_finish_their_step_when_the_job_is_told_to_end():
    """They save what they have, in one last step together; it needs its sums."""
    with ReducerProcess() as reducer:
        working = Working([(HOST, reducer.port)])
        reducer.process.terminate()
        reducer.wait_for(lambda: "serves its workers until they leave" in "\n".join(reducer.lines))
        reducer.process.terminate()
        assert [working.sums() for _ in range(3)] == [True] * 3
        working.client.close()
        assert reducer.end() == 0
        assert "reducer 0: ends: received SIGTERM" in reducer.lines


def test_whoever_interrupts_it_does_not_wait_for_workers():
    with ReducerProcess() as reducer:
        working = Working([(HOST, reducer.port)])
        reducer.process.terminate()
        reducer.wait_for(lambda: "serves its workers until they leave" in "\n".join(reducer.lines))
        reducer.process.send_signal(signal.SIGINT)
        assert reducer.end() == 0, "the job's own signal came first"
        fault = working.sums()
        assert isinstance(fault, ReductionError)
        assert "reducer 0" in str(fault)
        working.client.close()


def test_it_listens_where_its_job_says_and_nowhere_else():
    port = free_runs((1,))[0]
    spec = cluster_spec(["10.9.9.9:2222", f"127.0.0.9:{port}"], 1)
    with ReducerProcess(is_named=True, environ={"CLUSTER_SPEC": spec}) as reducer:
        assert reducer.addresses == {1: f"127.0.0.9:{port}"}
        connections = psutil.Process(reducer.process.pid).net_connections("tcp")
        assert [connection.laddr for connection in connections] == [("127.0.0.9", port)]


def test_flags_win_over_the_job_s_address():
    port = free_runs((1,))[0]
    spec = cluster_spec(["10.9.9.9:2222", "10.9.9.8:2222"], 1)
    flags = ("--host", HOST, "--port", str(port))
    with ReducerProcess(*flags, is_named=True, environ={"CLUSTER_SPEC": spec}) as reducer:
        assert reducer.addresses == {1: f"{HOST}:{port}"}


def test_one_that_nobody_uses_ends_by_itself():
    with ReducerProcess("--idle-timeout", "0.2") as reducer:
        assert reducer.end() == 0
        assert "no worker has used the reducer" in "\n".join(reducer.lines)


def test_one_of_a_job_never_ends_for_having_nothing_to_do():
    """0 is never: it would end at once."""
    with ReducerProcess("--idle-timeout", "0") as reducer:
        assert sum_over([(HOST, reducer.port)], world=1) == {0: {1.0}}
        reducer.process.terminate()
        assert reducer.end() == 0
        assert "reducer 0: ends: received SIGTERM" in reducer.lines


def test_it_imports_torch_for_nobody_who_needs_none():
    with ReducerProcess() as reducer:
        sum_over([(HOST, reducer.port)], world=1)
        maps = Path(f"/proc/{reducer.process.pid}/maps").read_text()
    assert "numpy" in maps
    assert "libtorch" not in maps


def test_a_port_that_is_taken_is_named():
    with socket.create_server((HOST, 0)) as listener:
        port = listener.getsockname()[1]
        code, output = refused("--host", HOST, "--port", str(port))
    assert (code, output) == (
        2,
        f"trainshed-reducer: port {port} of {HOST} is in use; choose another with --port\n",
    )


@pytest.mark.parametrize(
    ("flags", "environ", "output"),
    [
        ((), {}, "no address to listen on: give --host and --port"),
        (("--host", HOST), {}, "no address to listen on"),
        (("--host", "203.0.113.9", "--port", "2222"), {}, "203.0.113.9 is not an address of this"),
        (("--host", "nowhere.invalid", "--port", "2222"), {}, "nowhere.invalid: "),
        (
            ("--host", HOST, "--port", "65535", "--procs", "2"),
            {},
            "--port must be at most 65534 for 2 processes",
        ),
        ((), {"CLUSTER_SPEC": "{"}, "CLUSTER_SPEC must be JSON"),
        ((), {"CLUSTER_SPEC": cluster_spec(["nowhere"], 0)}, "must be HOST:PORT, got 'nowhere'"),
        (("--host", HOST, "--port", "2222"), {"TRAINSHED_REDUCTION_TOKEN": ""}, "token"),
        (("--host", HOST, "--port", "2222"), {"TRAINSHED_REDUCTION_TOKEN": "short"}, "token"),
        (
            ("--host", HOST, "--port", "2222"),
            {"TRAINSHED_REDUCTION_TOKEN_FILE": "/nowhere/token"},
            "TRAINSHED_REDUCTION_TOKEN_FILE",
        ),
    ],
)
def test_what_keeps_it_from_beginning_is_one_line(flags, environ, output):
    code, words = refused(*flags, **environ)
    assert code == 2
    assert words.startswith("trainshed-reducer: ")
    assert output in words
    assert len(words.splitlines()) == 1


def test_a_python_without_numpy_is_told_what_to_install(tmp_path):
    venv.create(tmp_path / "bare", symlinks=True)
    sources = (Path(trainshed.__file__).parents[1], Path(trainshed_trainer.__file__).parents[1])
    python = (str(tmp_path / "bare/bin/python"), "-m", "trainshed.reduction")
    code, output = refused(
        *("--host", HOST, "--port", "2222"),
        python=python,
        PYTHONPATH=os.pathsep.join(map(str, sources)),
    )
    assert code == 2
    assert "pip install numpy" in output


def test_its_help_has_an_example_and_every_flag():
    process = subprocess.run([*COMMAND, "--help"], capture_output=True, text=True, check=True)
    for word in ("example", "TRAINSHED_REDUCTION_TOKEN_FILE=token trainshed-reducer --host"):
        assert word in process.stdout
    for flag in ("--procs", "--max-memory", "--timeout", "--idle-timeout", "--index"):
        assert flag in process.stdout


def test_nobody_learns_the_secret_from_its_command_line():
    with ReducerProcess() as reducer:
        assert TOKEN not in Path(f"/proc/{reducer.process.pid}/cmdline").read_text()
        assert TOKEN not in "\n".join(reducer.lines)
