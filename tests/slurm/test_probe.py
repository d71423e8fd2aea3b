"""What a probe says of a cluster (``trainshed doctor --engine``)."""

import sys
from functools import partial

import pytest

from trainshed.engines.slurm import probe as probing
from trainshed.engines.slurm.commands import Commands
from trainshed.engines.slurm.interpreters import Interpreters
from trainshed.engines.slurm.options import read
from trainshed.engines.slurm.queue import Queue
from trainshed.engines.spool import Spool


@pytest.fixture
def probed(cluster, tmp_path):
    return partial(_probe, cluster, tmp_path)


def _probe(cluster, folder, **options):
    settings = read({"spool": str(folder), "commands": str(cluster.bin), **options})
    queue = Queue(Commands(folder=settings.commands), "probing")
    spool = Spool(settings.spool, settings.spool_of_nodes, "probing")
    spool.open()
    findings = {finding.check: finding for finding in probing.probe(queue, spool, settings)}
    assert not list((folder / "probing").glob("probe-*"))
    return findings


def test_a_cluster_that_is_well_has_nothing_to_change(probed):
    findings = probed(python=sys.executable, environments={"tests": sys.executable})
    unwell = [finding for finding in findings.values() if not finding.is_well]
    assert not unwell
    assert list(findings)[:3] == ["version", "process tracking", "task"]
    assert {
        "shared folder, seen from a node",
        "shared folder, seen from the server",
    } <= findings.keys()
    assert "probing" not in findings["python"].found
    assert findings["environment tests"].found.startswith(f"Python {sys.version_info[0]}.")


def test_what_an_environment_holds_is_kept_and_one_that_is_not_there_is_named(probed, tmp_path):
    findings = probed(
        python=sys.executable,
        environments={"tests": sys.executable, "gone": "/nowhere/bin/python"},
    )
    assert not findings["environment gone"].is_well
    assert findings["environment gone"].found.endswith("has no /nowhere/bin/python")
    spool = Spool(str(tmp_path), str(tmp_path), "probing")
    interpreters = Interpreters(spool)
    interpreters.reload()
    assert interpreters.versions(sys.executable)["pytest"] == pytest.__version__
    assert interpreters.versions("/nowhere/bin/python") == {}


def test_a_node_without_the_interpreter_is_named(probed):
    finding = probed(python="/nowhere/python3")["python"]
    assert not finding.is_well
    assert finding.found.endswith("has no /nowhere/python3")
    assert "3.9" in finding.advice


def test_an_answer_that_is_no_document_is_no_answer(tmp_path):
    (tmp_path / "answer.json").write_text("[")
    assert probing._await_answer(tmp_path, 0.2) is None
    (tmp_path / "answer.json").unlink()
    (tmp_path / "answer.json").symlink_to(tmp_path / "elsewhere")
    assert probing._await_answer(tmp_path, 0.2) is None
