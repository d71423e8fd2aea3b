"""``validate`` and bad input: what is refused, what is no job, what is no command line."""

import pytest

GOOD = {"trainingInput": {"scaleTier": "CUSTOM", "masterType": "n1-standard-4"}}


def job(**fields):
    return {"trainingInput": {"scaleTier": "CUSTOM", "region": "us-central1", **fields}}


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        (
            job(masterTyp="n1-standard-4", masterType="n1-standard-4"),
            ("trainingInput.masterTyp", "unknown-field", "did you mean masterType"),
        ),
        (
            job(masterType="n1-standard-4", workerCount=[2]),
            ("trainingInput.workerCount", "wrong-type", "must be a whole number, not a list"),
        ),
        (job(), ("trainingInput.masterType", "master-type-missing", "")),
        (
            job(masterType="n1-standard-4", workerCount=2),
            ("trainingInput.workerType", "machine-type-missing", ""),
        ),
        (
            job(masterType="n1-standard-8", workerType="complex_model_m", workerCount=2),
            ("trainingInput.workerType", "mixed-categories", ""),
        ),
        (
            job(
                masterType="standard_gpu",
                masterConfig={"acceleratorConfig": {"count": 1, "type": "NVIDIA_TESLA_K80"}},
            ),
            ("trainingInput.masterConfig.acceleratorConfig", "accelerator-on-legacy", ""),
        ),
    ],
    ids=["unknown field", "wrong type", "no master", "no worker type", "mixed", "on legacy"],
)
def test_bad_input_is_refused_with_the_field_in_the_callers_words(
    trainshed, written, spec, expected
):
    field, rule, message = expected
    run = trainshed("validate", written("job.json", spec), "--format", "json")
    assert run.code == 1
    (answer,) = run.json
    assert answer["valid"] is False
    assert answer["cluster"] == []
    violation = next(v for v in answer["violations"] if v["field"] == field)
    assert violation["rule"] == rule
    assert message in violation["message"]
    assert violation["accepted"]
    assert set(violation) == {"field", "rule", "message", "accepted"}
    assert field in trainshed("validate", "job.json").out


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("trainingInput:\n  scaleTier: CUSTOM\n masterType: x\n", "line 3, column 2"),
        (
            "trainingInput:\n\tscaleTier: BASIC\n",
            "is indented with a tab; YAML accepts spaces",
        ),
        (
            "trainingInput:\n  scaleTier: BASIC\n\tregion: x\n",
            "is indented with a tab; YAML accepts spaces",
        ),
        ("trainingInput:\n  a: b\n\u00a0\u00a0c: d\n", "has a no-break space: write plain spaces"),
        (
            "trainingInput:\n  region:us-east1\n  scaleTier: BASIC\n",
            "; write a space after region:",
        ),
        ("trainingInput:\n  region: {{ region }}\n", "; {{ }} is a template"),
        ('{\n// a job\n"trainingInput": {}}', "; a comment begins with #"),
        ("trainingInput:\n  args: [*.csv]\n", "; put a value that begins with * or & in quotes"),
        ("jobId: a\njobId: b\n", "the key 'jobId' is given twice: remove one"),
        ("- a\n- b\n", "must be a mapping of fields, got a list"),
        ("", "is empty"),
        ("traininInput: {}\n", "did you mean trainingInput"),
        ('{"trainingInput": {}, "flags": {"no-such": 1}}', "there is no flag --no-such"),
    ],
)
def test_what_is_no_job_at_all_is_exit_code_2(trainshed, written, text, message):
    name = written("bad.yaml", text)
    run = trainshed("validate", name)
    assert run.code == 2
    assert message in run.err
    assert run.err.count("\n") == 1
    assert run.out == ""
    (answer,) = trainshed("validate", name, "--format", "json").json
    assert answer["valid"] is False
    assert message in answer["violations"][0]["message"]


def test_one_unreadable_file_does_not_hide_the_others(trainshed, written):
    words = ("absent.yaml", written("bad.json", job()), written("good.json", GOOD))
    run = trainshed("validate", *words)
    assert run.code == 2
    assert "cannot read absent.yaml" in run.err
    assert "bad.json: refused" in run.out
    assert "good.json: valid" in run.out


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ((), "the following arguments are required: FILE"),
        (("--edition", "1999"), "there is no catalog edition '1999'"),
        (("--zone-snapshot", "x"), "there is no zone snapshot 'x'"),
        (("--overlay", "absent.toml"), "cannot read the catalog overlay absent.toml"),
        (("--edition", "vertex-2026-08"), "edition vertex-2026-08 is of product vertex"),
        (("--worker-count", "two"), "--worker-count must be a whole number"),
        (("--no-such-flag",), "unknown argument --no-such-flag"),
    ],
)
def test_a_command_line_that_cannot_be_read_is_exit_code_2(trainshed, written, words, message):
    files = [written("job.json", GOOD)] if words else []
    run = trainshed("validate", *files, *words)
    assert run.code == 2
    assert message in run.err
    assert run.out == ""
