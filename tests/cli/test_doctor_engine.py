"""``trainshed doctor --engine NAME``: what it prints of findings, and its exit code."""

import json
import signal
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


def test_what_only_some_jobs_need_is_noted(served, capsys):
    served(probing(EngineFinding("numpy", False, "n1 has no numpy", "install numpy", False)))
    assert run() == 0
    lines = [" ".join(line.split()) for line in capsys.readouterr().out.splitlines()]
    assert lines == ["noted numpy: n1 has no numpy", "-> install numpy"]


@pytest.mark.parametrize(
    ("signum", "leaves"), [(signal.SIGTERM, SystemExit), (signal.SIGINT, KeyboardInterrupt)]
)
@pytest.mark.parametrize("form", ["text", "json"])
def test_a_signal_ends_the_probe_before_its_engine(served, capsys, signum, leaves, form):
    ended = []

    def probe():
        try:
            yield EngineFinding("version", True, "22.05")
            signal.raise_signal(signum)
            yield EngineFinding("clock", True, "no difference")
        finally:
            ended.append("probe")

    served(SimpleNamespace(name="hpc", probe=probe, close=lambda: ended.append("engine")))
    before = signal.signal(signal.SIGTERM, signal.SIG_IGN)
    try:
        with pytest.raises(leaves):
            run(form)
        assert signal.getsignal(signal.SIGTERM) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGTERM, before)
    assert ended == ["probe", "engine"]
    assert "clock" not in capsys.readouterr().out


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
