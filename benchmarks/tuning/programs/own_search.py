"""Runs Trainshed's searches behind a pipe (``serving``): its memory is that of a peer's program.

It has only what the pipe tells, which tests the protocol without another library.
"""

from collections.abc import Sequence

from benchmarks.tuning.peers import Ours
from benchmarks.tuning.programs.serving import (
    Chosen,
    Outcome,
    Parameter,
    Study,
    serve,
    use_one_thread,
)
from trainshed import __version__
from trainshed.model.study import (
    SEARCH_RULE,
    Condition,
    Goal,
    Metric,
    ParameterKind,
    ParameterSpec,
    Safety,
    Scale,
    StudySpec,
)


class OwnSearch:
    """A search of the service, from the document of a study."""

    def __init__(self, study: Study, seed: int, kind: str) -> None:
        """``kind`` is the name of one of ``peers.Ours``."""
        self._failed = (float("nan"),) * len(study.outcomes)
        self._search = Ours(spec_of(study), seed, kind)

    def ask(self) -> tuple[int, Chosen]:
        """Suggest a point."""
        return self._search.ask()

    def tell(self, number: int, values: Sequence[float] | None) -> None:
        """Store the values of a trial."""
        self._search.tell(number, self._failed if values is None else values)


def spec_of(study: Study) -> StudySpec:
    """Return the study of the service that a document describes."""
    roots = [p for p in study.parameters if p.parent is None]
    return StudySpec(
        metrics=tuple(map(_metric, study.outcomes)),
        parameters=tuple(_parameter(study, root) for root in roots),
        trial_count_max=study.trials,
        trial_count_parallel=study.parallel,
        search_rule=SEARCH_RULE,
    )


def _parameter(study: Study, parameter: Parameter) -> ParameterSpec:
    kind = ParameterKind(parameter.kind)
    return ParameterSpec(
        parameter_id=parameter.name,
        kind=kind,
        bounds=None if parameter.values else parameter.bounds,
        values=parameter.values,
        scale=Scale.LOG if parameter.is_log else Scale.LINEAR,
        conditions=tuple(
            Condition(parent_values=child.parent_values, parameter=_parameter(study, child))
            for child in study.parameters
            if child.parent == parameter.name
        ),
    )


def _metric(outcome: Outcome) -> Metric:
    return Metric(
        metric_id=outcome.name,
        goal=Goal.MINIMIZE if outcome.is_minimised else Goal.MAXIMIZE,
        safety=None if outcome.threshold is None else Safety(threshold=outcome.threshold),
    )


def main() -> None:
    """Serve a search."""
    use_one_thread()
    serve(OwnSearch, __version__)


if __name__ == "__main__":
    main()
