"""What a probe says of a cluster (``trainshed doctor --engine``)."""

import sys
from functools import partial

import pytest

from trainshed.engines.slurm import probe as probing
from trainshed.engines.slurm.commands import Commands
from trainshed.engines.slurm.interpreters import Interpreters
from trainshed.engines.slurm.options import read
from trainshed.engines.slurm.queue import Queue
from trainshed.engines.slurm.spool import Spool


@pytest.fixture
def probed(cluster, tmp_path):
    return partial(_probed, cluster, tmp_path)


def _probed(cluster, folder, **options):
    found = read({"spool": str(folder), "commands": str(cluster.bin), **options})
    queue = Queue(Commands(folder=found.commands), "probing")
    spool = Spool(found.spool, found.spool_of_nodes, "probing")
    spool.open()
    findings = {each.check: each for each in probing.probe(queue, spool, found)}
    assert not list((folder / "probing").glob("probe-*"))
    return findings


def test_a_cluster_that_is_well_has_nothing_to_change(probed):
    found = probed(python=sys.executable, environments={"tests": sys.executable})
    unwell = [each for each in found.values() if not each.is_well]
    assert not unwell
    assert list(found)[:2] == ["version", "process tracking"]
    assert {"shared folder, seen from a node", "shared folder, seen from here"} <= found.keys()
    assert "probing" not in found["python"].found
    assert found["environment tests"].found.startswith(f"Python {sys.version_info[0]}.")


def test_what_an_environment_holds_is_kept_and_one_that_is_not_there_is_named(probed, tmp_path):
    found = probed(
        python=sys.executable,
        environments={"tests": sys.executable, "gone": "/nowhere/bin/python"},
    )
    assert not found["environment gone"].is_well
    assert found["environment gone"].found.endswith("has no /nowhere/bin/python")
    spool = Spool(str(tmp_path), str(tmp_path), "probing")
    kept = Interpreters(spool)
    kept.look()
    assert kept.versions(sys.executable)["pytest"] == pytest.__version__
    assert kept.versions("/nowhere/bin/python") == {}


def test_a_node_without_the_interpreter_is_named(probed):
    found = probed(python="/nowhere/python3")["python"]
    assert not found.is_well
    assert found.found.endswith("has no /nowhere/python3")
    assert "3.9" in found.advice


def test_an_answer_that_is_no_document_is_no_answer(tmp_path):
    (tmp_path / "answer.json").write_text("[")
    assert probing._answer(tmp_path, 0.2) is None
    (tmp_path / "answer.json").unlink()
    (tmp_path / "answer.json").symlink_to(tmp_path / "elsewhere")
    assert probing._answer(tmp_path, 0.2) is None
