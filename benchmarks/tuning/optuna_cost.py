"""Measures the processor time of a suggestion by Optuna's Gaussian process, beside that of ours."""

import importlib.util
import time
from collections.abc import Sequence
from typing import Any, Final

from benchmarks.tuning.pipes import study_document
from benchmarks.tuning.programs.optuna_search import OptunaSearch
from benchmarks.tuning.programs.serving import study_from
from trainshed.model.study import StudySpec
from trainshed.model.trials import TrialRecord

#: Optuna's process needs PyTorch.
NEEDED: Final = ("optuna", "torch")
_ROUNDS: Final = 3


def missing() -> str:
    """Return why it cannot be measured; empty if it can."""
    names = [name for name in NEEDED if importlib.util.find_spec(name) is None]
    return f"{' and '.join(names)} not installed" if names else ""


def suggestion_ms(study: StudySpec, trials: Sequence[TrialRecord]) -> float:
    """Return the processor time of a suggestion after some trials: the least of a few.

    Each suggestion is made for a new trial, which ends with the values of an earlier one.
    """
    import optuna  # noqa: PLC0415  # slow to load
    import torch  # noqa: PLC0415  # slow to load

    torch.set_num_threads(1)
    search = OptunaSearch(study_from(study_document(study, noisy=False)), 0, "optuna-gp")
    process = search.replace_sampler(optuna.samplers.RandomSampler(seed=0))
    for trial in trials:
        _end(search, search.ask()[0], trial)
    search.replace_sampler(process)
    spent = []
    for trial in trials[:_ROUNDS]:
        began = time.process_time()
        number, _ = search.ask()
        spent.append(1000 * (time.process_time() - began))
        _end(search, number, trial)
    return min(spent)


def _end(search: OptunaSearch, number: int, trial: TrialRecord) -> None:
    values: list[Any] = [value for _, value in trial.final.metrics] if trial.final else []
    search.tell(number, values)
