"""A calibration is read as it was written; anything else is refused by the name of a field."""

import math
import re

import pytest

from trainshed.planning.scaling.calibration import Run, RunKind
from trainshed.planning.scaling.calibration_file import read, written
from trainshed.planning.scaling.cluster import Cluster, HostKind
from trainshed.planning.scaling.fitting import calibrated
from trainshed.planning.scaling.predict import predict
from trainshed.planning.scaling.prediction import Prediction
from trainshed.planning.scaling.training import Training

TEXT = written(
    calibrated(
        Training(model='odd "name" \\ of\na model', batch_per_accelerator=32.0),
        HostKind(accelerator="CPU", cpus=2),
        [Run(kind=RunKind.COMPUTE, steps=100, step_s=0.25, date="2026-11-24")],
    )
)


def test_a_file_is_read_as_it_was_written():
    assert written(read(TEXT)) == TEXT


@pytest.mark.parametrize(
    ("before", "after", "words"),
    [
        ("schema = 1", "schema = 9", "schema must be 1, got 9"),
        ("steps = ", "steps = -", "run 1.steps must be a whole number up to"),
        ("step_s = ", "step_s = -", "run 1.step_s must be a number (0, or between"),
        ('kind = "A"', 'kind = "Z"', "run 1.kind must be one of A, B, C"),
        ("[host]", "[host]\nracks = 2", "host has an unknown key 'racks'; accepted:"),
        ("[host]", "host", "the text is not valid TOML"),
        ("per_host = 1", "per_host = 0", "host: per_host must be 1 or more, got 0"),
        ("\nhosts = 1", "\nhosts = 2", "run 1: each host must have an accelerator"),
        ("\nhosts = 1", "\nhosts = 0", "run 1: each host must have an accelerator"),
        ("step_s = 0.25", "step_s = 1e308", "run 1.step_s must be a number (0, or between"),
        ("steps = 100", f"steps = 1{310 * '0'}", "run 1.steps must be a whole number up to"),
        ('date = ""', "date = 7", "date must be a text, got 7"),
        ("[host]", "[[host]]", "host must be a table"),
        ('machine_type = ""', "machine_type = 3", "host.machine_type must be a text, got 3"),
        ("[[run]]", "[run]", "run must be at most 64 tables [[run]]"),
        ("batch_per_accelerator = 32.0", "batch_per_accelerator = 0", "training: a step must have"),
        (
            "parameters = 0.0",
            "parameters = nan",
            "training.parameters must be a number (0, or between",
        ),
        ('strategy = "allreduce"', 'strategy = "magic"', "training.strategy must be one of"),
    ],
)
def test_what_is_no_calibration_is_refused_by_the_name_of_its_field(before, after, words):
    with pytest.raises(ValueError, match=r"\w") as error:
        read(TEXT.replace(before, after, 1))
    assert words in str(error.value)


JOB = written(
    calibrated(
        Training(),
        HostKind(accelerator="CPU"),
        [Run(kind=RunKind.JOB, accelerators=2, hosts=2, machines=2, steps=100, step_s=0.25)],
    )
)


def test_a_job_on_several_hosts_counts_if_each_was_a_machine():
    assert read(JOB).runs[0].machines == 2
    short = JOB.replace('kind = "job"', 'kind = "F"').replace("machines = 2\n", "")
    assert read(short).runs[0].hosts == 2, "on a server these were left out"


@pytest.mark.parametrize(
    ("machines", "words"),
    [
        ("", "run 1.machines must be 2, one for each host of the job, got none: an older release"),
        ("machines = 1\n", "run 1: each host must run on a machine of its own, got 2 hosts on 1 m"),
    ],
)
def test_hosts_that_may_have_been_one_machine_are_refused_with_what_to_do(machines, words):
    with pytest.raises(ValueError, match="machine") as error:
        read(JOB.replace("machines = 2\n", machines))
    assert words in str(error.value)
    if not machines:
        assert "delete the table [[run]] 1, or add machines = 2" in str(error.value)


def test_the_fit_is_made_anew_of_the_runs():
    """What is written of it is for people: runs that were edited, or are all there is, count."""
    runs_alone, _, _ = TEXT.partition("[fit]")
    assert read(runs_alone) == read(TEXT)
    slower = read(TEXT.replace("step_s = 0.25", "step_s = 0.5"))
    assert slower.fitted.values["compute_s"] == pytest.approx(0.5, rel=0.01)


@pytest.mark.parametrize("stack", ["\ud800", "\U000e0001", "tab\tand\x00"])
def test_names_that_nobody_can_print_are_written_so_that_they_can_be_read(stack):
    calibration = calibrated(Training(stack=stack), HostKind(), [])
    assert read(written(calibration)).training.stack == stack.replace("\ud800", "?")


WHOLE = written(
    calibrated(
        Training(parameters=25e6, gradient_bytes=1e8, batch_per_accelerator=32.0, stack="torch"),
        HostKind(accelerator="GPU", per_host=8, inside_bytes=1e11, network_gbps=25.0),
        [
            Run(kind=RunKind.COMPUTE, steps=100, step_s=0.1, step_s_p10=0.09, step_s_p90=0.11),
            Run(kind=RunKind.INPUT, samples_per_s=4000.0),
            Run(kind=RunKind.HOST, accelerators=8, steps=100, step_s=0.12),
            Run(kind=RunKind.LINK, accelerators=2, hosts=2, link_bytes=2e9, latency_s=1e-4),
        ],
    )
)
NUMBERS = [
    (match.start(1), match.end(1)) for match in re.finditer(r"= ([0-9.e+-]+)$", WHOLE, re.MULTILINE)
]
#: Numbers of the size of those that `make test` draws.
MORE = ("0.0", "1e-9", "1000000000", "7.5")
#: Accelerators and hosts: one host, and many.
CLUSTERS = ((8, 1), (256, 32))


@pytest.mark.untraced
@pytest.mark.parametrize(
    "number",
    [*("0", "1", "1e18", "-1", "inf"), *(pytest.param(n, marks=pytest.mark.full) for n in MORE)],
)
def test_any_number_in_a_file_is_refused_or_planned_with(number):
    for start, end in NUMBERS:
        try:
            calibration = read(f"{WHOLE[:start]}{number}{WHOLE[end:]}")
        except ValueError:
            continue
        for accelerators, hosts in CLUSTERS:
            cluster = Cluster(host=calibration.host, accelerators=accelerators, hosts=hosts)
            prediction = predict(calibration, cluster)
            if isinstance(prediction, Prediction):
                ends = prediction.samples_per_s.low, prediction.samples_per_s.high
                assert 0 <= ends[0] <= ends[1] < math.inf, WHOLE[start - 40 : start]
