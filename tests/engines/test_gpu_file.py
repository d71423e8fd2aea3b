"""Supervisors read the figures of their GPUs from a file of the node, and believe no nonsense."""

import json
import math
from pathlib import Path

import pytest

from trainshed.engines.supervise.record import gpu_file
from trainshed.engines.supervise.record.folder import AttemptFolder
from trainshed.engines.supervise.record.gpu_file import GpuFigures

NOW = 1_764_500_000.0
FIGURES = GpuFigures(0.5, float(6 << 30), 312.5, 61.0, 9000.0)


@pytest.fixture
def path(tmp_path):
    return f"{tmp_path}/{gpu_file.NAME}"


def put(path, document):
    text = document if isinstance(document, str) else json.dumps(document)
    Path(path).write_text(text, encoding="utf-8")


def test_what_was_written_is_read_and_what_is_not_measured_is_absent(path):
    gpus = {"GPU-1": FIGURES, "MIG-1": GpuFigures(memory=5.0)}
    gpu_file.write_gpu_file(path, NOW, gpus)
    assert gpu_file.read_gpu_file(path, NOW + 1) == (NOW, gpus)
    assert json.loads(Path(path).read_text())["gpus"]["MIG-1"] == {"memory": 5.0}


@pytest.mark.parametrize("seconds", [31.0, 3600.0, -31.0])
def test_old_readings_and_those_of_a_set_clock_are_a_gap(seconds, path):
    gpu_file.write_gpu_file(path, NOW, {"GPU-1": FIGURES})
    assert gpu_file.read_gpu_file(path, NOW + seconds) is None


@pytest.mark.parametrize(
    "text",
    [
        "", "[", "[]", "7", '{"at": 1764500000.0}', '{"at": "x", "gpus": {}}',
        '{"at": NaN, "gpus": {}}', '{"at": 1764500000.0, "gpus": 7}', "[" * 60_000,
        '{"at": 1764500000.0, "gpus": {}}' + " " * (1 << 16) + "}",
    ],
)  # fmt: skip
def test_a_damaged_file_is_no_report(text, path):
    put(path, text)
    report = gpu_file.read_gpu_file(path, NOW)
    assert report is None or not report.gpus


@pytest.mark.parametrize("value", [math.nan, math.inf, -1, 1e300, 10**300, "1", True, None, [1]])
@pytest.mark.parametrize("name", GpuFigures._fields)
def test_a_figure_that_no_gpu_has_is_not_measured(name, value, path):
    put(path, {"at": NOW, "gpus": {"GPU-1": {**FIGURES._asdict(), name: value}, "GPU-2": 3}})
    report = gpu_file.read_gpu_file(path, NOW)
    assert report.gpus == {"GPU-1": FIGURES._replace(**{name: None})}


def test_a_link_is_not_followed(path, tmp_path):
    gpu_file.write_gpu_file(f"{tmp_path}/other", NOW, {"GPU-1": FIGURES})
    Path(path).symlink_to(tmp_path / "other")
    assert gpu_file.read_gpu_file(path, NOW) is None


def test_more_gpus_than_a_node_can_have_are_none(path):
    gpus = {f"G{n}": {} for n in range(300)}
    put(path, {"at": NOW, "gpus": gpus})
    assert gpu_file.read_gpu_file(path, NOW) is None
    assert gpu_file.parse_gpus(gpus) == gpu_file.parse_gpus([1]) == {}


def test_the_file_is_beside_the_jobs_or_in_the_attempts_folder():
    folder = AttemptFolder("/data/jobs/7/1")
    assert gpu_file.locate_gpu_file(folder, is_on_cluster=False) == "/data/node_gpus.json"
    assert gpu_file.locate_gpu_file(folder, is_on_cluster=True) == "/data/jobs/7/1/node_gpus.json"
