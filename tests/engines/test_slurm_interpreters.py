"""What interpreters on nodes hold is kept in the spool, and read again when it has changed."""

import pytest

from trainshed.engines.slurm import interpreters, options
from trainshed.engines.slurm.interpreters import Interpreters
from trainshed.engines.spool import Spool

TORCH = "/opt/torch/bin/python"
HELD = {"python": "3.11.2", "torch": "2.3.1+cpu", "six": "1.0"}
ANSWER = {"host": "n1", "pythons": {TORCH: HELD, "/opt/none/bin/python": {}}}


@pytest.fixture
def spool(tmp_path):
    spool = Spool(str(tmp_path), str(tmp_path), "here")
    spool.open()
    return spool


def read(**environments):
    return options.read({"spool": "/shared", "environments": environments})


def test_nothing_is_known_before_a_probe(spool):
    reader = Interpreters(spool)
    reader.reload()
    assert reader.versions(TORCH) == {}


def test_what_a_probe_has_found_is_known_to_servers_that_run_and_that_start(spool):
    runs = Interpreters(spool)
    runs.reload()
    interpreters.keep(spool, ANSWER)
    runs.reload()
    starts = Interpreters(spool)
    starts.reload()
    for reader in (runs, starts):
        assert reader.versions(TORCH) == HELD
        assert reader.versions("/opt/none/bin/python") == {}


@pytest.mark.parametrize("text", ["", "[]", '{"pythons": 3}', '{"pythons": {"/p": 3}}'])
def test_a_file_that_makes_no_sense_says_nothing(spool, text):
    with open(f"{spool.server_path}/interpreters.json", "w") as file:  # noqa: PTH123 - as it is kept
        file.write(text)
    reader = Interpreters(spool)
    reader.reload()
    assert reader.versions("/p") == {}


def test_every_environment_has_a_line(spool):
    del spool
    findings = list(interpreters.findings(read(torch=TORCH, gone="/opt/none/bin/python"), ANSWER))
    assert [(finding.check, finding.is_well, finding.found) for finding in findings] == [
        ("environment torch", True, "Python 3.11.2, torch 2.3.1+cpu"),
        ("environment gone", False, "n1 has no /opt/none/bin/python"),
    ]


def test_each_interpreter_is_asked_once():
    assert interpreters.list_pythons(read(a=TORCH, b=TORCH)) == ("python3", TORCH)
