"""The examples of PyTorch use the GPU that they see, and what they promise holds there."""

import json
import re
from importlib.util import find_spec
from pathlib import Path
from signal import SIGKILL

import pytest

from examples.cluster import needs, run
from examples.interrupting import World, undisturbed

pytestmark = [
    pytest.mark.full,
    pytest.mark.slow,
    pytest.mark.timeout(600),
    needs("torch", "numpy"),
]
NEEDS_PLOT = needs("matplotlib")

STAND_INS = Path(__file__).parent / "stand_ins"
STEPS = ("--steps", 60, "--save-every", 10)


@pytest.fixture(autouse=True)
def _digits(monkeypatch):
    """Where scikit-learn is missing its digits are made up."""
    if find_spec("sklearn") is None:
        monkeypatch.setenv("PYTHONPATH", str(STAND_INS))


def result_of(job_dir):
    return json.loads((job_dir / "result.json").read_text())


def losses_of(job_dir):
    lines = (job_dir / "metrics.jsonl").read_text().splitlines()
    return [json.loads(line)["loss"] for line in lines]


@NEEDS_PLOT
def test_torch_ddp_trains_on_the_gpu_that_it_gets_and_goes_on_there(torch_device, tmp_path):
    straight = run("torch-ddp", tmp_path / "a", args=["--epochs", 4], workers=0)
    assert straight.code == 0, straight.story()
    assert f"rank 0 of 1 on {torch_device}\n" in straight.primary, straight.story()
    for epochs in (2, 4):
        broken = run("torch-ddp", tmp_path / "b", args=["--epochs", epochs], workers=0)
        assert broken.code == 0, broken.story()
    assert "resumed after epoch 2" in broken.primary
    losses = losses_of(tmp_path / "a")
    assert losses[-1] < losses[0]
    assert losses_of(tmp_path / "b") == pytest.approx(losses, abs=1e-6)


@NEEDS_PLOT
def test_two_processes_of_torch_ddp_that_see_one_card_train_on_their_cpus(torch_device, tmp_path):
    world = World(
        example="torch-ddp",
        job_dir=tmp_path,
        size=2,
        args=["--epochs", 1],
        env=one_card(torch_device),
    )
    assert "rank 0 of 2 on cpu\n" in undisturbed(world)


def test_the_pieces_of_a_model_share_the_card_that_they_see(torch_device, tmp_path):
    args = ["--epochs", 2]
    env = one_card(torch_device)
    output = undisturbed(
        World(example="model-parallel", job_dir=tmp_path, size=2, args=args, env=env)
    )
    assert f"rank 0: piece 0 of replica 0 on {torch_device}\n" in output
    assert result_of(tmp_path)["max_difference"] < 1e-9


def test_a_job_that_asks_for_no_card_splits_its_model_over_cpus_and_says_so(torch_device, tmp_path):
    outcome = run("model-parallel", tmp_path, args=["--epochs", 1], workers=1)
    assert outcome.code == 0, outcome.story()
    assert "rank 0: piece 0 of replica 0 on cpu\n" in outcome.primary
    assert ("the job asks for none" in outcome.text) == (torch_device == "cuda"), outcome.story()


def test_torch_resume_ends_with_the_same_bits_on_a_gpu_whoever_killed_it(torch_device, tmp_path):
    straight = run("torch-resume", tmp_path / "a", args=STEPS, workers=0)
    assert straight.code == 0, straight.story()
    assert f"on {torch_device}\n" in straight.primary, straight.story()
    job_dir = tmp_path / "b"
    slow = World(example="torch-resume", job_dir=job_dir, args=[*STEPS, "--step-seconds", 0.05])
    with slow:
        slow.wait_for_saves(2)
        slow.signal(SIGKILL)
        assert slow.wait() == [-SIGKILL], slow.printed()
    resumed = run("torch-resume", job_dir, args=STEPS, workers=0)
    assert resumed.code == 0, resumed.story()
    assert re.search(r"resumed from step [1-9]0\n", resumed.primary), resumed.story()
    same = result_of(tmp_path / "a") == result_of(job_dir)
    assert same, f"the weights differ by {difference(tmp_path / 'a', job_dir):.3g}"


def difference(one, other):
    """The largest between the weights of two last checkpoints."""
    torch = pytest.importorskip("torch", reason="torch is not installed; make test installs it")
    models = [
        torch.load(
            max((folder / "checkpoints").glob("checkpoint-*.pt")),
            map_location="cpu",
            weights_only=True,
        )["model"]
        for folder in (one, other)
    ]
    return max(float((models[0][key] - models[1][key]).abs().max()) for key in models[0])


def one_card(torch_device):
    """What makes programs see the same first GPU."""
    return {"CUDA_VISIBLE_DEVICES": "0"} if torch_device == "cuda" else {}
