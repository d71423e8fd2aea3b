"""Whatever a caller sends is admitted or refused, and never anything else."""

import contextlib
import json
from datetime import date

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from service.submitting import MAPPED, PLACE, custom_job, images, ml_job
from trainshed.model.refusals import Refusal
from trainshed.service.jobs.refusing import Merged
from trainshed.service.jobs.submission import SubmitRules, admit, check_object, judge_submission
from trainshed.wire.aiplatform_v1 import parse as aiplatform_v1
from trainshed.wire.ml_v1 import parse as ml_v1
from wire.documents import JSON, documents

RULES = SubmitRules(images=images(*MAPPED), today=lambda: date(2026, 11, 21))
PARSE = {
    "Job": ml_v1.job,
    "CustomJob": aiplatform_v1.custom_job,
    "HyperparameterTuningJob": aiplatform_v1.tuning_job,
    "TrainingPipeline": aiplatform_v1.training_pipeline,
}


def submit(document, message, location=PLACE):
    region = None if message == "Job" else location
    merged = Merged(content=check_object(document), region=region, region_word="location")
    return admit(judge_submission(merged, RULES, PARSE[message], lambda _: True), RULES)


def is_told(refusal):
    """A refusal stands alone: it says something, and its fields are in the caller's words."""
    assert refusal.message
    assert not refusal.message.endswith(".")
    assert all(isinstance(violation.field, str) for violation in refusal.violations)


@settings(max_examples=60)
@given(message=st.sampled_from(sorted(PARSE)), data=st.data())
def test_any_message_of_a_dialect_is_admitted_or_refused(message, data):
    dialect = "ml_v1" if message == "Job" else "aiplatform_v1"
    with contextlib.suppress(Refusal):
        submit(data.draw(documents(dialect, message)), message)


@settings(max_examples=60)
@given(message=st.sampled_from(sorted(PARSE)), document=JSON, location=st.text(max_size=5))
def test_any_json_at_all_is_refused_in_words(message, document, location):
    with pytest.raises(Refusal) as refused:
        submit(document, message, location)
    is_told(refused.value)


@pytest.mark.parametrize(("document", "message"), [(ml_job(), "Job"), (custom_job(), "CustomJob")])
def test_an_admitted_job_is_told_in_its_caller_s_spelling_only(document, message):
    admitted = submit(document, message)
    assert json.loads(admitted.spec.request)
    assert admitted.expanded.region == PLACE
    assert admitted.demand.region == PLACE
    assert admitted.demand.replica_count == admitted.expanded.replica_count
