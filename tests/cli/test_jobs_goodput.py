"""``trainshed jobs goodput`` prints a small table from the answer of a server."""

import json

import pytest

from cli.standin import StandIn

SECONDS = {
    "starting": 120.0,
    "lost": 600.0,
    "stalled": 0.0,
    "saving": 0.0,
    "stopping": 0.0,
    "productive": 10020.0,
}
ATTEMPT = {"placed": 60.0, "ended": 3720.0, "goodput": 0.82, "at_most": None, "seconds": SECONDS}
ANSWER = {
    "job": "census_1",
    "state": "SUCCEEDED",
    "goodput": 0.933,
    "at_most": None,
    "scheduling": 0.989,
    "ettr": 0.923,
    "program": 0.9,
    "seconds": {
        **SECONDS,
        "wall": 10860.0,
        "first_wait": 60.0,
        "other_waits": 60.0,
        "held": 10740.0,
    },
    "attempts": [
        {**ATTEMPT, "attempt": 1, "first_step": 0, "last_step": 1200},
        {**ATTEMPT, "attempt": 2, "first_step": None, "last_step": None, "at_most": 0.97},
    ],
    "gpu_seconds": {},
    "energy_j": 7.2e6,
    "cost": {
        "amount": 3.12,
        "currency": "USD",
        "at_least": True,
        "lacking": ["no price of thor is known"],
        "parts": {"productive": 3.0, "lost": 0.12, "saving": 0.0},
        "source": "a list",
        "date": "2026-11-01",
    },
    "message": "Goodput 93.3 %.",
}


@pytest.fixture
def run(trainshed):
    def call(answer, *words, job="census_1", runs_as="census_1"):
        def reply(_verb, path, _document):
            if path.endswith("/trials"):
                return 200, {"trials": [{"number": 2, "job": "77"}]}
            is_goodput = path.endswith(f"/jobs/{runs_as}/goodput")
            return 200, answer if is_goodput else {"name": "projects/p/jobs/j"}

        with StandIn(reply) as server:
            place = ("--url", server.url, "--project", "p")
            return trainshed("jobs", "goodput", job, *words, *place)

    return call


def test_the_table_has_a_row_for_each_attempt_and_their_sum(run):
    lines = run(ANSWER).out.splitlines()
    assert lines[0] == "Goodput 93.3 %."
    assert lines[2].split()[:3] == ["ATTEMPT", "GOODPUT", "HELD"]
    assert "82.0 %" in lines[4]
    assert lines[4].endswith("0 to 1200")
    assert "at most 97.0 %" in lines[5]
    assert lines[6].startswith("all")
    assert lines[8:] == [
        "wall time 10860 s: waited 60 s first, 60 s later, held machines 10740 s",
        "scheduling 98.9 %, ETTR 92.3 %, program 90.0 %",
        "energy of its GPUs 2 kWh",
        "cost in USD: productive 3.00, lost 0.12",
        "prices: a list, 2026-11-01",
        "no price of thor is known",
    ]


def test_what_is_unknown_is_not_printed_as_a_number(run):
    nothing = dict.fromkeys(("goodput", "ettr", "program", "energy_j", "cost"))
    text = run({**ANSWER, **nothing, "at_most": 0.97}).out
    assert "ETTR unknown" in text
    assert "kWh" not in text
    assert "prices" not in text


def test_json_is_the_answer(run):
    assert json.loads(run(ANSWER, "--format", "json").out) == ANSWER


def test_the_goodput_of_a_trial_is_that_of_its_job(run):
    result = run(ANSWER, "--format", "json", job="census_1/trials/2", runs_as="77")
    assert json.loads(result.out) == ANSWER
