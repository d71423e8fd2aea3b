"""Serves one search of another library over a pipe: the protocol of the tuning benchmark's peers.

Each line is a JSON document.  The first one is ``{"study": ..., "seed": n, "kind": word}``
(``Study`` has the fields of a study).  ``{"ask": true}`` is answered by ``{"number": n, "values":
{...}}`` without the parameters that are inactive.  ``{"tell": number, "values": [...]}`` has the
values of all metrics in the order of the study, or null if the trial has failed; no answer follows.
``{"end": true}`` is answered by the costs of the search.  This module needs the standard library
alone, because environments of peers have nothing of ours.
"""

import json
import os
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

Chosen = Mapping[str, float | int | str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Parameter:
    """A parameter: ``kind`` is a word of ``ParameterKind``; it has bounds or values.

    A conditional one is active while ``parent`` has one of ``parent_values``.
    """

    name: str
    kind: str
    bounds: tuple[float, float]
    values: tuple[Any, ...]
    is_log: bool
    parent: str | None
    parent_values: tuple[Any, ...]

    def is_active(self, chosen: Chosen) -> bool:
        """Return whether the parameter exists at a point, whose parents come first."""
        return self.parent is None or chosen.get(self.parent) in self.parent_values


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """A metric: an objective; with ``threshold`` a limit that its value must not pass."""

    name: str
    is_minimised: bool
    threshold: float | None

    def loss(self, value: float) -> float:
        """Return a value of which less is better."""
        return value if self.is_minimised else -value

    def excess(self, value: float) -> float:
        """Return by how much a value breaks the limit: above 0 it does."""
        return self.loss(value) - self.loss(self.threshold or 0.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Study:
    """A study as the pipe has it.  Parents come before their children."""

    parameters: tuple[Parameter, ...]
    outcomes: tuple[Outcome, ...]
    is_noisy: bool
    trials: int
    parallel: int

    @property
    def objectives(self) -> tuple[Outcome, ...]:
        """Return the metrics without a limit."""
        return tuple(outcome for outcome in self.outcomes if outcome.threshold is None)

    def active(self, chosen: Chosen) -> dict[str, Any]:
        """Return the values of a point without those of inactive parameters."""
        point: dict[str, Any] = {}
        for parameter in self.parameters:
            if parameter.is_active(point):
                point[parameter.name] = as_kind(parameter, chosen[parameter.name])
        return point


class Search(Protocol):
    """A search of a library; trials are numbered by it."""

    def ask(self) -> tuple[int, Chosen]:
        """Begin a trial; return its number and its values."""

    def tell(self, number: int, values: Sequence[float] | None) -> None:
        """Take the values of a trial's metrics; None: it has failed."""


def as_kind(parameter: Parameter, value: Any) -> Any:
    """Return a value in the Python type of the parameter's kind."""
    return {"CATEGORICAL": str, "INTEGER": int}.get(parameter.kind, float)(value)


def study_from(document: Mapping[str, Any]) -> Study:
    """Read a study from JSON."""
    parameters = [
        Parameter(
            **entry | {key: tuple(entry[key]) for key in ("bounds", "values", "parent_values")}
        )
        for entry in document["parameters"]
    ]
    outcomes = [Outcome(**entry) for entry in document["outcomes"]]
    rest = {key: document[key] for key in ("is_noisy", "trials", "parallel")}
    return Study(parameters=tuple(parameters), outcomes=tuple(outcomes), **rest)


def serve(begin: Callable[[Study, int, str], Search], version: str) -> None:
    """Answer requests until the input ends.  ``begin`` gets the study, the seed and the kind.

    What the library prints goes to standard error.
    """
    answers = sys.stdout
    requests = map(json.loads, sys.stdin)
    with redirect_stdout(sys.stderr):
        setup = next(requests)
        before_s = time.process_time()
        search = begin(study_from(setup["study"]), setup["seed"], setup["kind"])
        for answer in _answers(search, requests, before_s, version):
            print(json.dumps(answer), file=answers, flush=True)


def _answers(
    search: Search, requests: Iterator[dict[str, Any]], before_s: float, version: str
) -> Iterator[dict[str, Any]]:
    for request in requests:
        if "tell" in request:
            search.tell(request["tell"], request["values"])
        elif "ask" in request:
            number, values = search.ask()
            yield {"number": number, "values": dict(values)}
        else:
            yield {
                "cpu_s": time.process_time() - before_s,
                "memory_mb": _peak_memory_mb(),
                "version": version,
            }


def _peak_memory_mb() -> float:
    """Return the peak of this process; ``ru_maxrss`` begins at the size of its parent."""
    status = Path("/proc/self/status").read_text(encoding="ascii")
    peak = next(line for line in status.splitlines() if line.startswith("VmHWM:"))
    return int(peak.split()[1]) * 1024 / 1e6


def use_one_thread() -> None:
    """Limit numeric libraries to one thread; call it before they are loaded."""
    for library in ("OPENBLAS", "OMP", "MKL"):
        os.environ[f"{library}_NUM_THREADS"] = "1"
