"""A server has networks for jobs where they work, and says why where they do not."""

import os
import socket
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from isolation import as_user
from trainshed.engines.isolation.modes import LANDLOCK, NONE, SANDBOX, USERS
from trainshed.engines.local.engine import LocalEngine
from trainshed.engines.local.options import LocalOptions
from trainshed.engines.network import trial, way_out
from trainshed.engines.network.choose import (
    JobNetwork,
    choose_network,
    try_network,
    warn_of_loopback,
)
from trainshed.engines.network.kinds import AUTO, HOST, JOB
from trainshed.engines.processes import trial as processes_trial
from trainshed.engines.processes.trial import run_trial
from trainshed.model.faults import UsageFault

WHY = "slirp4netns is not installed (apt install slirp4netns)"
UID = 64_999
TESTS = Path(__file__).parent.parent
#: A server that is a user, and two replicas in each layout; it prints what they said.
AS_USER = """
import os, sys, tempfile
from pathlib import Path
sys.path.insert(0, sys.argv[1])
from engines import networks
from engines.attempts import ended, texts
from engines.test_network import REMOVES_ROUTE, TRIES
from trainshed.model.network import NetworkLayout
WORKER = "import socket, time; s = socket.create_server(('198.18.1.17', 7000)); time.sleep(600)"
MASTER = TRIES + REMOVES_ROUTE + '''
import time
while outcome(socket.AF_INET, ("replica-1", 7000)) != "connected":
    time.sleep(0.02)
print("loopback", outcome(socket.AF_INET, ("127.0.0.1", PORT)))
print("metadata", outcome(socket.AF_INET, ("169.254.169.254", 80)))
'''.replace("PORT", sys.argv[2])
for layout in NetworkLayout:
    root = Path(tempfile.mkdtemp(dir=sys.argv[3])) / "jobs"
    engine = networks.launch_in_network(root, "", MASTER, WORKER, mode="sandbox", layout=layout)
    print(layout.value, ended(engine).outcome.exit_code, *texts(root), sep=", ")
    engine.close()
"""


def why_not(_mode):
    return WHY


@pytest.mark.parametrize(
    ("value", "is_told"),
    [
        ("http://127.0.0.1:3128", True),
        ("http://user:word@localhost:3128/", True),
        ("http://[::1]:8080/simple", True),
        ("https://index.test/simple http://127.0.0.2:8080/", True),
        ("http://proxy.test:3128", False),
        ("/srv/wheels", False),
        ("http://[", False),
    ],
)
def test_a_proxy_or_index_on_the_machines_loopback_is_told(value, is_told, caplog):
    warn_of_loopback({"HTTPS_PROXY": value, "NO_PROXY": "http://localhost"})
    messages = [record.getMessage() for record in caplog.records]
    assert bool(messages) == is_told
    assert all(text.startswith("jobs cannot reach the address in HTTPS_PROXY") for text in messages)


@pytest.mark.parametrize(
    ("setting", "mode", "description"),
    [
        (AUTO, USERS, "job"),
        (JOB, SANDBOX, "job"),
        (HOST, USERS, "host"),
        (HOST, NONE, "host"),
    ],
)
def test_jobs_have_the_network_that_is_asked_for(setting, mode, description):
    assert choose_network(setting, mode, lambda _: "").description == description


@pytest.mark.parametrize("mode", [USERS, SANDBOX])
def test_auto_takes_the_machines_network_where_no_other_works_and_says_why(mode):
    assert choose_network(AUTO, mode, why_not) == JobNetwork(is_own=False, why_not=WHY)
    assert choose_network(AUTO, mode, why_not).description == f"host: {WHY}"


@pytest.mark.parametrize("mode", [LANDLOCK, NONE])
def test_auto_says_which_modes_have_networks(mode):
    description = choose_network(AUTO, mode, lambda _: "").description
    assert description.startswith("host: jobs have a network of their own in the isolation modes")


@pytest.mark.parametrize(("mode", "why"), [(USERS, WHY), (LANDLOCK, 'not in "landlock"')])
def test_a_network_that_cannot_be_had_stops_a_server_that_must_give_it(mode, why):
    with pytest.raises(UsageFault) as fault:
        choose_network(JOB, mode, why_not)
    assert '[isolation] network is "job"' in str(fault.value)
    assert why in str(fault.value)


def test_a_machine_without_slirp4netns_is_told_what_to_install(monkeypatch, capsys):
    monkeypatch.setattr(way_out, "_PLACES", ())
    assert trial.main(USERS) == 1
    assert capsys.readouterr().out == f"{WHY}\n"


def test_a_trial_that_fails_in_its_fork_says_so_once():
    """The fork went on as its parent would have, and the mode counted as one that works."""
    if why := try_network(USERS):
        pytest.skip(f"no network of a job's own here: {why}")
    mistake = "trial._check_isolation = lambda *_: int('a mistake of ours')"
    run = "sys.exit(trial.main('users'))"
    code = f"import sys; from trainshed.engines.network import trial; {mistake}; {run}"
    done = subprocess.run(
        [sys.executable, "-c", code], check=False, capture_output=True, text=True, timeout=60
    )
    assert (done.returncode, done.stderr) == (1, "")
    assert done.stdout.count("ValueError") == done.stdout.count("\n") == 1


def test_a_trial_that_hangs_is_said_to_have_hung(monkeypatch):
    monkeypatch.setattr(processes_trial, "_LIMIT_S", 0.0)
    assert run_trial("trainshed.engines.network.trial", USERS) == "the trial did not end within 0 s"


def test_a_node_names_the_network_of_its_jobs(tmp_path):
    engine = LocalEngine(
        tmp_path, LocalOptions(find_gpus=tuple, network=JobNetwork(is_own=False, why_not=WHY))
    )
    try:
        assert [node.network for node in engine.fleet()] == [f"host: {WHY}"]
        assert engine.traits.network == f"host: {WHY}"
    finally:
        engine.close()


@pytest.fixture
def folder():
    """One that another user can enter."""
    with tempfile.TemporaryDirectory(dir=TESTS.parent / "build") as path:
        Path(path).chmod(0o777)
        yield path


@pytest.mark.skipif(os.geteuid() != 0, reason="only root becomes another user: run as root")
def test_jobs_of_a_server_that_is_a_user_have_networks(folder):
    if why := try_network(SANDBOX):
        pytest.skip(f"no network of a job's own here: {why}")
    with socket.create_server(("127.0.0.1", 0)) as server:
        words = (str(TESTS), str(server.getsockname()[1]), folder)
        argv = (sys.executable, as_user.__file__, str(UID), sys.executable, "-c", AS_USER, *words)
        done = subprocess.run(argv, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    for line, links in zip(done.stdout.splitlines(), ("lo, tap0", "eth0, lo"), strict=True):
        assert "0, links " + links.replace(",", "") in line
        assert "remove 1, remove as root of a user namespace 1" in line
        assert "loopback ConnectionRefusedError, metadata OSError" in line
