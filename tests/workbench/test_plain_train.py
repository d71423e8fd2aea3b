import json

import pytest

from trainshed.model.faults import Field, FieldPath, UsageFault
from trainshed.model.roles import Role
from trainshed.workbench.plain_train import PlainJob, counts, ignored_counts, plain_spec, say


def job(**fields):
    return PlainJob(**{"module": "trainer.task", "args": ("--epochs", "2"), **fields})


def test_one_process_is_what_gcloud_starts_without_distributed():
    assert counts(job(flags={"worker-count": "7"})) == [(Role.PRIMARY, 1)]
    assert ignored_counts(job(flags={"worker-count": "7"})) == ["--worker-count"]


def test_distributed_has_gclouds_default_cluster():
    replicas = dict(counts(job(distributed=True)))
    assert replicas == {Role.PRIMARY: 1, Role.WORKER: 2, Role.PARAMETER_SERVER: 2}
    assert ignored_counts(job(distributed=True, flags={"worker-count": "1"})) == []


def test_counts_of_flags_win_and_zero_leaves_a_role_out():
    flags = {"worker-count": "3", "parameter-server-count": "0", "evaluator-count": "1"}
    replicas = dict(counts(job(distributed=True, flags=flags)))
    assert replicas == {Role.PRIMARY: 1, Role.WORKER: 3, Role.EVALUATOR: 1}


@pytest.mark.parametrize("count", ["-1", "two", ""])
def test_a_count_that_is_none_is_refused(count):
    with pytest.raises(UsageFault, match="--worker-count"):
        counts(job(distributed=True, flags={"worker-count": count}))


def test_the_job_shown_to_programs_is_gclouds():
    spec = plain_spec(job(flags={"job-dir": "gs://bucket/out"}))
    args = ["--epochs", "2", "--job-dir", "gs://bucket/out"]
    assert json.loads(spec.request)["trainingInput"] == {"job_name": "trainer.task", "args": args}
    assert spec.groups[0].program.args == ("--epochs", "2")
    assert spec.job_dir == "gs://bucket/out"


def test_fields_are_called_by_their_flags():
    assert say(FieldPath(Field.MODULE, Role.PRIMARY)) == "--module-name"
    assert say(FieldPath(Field.JOB_DIR)) == "--job-dir"
