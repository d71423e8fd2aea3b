"""``reduction plan``, and what ``validate`` and a local run say of reducers."""

import json
from pathlib import Path

import pytest

from golden import check_golden
from planning.test_achieved import DOCUMENT

GOLDEN = Path(__file__).parent.parent / "golden/cli"
PLAN = ("reduction", "plan")
V100 = {"machineType": "n1-highmem-96", "acceleratorType": "NVIDIA_TESLA_V100",
        "acceleratorCount": 8}  # fmt: skip
REDUCTION_IMAGE = "us-docker.pkg.dev/vertex-ai-restricted/training/reductionserver:latest"
FLAGS = ("--worker-machine-type", "n1-highmem-96", "--worker-count", "5",
         "--worker-accelerator", "count=8,type=nvidia-tesla-v100")  # fmt: skip
ML = {"trainingInput": {"scaleTier": "CUSTOM", "region": "us-central1",
                        "masterType": "n1-standard-16", "workerType": "n1-standard-16",
                        "workerCount": 3}}  # fmt: skip
#: A trainer that reports as the client of rank 0 does.
REPORTS = f"""
import json, os
with open(os.environ["TRAINSHED_REDUCTION_REPORT"], "w") as file:
    json.dump({DOCUMENT!r}, file)
"""


def pool(machine, count=1, image="img", **container):
    return {
        "machineSpec": machine,
        "replicaCount": count,
        "containerSpec": {"imageUri": image, **container},
    }


def reducing(reducers, machine="n1-highcpu-16", workers=4, **container):
    return {
        "workerPoolSpecs": [
            pool(V100, **container),
            pool(V100, workers, **container) if workers else {},
            pool({"machineType": machine}, reducers, REDUCTION_IMAGE),
        ]
    }


def test_a_file_s_reducers_stand_among_others_and_beside_the_right_number(trainshed, written):
    run = trainshed(*PLAN, "--config", written("job.json", reducing(8)))
    assert run.code == 0
    check_golden(GOLDEN / "reduction_plan.txt", run.out)


def test_the_page_of_the_command_line_shows_it_as_it_is():
    table, _, _ = (GOLDEN / "reduction_plan.txt").read_text().partition("\n\n8 reducers")
    page = Path(__file__).parents[2] / "docs/reference/command-line.md"
    assert table in page.read_text()


def test_flags_say_the_same_as_a_file(trainshed, written):
    name = written("job.json", reducing(8))
    of_file = trainshed(*PLAN, "--config", name, "--format", "json").json
    of_flags = trainshed(*PLAN, *FLAGS, "--reducer-count", "8", "--format", "json").json
    assert of_flags == of_file
    assert (of_file["asked"], of_file["sufficient"], of_file["break_even"]) == (8, 16, 10)
    assert [option["reducers"] for option in of_file["options"]] == [0, 4, 8, 12, 16]
    assert of_file["options"][-1]["gain"] == pytest.approx(1.6)
    assert "16 would match them" in of_file["text"]


def test_flags_win_over_the_file(trainshed, written):
    words = (*PLAN, "--config", written("job.json", reducing(8)), "--format", "json")
    run = trainshed(*words, "--reducer-count", "20", "--reducer-machine-type", "n2-highcpu-80")
    assert run.json["asked"] == 20
    assert run.json["reducers"]["machine_type"] == "n2-highcpu-80"
    other = trainshed(*words, "--worker-machine-type", "a2-megagpu-16g", "--worker-count", "8")
    assert other.json["sufficient"] == 25


def test_owners_name_their_own_links_and_no_price_is_made_up(trainshed):
    words = ("--worker-count", "4", "--worker-gbps", "0.2", "--reducer-gbps", "0.2")
    run = trainshed(*PLAN, *words)
    check_golden(GOLDEN / "reduction_plan_own_links.txt", run.out)
    as_json = trainshed(*PLAN, *words, "--format", "json").json
    assert as_json["reducers"] == {"machine_type": None, "gbps": 0.2, "price": None}
    assert {option["usd_hour"] for option in as_json["options"]} == {None}
    assert as_json["asked"] is None


def test_a_job_of_ai_platform_has_workers_too(trainshed, written):
    run = trainshed(*PLAN, "--config", written("config.json", ML))
    assert run.code == 0, run.err
    assert run.out.startswith("workers   4 x n1-standard-16: 32 Gbit/s each, 128 together\n")


def test_mixed_workers_go_at_the_pace_of_the_slowest(trainshed, written):
    mixed = {**ML["trainingInput"], "workerType": "n1-standard-4"}
    run = trainshed(*PLAN, "--config", written("config.json", {"trainingInput": mixed}))
    assert "1 x n1-standard-16, 3 x n1-standard-4: slowest link 10 Gbit/s, 62 together" in run.out


def test_the_size_of_the_gradient_changes_times_and_no_gain(trainshed):
    small, large = (
        trainshed(*PLAN, *FLAGS, "--gradient-mb", size, "--format", "json").json["options"]
        for size in ("64", "640")
    )
    assert [option["gain"] for option in small] == [option["gain"] for option in large]
    assert [option["seconds"] * 10 for option in small] == pytest.approx(
        [option["seconds"] for option in large]
    )


def test_the_price_is_the_region_s(trainshed):
    document = trainshed(*PLAN, *FLAGS, "--region", "europe-west4", "--format", "json").json
    assert document["reducers"]["price"]["region"] == "europe-west4"
    assert document["options"][-1]["usd_hour"] == pytest.approx(16 * 0.624)


@pytest.mark.parametrize(
    ("words", "text"),
    [
        ((), "no workers: give --config, or --worker-count"),
        (("--worker-count", "5"), "no workers: give --config"),
        (("--worker-machine-type", "n1-highmem-96"), "--worker-count is missing"),
        (("--worker-gbps", "10"), "--worker-count is missing"),
        (
            ("--worker-count", "0", "--worker-gbps", "1"),
            "a whole number from 1 to 1000000, got '0'",
        ),
        (("--worker-count", "x", "--worker-gbps", "1"), "must be a whole number from 1 to"),
        (("--worker-count", "2", "--worker-gbps", "nan"), "must be a number from 0.001 to"),
        (("--worker-count", "2", "--worker-gbps", "1e400"), "must be a number from"),
        (("--worker-count", "2", "--worker-gbps", "1", "--gradient-mb", "-1"), "got '-1'"),
        (("--worker-count", "2", "--worker-machine-type", "n9"), "knows no machine type n9"),
        (
            ("--worker-count", "2", "--worker-gbps", "1", "--reducer-machine-type", "n9"),
            "--reducer-machine-type: edition 2026-08 knows no machine type n9",
        ),
        (
            (*FLAGS[:-1], "count=8,type=nvidia-v9"),
            "--worker-accelerator must be one of NVIDIA_TESLA",
        ),
        (("--worker-machine-type", "cloud-tpu", "--worker-count", "2"), "give --worker-gbps"),
        ((*FLAGS[:-1], "count=0,type=nvidia-tesla-v100"), "count must be 1 or more"),
        (("--config", "none.yaml"), "cannot read none.yaml"),
    ],
)
def test_what_cannot_be_planned_is_one_clear_line(trainshed, words, text):
    run = trainshed(*PLAN, *words)
    assert (run.code, run.out) == (2, "")
    assert text in run.err
    assert run.err.count("\n") == 1


def test_a_number_of_workers_alone_does_not_change_a_file_s(trainshed, written):
    run = trainshed(*PLAN, "--config", written("job.json", reducing(8)), "--worker-count", "8")
    assert (run.code, run.out) == (2, "")
    assert "--worker-count and --worker-accelerator need --worker-machine-type" in run.err


def test_links_of_no_whole_number_of_gbits_make_no_reducer_too_many(trainshed):
    """Sums of such rates are a hair off: 3 links of 0.2 carry 0.6000000000000001 Gbit/s."""
    alike = ("--worker-count", "3", "--worker-gbps", "0.2", "--reducer-gbps", "0.2")
    assert trainshed(*PLAN, *alike, "--format", "json").json["sufficient"] == 3
    few = ("--worker-count", "9", "--worker-gbps", "0.1", "--reducer-gbps", "0.3")
    run = trainshed(*PLAN, *few, "--reducer-count", "3")
    assert "3 reducers carry 0.9 Gbit/s, the workers 0.9: the exchange is predicted" in run.out


@pytest.mark.parametrize(
    ("pools", "field"),
    [([{"machineSpec": {"machineTyp": "x"}}], "machineTyp"), ([], "workerPoolSpecs"),
     ([{"replicaCount": 1}], "machineType"), ({"a": [7]}, "workerPoolSpecs")],
)  # fmt: skip
def test_a_file_that_names_no_machines_is_refused_as_such(trainshed, written, pools, field):
    run = trainshed(*PLAN, "--config", written("job.json", {"workerPoolSpecs": pools}))
    assert (run.code, run.out) == (2, "")
    assert run.err.startswith("error: the job is refused")
    assert field in run.err


def test_a_file_whose_machines_nobody_knows_says_how_to_go_on(trainshed, written):
    unknown = {"workerPoolSpecs": [pool({"machineType": "mine"}), pool({"machineType": "mine"}, 3)]}
    name = written("job.json", unknown)
    run = trainshed(*PLAN, "--config", name)
    assert run.code == 2
    assert "does not know the bandwidth of mine; give --worker-count and --worker-gbps" in run.err
    rates = ("--worker-count", "4", "--worker-gbps", "10")
    assert trainshed(*PLAN, "--config", name, *rates).code == 0


def test_validate_names_the_number_that_suffices_and_what_it_gains(trainshed, written):
    few = trainshed("validate", written("few.json", reducing(8)))
    assert few.code == 1
    assert (
        "workerPoolSpecs[2].replicaCount: 8 reducers of n1-highcpu-16 carry 256 Gbit/s, the "
        "workers 500: 16 would match them; with 8 the exchange is predicted at 1.31 times a ring, "
        "with 16 at 1.60, if the hosts have the network of the catalog (accepted: 16 or more)"
    ) in few.out
    name = written("enough.json", reducing(16))
    enough = trainshed("validate", name)
    assert enough.code == 0
    assert enough.out.endswith(
        "\n  reduction: 16 reducers of n1-highcpu-16 carry 512 Gbit/s, the workers 500: the "
        "exchange is predicted at 1.60 times a ring, if the hosts have the network of the catalog\n"
    )
    (report,) = trainshed("validate", name, "--format", "json").json
    assert report["reduction"]["gain"] == 1.6
    assert report["reduction"]["text"].endswith("network of the catalog.")


def test_validate_says_when_reducers_never_help(trainshed, written):
    run = trainshed("validate", written("job.json", reducing(4, workers=0)))
    assert run.code == 0
    assert (
        "reduction: 4 reducers of n1-highcpu-16 carry 128 Gbit/s, the workers 100; a single "
        in (run.out)
    )


def test_a_local_run_hears_what_one_machine_means_and_ends_with_what_came_of_it(
    trainshed, written, tmp_path
):
    (tmp_path / "task.py").write_text(REPORTS)
    job = reducing(1, workers=0, command=["python", "task.py"])
    words = ("ai", "custom-jobs", "local-run", "--config", written("job.json", job))
    run = trainshed(*words)
    assert run.code == 0, run.err
    assert "a single worker host exchanges no gradients" in run.err
    assert "Workers and reducers are on one machine" in run.err
    assert run.out.splitlines()[-1] == (
        "Reduction: 1.43 times a ring of the same links; predicted 1.50 "
        "(4 reducers, 812 rounds, 52 GB)."
    )
    as_json = trainshed(*words, "--format", "json")
    assert json.loads(as_json.out)["reduction"]["gain"] == 1.431
