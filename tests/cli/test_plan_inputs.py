"""What ``trainshed plan`` is made from: calibrations, measured curves and prices."""

from dataclasses import replace

import pytest

from cli.planned import IMAGE, ML, calibration_file, job_document, refused_field
from planning.test_what_ifs import CALIBRATION, HOST, RUNS, TRAINING
from trainshed.planning.scaling.calibration_file import written as calibration_text
from trainshed.planning.scaling.fitting import calibrated
from trainshed.workbench.trainer_digest import trainer_digest

SERIES = """
[[series]]
id = "alexnet"
strategy = "{strategy}"
params = 61e6
batch_per_acc = 512
points = {points}
"""
CURVE = "[[1, 1, 1500], [2, 1, 2550], [4, 1, 5250], [8, 1, 9300]]"


def test_a_calibration_is_enough_where_its_counts_are_asked(plan):
    document = plan("--what-if", "hosts=1,2,4", "--format", "json", file=None).json
    assert [option["accelerators"] for option in document["options"] if not option["reducers"]] == [
        8,
        16,
        32,
    ]
    assert document["calibrations"][0]["model"] == "resnet50"
    assert [run["kind"] for run in document["calibrations"][0]["runs"]] == ["A", "C", "F"]


def test_without_a_calibration_there_are_bounds_and_no_point(plan):
    run = plan("--format", "json", calibration=None)
    assert refused_field(run) == "calibration"
    assert "trainshed plan calibrate" in run.json["refused"]["accepted"]
    assert all(
        option["samples_per_s"] is option["time_s"] is None for option in run.json["options"]
    )
    assert run.json["options"][-1]["bounds"]["speedup"] == [0, 64]
    assert "at most 32 times one" in plan(calibration=None).out


def test_an_unknown_strategy_is_refused_by_its_field(plan, written):
    text = calibration_text(CALIBRATION).replace('"allreduce"', '"gossip"')
    run = plan("--format", "json", calibration=written("other.toml", text))
    assert refused_field(run) == "training.strategy"
    assert "'gossip'" in run.err


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
    assert "No spot_per_hour of n1-standard-32 is in own.toml" in spot.out
    unknown = written("own.toml", 'currency = "EUR"\n[[machine]]\nname = "other"\nper_hour = 3\n')
    poor = plan("--prices", unknown, "--budget", "5", "--format", "json")
    assert refused_field(poor) == "budget"


@pytest.mark.parametrize(
    ("rows", "sentence"),
    [
        ("per_hour = 0", "per_hour must be a number above 0, got 0"),
        ('per_hour = 2\ncurrency = "USD"', "currency must be EUR, as in the whole file, got USD"),
    ],
)
def test_a_price_of_nothing_and_two_currencies_are_refused(plan, written, rows, sentence):
    text = f'currency = "EUR"\n[[machine]]\nname = "n1-standard-32"\n{rows}\n'
    run = plan("--prices", written("own.toml", text))
    assert (run.code, run.out) == (2, "")
    assert sentence in run.err


def test_calibrations_of_two_trainers_are_refused(plan, written):
    one, two = (
        written("a.toml", calibration_file(digest="a" * 64)),
        written("b.toml", calibration_file(digest="b" * 64)),
    )
    run = plan("--calibration", two, "--format", "json", calibration=one)
    assert refused_field(run) == "calibration"
    assert "two trainers" in run.err


def test_a_calibration_of_a_trainer_that_has_changed_is_refused(plan, written, tmp_path):
    written("task.py", "print(1)")
    digest = trainer_digest([tmp_path / "task.py"])
    name = written("mine.toml", calibration_file(digest=digest))
    assert plan("--trainer", "task.py", calibration=name).code == 0
    written("task.py", "print(2)")
    run = plan("--trainer", "task.py", "--format", "json", calibration=name)
    assert refused_field(run) == "calibration"
    assert "another trainer than task.py" in run.err


def test_a_calibration_of_another_stack_is_refused(plan, written):
    stack = type(TRAINING)(stack="tensorflow 2.15", batch_per_accelerator=8)
    name = written("tf.toml", calibration_file(training=stack))
    file = written("torch.json", job_document(image=IMAGE))
    run = plan("--format", "json", file=file, calibration=name)
    assert refused_field(run) == "calibration"
    assert "tensorflow 2.15" in run.err


def of_runtime(**fields):
    """A job of AI Platform's own environment."""
    return {"trainingInput": {**ML["trainingInput"], **fields}}


def test_a_runtime_version_may_have_any_stack_by_packages(plan, written):
    file = written("torch.json", of_runtime(runtimeVersion="2.11", pythonVersion="3.7"))
    assert plan(file=file).code == 0


def test_a_calibration_of_another_module_is_minded_in_the_first_line(plan, written):
    name = written("task.toml", calibration_file(training=replace(TRAINING, model="trainer.task")))
    file = written("other.json", of_runtime(pythonModule="other.module"))
    first = plan(file=file, calibration=name).out.splitlines()[0]
    assert "check the calibration: it is for trainer.task, but the job runs other.module" in first
    same = written("same.json", of_runtime(pythonModule="trainer.task"))
    assert "check the calibration" not in plan(file=same, calibration=name).out


def test_a_calibration_of_another_machine_leaves_the_job_without_a_point(plan, written):
    host = type(HOST)(machine_type="a2-highgpu-8g", accelerator="NVIDIA_TESLA_A100", per_host=8)
    run = plan("--format", "json", calibration=written("a100.toml", calibration_file(host=host)))
    assert refused_field(run) == "calibration"


def test_a_gain_smaller_than_its_interval_is_no_difference(plan, written):
    table = written("curve.toml", SERIES.format(strategy="allreduce", points="[[1, 1, 1500]]"))
    words = ("--measured", table, "--what-if", "gpus=64", "--reducers", "0", "--format", "json")
    document = plan(*words, "--network-gbps", "catalog", calibration=None).json
    notes = {option["accelerators"]: option["notes"] for option in document["options"]}
    assert "no difference that can be told from 32" in notes[64]
    assert document["options"][document["marks"]["fastest"]]["accelerators"] == 32


def test_a_measured_curve_is_planned_from_and_its_offending_step_named(plan, written):
    table = written("curve.toml", SERIES.format(strategy="allreduce", points=CURVE))
    words = ("--measured", table, "--what-if", "gpus=2,8,16", "--format", "json")
    words += ("--network-gbps", "32")
    document = plan(*words, calibration=None).json
    rates = {option["accelerators"]: option["samples_per_s"] for option in document["options"]}
    assert rates[8]["low"] <= 9300 * 1.1
    assert rates[16]["point"] < 2 * 9300 * 1.1
    assert any("2 to 4" in note or "4" in note for note in document["notes"])
    assert plan(*words, file=None, calibration=None).code == 0


@pytest.mark.parametrize(
    ("points", "sentence"),
    [
        ("[[1, 1, -5]]", "throughput must be a number over 0, got -5"),
        ("[[1, 1, 5], [1, 1, 6]]", "are given twice"),
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
    assert (
        refused_field(plan("--measured", table, "--format", "json", calibration=None)) == "strategy"
    )


def test_a_curve_without_a_batch_or_among_several_asks_which(plan, written):
    text = SERIES.format(strategy="allreduce", points=CURVE)
    silent = written("silent.toml", text.replace("batch_per_acc = 512\n", ""))
    assert (
        refused_field(plan("--measured", silent, "--format", "json", calibration=None))
        == "batch_per_acc"
    )
    several = written("two.toml", text + text.replace("alexnet", "vgg"))
    refusal = plan("--measured", several, calibration=None).err
    assert "--series must be one of alexnet, vgg" in refusal
    one = plan("--measured", several, "--series", "vgg", calibration=None)
    assert one.code == 0


def test_a_dry_run_beside_a_calibration_of_another_machine_says_why_there_is_no_plan(
    trainshed, trainer, written
):
    trainer("print(1)")
    machine = type(HOST)(machine_type="n1-standard-4", accelerator="CPU")
    calibration = written("cpu.toml", calibration_file(host=machine))
    training_input = {"scaleTier": "CUSTOM", "region": "us-central1", "masterType": "n1-standard-8"}
    config = written("c.json", {"trainingInput": training_input})
    words = ("--module-name", "trainer.task", "--config", config, "--dry-run")
    run = trainshed("ai-platform", "local", "train", *words, "--calibration", calibration)
    assert run.code == 0, run.err
    message = "No plan: CPU of n1-standard-4 was measured, not CPU of n1-standard-8."
    assert (run.out + run.err).count(message) == 1


def test_unknown_links_are_measured_or_given_before_anything_is_recommended(plan, written):
    one_host = calibrated(TRAINING, replace(HOST, network_gbps=0.0), RUNS[:2])
    file = written("one_host.toml", calibration_text(one_host))
    words = ("--what-if", "hosts=1,8", "--reducers", "0")
    run = plan(*words, calibration=file)
    assert run.code == 0, run.err
    assert "measure them: trainshed plan calibrate --on-server job.json --hosts 1,2" in run.out
    document = plan(*words, "--format", "json", calibration=file).json
    assert [option["links_gbps"] for option in document["options"]] == [None, [1, 100], [1, 100]]
    assert document["options"][2]["speedup"]["point"] is None
    assert document["marks"] == {"fastest": None, "cheapest": 0, "knee": None, "meets": None}
    assert document["unknown_marks"]["fastest"]["fast"] == 2
    for flags in (("--network-gbps", "10"), ("--stream-gbps", "9"), ("--network-gbps", "catalog")):
        given = plan(*words, *flags, "--format", "json", calibration=file).json
        assert given["unknown_marks"] == {}
        assert given["marks"]["fastest"] is not None
    late = plan("--deadline", "2h", "--target", "samples=1e8", *words, calibration=file)
    assert late.code == 3
    command = "trainshed plan calibrate --on-server job.json --hosts 1,2"
    assert late.err.startswith(f"error: no plan; run: {command}\n  network-gbps: whether")
    slow = ("--network-gbps", "1", "--stream-gbps", "2")
    assert "--stream-gbps must be at most --network-gbps, 1.0, got 2" in plan(*words, *slow).err
