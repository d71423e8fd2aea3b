"""Measures the savings of early stopping and its loss of accuracy, with real trainings.

Each study is that of examples/tuning (hpt.yaml and its trainer): 24 trials, 2 in parallel, a
network on handwritten digits, 50 epochs a trial, one step per epoch.  Only the shifted copies of
the images, which make an epoch five times as long, are left out.  The study runs in this process,
with the suggestions and the stopping rules of the service.  For every seed, the benchmark compares
the study without stopping with the same study under each rule.  The seed determines the validation
images, the first weights and the suggestions.  With early stopping, a study has other results and
so tries other points.

The rule of the example, or each of ``--rules``, passes if it saves at least 35 % of the trial-steps
without a loss in the best value: the median of the differences over the seeds is not below zero,
and their mean is at most half a validation image below zero.  A predicted value never counts as the
best value: the table has values that were measured at the end of a trial (LAST).

    python -m benchmarks early-stopping [--seeds 20] [--rules median,convex]
"""

import argparse
import os
import statistics
import sys
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from importlib import import_module
from typing import Any

import yaml

from benchmarks.harness import ROOT, Benchmark, Report, at_least, tell
from trainshed.model.study import (
    SEARCH_RULE,
    AshaRule,
    ConvexRule,
    DecayCurveRule,
    MedianRule,
    StoppingRule,
    StudySpec,
)
from trainshed.model.trials import Measurement, TrialRecord, TrialState, Values
from trainshed.tuning.ranking import best
from trainshed.tuning.stopping import predicted, to_stop
from trainshed.tuning.suggest import suggest
from trainshed.wire.aiplatform_v1.study import study_of

EXAMPLE = ROOT / "examples/tuning"
sys.path.insert(0, str(EXAMPLE))
IMAGES = 357
SAVED_GOAL = 0.35
LOSS_MAX = 0.5 / IMAGES
RULES: Mapping[str, StoppingRule | None] = {
    "none": None,
    "median": MedianRule(),
    "decay curve": DecayCurveRule(),
    "convex": ConvexRule(learning_rate_parameter="learning_rate"),
    "asha": AshaRule(),
}
#: One thread a process: the matrices are small, and the processes share the cores.
ONE_THREAD = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}


def study_with(rule: StoppingRule | None, trials: int) -> StudySpec:
    """Return the study of the example, with a stopping rule or without one."""
    job = yaml.safe_load((EXAMPLE / "hpt.yaml").read_text())
    study = replace(study_of(job), search_rule=SEARCH_RULE)
    return replace(study, stopping=rule, trial_count_max=trials)


@dataclass(kw_only=True)
class Trainer:
    """Real learning curves of one seed; each point is trained once, up to the requested step."""

    seed: int
    steps: int
    curves: dict[Values, list[float]] = field(default_factory=dict)
    learning: dict[Values, Iterator[float]] = field(default_factory=dict)

    def value(self, values: Values, step: int) -> float:
        """Return the accuracy on the validation images after a step, counted from 1."""
        if values not in self.curves:
            self.curves[values], self.learning[values] = [], self._begun(dict(values))
        curve = self.curves[values]
        while len(curve) < step:
            curve.append(next(self.learning[values]))
        return curve[step - 1]

    def _begun(self, values: dict[str, Any]) -> Iterator[float]:
        data: Any = import_module("trainer.data")
        network: Any = import_module("trainer.network")  # after ONE_THREAD is set
        data.SPLIT_SEED, data.NUDGES = self.seed, ((0, 0),)
        built = network.build(
            **values | {key: int(values[key]) for key in ("hidden_units", "batch_size")},
            seed=self.seed,
        )
        begun: Iterator[float] = network.learn(built, *data.load(), self.steps)
        return begun


@dataclass(frozen=True, kw_only=True)
class Replay:
    """The result of one study."""

    steps: int
    stopped: int
    best: float


class Study:
    """A study that runs: all trials make one step, then the rule stops some of them, and so on."""

    def __init__(self, study: StudySpec, trainer: Trainer) -> None:
        """Begin without trials."""
        self.study = study
        self.trainer = trainer
        self.trials: dict[int, TrialRecord] = {}

    def replay(self) -> Replay:
        """Run the study to its end."""
        while self._begin():
            for number in self._active():
                self._step(number)
            for number in to_stop(self.study, list(self.trials.values())):
                self._stop(number)
        leader = best(self.study, list(self.trials.values()))
        if leader is None or leader.final is None:
            raise SystemExit("no trial of a study has succeeded, so there is no best value")
        return Replay(
            steps=sum(len(trial.measurements) for trial in self.trials.values()),
            stopped=sum(trial.stopped_early for trial in self.trials.values()),
            best=leader.final.value("accuracy") or 0.0,
        )

    def _active(self) -> list[int]:
        return [n for n, trial in self.trials.items() if trial.state is TrialState.ACTIVE]

    def _begin(self) -> bool:
        """Begin trials up to the parallel limit; return whether any trial is active."""
        while (
            len(self._active()) < self.study.trial_count_parallel
            and len(self.trials) < self.study.trial_count_max
        ):
            number = len(self.trials) + 1
            self.trials[number] = TrialRecord(number=number, values=self._next())
        return bool(self._active())

    def _next(self) -> Values:
        """Return the point for the next trial."""
        return suggest(self.study, list(self.trials.values()), 1, self.trainer.seed).values[0]

    def _step(self, number: int) -> None:
        trial = self.trials[number]
        step = len(trial.measurements) + 1
        value = self.trainer.value(trial.values, step)
        measured = Measurement(step=step, elapsed_s=float(step), metrics=(("accuracy", value),))
        trial = replace(trial, measurements=(*trial.measurements, measured))
        if step == self.trainer.steps:
            trial = replace(trial, state=TrialState.SUCCEEDED, final=measured)
        self.trials[number] = trial

    def _stop(self, number: int) -> None:
        """End a trial early, with the predicted value if the rule predicts one."""
        self.trials[number] = replace(
            self.trials[number], state=TrialState.STOPPING, stopped_early=True
        )
        prediction = predicted(self.study, list(self.trials.values())).get(number)
        self.trials[number] = replace(
            self.trials[number],
            state=TrialState.SUCCEEDED,
            final=prediction or self.trials[number].measurements[-1],
        )


def replays(rules: Sequence[str], steps: int, trials: int, seed: int) -> Mapping[str, Replay]:
    """Run the study of a seed without a rule and with each rule, with the same learning curves."""
    trainer = Trainer(seed=seed, steps=steps)
    return {
        name: Study(study_with(RULES[name], trials), trainer).replay() for name in ("none", *rules)
    }


@dataclass(frozen=True, kw_only=True)
class Line:
    """The figures of one rule over all seeds, compared with no rule."""

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


def line(rule: str, seeds: Sequence[Mapping[str, Replay]]) -> Line:
    """Compare one rule with no rule."""
    pairs = [(replays_by_rule[rule], replays_by_rule["none"]) for replays_by_rule in seeds]
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
    )


def lines_of(rules: Sequence[Line]) -> Iterator[str]:
    """Yield the lines of the table."""
    yield (
        f"{'rule':12} {'saved':>6} {'least':>6} {'stopped':>8} {'best':>7} {'without':>8} "
        f"{'median':>8} {'mean':>8}  won lost"
    )
    for line in rules:
        yield (
            f"{line.rule:12} {line.saved:6.1%} {line.saved_least:6.1%} {line.stopped:5.1f}/24 "
            f"{line.best:7.4f} {line.best_without:8.4f} {line.median_difference:+8.4f} "
            f"{line.mean_difference:+8.4f} {line.won:4} {line.lost:4}"
        )


def measure(args: argparse.Namespace) -> Report:
    """Run the studies of all seeds."""
    os.environ.update(ONE_THREAD)
    seeds = []
    with ProcessPoolExecutor(args.processes) as pool:
        replay = partial(replays, args.rules, args.steps, args.trials)
        for outcome in pool.map(replay, range(args.seeds)):
            seeds.append(outcome)
            tell(f"{len(seeds)} of {args.seeds} seeds")
    rules = [line(rule, seeds) for rule in args.rules]
    return Report(
        goals=[
            goal
            for one in rules
            for goal in (
                at_least(f"{one.rule}: share of steps saved", one.saved, SAVED_GOAL, ""),
                at_least(f"{one.rule}: best value, median", one.median_difference, 0.0, ""),
                at_least(f"{one.rule}: best value, mean", one.mean_difference, -LOSS_MAX, ""),
            )
        ],
        lines=list(lines_of(rules)),
        data={"rules": [asdict(one) for one in rules]},
    )


def rule_names(text: str) -> list[str]:
    """Parse names of rules, separated by commas."""
    names = text.split(",")
    if unknown := set(names) - (RULES.keys() - {"none"}):
        accepted = ", ".join(name for name in RULES if name != "none")
        raise argparse.ArgumentTypeError(
            f"a rule must be one of {accepted}, got {', '.join(sorted(unknown))}"
        )
    return names


BENCHMARK = Benchmark(
    description=__doc__,
    measure=measure,
    sizes={"seeds": (20, 1), "processes": (2, 1), "steps": (50, 3), "trials": (24, 3)},
    add_options=lambda parser: parser.add_argument(
        "--rules",
        type=rule_names,
        default=["decay curve"],
        help=", ".join(name for name in RULES if name != "none"),
    ),
)
