"""The store's contract: an attempt that told its steps teaches once, and is kept in bounds."""

from dataclasses import replace

from store.builders import PROJECT, HandClock, add, go, place
from trainshed.model.status import JobState
from trainshed.model.step_times import STEPS
from trainshed.store import outcomes
from trainshed.store.opening import Store
from trainshed.store.records.learned import Learned
from trainshed.store.records.steps import NewEvent

TAUGHT = Learned(
    project=PROJECT,
    key="k",
    document="a = 1",
    model="trainer.task",
    machine_type="n1-standard-8",
    accelerator="CPU",
    jobs=0,
    content={"job": "j"},
    event=NewEvent(kind="OUTCOME", message="As predicted."),
)


def ended(store: Store, name: str) -> int:
    uid = add(store, job_id=name).uid
    place(store, uid)
    go(store, uid, JobState.RUNNING)
    go(store, uid, JobState.SUCCEEDED, events=(NewEvent(kind=STEPS, message="Steps: 40."),))
    return uid


class TestOutcomes:
    """What is asked of it."""

    def test_an_attempt_that_told_its_steps_waits_until_it_has_taught(self, store: Store) -> None:
        silent, uid = add(store, job_id="silent").uid, ended(store, "j")
        [(job_uid, event)] = store.unscored(9)
        assert (job_uid, event.kind, event.attempt) == (uid, STEPS, 1)
        assert [store.is_unscored(job) for job in (silent, uid)] == [False, True]
        assert store.learn(uid, 1, TAUGHT)
        assert not store.unscored(9)
        assert not store.is_unscored(uid)
        assert store.events(uid)[-1].message == "As predicted."
        assert store.outcome(uid) == {"job": "j"}
        assert store.outcome(silent) is None
        assert [outcome.content for outcome in store.outcomes(PROJECT, 9)] == [{"job": "j"}]
        assert store.outcomes("another", 9) == []
        [head] = store.calibrations(PROJECT, 9)
        assert (head.key, head.jobs, head.model, head.machine_type, head.accelerator) == (
            "k",
            1,
            "trainer.task",
            "n1-standard-8",
            "CPU",
        )
        assert not hasattr(head, "document"), "a list of a thousand would be megabytes"
        stored = store.calibration(PROJECT, "k")
        assert stored is not None
        assert (stored.document, stored.update_ns) == ("a = 1", head.update_ns)
        assert store.calibration(PROJECT, "\x00\ud800") is None

    def test_whoever_read_an_older_calibration_writes_nothing(self, store: Store) -> None:
        first, second = ended(store, "one"), ended(store, "two")
        assert store.learn(first, 1, TAUGHT)
        assert not store.learn(second, 1, TAUGHT), "it knew of no calibration"
        assert not store.learn(second, 1, replace(TAUGHT, jobs=2))
        assert [uid for uid, _ in store.unscored(9)] == [second]
        assert store.learn(second, 1, replace(TAUGHT, jobs=1, document="a = 2"))
        assert not store.learn(second, 1, replace(TAUGHT, jobs=2)), "it counts once"
        calibration = store.calibration(PROJECT, "k")
        assert calibration is not None
        assert (calibration.jobs, calibration.document) == (2, "a = 2")

    def test_what_cannot_be_compared_is_dropped(self, store: Store) -> None:
        uid = ended(store, "odd")
        store.learn_nothing(uid, 1)
        assert not store.unscored(9)

    def test_it_outlives_its_job(self, store: Store) -> None:
        taught, untaught = ended(store, "one"), ended(store, "two")
        assert store.learn(taught, 1, TAUGHT)
        store.forget([taught, untaught])
        assert [outcome.content for outcome in store.outcomes(PROJECT, 9)] == [{"job": "j"}]
        assert not store.unscored(9)

    def test_they_are_read_page_by_page(self, store: Store) -> None:
        names = ["a", "b", "c", "d", "e"]  # all at one time: places are told by uids as well
        for jobs, name in enumerate(names):
            uid = ended(store, name)
            assert store.learn(uid, 1, replace(TAUGHT, jobs=jobs, content={"job": name}))
        pages, after = [], None
        while page := store.outcomes(PROJECT, 2, after):
            pages.append([outcome.content["job"] for outcome in page])
            after = page[-1].place
        assert [len(page) for page in pages] == [2, 2, 1]
        assert sorted(name for page in pages for name in page) == names

    def test_the_newest_are_kept(self, store: Store, clock: HandClock, monkeypatch) -> None:
        monkeypatch.setattr(outcomes, "OUTCOMES_MAX", 2)
        monkeypatch.setattr(outcomes, "CALIBRATIONS_MAX", 2)
        for name in ("a", "b", "c"):
            clock.forward(1)
            uid = ended(store, name)
            assert store.learn(uid, 1, replace(TAUGHT, key=name, content={"job": name}))
        assert [outcome.content["job"] for outcome in store.outcomes(PROJECT, 9)] == ["c", "b"]
        assert [row.key for row in store.calibrations(PROJECT, 9)] == ["c", "b"]
