"""The examples that ``--help`` shows work as printed, in a folder that has what they name."""

import json
import shlex
from importlib import import_module

import pytest

from service.keeping import Account, write_key_file
from trainshed.cli.verbs import VERBS

ML = {
    "trainingInput": {"scaleTier": "CUSTOM", "masterType": "n1-standard-4",
                      "workerType": "n1-standard-4", "workerCount": 2},
}  # fmt: skip
POOL = {
    "machineSpec": {"machineType": "n1-standard-4"},
    "replicaCount": 1,
    "containerSpec": {"imageUri": "img"},
}
TRAINER = "import json\nprint(json.dumps({'seconds': 0.5}))\n"


def commands():
    """Every command of every example, without the lines that only continue one."""
    for verb in VERBS:
        text = import_module(f"trainshed.cli.{verb.module}_options").EXAMPLE.replace("\\\n", " ")
        for line in text.splitlines():
            if line.strip().startswith("trainshed"):
                yield shlex.split(line)[1:]


@pytest.fixture
def folder(tmp_path):
    package = tmp_path / "trainer"
    package.mkdir()
    (package / "__init__.py").touch()
    (tmp_path / "examples/gpu-check").mkdir(parents=True)
    for name in ("trainer/task.py", "task.py", "examples/gpu-check/steps.py"):
        (tmp_path / name).write_text(TRAINER)
    (tmp_path / "config.yaml").write_text(json.dumps(ML))
    (tmp_path / "job.yaml").write_text(json.dumps({"workerPoolSpecs": [POOL]}))
    account = Account()
    write_key_file(tmp_path / "service-account.json", account)
    (tmp_path / "ci.pem").write_text(account.public_pem)
    (tmp_path / "jobs").mkdir()
    (tmp_path / "jobs" / "*.yaml").write_text(json.dumps(ML))
    return tmp_path


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize("words", list(commands()), ids=shlex.join)
def test_an_example_of_the_help_works_as_printed(trainshed, words):
    found = trainshed(*words)
    assert found.code == 0, found.err
