"""What a request for a JobSet by its name proves, after a list that lacks it."""

import pytest

from trainshed.engines.kubernetes import attempt_files, options
from trainshed.engines.kubernetes.attempt import SETTLE_S, KubernetesAttempt
from trainshed.engines.kubernetes.attempt_files import SubmissionRecord
from trainshed.engines.kubernetes.objects import AttemptObjects
from trainshed.engines.kubernetes.state.facts import JobSetFacts
from trainshed.engines.spool import Spool
from trainshed.engines.supervise.record.records import Began, append
from trainshed.model.attempt import AttemptKey, Phase

KEY = AttemptKey(7, 1)
NAME, UID = "ts-inst-7-1", "uid-7"
LISTED = AttemptObjects(jobset=JobSetFacts(NAME, UID))


class FakeView:
    """The lists of the API; ``objects`` are those of the attempt."""

    is_away, is_synced, has_kueue, reads_workloads, nodes = False, True, False, True, None
    objects = AttemptObjects()

    def find(self, _key, _submitted, _claimant):
        return self.objects

    def version(self, _key):
        return (self.objects,)


@pytest.fixture
def clock(monkeypatch):
    clock = [1000.0]
    monkeypatch.setattr("time.monotonic", lambda: clock[0])
    return clock


@pytest.fixture
def view():
    return FakeView()


@pytest.fixture
def attempt(tmp_path, clock, view):
    """An attempt that has begun, of which every list must show the JobSet by now."""
    spool = Spool(str(tmp_path), "/pods", "inst")
    spool.open()
    spool.make(KEY)
    folder = spool.folder(KEY)
    attempt_files.keep_submission(folder, SubmissionRecord(1.0, NAME, UID))
    append(folder.records, Began(1, 1, "boot"), durably=False)
    attempt = KubernetesAttempt(KEY, folder, "k", options.read({"spool": "/s", "claim": "c"}))
    attempt.observation(view)
    clock[0] += SETTLE_S
    return attempt


def test_a_jobset_that_existed_is_looked_up_again_when_a_later_list_lacks_it(attempt, view):
    assert attempt.observation(view).phase is Phase.STARTING
    assert attempt.wants_lookup
    attempt.note_lookup(is_absent=False)
    view.objects = LISTED
    attempt.observation(view)
    assert not attempt.wants_lookup
    view.objects = AttemptObjects()
    attempt.observation(view)
    assert attempt.wants_lookup


def test_a_jobset_that_no_list_shows_is_looked_up_again_after_a_while(attempt, view, clock):
    attempt.observation(view)
    assert attempt.wants_lookup
    attempt.note_lookup(is_absent=False)
    attempt.observation(view)
    assert not attempt.wants_lookup
    clock[0] += SETTLE_S
    attempt.observation(view)
    assert attempt.wants_lookup


def test_a_jobset_that_is_gone_is_looked_up_once(attempt, view, clock):
    attempt.observation(view)
    attempt.note_lookup(is_absent=True)
    clock[0] += SETTLE_S
    attempt.observation(view)
    assert not attempt.wants_lookup
    clock[0] += attempt.options.lost_after_s
    assert attempt.observation(view).phase is Phase.LOST
