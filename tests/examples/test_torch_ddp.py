"""PyTorch DDP: the same model whatever the number of replicas, and after a restart."""

import json
from types import SimpleNamespace

import pytest

from examples.cluster import needs, run, run_vertex

pytestmark = [
    pytest.mark.full,
    pytest.mark.slow,
    pytest.mark.timeout(900),
    needs("torch", "sklearn", "matplotlib"),
]

EPOCHS = 20
TOLERANCE = 1e-9
PNG = b"\x89PNG"


def trained(job_dir, *, workers, epochs):
    outcome = run("torch-ddp", job_dir, args=["--epochs", epochs], workers=workers)
    assert outcome.code == 0, outcome.story()
    return SimpleNamespace(
        outcome=outcome,
        job_dir=job_dir,
        result=json.loads((job_dir / "result.json").read_text()),
        metrics=[json.loads(line) for line in (job_dir / "metrics.jsonl").read_text().splitlines()],
    )


@pytest.fixture(scope="module", params=[0, None], ids=["1 replica", "3 replicas"])
def whole(request, tmp_path_factory):
    """Alone, and with the two workers of its config.yaml."""
    job_dir = tmp_path_factory.mktemp("torch-ddp") / f"workers-{request.param}"
    return trained(job_dir, workers=request.param, epochs=EPOCHS)


def weights(job_dir):
    torch = pytest.importorskip("torch", reason="torch is not installed; make test installs it")
    newest = max(job_dir.glob("checkpoint-*.pt"))
    return torch.load(newest, weights_only=True)["model"]


def distance(one, other):
    assert one.keys() == other.keys()
    return max((one[name] - other[name]).abs().max().item() for name in one)


def test_it_reads_at_least_97_of_100_digits(whole):
    accuracy = whole.result["accuracy"]
    assert accuracy >= 0.97
    assert whole.result["epochs"] == EPOCHS
    assert whole.outcome.last_line == f"test accuracy {accuracy:.4f} after {EPOCHS} epochs"


def test_it_leaves_metrics_a_curve_and_the_last_three_checkpoints(whole):
    assert [record["epoch"] for record in whole.metrics] == list(range(1, EPOCHS + 1))
    assert set(whole.metrics[0]) == {"epoch", "loss", "accuracy", "seconds"}
    assert whole.metrics[-1]["loss"] < whole.metrics[0]["loss"] / 10
    assert whole.metrics[-1]["accuracy"] == whole.result["accuracy"]
    assert (whole.job_dir / "learning-curve.png").read_bytes().startswith(PNG)
    checkpoints = sorted(path.name for path in whole.job_dir.glob("checkpoint-*"))
    assert checkpoints == [f"checkpoint-{epoch:04d}.pt" for epoch in (18, 19, 20)]


def test_only_rank_0_reports(whole):
    output = dict(whole.outcome.output)
    size = len(output)
    assert all(f"of {size} on" in text for text in output.values())
    del output["master-replica-0"]
    assert not any("epoch" in text for text in output.values())


def test_three_replicas_learn_the_same_model_as_one_and_so_does_a_restarted_job(tmp_path):
    straight = trained(tmp_path / "straight", workers=0, epochs=5)
    broken = trained(tmp_path / "broken", workers=0, epochs=3)
    (broken.job_dir / "checkpoint-0004.pt").write_bytes(b"torn")
    resumed = trained(broken.job_dir, workers=2, epochs=5)
    assert "checkpoint-0004.pt cannot be read" in resumed.outcome.primary
    assert "resumed after epoch 3" in resumed.outcome.primary
    assert distance(weights(straight.job_dir), weights(resumed.job_dir)) < TOLERANCE
    for one, other in zip(straight.metrics, resumed.metrics, strict=True):
        assert one["loss"] == pytest.approx(other["loss"], abs=TOLERANCE)
    assert straight.result["accuracy"] == resumed.result["accuracy"]
    assert straight.result["weights_sha256"] != broken.result["weights_sha256"]


def test_as_a_vertex_job_it_learns_the_same(tmp_path):
    outcome = run_vertex("torch-ddp", tmp_path)
    assert outcome.code == 0, outcome.story()
    assert {"workerpool0-0", "workerpool1-0", "workerpool1-1"} == set(outcome.output)
    assert "test accuracy 0.9" in outcome.last_line


def test_stopped_and_started_again_three_replicas_end_with_the_same_bits(tmp_path):
    straight = trained(tmp_path / "straight", workers=2, epochs=3)
    broken = trained(tmp_path / "broken", workers=2, epochs=1)
    resumed = trained(broken.job_dir, workers=2, epochs=3)
    assert "resumed after epoch 1" in resumed.outcome.primary
    assert straight.result["weights_sha256"] == resumed.result["weights_sha256"]
    assert straight.result["weights_sha256"] != broken.result["weights_sha256"]
