"""A study says when it will be over and what it will have cost, from trials that are."""

import re
from dataclasses import replace

import pytest

from databases import new_database
from store.builders import STUDY, add_study, advance, go, place, trial, trial_job
from trainshed.model.status import JobState
from trainshed.model.trials import TrialState
from trainshed.service.jobs.story import Stories, study_sentence
from trainshed.store.opening import open_store
from trainshed.store.records.studies import NewTrial

TWELVE = replace(STUDY, trial_count_max=12, trial_count_parallel=2)


@pytest.fixture
def store(tmp_path):
    store = open_store(new_database(tmp_path))
    yield store
    store.close()


def study_after(store, count):
    """A study of twelve trials, of which some have run."""
    record = add_study(store, study=TWELVE)
    over(store, record, count)
    return study_sentence(Stories(store), record)


def over(store, record, count):
    """So many trials of a study run and are over."""
    numbers = range(1, count + 1)
    jobs = tuple(NewTrial(trial=trial(n), job=trial_job(n)) for n in numbers)
    for new_trial in advance(store, record.uid, new_trials=jobs):
        place(store, new_trial.job_uid)
        go(store, new_trial.job_uid, JobState.RUNNING)
        go(store, new_trial.job_uid, JobState.FAILED)
    bad = [trial(n, state=TrialState.INFEASIBLE, infeasible_reason="it failed") for n in numbers]
    advance(store, record.uid, trials=tuple(bad))


def test_three_trials_tell_the_end(store):
    assert re.search(r"It will be over in about \d+ s \(\d+ s to \d+ s\)", study_after(store, 3))


def test_programs_have_it_in_numbers(store):
    record = add_study(store, study=TWELVE)
    query = Stories(store).job, record.job.project, record.job.job_id
    assert query[0](*query[1:]).ending is None
    over(store, record, 3)
    ending = query[0](*query[1:]).ending
    assert ending.left_s == sorted(ending.left_s)
    assert len(ending.left_s) == 3


def test_two_trials_tell_nothing(store):
    assert "over in about" not in study_after(store, 2)
