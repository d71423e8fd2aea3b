"""How long survivors wait for the news that a worker, a reducer or a link is gone."""

import os
import signal
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final

from benchmarks.harness import Goal, at_most
from benchmarks.reduction.client_rank import ClientRank
from benchmarks.reduction.crew import Crew, crew
from benchmarks.reduction.reducers import Reducers, reducers
from benchmarks.reduction.shaped_network import network

WORKERS, POOL = 3, 3
LOST: Final = 1
SIZE: Final = 4_000_000
#: Several all-reduces have gone well by then.
GOING_S: Final = 0.5
DEATH_S_MAX: Final = 2.0
#: A short timeout of a group, and what may come on top until the last survivor has raised.
TIMEOUT_S: Final = 2.0
SLACK_S: Final = 2.0


@dataclass(frozen=True, kw_only=True)
class Scene:
    """A group whose ranks are summing tensors."""

    ranks: Crew
    serving: Reducers


@dataclass(frozen=True, kw_only=True)
class Loss:
    """A failure, and the error that every surviving rank must raise within a time limit."""

    name: str
    strike: Callable[[Scene], None]
    culprit: str
    most_s: float
    #: Ranks that must raise, and those of them that can know the culprit.
    survivors: Sequence[int]
    witnesses: Sequence[int]


def goals(rate_mbit: float | None) -> Iterator[Goal]:
    """Seconds until the last survivor has raised; the link's only where there are links.

    The rank behind a dead link is a survivor too, since it must not hang, but to that one it is the
    others that are silent.
    """
    for loss in LOSSES:
        if rate_mbit is not None or loss.strike is not _cut_link:
            yield from _goals_of(loss, rate_mbit)


def _goals_of(loss: Loss, rate_mbit: float | None) -> Iterator[Goal]:
    with _scene(rate_mbit) as scene:
        for rank in scene.ranks.ranks:
            rank.tell({"do": "until_error"})
        time.sleep(GOING_S)
        struck = time.monotonic()
        loss.strike(scene)
        ranks = scene.ranks.chosen(loss.survivors)
        answers = {rank.number: rank.answer(timeout_s=60) for rank in ranks}
    seconds = max(float(answer["end"]) for answer in answers.values()) - struck
    yield at_most(f"{loss.name}, until all survivors raise", seconds, loss.most_s, "s")
    blamed = [str(answers[number]["culprit"]) for number in loss.witnesses]
    wrong = sorted({name for name in blamed if name != loss.culprit})
    yield at_most(
        f"{loss.name}, survivors that blame another",
        sum(name != loss.culprit for name in blamed),
        0,
        "",
        ", ".join(wrong),
    )


@contextmanager
def _scene(rate_mbit: float | None) -> Iterator[Scene]:
    with (
        network(WORKERS + POOL, rate_mbit) as net,
        crew(net, WORKERS, ClientRank) as ranks,
        reducers(net, range(WORKERS, WORKERS + POOL), timeout_s=TIMEOUT_S) as serving,
    ):
        group = {"do": "connect", "world": WORKERS, "epoch": time.time_ns(), "timeout": TIMEOUT_S}
        ranks.ask({**group, **serving.settings()})
        ranks.ask({"do": "prepare", "size": SIZE})
        yield Scene(ranks=ranks, serving=serving)


def _kill_worker(scene: Scene) -> None:
    os.kill(scene.ranks.ranks[LOST].pid, signal.SIGKILL)


def _kill_reducer(scene: Scene) -> None:
    scene.serving.processes[LOST].kill()


def _cut_link(scene: Scene) -> None:
    scene.ranks.net.cut(LOST)


ALL, OTHERS = range(WORKERS), [rank for rank in range(WORKERS) if rank != LOST]
LOSSES: Final = (
    Loss(
        name="a worker is killed", strike=_kill_worker, culprit=f"worker {LOST}",
        most_s=DEATH_S_MAX, survivors=OTHERS, witnesses=OTHERS,
    ),
    Loss(
        name="a reducer is killed", strike=_kill_reducer, culprit=f"reducer {LOST}",
        most_s=DEATH_S_MAX, survivors=ALL, witnesses=ALL,
    ),
    Loss(
        name="a worker's link is cut", strike=_cut_link, culprit=f"worker {LOST}",
        most_s=TIMEOUT_S + SLACK_S, survivors=ALL, witnesses=OTHERS,
    ),
)  # fmt: skip
