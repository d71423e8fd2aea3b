"""Prints the peak memory in MB of a process that makes suggestions for 1,000 trials.

    python benchmarks/tuning/memory.py CHECKOUT OBJECTIVES LIMITS

``costs.memory`` runs this program on an earlier checkout too, so it uses only what both have.
"""

import sys
from dataclasses import fields
from pathlib import Path
from typing import Any

import trainshed
from trainshed.model import study as model
from trainshed.model.study import Goal, Metric, ParameterKind, ParameterSpec, Safety, StudySpec
from trainshed.model.trials import Measurement, TrialRecord, TrialState
from trainshed.tuning.suggest import suggest

TRIALS, DIMENSIONS, SUGGESTIONS = 1000, 20, 3


def main() -> None:
    """Make suggestions for a study, and print the peak memory of this process."""
    source = Path(trainshed.__file__ or "")
    if not source.is_relative_to(sys.argv[1]):
        sys.exit(f"the package is from {source}, not from {sys.argv[1]}")
    study = _study(int(sys.argv[2]), int(sys.argv[3]))
    trials = [_trial(study, number) for number in range(1, TRIALS + SUGGESTIONS)]
    for more in range(SUGGESTIONS):
        suggest(study, trials[: TRIALS + more], 1, 0)
    # not ru_maxrss, which begins at the size of the process that started this one
    status = Path("/proc/self/status").read_text(encoding="ascii")
    peak = next(line for line in status.splitlines() if line.startswith("VmHWM:"))
    print(int(peak.split()[1]) * 1024 / 1e6)


def _study(objectives: int, limits: int) -> StudySpec:
    safeties = [None] * objectives + [Safety(threshold=2.0)] * limits
    rules: dict[str, Any] = {"search_rule": getattr(model, "SEARCH_RULE", 1)}
    names = {field.name for field in fields(StudySpec)}
    return StudySpec(
        metrics=tuple(
            Metric(metric_id=f"m{i}", goal=Goal.MINIMIZE, safety=safety)
            for i, safety in enumerate(safeties)
        ),
        parameters=tuple(
            ParameterSpec(parameter_id=f"x{i}", kind=ParameterKind.DOUBLE, bounds=(0.0, 1.0))
            for i in range(DIMENSIONS)
        ),
        trial_count_max=2 * TRIALS,
        **{name: rule for name, rule in rules.items() if name in names},
    )


def _trial(study: StudySpec, number: int) -> TrialRecord:
    values = [(number * (i + 1) * 0.618034) % 1.0 for i in range(DIMENSIONS)]
    metrics = tuple(
        (metric.metric_id, sum((value - 0.3 * place) ** 2 for value in values))
        for place, metric in enumerate(study.metrics, start=1)
    )
    return TrialRecord(
        number=number,
        state=TrialState.SUCCEEDED,
        values=tuple((f"x{i}", value) for i, value in enumerate(values)),
        final=Measurement(metrics=metrics),
    )


if __name__ == "__main__":
    main()
