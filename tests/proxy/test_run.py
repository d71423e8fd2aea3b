"""``trainshed run``: the command's status and signals, its variables, and what is left of it."""

import json
import os
import signal
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from server_process import TRAINSHED, finished
from trainshed.client.http import Server
from trainshed.files.server_files import hold_folder
from trainshed.proxy.abandoned import FILE, PREFIX, remove_abandoned

SHOW = """
import json, os, pathlib
key = pathlib.Path(os.environ["GOOGLE_APPLICATION_CREDENTIALS"]).read_text()
print(json.dumps({**os.environ, "KEY": key}))
"""
#: Prints its pid when it is ready, and the signal that it gets.
WAIT = """
import signal, sys
signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM, signal.SIGUSR1])
print("ready", flush=True)
print(signal.Signals(signal.sigwait([signal.SIGTERM, signal.SIGUSR1])).name, flush=True)
sys.exit(5)
"""


@pytest.fixture
def run(server):
    """Run a command under ``trainshed run`` to its end."""
    return lambda *command, flags=(), **env: finished(
        [TRAINSHED, "run", "--data-dir", server.data_dir, *flags, "--", *command], env=env
    )


def variables_of(done):
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.mark.parametrize("status", [0, 7])
def test_the_exit_status_is_the_commands(run, status):
    assert run(sys.executable, "-c", f"raise SystemExit({status})").returncode == status


@pytest.mark.parametrize("signum", [signal.SIGTERM, signal.SIGKILL, signal.SIGINT])
def test_a_command_that_a_signal_ends_ends_the_run_by_the_same(run, signum):
    code = f"import os, signal; signal.signal(2, signal.SIG_DFL); os.kill(os.getpid(), {signum})"
    assert run(sys.executable, "-c", code).returncode == -signum


@pytest.mark.parametrize("name", ["SIGTERM", "SIGUSR1"])
def test_a_signal_to_the_run_reaches_the_command(server, name):
    process = subprocess.Popen(
        [TRAINSHED, "run", "--data-dir", server.data_dir, "--", sys.executable, "-c", WAIT],
        stdout=subprocess.PIPE,
        text=True,
    )
    with process:
        assert process.stdout.readline() == "ready\n"
        process.send_signal(signal.Signals[name])
        assert process.stdout.readline() == f"{name}\n"
        assert process.wait(timeout=60) == 5


def test_nothing_is_left_after_the_command(run, server, tmp_path):
    variables = variables_of(run(sys.executable, "-c", SHOW, TMPDIR=str(tmp_path)))
    assert variables["GOOGLE_APPLICATION_CREDENTIALS"].startswith(str(tmp_path))
    assert list(tmp_path.iterdir()) == []
    assert server.call("GET", "/trainshed/v1/keys") == (200, {"keys": []})


def test_the_next_run_removes_what_a_run_that_was_killed_has_left(run, server, tmp_path):
    process = subprocess.Popen(
        [TRAINSHED, "run", "--data-dir", server.data_dir, "--", "sh", "-c", "echo $$; exec cat"],
        env={**os.environ, "TMPDIR": str(tmp_path)},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    with process:  # cat ends with its input
        assert process.stdout.readline().strip().isdecimal()
        process.kill()
        process.wait(timeout=60)
    assert len(server.call("GET", "/trainshed/v1/keys")[1]["keys"]) == 1
    assert run("true", TMPDIR=str(tmp_path)).returncode == 0
    assert list(tmp_path.iterdir()) == []
    assert server.call("GET", "/trainshed/v1/keys") == (200, {"keys": []})


def test_sessions_that_begin_at_once_do_not_disturb_each_other(tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    server = Server(url="http://127.0.0.1:9", token="t")

    def begin(_number):
        for _ in range(50):
            remove_abandoned(server)
            with tempfile.TemporaryDirectory(prefix=PREFIX) as folder, hold_folder(folder):
                (Path(folder) / FILE).write_text("{}")
                remove_abandoned(server)
                assert (Path(folder) / FILE).exists()

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(begin, range(4)))
    assert list(tmp_path.iterdir()) == []


def test_variables_lead_every_client_to_the_proxy_and_to_its_authority(run):
    variables = variables_of(run(sys.executable, "-c", SHOW, flags=("--project", "demo")))
    assert variables["https_proxy"] == variables["HTTPS_PROXY"]
    bundles = {
        variables[name]
        for name in (
            "REQUESTS_CA_BUNDLE",
            "SSL_CERT_FILE",
            "GRPC_DEFAULT_SSL_ROOTS_FILE_PATH",
            "CURL_CA_BUNDLE",
            "HTTPLIB2_CA_CERTS",
        )
    }
    assert len(bundles) == 1
    assert variables["CLOUDSDK_CORE_PROJECT"] == "demo"
    key_file = json.loads(variables["KEY"])
    assert (key_file["type"], key_file["project_id"]) == ("service_account", "demo")


def test_variables_that_would_lead_past_the_proxy_are_replaced(run):
    environ = {
        "no_proxy": "inner.example, .googleapis.com, *.com",
        "grpc_proxy": "http://127.0.0.1:1",
        "STORAGE_EMULATOR_HOST": "http://127.0.0.1:1",
    }
    variables = variables_of(run(sys.executable, "-c", SHOW, **environ))
    assert variables["no_proxy"] == "localhost,127.0.0.1,::1,inner.example"
    assert not {"grpc_proxy", "STORAGE_EMULATOR_HOST"} & set(variables)


def test_trainshed_in_the_command_acts_on_the_server_of_the_run(run, server):
    commands = [f"{TRAINSHED} buckets create made-within", 'echo "$TRAINSHED_DATA_DIR"']
    done = run(
        "sh", "-c", " && ".join(commands), flags=("--project", "demo"), TRAINSHED_DATA_DIR="/x"
    )
    assert done.returncode == 0, done.stderr
    assert "gs://made-within was created in project demo" in done.stdout
    assert done.stdout.splitlines()[-1] == str(server.data_dir)


def test_offline_refuses_names_without_tls_too(run):
    call = "urllib.request.urlopen('http://data.example/')"
    code = f"import urllib.request\ntry: {call}\nexcept OSError as error: print(error)"
    done = run(sys.executable, "-c", code, flags=("--offline",))
    assert done.stdout == "HTTP Error 403: Forbidden\n", done.stderr


def test_a_command_that_is_not_there_is_named(run):
    done = run("no-such-command")
    assert done.returncode == 2
    assert "no-such-command: there is no such command" in done.stderr


@pytest.mark.parametrize("words", [(), ("--",), ("--project", "p")])
def test_a_run_without_a_command_says_how_to_write_one(words):
    done = finished([TRAINSHED, "run", *words])
    assert done.returncode == 2
    assert "needs a command after a bare --" in done.stderr


def test_a_run_without_a_server_says_how_to_start_one(tmp_path):
    done = finished([TRAINSHED, "run", "--data-dir", tmp_path, "--", "true"])
    assert done.returncode != 0
    assert "trainshed serve" in done.stderr


def test_an_address_of_grpc_that_is_none_is_refused(run):
    done = run("true", flags=("--grpc", "nowhere"))
    assert (done.returncode, "--grpc must be HOST:PORT, got nowhere" in done.stderr) == (2, True)


def test_the_callers_own_environment_is_passed_on(run):
    variables = variables_of(run(sys.executable, "-c", SHOW, MINE="yes"))
    assert (variables["MINE"], variables["PATH"]) == ("yes", os.environ["PATH"])
