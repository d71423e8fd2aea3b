"""A calibration is read as it was written; anything else is refused by the name of a field."""

import pytest

from trainshed.planning.scaling.calibration import Run, RunKind
from trainshed.planning.scaling.calibration_file import read, written
from trainshed.planning.scaling.cluster import HostKind
from trainshed.planning.scaling.fitting import calibrated
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
    ("before", "after", "said"),
    [
        ("schema = 1", "schema = 9", "schema is 9; calibrations of schema 1 are read"),
        ("steps = ", "steps = -", "run 1.steps is a whole number from 0"),
        ("step_s = ", "step_s = -", "run 1.step_s is a number from 0"),
        ('kind = "A"', 'kind = "Z"', "run 1.kind is 'Z'; one of A, B, C"),
        ("[host]", "[host]\nracks = 2", "host has no 'racks'; it has"),
        ("[host]", "host", "it is no TOML"),
        ("[host]", "[[host]]", "host: a table is expected"),
        ('machine_type = ""', "machine_type = 3", "host.machine_type is str, not 3"),
        ("[[run]]", "[run]", "run: up to 10000 tables [[run]] are read"),
        ("batch_per_accelerator = 32.0", "batch_per_accelerator = 0", "training: a step trains on"),
        ("parameters = 0.0", "parameters = nan", "training.parameters is a number from 0"),
        ('strategy = "allreduce"', 'strategy = "magic"', "training.strategy is 'magic'"),
    ],
)
def test_what_is_no_calibration_is_refused_by_the_name_of_its_field(before, after, said):
    with pytest.raises(ValueError, match=r"\w") as error:
        read(TEXT.replace(before, after, 1))
    assert said in str(error.value)
