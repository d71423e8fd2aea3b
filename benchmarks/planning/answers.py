"""Answers of the planner to the questions of G1 to G7, by the code that ships.

Each comes from ``fitting.calibrated`` and ``posterior`` with parameters that were fitted without
any row of its system (G6: of its model), and each has the baselines' answers beside it.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from benchmarks.planning.baselines import Baselines
from benchmarks.planning.questions import Question
from benchmarks.planning.rows import Curve, by_model, by_system
from trainshed.planning.scaling.calibration import Run
from trainshed.planning.scaling.fitting import calibrated
from trainshed.planning.scaling.parameters import Parameters
from trainshed.planning.scaling.posterior import posterior
from trainshed.planning.scaling.prediction import Interval
from trainshed.planning.scaling.published import published_calibration
from trainshed.planning.scaling.reach import Extrapolation, factors
from trainshed.planning.scaling.training import StepBatch

Fits = Mapping[str, Parameters]


@dataclass(frozen=True, kw_only=True)
class Answer:
    """The prediction for one point, and the measurement."""

    goal: str
    curve: Curve
    base: Run
    """The smallest known: efficiencies are against it."""
    point: Run
    reach: Extrapolation
    step_s: Interval
    baselines: Mapping[str, float]
    """Signed errors of throughput."""

    @property
    def error(self) -> float:
        """Of throughput: predicted over measured, less one."""
        return self.point.step_s / self.step_s.point - 1

    @property
    def inside(self) -> bool:
        """Whether the interval contains the measurement."""
        return self.step_s.holds(self.point.step_s)

    def efficiency(self, step_s: float) -> float:
        """Of a step at this point."""
        ratio = self.point.batch_per_accelerator / self.base.batch_per_accelerator
        return self.base.step_s * ratio / step_s


def on_systems(
    curves: Sequence[Curve],
    questions: Iterable[Question],
    fits: Fits,
    pooled: Sequence[Curve] | None = None,
) -> Iterator[Answer]:
    """Answers on systems of which nothing is in the fit.

    ``pooled``: the baselines' curves, where they are not all others of ``curves``.
    """
    baselines = _baselines(curves, fits, by_system, pooled)
    for question in questions:
        name = by_system(curves[question.curve])
        yield from _answers(curves, question, fits[name], baselines[name])


def on_models(
    curves: Sequence[Curve],
    questions: Iterable[Question],
    fits: Fits,
    pooled: Sequence[Curve] | None = None,
) -> Iterator[Answer]:
    """Answers on models of which nothing is in the fit, on systems with other models in it."""
    baselines = _baselines(curves, fits, by_model, pooled)
    models = defaultdict(set)
    for curve in curves:
        models[curve.system].add(by_model(curve))
    for question in questions:
        curve = curves[question.curve]
        if len(models[curve.system]) > 1:
            name, of_model = by_model(curve), replace(question, goal="G6")
            yield from _answers(curves, of_model, fits[name], baselines[name])


def from_nothing(
    curves: Sequence[Curve], fits: Fits, pooled: Sequence[Curve] | None = None
) -> Iterator[Answer]:
    """Answers without any measurement: from the count of parameters and nominal links.

    They are ratios of a step to that on the smallest count, on systems that no fit has seen.
    """
    baselines = _baselines(curves, fits, by_system, pooled)
    for curve in curves:
        fit = fits[curve.system]
        base, *larger = curve.points
        batch = base.batch_per_accelerator
        targets = [point for point in larger if point.batch_per_accelerator == batch]
        if not curve.training.parameters or not targets:
            continue
        training = replace(curve.training, batch_per_accelerator=1.0, micro_batches=1)
        calibration = published_calibration(training, curve.host, constants=fit)
        estimate, one = posterior(calibration, fit), StepBatch()
        base_s = estimate.step(base.cluster(curve.host), one)
        errors = baselines[curve.system].errors([base], targets)
        for point, of_peers in zip(targets, errors, strict=True):
            cluster = point.cluster(curve.host)
            step_s = base.step_s * estimate.step(cluster, one) / base_s
            yield Answer(
                goal="G16",
                curve=curve,
                base=base,
                point=point,
                reach=Extrapolation.PUBLISHED,
                step_s=factors(estimate, calibration, cluster, one).times(step_s),
                baselines=of_peers,
            )


def _baselines(
    curves: Sequence[Curve],
    fits: Fits,
    key: Callable[[Curve], str],
    pooled: Sequence[Curve] | None,
) -> dict[str, Baselines]:
    """Return for each name the baselines pooled over the curves that its fit has seen."""
    names = defaultdict(set)
    for name, parameters in fits.items():
        names[id(parameters)].add(name)
    by_fit = {
        fit: Baselines(pooled or [curve for curve in curves if key(curve) not in left])
        for fit, left in names.items()
    }
    return {name: by_fit[id(parameters)] for name, parameters in fits.items()}


def _answers(
    curves: Sequence[Curve], question: Question, parameters: Parameters, baselines: Baselines
) -> Iterator[Answer]:
    curve = curves[question.curve].with_steps_of(dict(parameters.unprinted))
    runs = [curve.points[i] for i in question.observed]
    targets = [curve.points[i] for i in question.targets]
    calibration = calibrated(curve.training, curve.host, runs, constants=parameters)
    estimate = posterior(calibration, parameters)
    errors = baselines.errors(runs, targets)
    for i, point, of_peers in zip(question.targets, targets, errors, strict=True):
        cluster, batch = point.cluster(curve.host), point.batch
        around = factors(estimate, calibration, cluster, batch)
        yield Answer(
            goal=question.goal,
            curve=curve,
            base=runs[0],
            point=point,
            reach=question.reach(curves, i),
            step_s=around.times(estimate.step(cluster, batch)),
            baselines=of_peers,
        )
