"""Compares a finished job with the prediction of its calibration."""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from trainshed.planning.amounts import amount_words, lasting, money
from trainshed.planning.links import HostLinks, links_of
from trainshed.planning.plan_request import PlanRequest
from trainshed.planning.plan_words import lasting_between
from trainshed.planning.prices import HourPrice
from trainshed.planning.scaling.calibration import Calibration, Run
from trainshed.planning.scaling.fitting import timed
from trainshed.planning.scaling.predict import predict
from trainshed.planning.scaling.prediction import Interval, NoPrediction
from trainshed.planning.scaling.reach import reach_of

_HOUR_S: Final = 3600.0
#: The end of the class of predictions for unknown links, whose intervals are wide.
_UNKNOWN_LINKS: Final = ", links unknown"


@dataclass(frozen=True, slots=True, kw_only=True)
class JobOutcome:
    """The predicted and the measured time of all steps of a job."""

    job: str
    run: Run
    predicted_s: Interval
    reach: str
    """The kind of extrapolation (``reach.Extrapolation``), and whether the links were unknown."""
    goodput: float | None = None
    """The goodput of the whole job (``planning.goodput``); None if it is unknown."""
    price: HourPrice | None = None
    """The price of all its machines."""

    @property
    def took_s(self) -> float:
        """The median seconds of its steps, times their count."""
        return self.run.steps * self.run.step_s

    @property
    def is_inside(self) -> bool:
        """Whether the measured time is in the predicted interval."""
        return self.predicted_s.holds(self.took_s)

    @property
    def sentence(self) -> str:
        """The comparison in one line: ``900 steps: predicted 4 h [3 to 5], took 4 h, inside``."""
        text = (
            f"{self.run.steps:,} steps: predicted {predicted_words(self.predicted_s, self.reach)}, "
        )
        text += f"took {lasting(self.took_s)}, {'inside' if self.is_inside else 'a miss'}"
        if self.goodput is not None:
            text += f"; goodput {100 * self.goodput:.1f} %"
        if self.price:
            text += f"; cost {money(self._cost(self.took_s), self.price.currency)}"
            if not self.reach.endswith(_UNKNOWN_LINKS):
                text += f", predicted {amount_words(self._cost(self.predicted_s.point))}"
        return text

    def _cost(self, seconds: float) -> float:
        return seconds / _HOUR_S * self.price.amount if self.price else 0.0

    @property
    def numbers(self) -> dict[str, object]:
        """The comparison as numbers."""
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
            "class": self.reach,
            **self._money,
        }

    @property
    def _money(self) -> dict[str, object]:
        if self.price is None:
            return {}
        cost, predicted = self._cost(self.took_s), self._cost(self.predicted_s.point)
        return {"cost": cost, "predicted_cost": predicted, "currency": self.price.currency}


def outcome_of(
    job: str,
    calibration: Calibration,
    run: Run,
    goodput: float | None = None,
    price: HourPrice | None = None,
) -> JobOutcome | NoPrediction:
    """Compare a run with the prediction made without it, which is a range for unknown links."""
    predictions = [
        predict(one.calibration or calibration, run.cluster(one.host), batch=run.batch)
        for one in _list_links(calibration, run)
    ]
    steps_s = []
    for prediction in predictions:
        if isinstance(prediction, NoPrediction):
            return prediction
        steps_s.append(prediction.step_s.times(run.steps))
    measured = {(past_run.accelerators, past_run.hosts) for past_run in timed(calibration.runs)}
    target = (run.accelerators, run.hosts)
    reach = reach_of(calibration.training, calibration.host, measured, target).value
    is_range = len(steps_s) > 1
    return JobOutcome(
        job=job,
        run=run,
        predicted_s=steps_s[0].span(steps_s[1]) if is_range else steps_s[0],
        reach=reach + _UNKNOWN_LINKS if is_range else reach,
        goodput=goodput,
        price=price,
    )


def _list_links(calibration: Calibration, run: Run) -> Sequence[HostLinks]:
    """Return the hosts of a run with their links; with unknown links, with slow and fast ones."""
    if run.hosts == 1:
        return [HostLinks(host=calibration.host, calibration=calibration)]
    links = links_of(calibration, calibration.host, PlanRequest())
    return links.ends or [links]


def predicted_words(predicted_s: Interval, reach: str) -> str:
    """Format the predicted time of a job; for unknown links as a range without a point."""
    return lasting_between(predicted_s, has_point=not reach.endswith(_UNKNOWN_LINKS))


def score(outcomes: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """Yield sentences on how many jobs (``JobOutcome.numbers``) are in their intervals."""
    if len(outcomes) > 1:
        yield f"{_count_inside(outcomes)} of {len(outcomes)} jobs inside their 80 % intervals."
    by_class: dict[str, list[Mapping[str, Any]]] = defaultdict(list)
    for outcome in outcomes:
        by_class[outcome["class"]].append(outcome)
    if len(by_class) > 1:
        for name, class_outcomes in sorted(by_class.items()):
            yield f"  {name}: {_count_inside(class_outcomes)} of {len(class_outcomes)}"


def _count_inside(outcomes: Sequence[Mapping[str, Any]]) -> int:
    return sum(bool(outcome["inside"]) for outcome in outcomes)
