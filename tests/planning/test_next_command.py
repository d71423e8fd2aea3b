"""A refusal begins with a command that gets further, and that can be copied."""

from pathlib import Path

import pytest

from trainshed.planning.next_command import next_command
from trainshed.planning.plan_request import PlanRequest
from trainshed.planning.scaling.prediction import NoPrediction

OF_FILE = PlanRequest(file="my job.yaml", calibrations=[Path("c.toml")])
OF_TABLE = PlanRequest(measured=Path("t.toml"), series="alexnet")
OF_SIZE = PlanRequest(parameters=25.6e6, machine_types=("a2-highgpu-1g", "n1-standard-4"))
OF_MODEL = PlanRequest(file="job.yaml", model="resnet50")
SIZE_AGAIN = "trainshed plan --params 25600000 --machine-types a2-highgpu-1g,n1-standard-4"
AGAIN = "trainshed plan 'my job.yaml' --calibration c.toml"


@pytest.mark.parametrize(
    ("field", "accepted", "request_", "command"),
    [
        ("calibration", "measure: x", OF_FILE, "trainshed plan calibrate 'my job.yaml'"),
        (
            "run 3.machines",
            "a file",
            OF_TABLE,
            "trainshed plan calibrate --module-name trainer.task --package-path trainer",
        ),
        (
            "gradient_bytes",
            "a calibration",
            OF_FILE,
            "trainshed plan calibrate 'my job.yaml' --params PARAMETERS",
        ),
        ("network-gbps", "iperf3 -c HOST", OF_FILE, "iperf3 -c HOST"),
        ("network-gbps", "--network-gbps GBPS, the rate", OF_FILE, f"{AGAIN} --network-gbps GBPS"),
        ("x.servers", "--parameter-servers 0, or a", OF_FILE, f"{AGAIN} --parameter-servers 0"),
        ("batch", "more, or --batch keep-local", OF_FILE, f"{AGAIN} --batch keep-local"),
        ("batch", "a calibration with a smaller batch", OF_FILE, ""),
        ("reducers", "0", OF_FILE, f"{AGAIN} --reducers 0"),
        ("deadline", "a later one", OF_FILE, AGAIN),
        ("gpus", "1", OF_TABLE, "trainshed plan --measured t.toml --series alexnet"),
        ("machineType", "one machine type", OF_FILE, ""),
        ("budget", "--prices FILE, with them", OF_SIZE, f"{SIZE_AGAIN} --prices FILE"),
        ("spot", "fewer machines", OF_MODEL, "trainshed plan job.yaml --model resnet50"),
    ],
)
def test_the_next_command_of_a_refusal(field, accepted, request_, command):
    refused = NoPrediction(field=field, message="no", accepted=accepted)
    assert next_command(refused, request_) == command
