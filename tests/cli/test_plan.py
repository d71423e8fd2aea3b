"""``trainshed plan``: the clusters and the work that are asked about, and what is refused."""

import re
import subprocess
import sys
from dataclasses import replace

import pytest

from cli.planned import (
    ML,
    V100,
    calibration_file,
    calibration_text,
    job_document,
    refused_field,
)
from planning.test_what_ifs import CALIBRATION, HOST, TRAINING
from trainshed.planning.scaling.calibration import Run, RunKind
from trainshed.planning.scaling.fitting import calibrated
from trainshed.planning.scaling.training import Strategy


def test_both_dialects_ask_the_same(plan, written):
    of_vertex = plan("--format", "json")
    of_ml = plan("--format", "json", file=written("config.yaml", ML))
    assert of_vertex.code == of_ml.code == 0
    assert of_ml.json == of_vertex.json
    own = of_vertex.json["options"][of_vertex.json["own"]]
    assert (own["accelerators"], own["hosts"], own["accelerator"]) == (32, 4, "NVIDIA_TESLA_V100")


def test_another_accelerator_has_bounds_beside_the_measured_one(plan):
    run = plan("--machine-types", "a2-highgpu-8g", "--what-if", "gpus=16", "--format", "json")
    by_type = {option["machine_type"]: option for option in run.json["options"]}
    assert by_type["n1-standard-32"]["samples_per_s"]
    assert by_type["a2-highgpu-8g"]["samples_per_s"] is None
    assert by_type["a2-highgpu-8g"]["refused"]["field"] == "calibration"


def test_hosts_that_cannot_be_planned_are_lines_of_a_plan_that_stands(plan, tmp_path):
    words = ("--machine-types", "a2-highgpu-8g", "--html", "plan.html")
    run = plan(*words)
    assert (run.code, run.err) == (0, "")
    assert (tmp_path / "plan.html").exists()
    assert plan("--what-if", "gpus=13,16", "--format", "csv").code == 0


@pytest.mark.parametrize("file", ["job.json", None])
def test_as_many_as_no_host_may_have_are_refused_as_by_validate(plan, file):
    run = plan("--what-if", "gpus=3", "--format", "json", file=file)
    assert refused_field(run) == "gpus"
    assert "4 or 8 on each host" in run.err


def test_a_file_that_asks_for_such_a_count_is_refused_as_by_validate(plan, written):
    odd = {**V100, "acceleratorCount": 3}
    pool = {"machineSpec": odd, "replicaCount": 1, "containerSpec": {"imageUri": "img"}}
    run = plan(file=written("odd.json", {"workerPoolSpecs": [pool]}))
    assert (run.code, run.out) == (2, "")
    assert "acceleratorCount: the count of NVIDIA_TESLA_V100 must be 1, 2, 4 or 8" in run.err


def test_a_file_with_a_misspelled_count_is_refused_and_not_planned_without_it(plan, written):
    document = job_document()
    document["workerPoolSpecs"][1]["replicaCuont"] = document["workerPoolSpecs"][1]["replicaCount"]
    del document["workerPoolSpecs"][1]["replicaCount"]
    result = plan(file=written("misspelled.json", document))
    assert (result.code, result.out) == (2, "")
    assert "has no field replicaCuont; did you mean replicaCount?" in result.err


@pytest.mark.parametrize("file", ["job.json", None])
def test_a_region_that_nobody_knows_is_refused_as_by_validate(plan, file):
    run = plan("--region", "mars", file=file)
    assert (run.code, run.out) == (2, "")
    assert "--region: there is no region mars (accepted: " in run.err


def test_machines_that_the_model_does_not_fit_are_lines_and_never_recommended(plan, written):
    gib = 2.0**30
    measured = replace(CALIBRATION.runs[1], memory_bytes=14.5 * gib)
    training = replace(TRAINING, strategy=Strategy.FSDP, state_bytes=40 * gib)
    sharded = replace(CALIBRATION, training=training, runs=(measured,))
    written("calibration.toml", calibration_text(sharded))
    words = ("--what-if", "gpus=4,8,32")
    assert "memory: needs 20 of 16 GiB and does not fit" in plan(*words).out
    assert "memory is tight" in plan(*words).out
    run = plan(*words, "--format", "json")
    four, eight, _ = run.json["options"]
    assert (four["refused"]["field"], eight["refused"]) == ("memory", None)
    assert four["memory"] == {"needed": 19.5 * gib, "available": 16 * gib, "is_least": False}
    assert run.json["marks"]["cheapest"] == 1


def test_far_counts_are_marked_and_those_beyond_are_refused(plan):
    far = plan("--what-if", "gpus=256", "--reducers", "0", "--format", "json").json["options"][-1]
    assert far["extrapolated"]
    assert "extrapolated" in far["notes"]
    beyond = plan("--what-if", "gpus=100000", "--format", "json")
    assert refused_field(beyond) == "gpus"
    assert beyond.json["options"][-1]["bounds"]["samples_per_s"]


@pytest.mark.parametrize(
    ("words", "field"),
    [
        (("--what-if", "model-parallel=8"), "model-parallel"),
        (("--what-if", "gpus=13"), "gpus"),
        (("--parameter-servers", "2"), "parameter-servers"),
        (("--batch", "keep-global", "--what-if", "gpus=8192"), "batch"),
        (("--deadline", "1s"), "deadline"),
        (("--budget", "0.01"), "budget"),
    ],
)
def test_what_cannot_be_known_or_met_is_refused_by_its_field(plan, words, field):
    assert refused_field(plan(*words, "--format", "json")) == field


def with_servers(document):
    """The same job with two parameter servers beside its workers."""
    machine = {"machineType": "n1-standard-4"}
    if document is ML:
        beside = {"parameterServerType": "n1-standard-4", "parameterServerCount": 2}
        return {"trainingInput": {**ML["trainingInput"], **beside}}
    pool = {"machineSpec": machine, "replicaCount": 2, "containerSpec": {"imageUri": "img"}}
    return {"workerPoolSpecs": [*document["workerPoolSpecs"], pool]}


@pytest.mark.parametrize(
    ("document", "field"),
    [
        (ML, "trainingInput.parameterServerCount"),
        (job_document(), "workerPoolSpecs[2].replicaCount"),
        (
            {"trainingInput": {"scaleTier": "STANDARD_1", "region": "us-central1"}},
            "trainingInput.scaleTier",
        ),
    ],
)
def test_parameter_servers_of_a_file_are_refused_as_those_of_the_command_line(
    plan, written, document, field
):
    file = written("servers.json", document if "scaleTier" in field else with_servers(document))
    calibration = "calibration.toml"
    if "scaleTier" in field:
        machine = type(HOST)(machine_type="n1-highcpu-8", accelerator="CPU")
        calibration = written("cpu.toml", calibration_file(host=machine))
    words = ("--format", "json")
    assert refused_field(plan(*words, file=file, calibration=calibration)) == field
    without = plan(*words, "--parameter-servers", "0", file=file, calibration=calibration)
    assert without.code == 0, without.err


def test_parameter_servers_are_planned_and_shown_where_the_training_has_them(plan, written):
    served = replace(TRAINING, strategy=Strategy.PS_DISTRIBUTED)
    name = written("served.toml", calibration_file(training=served))
    run = plan(file=written("servers.json", with_servers(ML)), calibration=name)
    assert run.code == 0, run.err
    assert "n1-standard-32 + 2 servers" in run.out


def test_nothing_is_said_of_what_asynchronous_training_needs(plan, written):
    served = replace(TRAINING, strategy=Strategy.PS_DISTRIBUTED, asynchronous=True)
    words = ("--parameter-servers", "2", "--format", "json")
    name = written("ps.toml", calibration_file(training=served))
    assert plan(*words, calibration=name).code == 0
    run = plan(*words, "--target", "samples=1e6", "--critical-batch", "100", calibration=name)
    assert refused_field(run) == "critical_batch"
    rings = written(
        "ring.toml", calibration_file().replace("asynchronous = false", "asynchronous = true")
    )
    assert "workers of strategy allreduce wait for each other" in plan(calibration=rings).err


def test_no_time_to_a_target_is_said_where_its_steps_are_unknown(plan):
    assert "for 1,000 steps of 2,048 samples" in plan("--what-if", "gpus=8").out
    epochs = plan("--target", "epochs=90")
    assert epochs.code == 2
    assert "needs --epoch-samples N" in epochs.err
    whole = plan("--target", "samples=1e15", "--what-if", "gpus=8").out
    assert "for 1,000,000,000,000,000 samples" in whole
    document = plan("--target", "epochs=2", "--epoch-samples", "1000", "--format", "json").json
    assert document["work"]["samples"] == 2000


def test_finished_runs_tell_the_critical_batch(plan):
    """E(B) = 4e7 (1 + B / 4000): 5e7 samples with batch 1,000, and 6e7 with batch 2,000."""
    words = ("--target", "samples=5e7", "--what-if", "gpus=8", "--format", "json")
    runs = ("--finished", "1000=5e7", "--finished", "2000=6e7")
    two = plan(*words, *runs).json["work"]["critical_batch"]
    assert two == pytest.approx(4000, rel=0.1)
    third = ("--finished", "4000=8e7")
    assert plan(*words, *runs, *third).json["work"]["critical_batch"] == pytest.approx(two, rel=0.1)


def test_hosts_of_two_kinds_take_the_slower_step_and_hear_of_shares_by_speed(plan, written):
    slow = {**V100, "acceleratorType": "NVIDIA_TESLA_P100", "acceleratorCount": 4}
    file = written("two.json", job_document(machine=slow))
    p100 = replace(HOST, accelerator="NVIDIA_TESLA_P100", per_host=4)
    runs = (Run(kind=RunKind.HOST, accelerators=4, steps=100, step_s=0.4),)
    written("p100.toml", calibration_text(calibrated(TRAINING, p100, runs)))
    document = plan("--calibration", "p100.toml", "--format", "json", file=file).json
    own = document["options"][document["own"]]
    assert (own["accelerators"], own["hosts"]) == (20, 4)
    assert own["machine_type"] == (
        "1 x n1-standard-32 with 8 NVIDIA_TESLA_V100 + 3 x n1-standard-32 with 4 NVIDIA_TESLA_P100"
    )
    assert own["step_s"]["point"] >= 0.39, "the step of the slower host"
    assert own["samples_per_s"]["point"] == pytest.approx(20 * 64 / own["step_s"]["point"])
    assert "each step waits for n1-standard-32 with 4 NVIDIA_TESLA_P100" in document["text"]
    batches = re.search(r"their speed, (\d+) on .* and (\d+) on ", document["text"])
    fast, slow = int(batches[1]), int(batches[2])
    assert fast > 64 > slow
    assert 8 * fast + 12 * slow == pytest.approx(20 * 64, rel=0.02)


def test_hosts_of_two_kinds_of_which_one_was_not_measured_are_refused(plan, written):
    slow = {**V100, "acceleratorType": "NVIDIA_TESLA_P100", "acceleratorCount": 4}
    file = written("two.json", job_document(machine=slow))
    document = plan("--format", "json", file=file).json
    refused = document["options"][document["own"]]["refused"]
    assert (
        "the training hosts differ (n1-standard-32 with 8 NVIDIA_TESLA_V100 and"
        in (refused["message"])
    )
    assert "equal hosts: one machine type and accelerator for all" in refused["accepted"]


def test_more_gpus_are_first_more_in_one_host(plan, written):
    alone = {"machineType": "n1-standard-8", "acceleratorType": "NVIDIA_TESLA_V100",
             "acceleratorCount": 1}  # fmt: skip
    pool = {"machineSpec": alone, "replicaCount": 1, "containerSpec": {"imageUri": "img"}}
    file = written("one.json", {"workerPoolSpecs": [pool]})
    words = ("--reducers", "0", "--format", "json")
    document = plan(*words, "--what-if", "gpus=8,16,3", file=file).json
    sizes = [(option["accelerators"], option["hosts"]) for option in document["options"]]
    assert sizes == [(1, 1), (3, 3), (8, 1), (16, 2)]
    document = plan(*words, "--what-if", "gpus-per-host=2,4", file=file).json
    sizes = [(option["accelerators"], option["hosts"]) for option in document["options"]]
    assert sizes == [(1, 1), (2, 1), (4, 1)]
    wide = ("--what-if", "gpus=8", "--machine-types", "n1-highmem-96")
    options = plan(*words, *wide, file=file).json["options"]
    assert [
        (option["machine_type"], option["accelerators"])
        for option in options
        if option["samples_per_s"]
    ] == [("n1-standard-8", 1), ("n1-standard-8", 8), ("n1-highmem-96", 8)]


def test_hosts_without_accelerators_beside_those_that_train_are_only_paid(plan, written):
    tpu = {"trainingInput": {"scaleTier": "BASIC_TPU", "region": "us-central1"}}
    document = plan("--format", "json", file=written("tpu.json", tpu)).json
    own = document["options"][document["own"]]
    assert (own["accelerators"], own["hosts"], own["accelerator"]) == (8, 1, "TPU_V2")


def test_a_machine_type_that_nobody_knows_is_refused_as_by_validate(plan, written):
    unknown = {"trainingInput": {"scaleTier": "CUSTOM", "masterType": "n9-huge"}}
    run = plan(file=written("unknown.json", unknown))
    assert (run.code, run.out) == (2, "")
    assert "masterType" in run.err


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("--what-if", "gpus=0"), "must be a whole number from 1 to 1000000, got '0'"),
        (("--what-if", "gpus=1,x"), "got 'x'"),
        (("--what-if", "cows=3"), "must be like gpus=1,2,4, hosts=1,2,4 or"),
        (("--target", "smiles=3"), "samples=N, epochs=N or steps=N"),
        (("--deadline", "soon"), "must be a duration"),
        (("--budget", "0"), "must be a number above 0, got '0'"),
        (("--spot", "0.1"), "needs --checkpoint-every TIME"),
        (("--machine-types", "n1-standart-32"), "(accepted: n1-standard-32, "),
        (("--measured", "calibration.toml"), "the calibration calibration.toml: use --calibration"),
        (("--series", "a"), "--series needs --measured TABLE"),
        (("--checkpoint-every", "30m"), "--checkpoint-every needs --spot RATE"),
        (("--machine-types", ","), "must be machine types, separated by commas, got ','"),
        (("--target", "samples=1e300"), "must be from 1e-09 to 1e+18, got '1e300'"),
        (("--stream-gbps", "1e300"), "--stream-gbps: must be from 1e-09 to 1e+18, got '1e300'"),
        (("--params", "1e308"), "--params: must be a number of parameters, such as 25.6e6"),
        (("--finished", "8=9"), "--finished must be given for two or more runs, got one"),
        (("--finished", "8=9", "--finished", "8=9"), "--finished: batches 8 and 8 are too close"),
        (("--finished", "8=9", "--finished", "80=7"), "no critical batch explains both"),
        (("--finished", "8"), "must be BATCH=SAMPLES"),
        (
            ("--finished", "8=9", "--critical-batch", "3"),
            "--critical-batch does not go with",
        ),
        (("--machine-types", "n9-huge"), "knows no machine type n9-huge"),
        (("--machine-types", "n2-standard-16"), "n2-standard-16 cannot have any NVIDIA_TESLA_V100"),
        (("--png", "no/such/plan.png"), "must be a file in a folder that exists"),
        (("--html", "."), "--html must be a file in a folder that exists, got ."),
        (("--html", "/proc/x.html"), "--html /proc/x.html cannot be written: "),
        (("--calibration", "gone.toml"), "cannot read gone.toml"),
    ],
)
def test_a_command_line_that_cannot_be_read_is_refused_in_a_sentence(plan, words, sentence):
    run = plan(*words)
    assert (run.code, run.out) == (2, "")
    assert sentence in run.err


def test_nothing_to_plan_is_a_usage_error(trainshed):
    run = trainshed("plan")
    assert run.code == 2
    assert "give a FILE, --calibration FILE or --measured TABLE" in run.err


def test_spot_machines_cost_less_an_hour_and_take_longer(plan):
    words = ("--what-if", "gpus=8", "--reducers", "0", "--format", "json")
    usual = plan(*words).json["options"][0]
    spot = plan(*words, "--spot", "0.1", "--checkpoint-every", "30m").json["options"][0]
    assert spot["price_hour"] < usual["price_hour"]
    assert spot["time_s"]["point"] > usual["time_s"]["point"]
    often = plan(*words, "--spot", "20", "--checkpoint-every", "1h")
    assert refused_field(often) == "spot"


def test_help_does_not_import_the_planner():
    code = (
        "import sys; from trainshed.cli.main import main; main(['plan', '--help']); "
        "sys.exit(any(name.startswith('trainshed.planning.') and name != "
        "'trainshed.planning.plan_request' for name in sys.modules))"
    )
    process = subprocess.run([sys.executable, "-c", code], capture_output=True, check=False)
    assert process.returncode == 0, process.stderr
