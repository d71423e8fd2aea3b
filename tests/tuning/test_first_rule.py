"""Studies that began under the first rule of the search get the trials that it gave them.

The golden file has the trials of some studies, as the last release without the field
``search_rule`` suggested them.
"""

import json
import math
import os
from pathlib import Path

import pytest
from tests.tuning.spaces import LOSS, double, integer, study, trial, when, words

from trainshed.model.study import Goal, Metric, Safety, StudySpec
from trainshed.store.codec import Codec
from trainshed.tuning.suggest import suggest

GOLDEN = Path(__file__).parents[1] / "golden/tuning/first-rule.json"
SIZE = Metric(metric_id="size", goal=Goal.MINIMIZE)
LIMIT = Metric(metric_id="size", goal=Goal.MINIMIZE, safety=Safety(threshold=0.6))
AIMED = Metric(metric_id="size", goal=Goal.MINIMIZE, safety=Safety(threshold=0.3, fraction_min=0.5))
MIXED = (double("rate", 1e-4, 1.0), integer("layers", 1, 9), words("relu", "tanh", "elu"))
DEPTH = when(double("depth", 0.0, 2.0), "tree")
STUDIES = {
    "one objective": study(*MIXED, double("drop")),
    "conditional": study(words("tree", "line", name="model", conditions=(DEPTH,)), double("mix")),
    "two objectives": study(*MIXED, metrics=(LOSS, SIZE)),
    "a limit": study(double("rate"), double("drop"), metrics=(LOSS, LIMIT)),
    "a share of safe trials": study(double("rate"), double("drop"), metrics=(LOSS, AIMED)),
}
TRIALS, PARALLEL, SEED = 22, 2, 7


def measure(values):
    """The loss and the size at a point; smooth, with the optimum inside."""
    positions = [len(v) / 5 if isinstance(v, str) else v / 3 for _, v in values]
    loss = sum((position - 0.3) ** 2 for position in positions)
    return loss, sum(math.sin(3 * position) for position in positions) / len(positions)


def search(one_study):
    """Run a study, two trials at a time; return its points in the order of their trials."""
    trials = []
    while len(trials) < TRIALS:
        suggestions = suggest(one_study, trials, PARALLEL, SEED)
        for values in suggestions.values:
            loss, size = measure(values)
            trials.append(trial(len(trials) + 1, values, loss, size=size))
    return [[value for _, value in one.values] for one in trials]


@pytest.mark.parametrize("name", STUDIES)
def test_a_study_of_the_first_rule_gets_the_trials_that_it_always_got(name):
    points = search(STUDIES[name])
    if os.environ.get("UPDATE_GOLDEN"):
        goldens = json.loads(GOLDEN.read_text()) if GOLDEN.exists() else {}
        GOLDEN.parent.mkdir(exist_ok=True)
        text = json.dumps(goldens | {name: points}, indent=1, sort_keys=True)
        GOLDEN.write_text(text + "\n")
    expected = json.loads(GOLDEN.read_text())[name]
    # other processors may round the last digits differently
    for row, expected_row in zip(points, expected, strict=True):
        for value, wanted in zip(row, expected_row, strict=True):
            assert value == (wanted if isinstance(wanted, str) else pytest.approx(wanted, rel=1e-4))


def test_a_stored_study_without_the_field_has_the_first_rule():
    codec = Codec(StudySpec)
    fields = json.loads(codec.encode(study(double())))
    del fields["search_rule"]
    assert codec.decode(json.dumps(fields)).search_rule == 1
