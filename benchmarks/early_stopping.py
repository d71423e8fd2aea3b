"""What early stopping saves, and what it costs: whole studies on real learning curves.

Each study is replayed in this process with the service's own suggestions and its own stopping
rules: 24 trials, 2 in parallel, a multilayer perceptron on scikit-learn's digits, 30 steps a trial,
one step a pass over the training images.  A study without stopping is held against the same study
with each rule, for every seed; a seed draws the split of the data, the first weights and the
suggestions.  Nothing else differs, but a study that is stopped early learns other things and so
tries other points.

A rule passes if it saves at least 35 % of the trial-steps at no loss in the best value: the median
of the differences over the seeds is not below zero, and their mean is not below zero by more than
half a validation image.  A predicted value is never counted as the best: the table takes what was
measured at the end of a trial (LAST).

    python benchmarks/early_stopping.py [--seeds 20] [--processes 2] [--format json]
"""

import argparse
import json
import os
import statistics
import sys
from collections.abc import Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from typing import Any

from trainshed.model.study import (
    ConvexRule,
    DecayCurveRule,
    MedianRule,
    Metric,
    ParameterKind,
    ParameterSpec,
    Scale,
    StoppingRule,
    StudySpec,
)
from trainshed.model.trials import Measurement, TrialRecord, TrialState, Values
from trainshed.tuning.ranking import best
from trainshed.tuning.stopping import predicted, to_stop
from trainshed.tuning.suggest import suggest

STEPS = 30
IMAGES = 540
SAVED_GOAL = 0.35
LOSS_MAX = 0.5 / IMAGES
RULES: Mapping[str, StoppingRule | None] = {
    "none": None,
    "median": MedianRule(),
    "decay curve": DecayCurveRule(),
    "convex": ConvexRule(learning_rate_parameter="learning_rate"),
}
#: One thread a process: the matrices are small, and the processes share the cores.
ONE_THREAD = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}


def study_with(rule: StoppingRule | None) -> StudySpec:
    """The study of examples/tuning, with one rule or none."""
    log = partial(ParameterSpec, kind=ParameterKind.DOUBLE, scale=Scale.LOG)
    return StudySpec(
        metrics=(Metric(metric_id="accuracy"),),
        parameters=(
            log(parameter_id="learning_rate", bounds=(1e-4, 1.0)),
            log(parameter_id="alpha", bounds=(1e-6, 1e-1)),
            ParameterSpec(parameter_id="hidden", kind=ParameterKind.INTEGER, bounds=(4, 64)),
        ),
        trial_count_max=24,
        trial_count_parallel=2,
        stopping=rule,
    )


@dataclass(kw_only=True)
class Trainer:
    """Real learning curves of one seed; the same point is trained once."""

    seed: int
    curves: dict[Values, Sequence[float]] = field(default_factory=dict)

    def curve(self, values: Values) -> Sequence[float]:
        """The accuracy on the validation images after each step."""
        if values not in self.curves:
            self.curves[values] = self._trained(dict(values))
        return self.curves[values]

    def _trained(self, values: Mapping[str, Any]) -> Sequence[float]:
        from sklearn.datasets import load_digits  # noqa: PLC0415  # threads are set before it
        from sklearn.model_selection import train_test_split  # noqa: PLC0415
        from sklearn.neural_network import MLPClassifier  # noqa: PLC0415

        images, digits = load_digits(return_X_y=True)
        train, check, digits_train, digits_check = train_test_split(
            images / 16.0, digits, test_size=IMAGES, random_state=self.seed, stratify=digits
        )
        model = MLPClassifier(
            (int(values["hidden"]),),
            solver="sgd",
            learning_rate_init=float(values["learning_rate"]),
            alpha=float(values["alpha"]),
            batch_size=128,
            random_state=self.seed,
        )
        curve = []
        for _ in range(STEPS):
            model.partial_fit(train, digits_train, classes=range(10))
            curve.append(float(model.score(check, digits_check)))
        return curve


@dataclass(frozen=True, kw_only=True)
class Replay:
    """What one study came to."""

    steps: int
    stopped: int
    best: float


class Study:
    """One study under way: trials take their steps in turn, and rules are asked after each turn."""

    def __init__(self, study: StudySpec, trainer: Trainer) -> None:
        """Nothing has been tried."""
        self.study = study
        self.trainer = trainer
        self.trials: dict[int, TrialRecord] = {}

    def replay(self) -> Replay:
        """Run it to its end."""
        while self._begin():
            for number in self._active():
                self._step(number)
            for number in to_stop(self.study, list(self.trials.values())):
                self._stop(number)
        leader = best(self.study, list(self.trials.values()))
        if leader is None or leader.final is None:
            raise SystemExit("a study without a successful trial")
        return Replay(
            steps=sum(len(trial.measurements) for trial in self.trials.values()),
            stopped=sum(trial.stopped_early for trial in self.trials.values()),
            best=leader.final.value("accuracy") or 0.0,
        )

    def _active(self) -> list[int]:
        return [n for n, trial in self.trials.items() if trial.state is TrialState.ACTIVE]

    def _begin(self) -> bool:
        """Fill the free places; whether any trial is under way."""
        while (
            len(self._active()) < self.study.trial_count_parallel
            and len(self.trials) < self.study.trial_count_max
        ):
            number = len(self.trials) + 1
            self.trials[number] = TrialRecord(number=number, values=self._next())
        return bool(self._active())

    def _next(self) -> Values:
        """The one place that knows where points come from."""
        return suggest(self.study, list(self.trials.values()), 1, self.trainer.seed).values[0]

    def _step(self, number: int) -> None:
        trial = self.trials[number]
        step = len(trial.measurements) + 1
        value = self.trainer.curve(trial.values)[step - 1]
        measured = Measurement(step=step, elapsed_s=float(step), metrics=(("accuracy", value),))
        trial = replace(trial, measurements=(*trial.measurements, measured))
        if step == STEPS:
            trial = replace(trial, state=TrialState.SUCCEEDED, final=measured)
        self.trials[number] = trial

    def _stop(self, number: int) -> None:
        """End a trial early, with what is predicted of it where the rule predicts."""
        self.trials[number] = replace(
            self.trials[number], state=TrialState.STOPPING, stopped_early=True
        )
        said = predicted(self.study, list(self.trials.values())).get(number)
        self.trials[number] = replace(
            self.trials[number],
            state=TrialState.SUCCEEDED,
            final=said or self.trials[number].measurements[-1],
        )


def replays(seed: int) -> Mapping[str, Replay]:
    """One seed under every rule; the curves are shared."""
    trainer = Trainer(seed=seed)
    return {name: Study(study_with(rule), trainer).replay() for name, rule in RULES.items()}


@dataclass(frozen=True, kw_only=True)
class Line:
    """One rule over all seeds, beside no rule."""

    rule: str
    saved: float
    saved_least: float
    stopped: float
    best: float
    best_without: float
    median_difference: float
    mean_difference: float
    lost: int
    won: int
    holds: bool


def line(rule: str, seeds: Sequence[Mapping[str, Replay]]) -> Line:
    """Hold one rule against none."""
    pairs = [(each[rule], each["none"]) for each in seeds]
    saved = [1.0 - ours.steps / without.steps for ours, without in pairs]
    differences = [ours.best - without.best for ours, without in pairs]
    middle, mean = statistics.median(differences), statistics.fmean(differences)
    return Line(
        rule=rule,
        saved=statistics.fmean(saved),
        saved_least=min(saved),
        stopped=statistics.fmean(ours.stopped for ours, _ in pairs),
        best=statistics.fmean(ours.best for ours, _ in pairs),
        best_without=statistics.fmean(without.best for _, without in pairs),
        median_difference=middle,
        mean_difference=mean,
        lost=sum(difference < 0 for difference in differences),
        won=sum(difference > 0 for difference in differences),
        holds=statistics.fmean(saved) >= SAVED_GOAL and middle >= 0 and mean >= -LOSS_MAX,
    )


def show(lines: Sequence[Line]) -> None:
    """A table, and whether each rule holds."""
    print(
        f"{'rule':12} {'saved':>6} {'least':>6} {'stopped':>8} {'best':>7} {'without':>8} "
        f"{'median':>8} {'mean':>8}  won lost"
    )
    for each in lines:
        print(
            f"{each.rule:12} {each.saved:6.1%} {each.saved_least:6.1%} {each.stopped:5.1f}/24 "
            f"{each.best:7.4f} {each.best_without:8.4f} {each.median_difference:+8.4f} "
            f"{each.mean_difference:+8.4f} {each.won:4} {each.lost:4}  "
            f"{'PASS' if each.holds else 'FAIL'}"
        )


def main() -> int:
    """Run all seeds; 1 if a rule does not hold."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--format", choices=("text", "json"), default="text")
    asked = parser.parse_args()
    os.environ.update(ONE_THREAD)
    with ProcessPoolExecutor(asked.processes) as pool:
        seeds = list(pool.map(replays, range(asked.seeds)))
    lines = [line(rule, seeds) for rule in RULES if rule != "none"]
    if asked.format == "json":
        print(json.dumps([asdict(each) for each in lines]))
    else:
        show(lines)
    return 0 if all(each.holds for each in lines) else 1


if __name__ == "__main__":
    sys.exit(main())
