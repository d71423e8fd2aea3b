"""``validate``: verdicts, words, exit codes, and every bad input that the issue names."""

import json
from pathlib import Path

import pytest

from golden import check_golden

GOLDEN = Path(__file__).parent.parent / "golden/cli"
T4 = {"count": 4, "type": "NVIDIA_TESLA_T4"}
GOOD = {
    "trainingInput": {
        "scaleTier": "CUSTOM",
        "region": "us-central1",
        "masterType": "n1-highcpu-16",
        "masterConfig": {"acceleratorConfig": T4},
        "workerType": "n1-highcpu-16",
        "workerCount": 9,
        "workerConfig": {"acceleratorConfig": T4},
        "parameterServerType": "n1-highmem-8",
        "parameterServerCount": 3,
    }
}
POOL = {
    "machineSpec": {"machineType": "n1-standard-4"},
    "replicaCount": 1,
    "containerSpec": {"imageUri": "img"},
}
VERTEX = {"workerPoolSpecs": [POOL, {**POOL, "replicaCount": 2}]}


def job(**fields):
    return {"trainingInput": {"scaleTier": "CUSTOM", "region": "us-central1", **fields}}


def test_all_violations_are_told_at_once(trainshed, written):
    bad = job(
        masterType="n1-standard-32",
        masterConfig={"acceleratorConfig": {"count": 2, "type": "NVIDIA_TESLA_V100"}},
        workerType="complex_model_m",
        workerCount="two",
        pythonModul="trainer.task",
        region="mars",
    )
    run = trainshed("validate", written("job.json", bad))
    assert run.code == 1
    check_golden(GOLDEN / "validate_refused.txt", run.out)


def test_the_expanded_cluster_of_a_valid_job_is_a_table_or_json(trainshed, written):
    name = written("job.json", GOOD)
    run = trainshed("validate", name)
    assert run.code == 0
    check_golden(GOLDEN / "validate_valid.txt", run.out)
    rows = trainshed("validate", name, "--format", "json").json[0]["cluster"]
    assert rows[1] == {
        "role": "worker",
        "count": 9,
        "machine_type": "n1-highcpu-16",
        "vcpus": 16,
        "memory_gb": 14.4,
        "accelerator_type": "NVIDIA_TESLA_T4",
        "accelerator_count": 4,
    }


def test_both_dialects_are_found_by_their_shape(trainshed, written):
    names = [written("ml.json", GOOD), written("vertex.json", VERTEX)]
    names.append(written("custom.json", {"displayName": "x", "jobSpec": VERTEX}))
    run = trainshed("validate", *names, "--format", "json")
    assert run.code == 0
    assert [(a["file"], a["valid"]) for a in run.json] == [(name, True) for name in names]


def test_a_flag_wins_and_its_violation_is_called_by_the_flag(trainshed, written):
    flag = "--worker-accelerator"
    words = ("validate", written("job.json", GOOD), flag, "count=3,type=nvidia-tesla-t4")
    run = trainshed(*words, "--format", "json")
    assert run.code == 1
    assert {v["field"] for v in run.json[0]["violations"]} == {flag}


def test_a_file_may_carry_flags_of_its_own(trainshed, written):
    flags = {"master-accelerator": "count=1,type=nvidia-tesla-t4"}
    spec = {
        **job(masterType="n1-standard-32", masterConfig={"acceleratorConfig": T4}),
        "flags": flags,
    }
    run = trainshed("validate", written("job.json", spec), "--format", "json")
    assert [v["field"] for v in run.json[0]["violations"]] == ["--master-accelerator"]


def test_a_region_given_by_flag_is_judged_for_both_dialects(trainshed, written):
    for name in (written("ml.json", GOOD), written("vertex.json", VERTEX)):
        run = trainshed("validate", name, "--region", "mars", "--format", "json")
        assert [v["field"] for v in run.json[0]["violations"]] == ["--region"]


def test_an_edition_may_be_named_by_id_or_alias(trainshed, written):
    device = {"count": 1, "type": "NVIDIA_TESLA_A100"}
    a100 = job(masterType="a2-highgpu-1g", masterConfig={"acceleratorConfig": device})
    name = written("job.json", a100)
    assert trainshed("validate", name, "--edition", "2020-08").code == 0
    for edition in ("2020-05", "seed003"):
        assert trainshed("validate", name, "--edition", edition).code == 1


def test_software_is_left_aside_where_the_file_names_none(trainshed, written):
    name = written("job.json", job(masterType="n1-standard-4"))
    assert trainshed("validate", name).code == 0
    run = trainshed("validate", name, "--scope", "all", "--format", "json")
    assert [v["rule"] for v in run.json[0]["violations"]] == ["runtime-xor-image"]
    old = job(masterType="n1-standard-4", runtimeVersion="1.14", pythonVersion="3.7")
    name = written("old.json", old)
    assert trainshed("validate", name).code == 1
    assert trainshed("validate", name, "--scope", "machines").code == 0


def test_the_day_to_judge_by_may_be_chosen(trainshed, written):
    machine = {
        "machineType": "n1-standard-8",
        "acceleratorType": "NVIDIA_TESLA_P100",
        "acceleratorCount": 1,
    }
    name = written("job.json", {"workerPoolSpecs": [{**POOL, "machineSpec": machine}]})
    assert trainshed("validate", name, "--date", "2026-09-01").code == 0
    assert trainshed("validate", name, "--date", "2026-10-01").code == 1
    assert trainshed("validate", name, "--date", "yesterday").code == 2


K80 = {
    "machineType": "n1-standard-8",
    "acceleratorType": "NVIDIA_TESLA_K80",
    "acceleratorCount": 1,
}


@pytest.mark.parametrize(
    ("document", "word", "before"),
    [
        ({"workerPoolSpecs": [{**POOL, "machineSpec": K80}]}, "K80", "2025-01-01"),
        (job(masterType="n1-standard-4", runtimeVersion="1.8"), "1.8", "2020-01-01"),
    ],
)
def test_what_google_has_retired_is_noted_and_refused_only_to_who_asks_for_google_s_answer(
    trainshed, written, document, word, before
):
    name = written("job.json", document)
    run = trainshed("validate", name)
    assert run.code == 0
    assert any(line.startswith("  note: ") and word in line for line in run.out.splitlines())
    answer = trainshed("validate", name, "--format", "json").json[0]
    assert (answer["valid"], answer["violations"]) == (True, [])
    assert any(word in note for note in answer["notes"])
    assert trainshed("validate", name, "--date", before).code == 0
    edition = "2020-08" if "trainingInput" in document else "2026-08"
    for flags in (("--date", "2026-11-01"), ("--edition", edition)):
        run = trainshed("validate", name, *flags, "--format", "json")
        assert run.code == 1
        assert run.json[0]["violations"][0]["rule"].endswith("-retired")


def test_quota_is_a_separate_answer(trainshed, written):
    machine = {
        "machineType": "n1-highmem-96",
        "acceleratorType": "NVIDIA_TESLA_V100",
        "acceleratorCount": 8,
    }
    spec = {"region": "us-central1", "workerPoolSpecs": [{**POOL, "machineSpec": machine}]}
    name = written("job.json", spec)
    run = trainshed("validate", name, "--quota", "--format", "json")
    assert run.code == 0
    assert run.json[0]["valid"] is True
    assert run.json[0]["within_quota"] is False
    assert "quota: exceeded" in trainshed("validate", name, "--quota").out
    assert "within_quota" not in trainshed("validate", name, "--format", "json").json[0]


def test_an_overlay_adds_machines_of_ones_own(trainshed, written):
    text = '[[machine_type]]\nname = "garage-1"\nvcpus = 8\nmemory_gb = 32\n'
    overlay = written("own.toml", text)
    name = written("job.json", job(masterType="garage-1"))
    assert trainshed("validate", name).code == 1
    assert trainshed("validate", name, "--overlay", overlay).code == 0


def test_a_file_may_hold_several_documents(trainshed, written):
    text = "\n---\n".join(json.dumps(spec) for spec in (GOOD, job(), VERTEX))
    run = trainshed("validate", written("jobs.yaml", text), "--format", "json")
    assert run.code == 1
    assert [(a["file"], a["document"], a["valid"]) for a in run.json] == [
        ("jobs.yaml", 1, True),
        ("jobs.yaml", 2, False),
        ("jobs.yaml", 3, True),
    ]
    assert "jobs.yaml [2]: refused" in trainshed("validate", "jobs.yaml").out


STUDY = {
    "displayName": "tuned",
    "maxTrialCount": 3,
    "studySpec": {
        "metrics": [{"metricId": "acc", "goal": "MAXIMIZE"}],
        "parameters": [{"parameterId": "lr", "doubleValueSpec": {"minValue": 0, "maxValue": 1}}],
    },
    "trialJobSpec": VERTEX,
}


def test_known_results_and_first_points_are_checked_without_a_server(trainshed, written, tmp_path):
    name = written("hpt.json", STUDY)
    (tmp_path / "r.csv").write_text("lr,acc,seed\n0.1,0.5,7\n3,0.5,7\n")
    run = trainshed("validate", name, "--warm-start", "r.csv", "--enqueue", "lr=0.5")
    assert run.code == 0, run.out
    assert run.out.endswith(
        "  known results: 1 used, 1 ignored\n"
        "    ignored 1: lr is not between 0 and 1 (line 3 of r.csv: 3)\n"
        "    left out of the results: seed\n"
        "  first points: 1, tried before the search\n"
    )
    again = ("--enqueue", "lr=0.1", "--enqueue", "lr=0.5")
    run = trainshed("validate", name, "--warm-start", "r.csv", *again)
    assert run.out.endswith(
        "  first points: 1, tried before the search; 1 not tried again, with known results\n"
    )
    run = trainshed("validate", name, "--warm-start", "r.csv", "--format", "json")
    start = run.json[0]["studyStart"]
    assert (start["results"], start["ignored"], start["leftOut"]) == (1, 1, ["seed"])


def test_first_points_and_results_at_fault_are_refused_by_their_flags(trainshed, written, tmp_path):
    name = written("hpt.json", STUDY)
    run = trainshed("validate", name, "--enqueue", "lr=5", "--enqueue", "lr=0.5,n=1")
    assert run.code == 1
    assert run.out == (
        f"{name}: refused\n"
        "  --enqueue lr=5: lr is not between 0 and 1, got 5\n"
        "  --enqueue lr=0.5,n=1: n is not a parameter of the study (lr)\n"
    )
    (tmp_path / "r.csv").write_text("lr,acc\n3,0.5\n")
    run = trainshed("validate", name, "--warm-start", "r.csv")
    assert (run.code, "--warm-start: 0 of 1 known result of r.csv are used" in run.out) == (1, True)
    (tmp_path / "r.csv").write_text("lr,accuracy\n0.3,0.5\n")
    run = trainshed("validate", name, "--warm-start", "r.csv")
    assert "ignored: metric acc is missing (1); the first one has lr, accuracy (acc" in run.out
    run = trainshed("validate", written("ml.json", GOOD), "--enqueue", "lr=1")
    assert run.code == 1
    assert "--enqueue: the job is not a tuning job (accepted: a tuning job)" in run.out
    run = trainshed("validate", name, "--warm-start", "older")
    assert (run.code, run.out) == (2, "")
    assert "--warm-start must name files here, got older; a study is read by the server" in run.err


def test_priors_are_checked_without_a_server(trainshed, written):
    name = written("hpt.json", {**STUDY, "labels": {"team": "a"}})
    run = trainshed("validate", name, "--prior", "lr=0.25:wide")
    assert run.code == 0, run.out
    assert run.out.endswith("  expected: lr near 25e-2 (wide)\n")
    run = trainshed("validate", name, "--prior", "lr=0.25", "--format", "json")
    assert run.json[0]["priors"] == ["lr near 25e-2"]
    run = trainshed("validate", name, "--prior", "lr=7", "--prior", "n=1")
    assert run.code == 1
    assert "the label trainshed-prior-lr has no value of the parameter, got '7'" in run.out
    assert "the label trainshed-prior-n names no parameter of the study" in run.out
    run = trainshed("validate", written("ml.json", GOOD), "--prior", "lr=1")
    assert run.code == 1
    assert "the label trainshed-prior-lr is for a tuning job, and this is none" in run.out
    run = trainshed("validate", name, "--prior", "lr")
    assert (run.code, run.out) == (2, "")
    assert "--prior must be NAME=VALUE" in run.err
