"""Runs a peer as a program behind a pipe, with the Python of its own environment.

The programs are in ``programs``; ``programs.serving`` has the protocol.  An environment
``.venv-NAME`` is made by ``make tuning-peers``.
"""

import json
import math
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from benchmarks.harness import ROOT
from trainshed.model.study import Goal, Metric, ParameterSpec, Scale, StudySpec
from trainshed.model.trials import Value

Chosen = Mapping[str, Value]


@dataclass(frozen=True, slots=True, kw_only=True)
class Program:
    """How a peer is started."""

    module: str
    environment: str
    """The name of its environment; empty for the Python of this process."""

    @property
    def python(self) -> str:
        """Return the Python of the environment, which may not exist."""
        if not self.environment:
            return sys.executable
        return str(ROOT / f".venv-{self.environment}" / "bin" / "python")


#: Optuna and its CMA-ES are in Ax's environment, which has PyTorch.
PROGRAMS: Final[Mapping[str, Program]] = {
    "ax": Program(module="ax_search", environment="ax"),
    "vizier": Program(module="vizier_search", environment="vizier"),
    "smac": Program(module="smac_search", environment="smac"),
    **{
        name: Program(module="optuna_search", environment="ax")
        for name in ("optuna-gp", "optuna-tpe", "optuna-tpe-multi", "optuna-cmaes")
    },
    "ours": Program(module="own_search", environment=""),
    "random": Program(module="own_search", environment=""),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Costs:
    """What a search has cost its program: processor time without imports, and its peak memory."""

    cpu_s: float
    memory_mb: float
    version: str


class PipeError(Exception):
    """A program has ended before it answered."""


class PipePeer:
    """A search in a program behind a pipe."""

    def __init__(self, name: str, study: StudySpec, seed: int, *, noisy: bool) -> None:
        """Start the program, and send the study."""
        program = PROGRAMS[name]
        self._name = name
        self._process = subprocess.Popen(
            [program.python, "-m", f"benchmarks.tuning.programs.{program.module}"],
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        document = study_document(study, noisy=noisy)
        self._send({"study": document, "seed": seed, "kind": name})

    def ask(self) -> tuple[int, Chosen]:
        """Request a point.  Raises PipeError if the program has ended."""
        self._send({"ask": True})
        answer = self._receive()
        return int(answer["number"]), answer["values"]

    def tell(self, number: int, values: Sequence[float]) -> None:
        """Send the values of a trial; it has failed if one is not finite."""
        is_whole = all(map(math.isfinite, values))
        self._send({"tell": number, "values": list(values) if is_whole else None})

    def end(self) -> Costs:
        """Ask for the costs, and wait for the end of the program.  Raises PipeError."""
        self._send({"end": True})
        answer = self._receive()
        self.close()
        return Costs(**answer)

    def close(self) -> None:
        """Close the pipe, which ends the program."""
        self._process.kill()
        self._process.communicate()

    def _send(self, message: object) -> None:
        assert self._process.stdin is not None  # noqa: S101  # Popen has opened a pipe
        try:
            self._process.stdin.write(json.dumps(message) + "\n")
            self._process.stdin.flush()
        except BrokenPipeError as problem:
            raise PipeError(f"the program of {self._name} has ended") from problem

    def _receive(self) -> dict[str, Any]:
        assert self._process.stdout is not None  # noqa: S101  # Popen has opened a pipe
        line = self._process.stdout.readline()
        if not line:
            raise PipeError(f"the program of {self._name} has ended")
        return dict(json.loads(line))


def study_document(study: StudySpec, *, noisy: bool) -> dict[str, Any]:
    """Return the parameters and metrics of a study as ``programs.serving.Study`` has them.

    A parameter that is under several values of its parent, each time equally, becomes one.
    """
    entries: dict[str, dict[str, Any]] = {}
    for entry in _entries(study.parameters, None, ()):
        first = entries.setdefault(entry["name"], entry)
        if first is not entry:
            first["parent_values"] = [*first["parent_values"], *entry["parent_values"]]
    return {
        "parameters": list(entries.values()),
        "outcomes": [*map(_outcome, study.metrics)],
        "is_noisy": noisy,
        "trials": study.trial_count_max,
        "parallel": study.trial_count_parallel,
    }


def _entries(
    specs: Sequence[ParameterSpec], parent: str | None, values: Sequence[object]
) -> Iterator[dict[str, Any]]:
    for spec in specs:
        yield {
            "name": spec.parameter_id,
            "kind": spec.kind.value,
            "bounds": list(spec.bounds or (0.0, 0.0)),
            "values": list(spec.values),
            "is_log": spec.scale is Scale.LOG,
            "parent": parent,
            "parent_values": list(values),
        }
        for condition in spec.conditions:
            children = [condition.parameter]
            yield from _entries(children, spec.parameter_id, condition.parent_values)


def _outcome(metric: Metric) -> dict[str, Any]:
    return {
        "name": metric.metric_id,
        "is_minimised": metric.goal is Goal.MINIMIZE,
        "threshold": metric.safety.threshold if metric.safety else None,
    }
