"""Chooses the engine of each waiting job, again in every pass.

A server with one engine skips the choice.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from trainshed.controller.handing_over import Choose
from trainshed.engines.base import JobNeeds, PlacedBy
from trainshed.engines.several import Engines
from trainshed.lifecycle.deadlines import RUNNING_S_DEFAULT
from trainshed.model.explanation import Explanation
from trainshed.model.labels import ENGINE_LABEL, OfferedEngine
from trainshed.model.resources import JobDemand
from trainshed.placement.engine_choice import EngineChoice, choose
from trainshed.placement.jobs import ChosenEngine
from trainshed.store.records.jobs import WaitingJob

#: Seconds between two queries of the engines: a pass has thousands of jobs.
_QUERY_EVERY_S: Final = 0.1

#: Returns why an engine cannot start a job's programs; None if it can.
Startable = Callable[[int, str], Explanation | None]


def choosing(
    engines: Engines,
    never: Callable[[JobDemand], Explanation | None],
    startable: Startable | None,
    running_s_default: float | None = RUNNING_S_DEFAULT,
) -> Choose:
    """Return the function that chooses among the engines of a server.

    ``never`` returns why the nodes on which the server itself places jobs can never hold a job.
    ``running_s_default`` is the server's limit, in seconds, for jobs that set none.
    """
    if engines.are_several:
        return _Chooser(engines, never, startable, running_s_default)
    name = engines.first
    if engines.traits_of(name).places is PlacedBy.SERVER:
        choice = ChosenEngine(name="")
        return lambda _job: choice
    return lambda job: _chosen(engines, job, name)


#: The key of a judgement: the engine's name and the parts of a job that the judgement depends on.
_JudgementKey = tuple[str, JobDemand, tuple[float | None, bool], str, frozenset[tuple[str, str]]]


@dataclass(eq=False, slots=True)
class _Chooser:
    engines: Engines
    never: Callable[[JobDemand], Explanation | None]
    startable: Startable | None
    running_s_default: float | None
    _offered: tuple[OfferedEngine, ...] = field(default=(), init=False)
    _queried_at: float = field(default=float("-inf"), init=False)
    _judged: dict[_JudgementKey, Explanation | None] = field(default_factory=dict, init=False)
    """Judgements since the engines were last queried: thousands of jobs share a few demands."""

    def __call__(self, job: WaitingJob) -> ChosenEngine:
        choice = self._choice(job)
        if (refusal := choice.refusal) is not None:
            # no engine takes the job: it waits until the engines change
            return ChosenEngine(name=self.engines.first, places=True, closed=refusal)
        assert choice.engine is not None  # noqa: S101 - then there would be a refusal
        return _chosen(self.engines, job, choice.engine, choice.sentence)

    def _choice(self, job: WaitingJob) -> EngineChoice:
        needs = JobNeeds(
            demand=job.demand,
            running_s_max=job.running_s_left,
            sets_time=job.running_s_max != self.running_s_default,
            wants=job.wants,
            project=job.project,
        )
        judge = self.engines.make_judge(needs, self.never)
        offered, wants = self._list_offered(), frozenset(job.wants.items())

        def find_refusal(name: str) -> Explanation | None:
            limit = needs.running_s_max, needs.sets_time
            key = name, job.demand, limit, job.project, wants
            if key not in self._judged:
                self._judged[key] = judge(name)
            why = self._judged[key]
            return why or (self.startable(job.uid, name) if self.startable else None)

        return choose(job.wants.get(ENGINE_LABEL), job.demand.region, offered, find_refusal)

    def _list_offered(self) -> tuple[OfferedEngine, ...]:
        now = time.monotonic()
        if now - self._queried_at >= _QUERY_EVERY_S:
            self._offered, self._queried_at = self.engines.list_offered(), now
            self._judged.clear()
        return self._offered


def _chosen(engines: Engines, job: WaitingJob, name: str, why: str = "") -> ChosenEngine:
    traits = engines.traits_of(name)
    if traits.places is PlacedBy.SERVER:
        return ChosenEngine(name=name, why=why)
    return ChosenEngine(
        name=name,
        places=True,
        enqueued_max=traits.enqueued_max,
        wants=engines.resolve_wishes(name, job.wants),
        why=why,
        closed=engines.check_health(name),
    )
