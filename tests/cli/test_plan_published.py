"""``trainshed plan`` of trainings that were not measured, by their size or by their name."""

import csv

import pytest

from cli.planned import refused_field


@pytest.fixture
def from_nothing(plan):
    """Plan a job file without a calibration, on machines with the catalog's network."""

    def run(*words, catalog=True):
        links = ("--network-gbps", "catalog") if catalog else ()
        return plan(*words, *links, calibration=None)

    return run


def test_a_size_shows_how_a_job_scales_its_price_its_reducers_and_what_to_measure(from_nothing):
    run = from_nothing("--params", "25.6e6")
    first, *_ = run.out.splitlines()
    assert run.code == 0, run.err
    assert first.startswith("32 GPUs: ")
    assert " times one (" in first
    assert "an hour; from published jobs like it; measure for samples/s: trainshed plan" in first
    assert "reducers  4 reducers of n1-highcpu-16" in run.out
    assert "price     " not in run.out, "the first line has it"
    assert "x one" in run.out
    document = from_nothing("--params", "25.6e6", "--format", "json").json
    own = document["options"][document["own"]]
    assert (own["samples_per_s"], own["time_s"], own["cost"]) == (None, None, None)
    assert own["speedup"]["low"] < own["speedup"]["point"] < own["speedup"]["high"] < 33
    assert own["price_hour"] > 1
    lines = from_nothing("--params", "25.6e6", "--format", "csv").out.splitlines()
    row = list(csv.DictReader(lines))[document["own"]]
    assert float(row["speedup_low"]) < float(row["speedup"]) < float(row["speedup_high"]) < 33
    assert float(row["price_hour"]) == pytest.approx(own["price_hour"], rel=1e-5)


@pytest.mark.parametrize("words", ["25M", "25.6e6", "0.3B", "1b", "350k"])
def test_a_size_is_written_as_models_are_named(from_nothing, words):
    run = from_nothing("--params", words)
    assert run.code == 0, run.err


@pytest.mark.parametrize("words", ["25 MB", "M", "1e400B", "-7b", "infb", "25Q"])
def test_a_size_that_is_no_number_is_refused_with_an_example(from_nothing, words):
    run = from_nothing(f"--params={words}")
    assert (run.code, run.out) == (2, "")
    assert f"such as 25.6e6, 25.6M or 1.3B, got '{words}'" in run.err


def test_one_replica_is_compared_with_nothing(plan):
    words = ("--params", "3.3M", "--network-gbps", "0.2", "--machine-types", "n1-standard-4")
    run = plan(*words, "--what-if", "hosts=1,4", file=None, calibration=None)
    assert run.code == 0, run.err
    assert "1 CPU replica on 1 x n1-standard-4: 0.19 USD an hour" in run.out
    one, four, *_ = (line for line in run.out.splitlines() if line[:3] in {"1  ", "4  "})
    assert " one " in one
    assert "x one" not in one
    assert "x one" in four
    assert "efficiency is against one CPU replica." in run.out
    assert "the host can feed 1 CPU replica" in run.out


def test_a_known_model_has_samples_a_time_and_a_cost_with_a_wide_interval(from_nothing):
    run = from_nothing("--model", "resnet50", "--target", "epochs=90", "--epoch-samples", "1281167")
    assert run.code == 0, run.err
    assert "up to 1.7 times faster or slower" in run.out
    document = from_nothing("--model", "resnet50", "--format", "json").json
    one = document["options"][0]
    rate = one["samples_per_s"]
    assert rate["high"] / rate["low"] > 1.7**2
    assert rate["low"] < 337 * one["accelerators"] < rate["high"]
    assert one["cost"]["low"] < one["cost"]["point"] < one["cost"]["high"]


def test_unknown_links_stay_a_range(from_nothing):
    document = from_nothing("--params", "25.6e6", "--format", "json", catalog=False).json
    by_count = {option["accelerators"]: option for option in document["options"]}
    assert by_count[8]["speedup"]["point"]
    assert by_count[32]["speedup"]["point"] is None
    assert by_count[32]["links_gbps"] == [1.0, 100.0]
    condition = ", if the hosts have the network of the catalog\n"
    unknown = from_nothing("--params", "25.6e6", catalog=False).out
    assert condition in unknown
    assert "1 to 100 Gbit/s are assumed, and slower links give less; measure them" in unknown
    assert condition not in from_nothing("--params", "25.6e6").out


def test_without_a_size_and_a_calibration_the_refusal_names_both_ways(from_nothing):
    run = from_nothing("--format", "json")
    assert refused_field(run) == "calibration"
    assert "run: trainshed plan calibrate" in run.err
    assert "--params N or --model NAME" in run.err


def test_a_deadline_needs_a_rate(from_nothing):
    run = from_nothing("--params", "25.6e6", "--deadline", "6h", "--format", "json")
    assert refused_field(run) == "deadline"
    met = from_nothing("--model", "resnet50", "--deadline", "6h")
    assert met.code == 0, met.err
    assert "meets it" in met.out


def test_a_target_without_a_rate_is_answered_with_the_reason(from_nothing):
    run = from_nothing("--params", "25.6e6", "--target", "samples=1e6")
    assert run.code == 0, run.err
    assert "No time to the target is given: published jobs show" in run.out
    assert "No time" not in from_nothing("--model", "resnet50", "--target", "samples=1e6").out


def test_machine_types_are_planned_without_a_file(plan):
    words = ("--params", "25.6e6", "--machine-types", "a2-highgpu-8g,a2-highgpu-4g")
    run = plan(*words, "--format", "json", file=None, calibration=None)
    assert run.code == 0, run.err
    options = run.json["options"]
    assert {option["machine_type"] for option in options} == {"a2-highgpu-8g", "a2-highgpu-4g"}
    assert run.json["marks"]["cheapest"] is not None
    assert all(option["speedup"]["high"] <= option["accelerators"] for option in options)


def test_ratios_recommend_no_kind_of_accelerator(plan):
    words = ("--params", "25.6e6", "--machine-types", "a2-highgpu-8g,n1-standard-4")
    run = plan(*words, file=None, calibration=None)
    assert run.code == 0, run.err
    assert "nothing is recommended: published jobs of this size do not show which" in run.out
    assert "fastest" not in run.out
    assert "would be faster" not in run.out


@pytest.mark.parametrize("words", [(), ("--region", "us-central1")])
def test_without_machines_the_refusal_says_what_to_add(plan, words):
    run = plan("--params", "25.6e6", *words, file=None, calibration=None)
    assert (run.code, run.out) == (2, "")
    assert "need machines: give FILE, or --machine-types a2-highgpu-8g" in run.err


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("--model", "alexnet"), "--model must be one of resnet18 to resnet152, "),
        (("--model", "resnet50", "--params", "1e6"), "--params does not go with --model"),
    ],
)
def test_wrong_words_are_refused_in_a_sentence(from_nothing, words, sentence):
    run = from_nothing(*words)
    assert (run.code, run.out) == (2, "")
    assert sentence in run.err


def test_a_calibration_is_not_mixed_with_published_jobs(plan):
    run = plan("--params", "1e6")
    assert run.code == 2
    assert "for plans without --calibration" in run.err


def test_the_page_and_the_picture_draw_ratios(from_nothing, plan, tmp_path):
    pytest.importorskip("matplotlib", reason="pip install 'trainshed[plan]' to run it")
    run = from_nothing("--params", "25.6e6", "--html", "plan.html", "--png", "plan.png")
    assert run.code == 0, run.err
    assert "times one GPU" in (tmp_path / "plan.html").read_text()
    words = ("--params", "3.3e6", "--machine-types", "n1-standard-4")
    plan(*words, "--html", "cpu.html", file=None, calibration=None)
    assert "times one CPU replica" in (tmp_path / "cpu.html").read_text()
