"""The store's contract: what a study has before its first trial."""

from store.builders import add, add_study, go, new_job, refused
from trainshed.model.status import JobState
from trainshed.model.study_start import KnownResult, StudyStart
from trainshed.store.base import AlreadyThere
from trainshed.store.opening import Store
from trainshed.store.records.jobs import JobKind

POINTS = ((("lr", 0.5), ("n", 3), ("word", "\ud800\x00")),)
START = StudyStart(
    results=(KnownResult(values=(("lr", 1.0), ("n", 2)), metrics=(("loss", 0.25),)),),
    points=POINTS,
)


class TestStudyStarts:
    """What is stored with a study, and goes with it."""

    def test_a_start_is_stored_with_its_study(self, store: Store) -> None:
        uid = add(store, study_start=START).uid
        start = store.study_start(uid)
        assert start == START
        assert [type(value) for _, value in start.results[0].values] == [float, int]
        assert store.first_points(uid) == POINTS
        assert store.count_start(uid) == (1, 1)

    def test_most_studies_have_none(self, store: Store) -> None:
        uid = add_study(store).uid
        assert store.study_start(uid) == StudyStart()
        assert store.first_points(uid) == ()
        assert store.count_start(uid) == (0, 0)

    def test_a_start_of_a_refused_job_is_not_stored(self, store: Store) -> None:
        first = store.add_job(new_job(kind=JobKind.ML_JOB, job_id="j", retry_key="k"))[0]
        with refused(AlreadyThere):
            store.add_job(new_job(kind=JobKind.ML_JOB, job_id="j", study_start=START))
        again, is_new = store.add_job(
            new_job(kind=JobKind.ML_JOB, job_id="j", retry_key="k", study_start=START)
        )
        assert (again.uid, is_new) == (first.uid, False)
        assert store.count_start(first.uid) == (0, 0)

    def test_a_start_goes_with_its_study(self, store: Store) -> None:
        uid, other_uid = add(store, study_start=START).uid, add(store, study_start=START).uid
        go(store, uid, JobState.FAILED)
        store.forget([uid, other_uid])
        assert store.job_by_uid(uid) is None
        assert store.study_start(uid) == StudyStart()
        assert store.study_start(other_uid) == START
