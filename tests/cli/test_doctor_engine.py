"""``trainshed doctor --engine NAME``: what it prints of findings, and its exit code."""

import json
from types import SimpleNamespace

import pytest

from trainshed.cli.admin import doctor_engine
from trainshed.engines.base import EngineFinding
from trainshed.engines.several import Engines, ServedEngine
from trainshed.model.explanation import Explanation, Reason
from trainshed.model.faults import UsageFault


def probing(*findings, fault=None):
    def probe():
        yield from findings
        if fault:
            raise fault

    return SimpleNamespace(name="hpc", probe=probe, close=lambda: None)


@pytest.fixture
def served(monkeypatch):
    def serve(engine):
        failed = {"other": Explanation(reason=Reason.ENGINE_AWAY, message="no spool")}
        engines = Engines({"hpc": ServedEngine(engine=engine)}, failed)
        monkeypatch.setattr(doctor_engine, "engines_of", lambda _: engines)

    return serve


def run(form="text", engine="hpc"):
    return doctor_engine.examine_engine(engine, None, as_json=form == "json")


def test_findings_are_printed_with_what_to_change(served, capsys):
    served(
        probing(
            EngineFinding("version", True, "22.05"),
            EngineFinding("clock", False, "3 s off", "ntpd"),
        )
    )
    assert run() == 1
    lines = [" ".join(line.split()) for line in capsys.readouterr().out.splitlines()]
    assert lines == ["ok version: 22.05", "FAILED clock: 3 s off", "-> ntpd"]


def test_findings_are_a_document_too(served, capsys):
    served(probing(EngineFinding("version", True, "22.05", "")))
    assert run("json") == 0
    assert json.loads(capsys.readouterr().out) == {
        "engine": "hpc",
        "checks": [{"check": "version", "result": "ok", "found": "22.05"}],
    }


def test_a_cluster_that_is_away_could_not_be_looked_at(served, capsys):
    served(probing(fault=OSError("Unable to contact slurm controller")))
    assert run() == 2
    assert "unseen" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("engine", "words"), [("nowhere", "must be one of hpc"), ("other", "of --engine: no spool")]
)
def test_an_engine_that_is_not_there_is_refused(served, engine, words):
    served(probing())
    with pytest.raises(UsageFault, match=words):
        run(engine=engine)


def test_the_engine_of_this_machine_has_nothing_to_probe(served):
    engine = probing()
    del engine.probe
    served(engine)
    with pytest.raises(UsageFault, match="runs on this machine"):
        run()
