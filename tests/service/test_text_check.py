"""The check of a text: all violations with their places, and edits after which they are gone."""

import json
import time
import tomllib
from dataclasses import replace
from importlib import metadata
from pathlib import Path

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from databases import new_database
from service.submitting import PLACE, PROJECT, Desk, custom_job, ml_job, pool, refusal
from service.test_pipelines import pipeline
from trainshed.admission import Scope
from trainshed.catalog import machines, rows
from trainshed.service.jobs.judging import ONLY_ADVICE, Rulebook, judge
from trainshed.service.jobs.merging import merge_any
from trainshed.service.starts import interpreters
from trainshed.store.listed_jobs import ListedKind
from trainshed.store.opening import open_store
from trainshed.wire.text_nodes import Lines, Position
from wire.documents import documents

CASES = yaml.safe_load(
    (Path(__file__).parents[1] / "admission" / "cases-open.yaml").read_text("utf-8")
)["cases"]
#: Far more than any text takes; a quadratic one of these sizes takes hours.
CPU_S_MAX = 30
REFUSED = {case["id"]: case["spec"] for case in CASES if not case["valid"]}
BILLION_LAUGHS = "a0: &a0 [ha, ha]\n" + "".join(
    f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 10)}]\n" for i in range(1, 12)
)


@pytest.fixture(scope="module")
def desk(tmp_path_factory):
    """Services whose store has no jobs, for texts that are only checked."""
    store = open_store(new_database(tmp_path_factory.mktemp("checks")))
    yield Desk(store)
    store.close()


@pytest.fixture
def fresh(store):
    return Desk(store)


def check(desk, text, location=PLACE, project=PROJECT):
    return desk.texts.check(project, text, location)


def ml_text(**training):
    return yaml.safe_dump(ml_job(**training), sort_keys=False)


def apply(text, edit):
    lines = Lines(text)
    begin = lines.offset(Position(edit.line, edit.column))
    end = lines.offset(Position(edit.end_line, edit.end_column))
    return text[:begin] + edit.text + text[end:]


def written(text, violation):
    """The characters that a violation marks."""
    lines = Lines(text)
    begin = lines.offset(Position(violation.line, violation.column))
    return text[begin : lines.offset(Position(violation.end_line, violation.end_column))]


WRITERS = {
    "yaml": lambda spec: yaml.safe_dump(spec, sort_keys=False),
    "flow": lambda spec: yaml.safe_dump(spec, sort_keys=False, default_flow_style=True),
    "json": lambda spec: json.dumps(spec, indent=2),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_validate_refuses_is_refused_with_the_same_reasons_and_a_place(desk, case):
    rulebook = Rulebook(today=desk.now.date(), scope=Scope.ALL)
    region = PLACE if "trainingInput" not in REFUSED[case] else None
    merged = merge_any(REFUSED[case], {}, source="the case")
    judged = judge(replace(merged, region=region, region_word="location"), rulebook)
    expected = {(v.field, v.rule) for v in judged.violations if v.rule not in ONLY_ADVICE}
    for write in WRITERS.values():
        text = write(REFUSED[case])
        answer = check(desk, text)
        assert expected <= {(v.field, v.rule) for v in answer.violations}
        for violation in answer.violations:
            assert violation.field == "location" or written(text, violation), violation
            if violation.edit:
                again = check(desk, apply(text, violation.edit))
                rest = [(v.field, v.rule) for v in again.violations]
                assert (violation.field, violation.rule) not in rest
                assert len(rest) < len(answer.violations)


def test_the_usual_refusals_have_an_edit(desk):
    """Of the cases' reasons with a value that would do, these are the ones that people meet."""
    repaired = set()
    for spec in REFUSED.values():
        repaired |= {v.rule for v in check(desk, WRITERS["yaml"](spec)).violations if v.edit}
    assert {"accelerator-count", "job-id"} <= repaired, repaired


def test_a_field_is_renamed_though_its_value_is_wrong_too(desk):
    """The rules judge a value only under the right name of its field."""
    machine = {"machineTyp": "n1-standard-8", "acceleratorType": "NVIDIA_TESLA_T4"}
    specs = [{"machineSpec": machine | {"acceleratorCount": 3}, "replicaCount": 1}]
    text = yaml.safe_dump({"displayName": "a", "jobSpec": {"workerPoolSpecs": specs}})
    [violation] = [v for v in check(desk, text).violations if v.rule == "unknown-field"]
    assert violation.edit is not None, violation
    assert violation.edit.title == "Rename to machineType"
    again = check(desk, apply(text, violation.edit))
    assert "accelerator-count" in {v.rule for v in again.violations}


def test_edits_one_after_the_other_make_a_job_that_can_be_submitted(fresh):
    text = ml_text(
        job_id="",
        scaleTier="CUSTOM",
        masterType="n1-standard-9",
        masterConfig={"acceleratorConfig": {"count": 3, "type": "NVIDIA_TESLA_T4"}},
        packageUrs=["gs://b/x.tar.gz"],
    )
    for _ in range(10):
        answer = check(fresh, text)
        if answer.valid:
            break
        edits = [v.edit for v in answer.violations if v.edit]
        assert edits, answer.violations
        text = apply(text, edits[0])
    assert answer.valid, answer.violations
    assert fresh.texts.submit(PROJECT, text, None, creator="ann").job == "job_1"


def test_a_valid_text_has_its_cluster_and_its_price(desk):
    text = yaml.safe_dump(custom_job(pool(), pool(count=2)))
    answer = check(desk, text)
    assert answer.valid
    assert answer.kind is ListedKind.CUSTOM_JOB
    assert [(row.role.value, row.count, row.vcpus) for row in answer.cluster] == [
        ("primary", 1, 4),
        ("worker", 2, 4),
    ]
    assert answer.price.hourly > 0
    assert answer.price.currency == "USD"
    assert answer.price.missing == []
    assert answer.start is None, "no node has been listed"


def test_a_machine_without_a_price_is_named(desk):
    answer = check(desk, ml_text(scaleTier="CUSTOM", masterType="large_model"))
    assert answer.valid, answer.violations
    assert answer.price.hourly is None
    assert answer.price.missing == ["no price of large_model is known"]


def test_a_spec_for_gcloud_becomes_a_job(desk):
    text = yaml.safe_dump({"workerPoolSpecs": [pool()]})
    [violation] = check(desk, text).violations
    assert violation.rule == "not-a-job"
    assert check(desk, apply(text, violation.edit)).valid
    assert "CustomJobSpec" in refusal(desk.texts.submit, PROJECT, text, PLACE, creator="a").message


def test_a_vertex_job_needs_a_location_and_an_ai_platform_job_ignores_it(desk):
    vertex = yaml.safe_dump(custom_job())
    [violation] = check(desk, vertex, "").violations
    assert (violation.field, violation.rule, violation.line) == ("location", "region-unknown", None)
    [violation] = check(desk, vertex, "mars-north1").violations
    assert (violation.field, violation.line) == ("location", None)
    assert check(desk, ml_text(), "mars-north1").valid


def test_a_taken_id_has_the_next_free_one(fresh):
    fresh.ml(ml_job("census_1"))
    fresh.ml(ml_job("census_2"))
    text = ml_text(job_id="census_1")
    [violation] = check(fresh, text).violations
    assert written(text, violation) == "census_1"
    assert apply(text, violation.edit) == text.replace("census_1", "census_3")
    assert check(fresh, apply(text, violation.edit)).valid


def test_the_flags_of_a_file_count(desk):
    text = ml_text() + "flags:\n  master-machine-type: n1-standard-9\n  scale-tier: custom\n"
    [violation] = check(desk, text).violations
    assert violation.field == "--master-machine-type"
    assert written(text, violation) == "n1-standard-9"
    [violation] = check(desk, ml_text() + "flags: {no-such-flag: 1}\n").violations
    assert "no flag --no-such-flag" in violation.message
    assert violation.line == ml_text().count("\n") + 1


@pytest.mark.parametrize(
    ("text", "message", "line"),
    [
        ("", "it has no job", None),
        ("- a\n- b\n", "must be a mapping", None),
        ("jobId: a\ntrainingInput:\n\tregion: us-central1\n", "indented with a tab", 3),
        ("jobId: a\n---\njobId: b\n", "must have one document, got 2", 3),
        ("jobId: a\njobId: b\n", "given twice", 2),
        ('{"jobId": "a", "jobId": "b"}', "given twice", 1),
        ("jobId: [a\n", "broken YAML", 2),
        ("jobId: \x00\n", "broken YAML", 1),
        ('{"jobId": "\\ud800"}', "unpaired surrogate", None),
        (BILLION_LAUGHS + "jobId: a\n", "100000 values; write fewer of the repeated values", 6),
        ("jobId: " + "[" * 2000, "broken YAML", 1),
        ("jobId: a\n" * 10_000, "given twice", 2),
        ("x" * ((1 << 20) + 1), "at most 1048576 characters", None),
        ("# nothing but a comment\n", "it has no job", None),
        ("<script>alert(1)</script>\n", "must be a mapping", None),
    ],
)
def test_a_text_that_cannot_be_read_is_one_violation_in_a_sentence(desk, text, message, line):
    answer = check(desk, text)
    assert not answer.valid
    [violation] = answer.violations
    assert message in violation.message
    assert violation.line == line
    assert "Traceback" not in violation.message
    error = refusal(desk.texts.submit, PROJECT, text, PLACE, creator="ann")
    assert message in error.message
    assert desk.store.open_count(PROJECT) == 0


def test_a_long_text_is_checked_line_by_line(desk):
    args = [f"--option-{i}={i}" for i in range(10_000)]
    text = ml_text(args=args, masterType="n1-standard-9", scaleTier="CUSTOM")
    assert text.count("\n") > 10_000
    [violation] = [v for v in check(desk, text).violations if v.rule == "unknown-machine-type"]
    assert written(text, violation) == "n1-standard-9"
    assert violation.line > 10_000


@pytest.mark.parametrize(
    "text",
    [
        "trainngInput:\n  region: us-central1\n",
        "jobId: a\ntrainingInput:\n\tregion: us-central1\n\n\tscaleTier: BASIC\n",
        "jobId:a\ntrainingInput:\n  region:us-central1\n",
        "\ufefftrainngInput:\n  region: us-central1\n",
    ],
)
def test_an_unreadable_text_can_be_read_after_its_edit(desk, text):
    [violation] = check(desk, text).violations
    again = check(desk, apply(text, violation.edit))
    assert again.kind is ListedKind.AI_PLATFORM_JOB


@pytest.mark.parametrize("name", ["<img src=x onerror=alert(1)>", "=HYPERLINK(1)", "x" * 4096])
def test_names_that_are_html_formulas_or_long_are_values_like_others(desk, name):
    document = custom_job(name=name)
    text = yaml.safe_dump(document)
    answer = check(desk, text)
    assert answer.valid == (len(name) <= 128)
    for violation in answer.violations:
        assert violation.rule == "display-name"
        assert yaml.safe_load(written(text, violation)) == name
    text = yaml.safe_dump({**custom_job(), "labels": {"note": name}})
    [violation] = check(desk, text).violations
    assert (violation.rule, written(text, violation)) == ("labels", "labels")


MESSAGES = {
    "Job": "ml_v1",
    "CustomJob": "aiplatform_v1",
    "HyperparameterTuningJob": "aiplatform_v1",
}


@settings(max_examples=60)
@given(message=st.sampled_from(sorted(MESSAGES)), data=st.data())
def test_any_document_is_checked_and_each_edit_repairs_its_violation(desk, message, data):
    content = data.draw(documents(MESSAGES[message], message))
    text = WRITERS[data.draw(st.sampled_from(sorted(WRITERS)))](content)
    answer = check(desk, text)
    for violation in answer.violations:
        if violation.line:
            written(text, violation)
        if violation.edit:
            again = check(desk, apply(text, violation.edit))
            assert (violation.field, violation.rule) not in [
                (v.field, v.rule) for v in again.violations
            ]


@settings(max_examples=60)
@given(text=st.text(alphabet="ab:-{}[]\"' \t\n\r0,#&*|<\u00e9\u2028\U0001f600", max_size=60))
def test_any_text_at_all_is_answered(desk, text):
    answer = check(desk, text)
    assert not answer.valid
    assert all(violation.message for violation in answer.violations)


@pytest.mark.parametrize(
    "text",
    [
        "\n" * 300_000 + "a:b",
        " " * 300_000 + "\tb: 1",
        "jobId: " + "did you mean a instead of " * 20_000,
        'trainingInput: {"x[' + "9" * 5000 + ']": {"regionn": 1}}',
        "trainingInput: {masterType: " + "n" * 300_000 + ", scaleTier: CUSTOM}",
        "jobId: " + "9" * 5000,
        "jobId: a\n" + "".join(f"unknown{i}: 1\n" for i in range(4000)),
    ],
)
def test_texts_made_to_be_slow_are_answered(desk, text):
    began = time.process_time()
    assert not check(desk, text).valid
    assert time.process_time() - began < CPU_S_MAX


SENT_AGAIN = {
    "custom job": yaml.safe_dump(custom_job(pool())),
    "training pipeline": yaml.safe_dump(pipeline()),
    "AI Platform job": ml_text(),
}


@pytest.mark.parametrize("kind", SENT_AGAIN)
def test_a_text_that_is_sent_again_with_its_key_makes_one_job(fresh, kind):
    text = SENT_AGAIN[kind]
    stored = [
        fresh.texts.submit(PROJECT, text, PLACE, creator="ann", retry_key=key)
        for key in ("first", "first", None)
        if key or kind != "AI Platform job"  # whose id is in the text
    ]
    assert stored[0] == stored[1]
    assert len({job.name for job in stored}) == len(stored) - 1


def test_the_check_of_an_empty_text_reads_what_later_checks_need(desk, monkeypatch):
    for cached in (rows.table, machines._prices_by_place, interpreters.installed):
        cached.cache_clear()
    assert not check(desk, " \n").valid

    def fail(*_):
        raise AssertionError("a check reads a file")

    monkeypatch.setattr(tomllib, "loads", fail)
    monkeypatch.setattr(metadata, "version", fail)
    answer = check(desk, yaml.safe_dump(custom_job(pool())))
    assert answer.valid
    assert answer.price.hourly
