"""Says what of a demand a fleet has no room for, with the numbers."""

from trainshed.model.resources import Demand, JobDemand
from trainshed.placement.fleet import Fleet
from trainshed.placement.ground import Ask, Run
from trainshed.placement.words import of_each, within


class Shortage:
    """Answers for one state of a fleet, and remembers what is asked again."""

    def __init__(self, fleet: Fleet) -> None:
        """Look at nothing yet."""
        self._fleet = fleet
        self._said: dict[object, str] = {}
        self._most: dict[tuple[str | None, str | None], tuple[int, str] | None] = {}

    def of(self, demand: JobDemand) -> str:
        """One sentence: ``needs 4 NVIDIA_TESLA_T4 on one machine; 2 are free on node-a ...``."""
        shape = self._fleet.ground.shape(demand)
        if shape.key not in self._said:
            found = (self._of_run(shape.region, run) for run in shape.runs)
            alone = "each of its groups would fit alone; all of them at once do not"
            self._said[shape.key] = next(filter(None, found), alone)
        return self._said[shape.key]

    def _of_run(self, region: str | None, run: Run) -> str | None:
        room = sum(self._fleet.candidates(region, run.each).totals)
        if room >= run.count:
            return None
        if room:
            needs = f"{run.count} replicas with {of_each(run.each)} each at once{within(region)}"
            return f"needs {needs}; there is room for {room}"
        return (
            f"needs {of_each(run.each)} on one machine{within(region)}; {self._free(region, run)}"
        )

    def _free(self, region: str | None, run: Run) -> str:
        if not len(self._fleet.candidates(region, run.each)):
            return "no node offers that"
        most = self._most_gpus(region, run.each) if run.each.gpu_count else None
        if most and most[0] < run.each.gpu_count:
            free = {0: "none is", 1: "1 is"}.get(most[0], f"{most[0]} are")
            return f"{free} free on {most[1]}, and no node has more"
        return "no node has all of that free"

    def _most_gpus(self, region: str | None, each: Demand) -> tuple[int, str] | None:
        """The most GPUs that one replica could get, and where; None where none are given."""
        key = (region, each.gpu_type)
        if key not in self._most:
            ground = self._fleet.ground
            eligible = [(i, a) for i, a in ground.eligible(region, each) if ground.ready[i]]
            best = max(((self._gpus(i, ask), -i) for i, ask in eligible if ask.pools), default=None)
            self._most[key] = best and (best[0], ground.nodes[-best[1]].name)
        return self._most[key]

    def _gpus(self, node: int, ask: Ask) -> int:
        room = self._fleet.rooms[node]
        return max(0, *(room[pool] for pool in ask.pools))
