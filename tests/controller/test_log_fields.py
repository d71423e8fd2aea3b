"""The records that the controller writes about an attempt name its job, its study and its trial."""

from databases import new_database
from store.builders import add, add_study, advance, new_trials
from trainshed.controller.steps import fields_of
from trainshed.model.attempt import AttemptKey
from trainshed.store.opening import open_store


def test_a_trial_names_its_study(tmp_path):
    store = open_store(new_database(tmp_path))
    job, study = add(store), add_study(store)
    [trial] = advance(store, study.uid, new_trials=new_trials(1))
    of_job = fields_of(AttemptKey(job.uid, 1), job)
    of_trial = fields_of(AttemptKey(trial.job_uid, 2), store.job_by_uid(trial.job_uid))
    store.close()
    assert of_job == {
        "uid": job.uid,
        "attempt": 1,
        "project": job.job.project,
        "job": job.job.job_id,
    }
    assert (of_trial["attempt"], of_trial["trial"]) == (2, "1")
    assert of_trial["study"] == study.job.job_id
