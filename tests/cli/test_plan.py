"""``trainshed plan``: what is read, what is refused and how, and the forms of the answer."""

import json
import os
import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from golden import check_golden
from planning.test_what_ifs import CALIBRATION, HOST, JOB, RUNS, TRAINING, WORK
from trainshed.cli.plan.plan_tables import as_csv, as_json, table_text
from trainshed.planning.clusters_asked import Question, clusters
from trainshed.planning.job_plan import JobPlan, PlanWishes
from trainshed.planning.plan_words import head, recommendations, remarks
from trainshed.planning.scaling.calibration_file import written as calibration_text
from trainshed.planning.scaling.fitting import calibrated
from trainshed.planning.scaling.interval import Interval
from trainshed.planning.scaling.prediction import Binding, NoPrediction, Prediction
from trainshed.planning.scaling.training import Strategy
from trainshed.planning.what_ifs import ClusterOption, PlanLimits, marks_of
from trainshed.workbench.trainer_digest import trainer_digest

GOLDEN = Path(__file__).parent.parent / "golden/cli"
V100 = {"machineType": "n1-standard-32", "acceleratorType": "NVIDIA_TESLA_V100",
        "acceleratorCount": 8}  # fmt: skip
IMAGE = "us-docker.pkg.dev/vertex-ai/training/pytorch-gpu.1-13.py310:latest"
ML = {"trainingInput": {"scaleTier": "CUSTOM", "region": "us-central1",
                        "masterType": "n1-standard-32", "workerType": "n1-standard-32",
                        "workerCount": 3,
                        "masterConfig": {"acceleratorConfig": {"type": "NVIDIA_TESLA_V100",
                                                               "count": 8}},
                        "workerConfig": {"acceleratorConfig": {"type": "NVIDIA_TESLA_V100",
                                                               "count": 8}}}}  # fmt: skip


def job(workers=3, machine=V100, image="img"):
    container = {"imageUri": image}
    primary = {"machineSpec": V100, "replicaCount": 1, "containerSpec": container}
    worker_pool = {"machineSpec": machine, "replicaCount": workers, "containerSpec": container}
    return {"workerPoolSpecs": [primary, worker_pool]}


@pytest.fixture
def plan(trainshed, written):
    """``trainshed plan`` of four hosts of eight V100, which were measured up to two."""
    written("job.json", job())
    written("calibration.toml", calibration_text(CALIBRATION))

    def run(*words, file="job.json", calibration="calibration.toml"):
        options = ("--calibration", calibration) if calibration else ()
        return trainshed("plan", *((file,) if file else ()), *options, *words)

    return run


def refused(run):
    """The field of a refusal, which its sentence names as well."""
    assert run.code == 3, run.err
    refusal = run.json["refused"]
    assert run.err.startswith(f"error: {refusal['field']}: ")
    assert refusal["message"] in run.err
    assert refusal["accepted"] in run.err
    return refusal["field"]


def test_both_dialects_ask_the_same(plan, written):
    of_vertex = plan("--format", "json")
    of_ml = plan("--format", "json", file=written("config.yaml", ML))
    assert of_vertex.code == of_ml.code == 0
    assert of_ml.json == of_vertex.json
    own = of_vertex.json["options"][of_vertex.json["own"]]
    assert (own["accelerators"], own["hosts"], own["accelerator"]) == (32, 4, "NVIDIA_TESLA_V100")


def test_a_calibration_is_enough_where_its_counts_are_asked(plan):
    document = plan("--what-if", "hosts=1,2,4", "--format", "json", file=None).json
    assert [option["accelerators"] for option in document["options"] if not option["reducers"]] == [
        8,
        16,
        32,
    ]
    assert document["calibrations"][0]["model"] == "resnet50"
    assert [run["kind"] for run in document["calibrations"][0]["runs"]] == ["A", "C", "F"]


def test_words_come_first_then_the_table(plan):
    run = plan("--what-if", "gpus=8,16", "--target", "samples=100000000")
    first, *marks = run.out.partition("\n\n")[0].splitlines()
    assert re.match(r"32 GPUs: [\d.]+ times one \([\d.]+ to [\d.]+\), [\d.]+ h ", first)
    assert [line.split()[0] for line in marks] == ["fastest", "cheapest", "knee"]
    assert "no time to a quality is given" in run.out


def hand_made():
    """A plan of figures that no fit changes."""
    prices = PlanWishes(limits=PlanLimits(deadline_s=10 * 3600.0))
    question = Question(accelerators=(8, 16, 4096), reducers=0)
    options = []
    for what_if in clusters(JOB, question, [CALIBRATION]):
        cluster = what_if.cluster
        n = cluster.accelerators
        if n == 4096:
            answer = NoPrediction(field="gpus", message="4096 is too far", accepted="up to 1024",
                             samples_per_s=(4000.0, 1_000_000.0))  # fmt: skip
            options.append(ClusterOption(what_if=what_if, answer=answer))
            continue
        rate = Interval(low=300.0 * n**0.9, point=320.0 * n**0.9, high=330.0 * n**0.9)
        answer = Prediction(
            cluster=cluster, batch_per_accelerator=64.0, step_s=rate.inverse(64.0 * n),
            samples_per_s=rate, speedup=rate.times(1 / 320), efficiency=rate.times(1 / 320 / n),
            base_accelerators=1, bound_by=Binding.NETWORK, parts_s=((Binding.COMPUTE, 0.18),),
            warnings=("assumes that the host can feed 8 accelerators",),
        )  # fmt: skip
        hour = prices.prices.of(what_if.machines)
        time_s = rate.inverse(WORK.samples)
        options.append(
            ClusterOption(
                what_if=what_if, answer=answer, time_s=time_s, hour=hour,
                accelerator_hours=time_s.times(n / 3600),
                cost=time_s.times(hour.amount / 3600),
            )
        )  # fmt: skip
    marks = marks_of(options, worth=0.5, limits=prices.limits)
    own = next(option for option in options if option.what_if.is_own)
    return JobPlan(job=JOB, work=WORK, wishes=prices, options=tuple(options), marks=marks, own=own)


def test_the_table_the_json_and_the_csv_look_like_this():
    plan = hand_made()
    text = "\n".join([head(plan), *recommendations(plan), "", table_text(plan), "", *remarks(plan)])
    check_golden(GOLDEN / "plan.txt", f"{text}\n")
    document = json.dumps(as_json(plan, [CALIBRATION], ["a note"]) | {"calibrations": []}, indent=2)
    check_golden(GOLDEN / "plan.json", f"{document}\n")
    check_golden(GOLDEN / "plan.csv", as_csv(plan))


def test_the_page_of_the_command_line_shows_such_a_plan():
    page = Path(__file__).parents[2] / "docs/reference/command-line.md"
    assert (GOLDEN / "plan.txt").read_text() in page.read_text()


def test_without_a_calibration_there_are_bounds_and_no_point(plan):
    run = plan("--format", "json", calibration=None)
    assert refused(run) == "calibration"
    assert "trainshed plan calibrate" in run.json["refused"]["accepted"]
    assert all(
        option["samples_per_s"] is option["time_s"] is None for option in run.json["options"]
    )
    assert run.json["options"][-1]["bounds"]["speedup"] == [1, 64]
    assert "between 1 and 32 times one" in plan(calibration=None).out


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
    assert refused(run) == "gpus"
    assert "4 or 8 on each host" in run.err


def test_a_file_that_asks_for_such_a_count_is_refused_as_by_validate(plan, written):
    odd = {**V100, "acceleratorCount": 3}
    pool = {"machineSpec": odd, "replicaCount": 1, "containerSpec": {"imageUri": "img"}}
    run = plan(file=written("odd.json", {"workerPoolSpecs": [pool]}))
    assert (run.code, run.out) == (2, "")
    assert "acceleratorCount: NVIDIA_TESLA_V100 comes in counts of 1, 2, 4 or 8" in run.err


def test_a_file_with_a_misspelled_count_is_refused_and_not_planned_without_it(plan, written):
    document = job()
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


def test_far_counts_are_marked_and_those_beyond_are_refused(plan):
    far = plan("--what-if", "gpus=256", "--reducers", "0", "--format", "json").json["options"][-1]
    assert far["extrapolated"]
    assert "extrapolated" in far["notes"]
    beyond = plan("--what-if", "gpus=100000", "--format", "json")
    assert refused(beyond) == "gpus"
    assert beyond.json["options"][-1]["bounds"]["samples_per_s"]


@pytest.mark.parametrize(
    ("words", "field"),
    [
        (("--what-if", "model-parallel=8"), "model-parallel"),
        (("--what-if", "gpus=13"), "gpus"),
        (("--parameter-servers", "2"), "parameter-servers"),
        (("--batch", "keep-global", "--what-if", "gpus=1", "--largest-batch", "256"), "batch"),
        (("--deadline", "1s"), "deadline"),
        (("--budget", "0.01"), "budget"),
    ],
)
def test_what_cannot_be_known_or_met_is_refused_by_its_field(plan, words, field):
    assert refused(plan(*words, "--format", "json")) == field


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
        (job(), "workerPoolSpecs[2].replicaCount"),
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
        calibration = written("cpu.toml", other(host=machine))
    words = ("--format", "json")
    assert refused(plan(*words, file=file, calibration=calibration)) == field
    without = plan(*words, "--parameter-servers", "0", file=file, calibration=calibration)
    assert without.code == 0, without.err


def test_parameter_servers_are_planned_and_shown_where_the_training_has_them(plan, written):
    served = replace(TRAINING, strategy=Strategy.PS_DISTRIBUTED)
    name = written("served.toml", other(training=served))
    run = plan(file=written("servers.json", with_servers(ML)), calibration=name)
    assert run.code == 0, run.err
    assert "n1-standard-32 + 2 servers" in run.out


def test_nothing_is_said_of_what_asynchronous_training_needs(plan, written):
    served = replace(TRAINING, strategy=Strategy.PS_DISTRIBUTED, asynchronous=True)
    words = ("--parameter-servers", "2", "--format", "json")
    name = written("ps.toml", other(training=served))
    assert plan(*words, calibration=name).code == 0
    run = plan(*words, "--target", "samples=1e6", "--critical-batch", "100", calibration=name)
    assert refused(run) == "critical_batch"
    rings = written("ring.toml", other().replace("asynchronous = false", "asynchronous = true"))
    assert "workers of strategy allreduce wait for each other" in plan(calibration=rings).err


def test_an_unknown_strategy_is_refused_by_its_field(plan, written):
    text = calibration_text(CALIBRATION).replace('"allreduce"', '"gossip"')
    run = plan("--format", "json", calibration=written("other.toml", text))
    assert refused(run) == "training.strategy"
    assert "'gossip'" in run.err


def test_no_time_to_a_target_is_said_where_its_steps_are_unknown(plan):
    assert "for 1,000 steps of 2,048 samples" in plan("--what-if", "gpus=8").out
    epochs = plan("--target", "epochs=90")
    assert epochs.code == 2
    assert "--epoch-samples N is needed" in epochs.err
    whole = plan("--target", "samples=1e15", "--what-if", "gpus=8").out
    assert "for 1,000,000,000,000,000 samples" in whole
    document = plan("--target", "epochs=2", "--epoch-samples", "1000", "--format", "json").json
    assert document["work"]["samples"] == 2000


def test_two_finished_runs_tell_the_critical_batch(plan):
    """E(B) = 4e7 (1 + B / 4000): 5e7 samples with batch 1,000, and 6e7 with batch 2,000."""
    words = ("--target", "samples=5e7", "--what-if", "gpus=8", "--format", "json")
    runs = ("--finished", "1000=5e7", "--finished", "2000=6e7")
    document = plan(*words, *runs).json
    assert document["work"]["critical_batch"] == pytest.approx(4000)
    assert document == plan(*words, "--critical-batch", "4000").json


def test_real_data_without_a_rate_of_input_is_a_warning_in_the_first_line(plan):
    first = plan("--what-if", "gpus=8").out.splitlines()[0]
    assert "assumes that the host can feed 8 accelerators" in first


def test_without_a_price_there_are_accelerator_hours(plan, written):
    prices = written("own.toml", 'currency = "EUR"\n[[machine]]\nname = "other"\nper_hour = 3\n')
    document = plan("--prices", prices, "--format", "json").json
    assert document["prices"] is None
    assert "accelerator-hours (no price of n1-standard-32 is known)" in document["text"]
    mine = written("own.toml", 'currency = "EUR"\n[[machine]]\nname = "n1-standard-32"\n'
                   "per_hour = 9\n")  # fmt: skip
    assert " EUR" in plan("--prices", mine, "--reducers", "0").out.splitlines()[0]
    mixed = plan("--prices", mine)
    assert mixed.out.count("No price of n1-highcpu-16 is known: COST has accelerator-hours") == 1
    assert " EUR" in next(line for line in mixed.out.splitlines() if line.startswith("cheapest"))
    spot = plan("--prices", mine, "--spot", "0.1", "--checkpoint-every", "30m")
    assert "No spot_per_hour of n1-standard-32 stands in own.toml" in spot.out
    unknown = written("own.toml", 'currency = "EUR"\n[[machine]]\nname = "other"\nper_hour = 3\n')
    poor = plan("--prices", unknown, "--budget", "5", "--format", "json")
    assert refused(poor) == "budget"


@pytest.mark.parametrize(
    ("rows", "sentence"),
    [
        ("per_hour = 0", "per_hour 0: a number above 0 is accepted"),
        ('per_hour = 2\ncurrency = "USD"', "currency USD beside EUR"),
    ],
)
def test_a_price_of_nothing_and_two_currencies_are_refused(plan, written, rows, sentence):
    text = f'currency = "EUR"\n[[machine]]\nname = "n1-standard-32"\n{rows}\n'
    run = plan("--prices", written("own.toml", text))
    assert (run.code, run.out) == (2, "")
    assert sentence in run.err


def other(training=None, host=None, digest=""):
    calibration = calibrated(training or TRAINING, host or HOST, RUNS)
    return calibration_text(
        type(calibration)(
            training=calibration.training, host=calibration.host, runs=calibration.runs,
            fitted=calibration.fitted, trainer_digest=digest,
        )
    )  # fmt: skip


def test_calibrations_of_two_trainers_are_refused(plan, written):
    one, two = written("a.toml", other(digest="a" * 64)), written("b.toml", other(digest="b" * 64))
    run = plan("--calibration", two, "--format", "json", calibration=one)
    assert refused(run) == "calibration"
    assert "two trainers" in run.err


def test_a_calibration_of_a_trainer_that_has_changed_is_refused(plan, written, tmp_path):
    written("task.py", "print(1)")
    digest = trainer_digest([tmp_path / "task.py"])
    name = written("mine.toml", other(digest=digest))
    assert plan("--trainer", "task.py", calibration=name).code == 0
    written("task.py", "print(2)")
    run = plan("--trainer", "task.py", "--format", "json", calibration=name)
    assert refused(run) == "calibration"
    assert "another trainer than task.py" in run.err


def test_a_calibration_of_another_stack_is_refused(plan, written):
    stack = type(TRAINING)(stack="tensorflow 2.15", batch_per_accelerator=8)
    name = written("tf.toml", other(training=stack))
    file = written("torch.json", job(image=IMAGE))
    run = plan("--format", "json", file=file, calibration=name)
    assert refused(run) == "calibration"
    assert "tensorflow 2.15" in run.err


def of_runtime(**fields):
    """A job of AI Platform's own environment."""
    return {"trainingInput": {**ML["trainingInput"], **fields}}


def test_a_runtime_version_may_have_any_stack_by_packages(plan, written):
    file = written("torch.json", of_runtime(runtimeVersion="2.11", pythonVersion="3.7"))
    assert plan(file=file).code == 0


def test_a_calibration_of_another_module_is_minded_in_the_first_line(plan, written):
    name = written("task.toml", other(training=replace(TRAINING, model="trainer.task")))
    file = written("other.json", of_runtime(pythonModule="other.module"))
    first = plan(file=file, calibration=name).out.splitlines()[0]
    assert "mind the calibration: it is of trainer.task, and the job runs other.module" in first
    same = written("same.json", of_runtime(pythonModule="trainer.task"))
    assert "mind the calibration" not in plan(file=same, calibration=name).out


def test_a_calibration_of_another_machine_leaves_the_job_without_a_point(plan, written):
    host = type(HOST)(machine_type="a2-highgpu-8g", accelerator="NVIDIA_TESLA_A100", per_host=8)
    run = plan("--format", "json", calibration=written("a100.toml", other(host=host)))
    assert refused(run) == "calibration"


def test_hosts_that_are_not_alike_are_refused(plan, written):
    machine = {**V100, "acceleratorCount": 4}
    run = plan("--format", "json", file=written("two.json", job(machine=machine)))
    assert refused(run) == "machineType"
    assert "8 NVIDIA_TESLA_V100 and n1-standard-32 with 4" in run.err


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


def test_a_gain_smaller_than_its_interval_is_no_difference(plan, written):
    table = written("curve.toml", SERIES.format(strategy="allreduce", points="[[1, 1, 1500]]"))
    words = ("--measured", table, "--what-if", "gpus=8,16", "--reducers", "0", "--format", "json")
    document = plan(*words, calibration=None).json
    notes = {option["accelerators"]: option["notes"] for option in document["options"]}
    assert "no difference that can be told from 8" in notes[16]
    assert document["marks"]["fastest"] != [8, 16, 32].index(16)


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("--what-if", "gpus=0"), "must be a whole number from 1 to 1000000, got '0'"),
        (("--what-if", "gpus=1,x"), "got 'x'"),
        (("--what-if", "cows=3"), "must be such as gpus=1,2,4 or hosts=1,2,4"),
        (("--target", "smiles=3"), "samples=N, epochs=N or steps=N"),
        (("--deadline", "soon"), "must be a duration"),
        (("--budget", "0"), "must be a number above 0, got '0'"),
        (("--spot", "0.1"), "--checkpoint-every TIME is needed"),
        (("--machine-types", "n1-standart-32"), "(accepted: n1-standard-32, "),
        (("--measured", "calibration.toml"), "a calibration: use --calibration calibration.toml"),
        (("--series", "a"), "--series names a curve of --measured TABLE, which is not given"),
        (("--checkpoint-every", "30m"), "--checkpoint-every counts with --spot RATE"),
        (("--machine-types", ","), "must be names of machine types, got ','"),
        (("--target", "samples=1e300"), "must be at most 1e+18 samples"),
        (("--finished", "8=9"), "--finished: two runs tell the critical batch, not 1"),
        (("--finished", "8=9", "--finished", "8=9"), "--finished: batches 8 and 8 are too close"),
        (("--finished", "8=9", "--finished", "80=7"), "no critical batch explains both"),
        (("--finished", "8"), "must be BATCH=SAMPLES"),
        (("--finished", "8=9", "--critical-batch", "3"), "give --critical-batch, or two"),
        (("--machine-types", "n9-huge"), "knows no machine type n9-huge"),
        (("--machine-types", "n2-standard-16"), "n2-standard-16 cannot have 8 NVIDIA_TESLA_V100"),
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


def test_a_picture_takes_the_place_of_no_device_and_no_pipe(plan, tmp_path):
    os.mkfifo(tmp_path / "pipe")
    run = plan("--png", "pipe")
    assert (run.code, run.out) == (2, "")
    assert "--png must be a file in a folder that exists, got pipe" in run.err
    assert (tmp_path / "pipe").is_fifo()


SERIES = """
[[series]]
id = "alexnet"
strategy = "{strategy}"
params = 61e6
batch_per_acc = 512
points = {points}
"""
CURVE = "[[1, 1, 1500], [2, 1, 2550], [4, 1, 5250], [8, 1, 9300]]"


def test_a_measured_curve_is_planned_from_and_its_offending_step_named(plan, written):
    table = written("curve.toml", SERIES.format(strategy="allreduce", points=CURVE))
    words = ("--measured", table, "--what-if", "gpus=2,8,16", "--format", "json")
    document = plan(*words, calibration=None).json
    rates = {option["accelerators"]: option["samples_per_s"] for option in document["options"]}
    assert rates[8]["low"] <= 9300 * 1.1
    assert rates[16]["point"] < 2 * 9300 * 1.1
    assert any("2 to 4" in note or "4" in note for note in document["notes"])
    assert plan(*words, file=None, calibration=None).code == 0


@pytest.mark.parametrize(
    ("points", "sentence"),
    [
        ("[[1, 1, -5]]", "throughput is a number over 0"),
        ("[[1, 1, 5], [1, 1, 6]]", "are there twice"),
        ("[[1, 1, 5], [2, 1, 9000]]", "one unit for all points"),
        (
            [[count, count, 100 * count] for count in range(1, 258)],
            "series alexnet: points must be at most 256, got 257; leave some out",
        ),
    ],
)
def test_a_table_with_faults_is_refused_in_a_sentence(plan, written, points, sentence):
    table = written("curve.toml", SERIES.format(strategy="allreduce", points=points))
    run = plan("--measured", table, calibration=None)
    assert (run.code, run.out) == (2, "")
    assert sentence in run.err


def test_a_curve_of_an_unknown_strategy_is_refused_by_that_field(plan, written):
    table = written("curve.toml", SERIES.format(strategy="gossip", points=CURVE))
    assert refused(plan("--measured", table, "--format", "json", calibration=None)) == "strategy"


def test_a_curve_without_a_batch_or_among_several_asks_which(plan, written):
    text = SERIES.format(strategy="allreduce", points=CURVE)
    silent = written("silent.toml", text.replace("batch_per_acc = 512\n", ""))
    assert (
        refused(plan("--measured", silent, "--format", "json", calibration=None)) == "batch_per_acc"
    )
    several = written("two.toml", text + text.replace("alexnet", "vgg"))
    assert "--series is one of alexnet, vgg" in plan("--measured", several, calibration=None).err
    one = plan("--measured", several, "--series", "vgg", calibration=None)
    assert one.code == 0


def test_nothing_to_plan_is_a_usage_error(trainshed):
    run = trainshed("plan")
    assert run.code == 2
    assert "a FILE, a --calibration or --measured is needed" in run.err


def test_spot_machines_cost_less_an_hour_and_take_longer(plan):
    words = ("--what-if", "gpus=8", "--reducers", "0", "--format", "json")
    usual = plan(*words).json["options"][0]
    spot = plan(*words, "--spot", "0.1", "--checkpoint-every", "30m").json["options"][0]
    assert spot["price_hour"] < usual["price_hour"]
    assert spot["time_s"]["point"] > usual["time_s"]["point"]
    often = plan(*words, "--spot", "20", "--checkpoint-every", "1h")
    assert refused(often) == "spot"


def test_the_page_needs_nothing_else_and_a_refused_plan_leaves_no_file(plan, tmp_path):
    pytest.importorskip("matplotlib")
    assert plan("--png", "plan.png", "--html", "plan.html", "--what-if", "gpus=8").code == 0
    assert (tmp_path / "plan.png").read_bytes().startswith(b"\x89PNG")
    page = (tmp_path / "plan.html").read_text()
    assert "<svg" in page
    assert "default-src 'none'" in page
    assert "<script" not in page
    assert re.findall(r"""(?:src|href)=["'](?!#)[^"']*["']""", page.replace("xlink:", "")) == []
    assert "resnet50; torch 2.6; allreduce" in page
    target = ("--target", "samples=1e6", "--what-if", "gpus=8", "--html", "plan.html")
    assert plan(*target).code == 0
    assert "<p>The batch grows with the accel" in (tmp_path / "plan.html").read_text()
    before = sorted(path.name for path in tmp_path.iterdir())
    assert plan("--png", "b.png", "--html", "b.html", "--what-if", "gpus=100000").code == 3
    assert sorted(path.name for path in tmp_path.iterdir()) == before


def test_the_picture_leaves_out_what_was_refused_and_has_a_colour_for_a_line(plan, monkeypatch):
    figure = pytest.importorskip("matplotlib.figure")
    drawn = []
    monkeypatch.setattr(figure.Figure, "savefig", lambda self, *_, **__: drawn.append(self))
    assert plan("--what-if", "gpus=8,16,32,64,100000", "--png", "plan.png").code == 0
    left, right = drawn[0].axes
    assert max(max(line.get_xdata()) for line in left.lines) == 64
    lines = {line.get_label(): line.get_color() for line in left.lines}
    texts = [text.get_text().splitlines()[0] for text in right.texts]
    colours = dict(
        zip(texts, (container.lines[0].get_color() for container in right.containers), strict=True)
    )
    assert colours["64 + r"] == lines["n1-standard-32 with reducers"]
    assert colours["64"] == lines["n1-standard-32"]


def test_without_matplotlib_a_picture_is_refused_and_the_page_says_so(plan, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    run = plan("--png", "plan.png")
    assert run.code == 2
    assert "pip install --find-links dist 'trainshed[plan]'" in run.err
    assert not (tmp_path / "plan.png").exists()
    assert plan("--html", "plan.html").code == 0
    assert "No picture" in (tmp_path / "plan.html").read_text()


def test_a_dry_run_beside_a_calibration_of_another_machine_says_why_there_is_no_plan(
    trainshed, trainer, written
):
    trainer("print(1)")
    machine = type(HOST)(machine_type="n1-standard-4", accelerator="CPU")
    calibration = written("cpu.toml", other(host=machine))
    training_input = {"scaleTier": "CUSTOM", "region": "us-central1", "masterType": "n1-standard-8"}
    config = written("c.json", {"trainingInput": training_input})
    words = ("--module-name", "trainer.task", "--config", config, "--dry-run")
    run = trainshed("ai-platform", "local", "train", *words, "--calibration", calibration)
    assert run.code == 0, run.err
    message = "No plan: CPU of n1-standard-4 was measured, not CPU of n1-standard-8."
    assert (run.out + run.err).count(message) == 1


def test_help_does_not_import_the_planner():
    code = (
        "import sys; from trainshed.cli.main import main; main(['plan', '--help']); "
        "sys.exit(any(name.startswith('trainshed.planning') for name in sys.modules))"
    )
    process = subprocess.run([sys.executable, "-c", code], capture_output=True, check=False)
    assert process.returncode == 0, process.stderr
