"""What interpreters on nodes hold is kept in the spool, and read again when it has changed."""

import pytest

from trainshed.engines.slurm import interpreters, options
from trainshed.engines.slurm.interpreters import Interpreters
from trainshed.engines.slurm.spool import Spool

TORCH = "/opt/torch/bin/python"
HELD = {"python": "3.11.2", "torch": "2.3.1+cpu", "six": "1.0"}
ANSWER = {"host": "n1", "pythons": {TORCH: HELD, "/opt/none/bin/python": {}}}


@pytest.fixture
def spool(tmp_path):
    found = Spool(str(tmp_path), str(tmp_path), "here")
    found.open()
    return found


def read(**environments):
    return options.read({"spool": "/shared", "environments": environments})


def test_nothing_is_known_before_a_probe(spool):
    found = Interpreters(spool)
    found.look()
    assert found.versions(TORCH) == {}


def test_what_a_probe_has_found_is_known_to_servers_that_run_and_that_start(spool):
    runs = Interpreters(spool)
    runs.look()
    interpreters.keep(spool, ANSWER)
    runs.look()
    starts = Interpreters(spool)
    starts.look()
    for each in (runs, starts):
        assert each.versions(TORCH) == HELD
        assert each.versions("/opt/none/bin/python") == {}


@pytest.mark.parametrize("text", ["", "[]", '{"pythons": 3}', '{"pythons": {"/p": 3}}'])
def test_a_file_that_makes_no_sense_says_nothing(spool, text):
    with open(f"{spool.here}/interpreters.json", "w") as file:  # noqa: PTH123 - as it is kept
        file.write(text)
    found = Interpreters(spool)
    found.look()
    assert found.versions("/p") == {}


def test_every_environment_has_a_line(spool):
    del spool
    found = list(interpreters.findings(read(torch=TORCH, gone="/opt/none/bin/python"), ANSWER))
    assert [(each.check, each.is_well, each.found) for each in found] == [
        ("environment torch", True, "Python 3.11.2, torch 2.3.1+cpu"),
        ("environment gone", False, "n1 has no /opt/none/bin/python"),
    ]


def test_each_interpreter_is_asked_once():
    assert interpreters.asked(read(a=TORCH, b=TORCH)) == ("python3", TORCH)
