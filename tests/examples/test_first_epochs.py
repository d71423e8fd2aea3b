"""Every example begins to learn; the long tests beside this one see what it ends with."""

import re

import pytest
import yaml

from examples.cluster import EXAMPLES, TRAIN, call, needs

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

TORCH, KERAS = needs("torch", "sklearn"), needs("tensorflow", "tf_keras", "sklearn")
#: The long tests beside this one run these too, and others of make test the same framework.
FULL = pytest.mark.full
EPOCH, STEPS = ("--epochs", 1), ("--steps", 3, "--save-every", 2)


def case(example, args, *marks, **fewer):
    return pytest.param(example, args, fewer, marks=marks, id=example)


@pytest.mark.parametrize(
    ("example", "args", "fewer"),
    [
        case("torch-ddp", EPOCH, TORCH, needs("matplotlib"), FULL, workerCount=1),
        case("model-parallel", EPOCH, TORCH, FULL, workerCount=1),
        case("tuning", EPOCH, needs("sklearn", "hypertune"), FULL),
        case("tf-multiworker", EPOCH, KERAS),
        case("tf-parameter-server", EPOCH, KERAS, FULL, workerCount=1, parameterServerCount=1),
        case("jax-data-parallel", EPOCH, needs("jax", "sklearn")),
        case("torch-resume", STEPS, TORCH, FULL),
        case("keras-resume", STEPS, KERAS, FULL),
        case("lightning-resume", STEPS, needs("torch", "lightning"), FULL),
    ],
)
def test_it_trains_from_its_configuration(example, args, fewer, tmp_path):
    """With fewer replicas of each role than it has, and each role that it has."""
    document = yaml.safe_load((EXAMPLES / example / "config.yaml").read_text())
    training_input = document["trainingInput"]
    assert fewer.keys() <= training_input.keys()
    training_input |= fewer
    (tmp_path / "config.yaml").write_text(yaml.safe_dump(document))
    cluster = ("--config", tmp_path / "config.yaml", "--job-dir", tmp_path / "job")
    outcome = call(example, *TRAIN, *cluster, "--", *args)
    assert outcome.code == 0, outcome.story()
    assert any((tmp_path / "job").iterdir()), outcome.story()


@FULL
@TORCH
def test_reducers_sum_the_first_epoch(tmp_path):
    document = yaml.safe_load((EXAMPLES / "torch-reduction" / "job.yaml").read_text())
    workers = document["workerPoolSpecs"][:2]
    for pool in workers:
        pool["replicaCount"] = 1
        pool["containerSpec"]["args"] = [*map(str, EPOCH), "--width", "128"]
    (tmp_path / "job.yaml").write_text(yaml.safe_dump(document))
    job = ("ai", "custom-jobs", "local-run", "--config", tmp_path / "job.yaml")
    outcome = call("torch-reduction", *job, "--base-output-dir", tmp_path / "out")
    assert outcome.code == 0, outcome.story()
    assert re.search(r"2 workers(, which reduce a share each)?, and 2 reducers", outcome.primary)
