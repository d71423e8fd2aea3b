"""A job that ran beside what its calibration says of it."""

from collections.abc import Iterator
from dataclasses import dataclass

from trainshed.planning.plan_words import lasting, lasting_between
from trainshed.planning.scaling.calibration import Calibration, Run
from trainshed.planning.scaling.cluster import Cluster
from trainshed.planning.scaling.interval import Interval
from trainshed.planning.scaling.predict import predict
from trainshed.planning.scaling.prediction import Refused


@dataclass(frozen=True, slots=True, kw_only=True)
class JobOutcome:
    """Of all steps of a job, in seconds."""

    job: str
    run: Run
    predicted_s: Interval
    goodput: float | None = None

    @property
    def took_s(self) -> float:
        """As long as its steps usually take, times their count."""
        return self.run.steps * self.run.step_s

    @property
    def is_inside(self) -> bool:
        """Whether the interval has held it."""
        return self.predicted_s.holds(self.took_s)

    @property
    def sentence(self) -> str:
        """``4.1 h [3.9 to 4.4] predicted, 4.0 h taken; goodput 0.93``."""
        text = f"{self.run.steps:,} steps: predicted {lasting_between(self.predicted_s)}, "
        text += f"took {lasting(self.took_s)}, {'inside' if self.is_inside else 'a miss'}"
        return text if self.goodput is None else f"{text}; goodput {self.goodput:.2f}"

    @property
    def numbers(self) -> dict[str, object]:
        """The same for programs."""
        predicted = self.predicted_s
        return {
            "job": self.job,
            "accelerators": self.run.accelerators,
            "hosts": self.run.hosts,
            "steps": self.run.steps,
            "predicted_s": [predicted.low, predicted.point, predicted.high],
            "took_s": self.took_s,
            "inside": self.is_inside,
            "goodput": self.goodput,
        }


def outcome_of(
    job: str, calibration: Calibration, run: Run, goodput: float | None = None
) -> JobOutcome | Refused:
    """What was to be expected of a run before it was made, and what it came to."""
    cluster = Cluster(host=calibration.host, accelerators=run.accelerators, hosts=run.hosts)
    batch = run.batch_per_accelerator or None
    found = predict(calibration, cluster, batch_per_accelerator=batch)
    if isinstance(found, Refused):
        return found
    predicted = found.step_s.times(run.steps)
    return JobOutcome(job=job, run=run, predicted_s=predicted, goodput=goodput)


def score(outcomes: list[JobOutcome]) -> Iterator[str]:
    """How many of several jobs their intervals have held."""
    if len(outcomes) > 1:
        held = sum(each.is_inside for each in outcomes)
        yield f"{held} of {len(outcomes)} jobs inside their 80 % intervals."
