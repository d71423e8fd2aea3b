"""Runs google-vizier's default algorithm behind a pipe, with a Python that has google-vizier.

The input is lines of JSON: first ``{"bounds": {name: [low, high]}, "seed": n}``, then
``{"ask": 1}`` or ``{"tell": number, "value": x}``.  The answer to ``ask`` is a line with
``number`` and ``values``.
"""

import json
import sys
from importlib import import_module
from typing import Any


def main() -> None:
    """Answer requests until the input ends."""
    algorithms = import_module("vizier.algorithms")  # only that Python has it
    pyvizier = import_module("vizier.pyvizier")
    gp_ucb_pe = import_module("vizier._src.algorithms.designers.gp_ucb_pe")  # the default

    setup = json.loads(sys.stdin.readline())
    problem = pyvizier.ProblemStatement()
    for name, (low, high) in setup["bounds"].items():
        problem.search_space.root.add_float_param(name, low, high)
    goal = pyvizier.ObjectiveMetricGoal.MINIMIZE
    problem.metric_information.append(pyvizier.MetricInformation(name="loss", goal=goal))
    key = import_module("jax").random.PRNGKey(setup["seed"])
    _serve(gp_ucb_pe.VizierGPUCBPEBandit(problem, rng=key), algorithms, pyvizier)


def _serve(designer: Any, algorithms: Any, pyvizier: Any) -> None:
    live: dict[int, Any] = {}
    done: list[Any] = []
    number = 0
    for line in sys.stdin:
        message = json.loads(line)
        if "tell" in message:
            trial = live.pop(message["tell"])
            trial.complete(pyvizier.Measurement(metrics={"loss": message["value"]}))
            done.append(trial)
            continue
        completed = algorithms.CompletedTrials(done)
        designer.update(completed, algorithms.ActiveTrials(list(live.values())))
        done = []
        number += 1
        live[number] = designer.suggest(1)[0].to_trial(number)
        values = {
            name: float(parameter.value) for name, parameter in live[number].parameters.items()
        }
        print(json.dumps({"number": number, "values": values}), flush=True)


if __name__ == "__main__":
    main()
