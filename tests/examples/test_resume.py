"""Stopped at any step, by notice or by SIGKILL, a training ends with the weights of any other."""

import dataclasses
import json
import random
import re
from signal import SIGKILL, SIGTERM

import pytest

from examples.cluster import needs
from examples.interrupting import World, interrupted, undisturbed

pytestmark = [pytest.mark.full, pytest.mark.slow, pytest.mark.timeout(900)]

#: Many more than any stop waits for: a slow training has seconds left then.
LAST = 240
STEPS = ("--steps", LAST, "--save-every", 10)
PAUSE_S = 0.05
SLOW = ("--step-seconds", PAUSE_S)
#: About as long as a slow training is on its way from one checkpoint to the next.
WAY_S = 10 * PAUSE_S


@dataclasses.dataclass(frozen=True)
class Case:
    example: str
    signals: tuple
    size: int = 1
    args: tuple = ()


TORCH = needs("torch")
KERAS = needs("tensorflow")
CASES = {
    "torch": pytest.param(Case("torch-resume", (SIGKILL, SIGTERM)), marks=TORCH),
    "torch, 2 replicas": pytest.param(
        Case("torch-resume", (SIGTERM, SIGKILL), size=2), marks=TORCH
    ),
    "keras": pytest.param(Case("keras-resume", (SIGKILL, SIGTERM)), marks=KERAS),
    "keras's own backup": pytest.param(
        Case("keras-resume", (SIGTERM,), args=("--backup", "keras")), marks=KERAS
    ),
    "lightning": pytest.param(
        Case("lightning-resume", (SIGTERM, SIGKILL)), marks=needs("torch", "lightning")
    ),
}


def weights(job_dir):
    return json.loads((job_dir / "result.json").read_text())["weights_sha256"]


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_it_ends_with_the_weights_of_an_undisturbed_training(case, tmp_path):
    chance = random.Random(str(case))  # noqa: S311  # moments, not secrets
    straight = World(
        example=case.example, job_dir=tmp_path / "a", size=case.size, args=[*STEPS, *case.args]
    )
    undisturbed(straight)
    broken = dataclasses.replace(straight, job_dir=tmp_path / "b")
    slow = dataclasses.replace(broken, args=[*straight.args, *SLOW])
    for number in case.signals:
        interrupted(slow, number, chance, WAY_S)
    last = undisturbed(broken)
    assert weights(broken.job_dir) == weights(straight.job_dir)
    assert "resumed from " in last


@TORCH
def test_other_weights_have_another_fingerprint(tmp_path):
    worlds = [
        World(example="torch-resume", job_dir=tmp_path / str(seed), args=[*STEPS, "--seed", seed])
        for seed in (1, 2)
    ]
    assert all(f"finished step {LAST}" in undisturbed(world) for world in worlds)
    assert len({weights(world.job_dir) for world in worlds}) == len(worlds)


@TORCH
def test_a_notice_saves_the_step_it_comes_in_and_the_next_start_goes_on_from_there(tmp_path):
    notice = tmp_path / "notice"
    notice.write_text('{"reason": "maintenance", "message": "node a", "until": 1}')
    world = World(
        example="torch-resume",
        job_dir=tmp_path / "job",
        args=[*STEPS, *SLOW],
        env={"TRAINSHED_NOTICE_FILE": str(notice)},
    )
    with world:
        assert world.wait() == [143], world.printed()
    match = re.search(r"told to stop at step (\d+): .*maintenance.*node a", world.printed())
    assert match, world.printed()
    notice.unlink()
    assert f"resumed from step {match[1]}\n" in undisturbed(world)
