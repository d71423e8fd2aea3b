"""Answers of the planner to the questions of G1 to G7, by the code that ships.

Each comes from ``fitting.calibrated`` and ``posterior`` with parameters that were fitted without
any row of its system (G6: of its model), and each has the baselines' answers beside it.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from benchmarks.planning.baselines import Baselines
from benchmarks.planning.questions import Question
from benchmarks.planning.rows import Curve, Point, by_model, by_system
from trainshed.planning.scaling.fitting import calibrated
from trainshed.planning.scaling.parameters import Parameters
from trainshed.planning.scaling.posterior import posterior
from trainshed.planning.scaling.published import published_calibration
from trainshed.planning.scaling.reach import Extrapolation, factors
from trainshed.planning.scaling.training import StepBatch

Fits = Mapping[str, Parameters]


@dataclass(frozen=True, kw_only=True)
class Answer:
    """The prediction for one point, and the measurement."""

    goal: str
    curve: Curve
    base: Point
    """The smallest known: efficiencies are against it."""
    point: Point
    reach: Extrapolation
    step_s: float
    low_s: float
    high_s: float
    baselines: Mapping[str, float]
    """Signed errors of throughput."""

    @property
    def error(self) -> float:
        """Of throughput: predicted over measured, less one."""
        return self.point.step_s / self.step_s - 1

    @property
    def inside(self) -> bool:
        """Whether the interval contains the measurement."""
        return self.low_s <= self.point.step_s <= self.high_s

    def efficiency(self, step_s: float) -> float:
        """Of a step at this point."""
        ratio = self.point.batch / self.base.batch
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
        yield from _answers(curves, question, fits[name], baselines[id(fits[name])])


def on_models(
    curves: Sequence[Curve],
    questions: Iterable[Question],
    fits: Fits,
    pooled: Sequence[Curve] | None = None,
) -> Iterator[Answer]:
    """Answers on models of which nothing is in the fit, on systems with other models in it."""
    baselines = _baselines(curves, fits, by_model, pooled)
    models: dict[str, set[str]] = {}
    for curve in curves:
        models.setdefault(curve.system, set()).add(by_model(curve))
    for question in questions:
        curve = curves[question.curve]
        if len(models[curve.system]) > 1:
            fit = fits[by_model(curve)]
            yield from _answers(curves, replace(question, goal="G6"), fit, baselines[id(fit)])


def from_nothing(
    curves: Sequence[Curve], fits: Fits, pooled: Sequence[Curve] | None = None
) -> Iterator[Answer]:
    """Answers without any measurement: from the count of parameters and nominal links.

    They are ratios of a step to that on the smallest count, on systems that no fit has seen.
    """
    baselines = _baselines(curves, fits, by_system, pooled)
    for curve in curves:
        fit = fits[by_system(curve)]
        base, *larger = curve.points
        targets = [point for point in larger if point.batch == base.batch]
        if not curve.training.parameters or not targets:
            continue
        training = replace(curve.training, batch_per_accelerator=1.0, micro_batches=1)
        calibration = published_calibration(training, curve.host, constants=fit)
        estimate, one = posterior(calibration, fit), StepBatch()
        base_s = estimate.step(base.cluster(curve.host), one)
        rates = baselines[id(fit)].rates([base], targets)
        for i, point in enumerate(targets):
            cluster = point.cluster(curve.host)
            step_s = base.step_s * estimate.step(cluster, one) / base_s
            around = factors(estimate, calibration, cluster, one).times(step_s)
            rate = point.accelerators * point.batch / point.step_s
            yield Answer(
                goal="G16",
                curve=curve,
                base=base,
                point=point,
                reach=Extrapolation.PUBLISHED,
                step_s=step_s,
                low_s=around.low,
                high_s=around.high,
                baselines={name: float(values[i]) / rate - 1 for name, values in rates.items()},
            )


def _baselines(
    curves: Sequence[Curve],
    fits: Fits,
    key: Callable[[Curve], str],
    pooled: Sequence[Curve] | None,
) -> dict[int, Baselines]:
    """Pooled over the curves that a fit has seen."""
    names: dict[int, set[str]] = {}
    for name, parameters in fits.items():
        names.setdefault(id(parameters), set()).add(name)
    return {
        fit: Baselines(pooled or [curve for curve in curves if key(curve) not in left])
        for fit, left in names.items()
    }


def _answers(
    curves: Sequence[Curve],
    question: Question,
    parameters: Parameters,
    baselines: Baselines,
) -> Iterator[Answer]:
    curve = curves[question.curve].with_steps_of(dict(parameters.unprinted))
    base_points = [curve.points[i] for i in question.observed]
    targets = [curve.points[i] for i in question.targets]
    runs = [point.run() for point in base_points]
    calibration = calibrated(curve.training, curve.host, runs, constants=parameters)
    estimate = posterior(calibration, parameters)
    rates = baselines.rates(base_points, targets)
    for i, point in enumerate(targets):
        cluster = point.cluster(curve.host)
        batch = point.run().batch
        step = estimate.step(cluster, batch)
        around = factors(estimate, calibration, cluster, batch).times(step)
        rate = point.accelerators * point.batch / point.step_s
        yield Answer(
            goal=question.goal,
            curve=curve,
            base=base_points[0],
            point=point,
            reach=question.reach(curves, question.targets[i]),
            step_s=step,
            low_s=around.low,
            high_s=around.high,
            baselines={name: float(values[i]) / rate - 1 for name, values in rates.items()},
        )
