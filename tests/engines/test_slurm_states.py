"""What Slurm's words mean."""

import pytest

from engines.slurm_texts import WAITING
from trainshed.engines.slurm import states
from trainshed.engines.slurm.parse import SlurmJob
from trainshed.engines.slurm.states import SlurmState as S
from trainshed.model.explanation import Reason


def job(state="PENDING", reason="", component=0, start_s=None):
    return SlurmJob("5", component, state, reason, (), start_s, "ts-a-1", "1/1")


@pytest.mark.parametrize(
    ("word", "expected"),
    [
        ("PENDING", S.PENDING),
        ("CONFIGURING", S.STARTING),
        ("RUNNING", S.RUNNING),
        ("COMPLETING", S.ENDING),
        ("COMPLETED", S.DONE),
        ("FAILED", S.DONE),
        ("OUT_OF_MEMORY", S.DONE),
        ("CANCELLED", S.STOPPED),
        ("CANCELLED by 1000", S.STOPPED),
        ("TIMEOUT", S.LIMIT),
        ("DEADLINE", S.LIMIT),
        ("PREEMPTED", S.PREEMPTED),
        ("NODE_FAIL", S.NODE_LOST),
        ("BOOT_FAIL", S.NODE_LOST),
        ("REVOKED", S.NODE_LOST),
        ("SUSPENDED", S.SUSPENDED),
        ("REQUEUE_HOLD", S.REQUEUED),
        ("EXPEDITING", S.UNKNOWN),
    ],
)
def test_states(word, expected):
    assert states.state_of([job(word)]) is expected


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (("RUNNING", "COMPLETED"), S.RUNNING),
        (("CANCELLED", "NODE_FAIL"), S.NODE_LOST),
        (("CANCELLED", "PREEMPTED"), S.PREEMPTED),
        (("COMPLETED", "CANCELLED"), S.STOPPED),
        (("RUNNING", "COMPLETING"), S.ENDING),
        (("RUNNING", "NEWWORD"), S.UNKNOWN),
        ((), S.UNKNOWN),
    ],
)
def test_a_job_of_several_components_is_over_when_all_are(words, expected):
    assert states.state_of([job(word) for word in words]) is expected


@pytest.mark.parametrize(
    ("word", "reason"),
    [
        ("", Reason.ENGINE_QUEUE),
        ("Priority", Reason.ENGINE_QUEUE),
        ("BeginTime", Reason.ENGINE_QUEUE),
        ("Dependency", Reason.ENGINE_QUEUE),
        ("Resources", Reason.CAPACITY),
        ("QOSMaxJobsPerUserLimit", Reason.QUOTA),
        ("AssocGrpGRES", Reason.QUOTA),
        ("MaxGRESPerAccountLimit", Reason.QUOTA),
        ("ReqNodeNotAvail, UnavailableNodes:n[1-6]", Reason.DRAINED),
        ("PartitionDown", Reason.DRAINED),
        ("NodeDown", Reason.DRAINED),
        ("Nodes required for job are DOWN, DRAINED or reserved", Reason.DRAINED),
        ("JobHeldUser", Reason.HELD),
        ("JobHeldAdmin", Reason.HELD),
        ("PartitionTimeLimit", Reason.NO_SUCH_NODE),
        ("MaxMemPerLimit", Reason.QUOTA),
        ("ReservationDeleted", Reason.HELD),
        ("MaxPoweredUpNodes", Reason.CAPACITY),
        ("AWordOfTomorrow", Reason.ENGINE_QUEUE),
    ],
)
def test_reasons_are_said_in_our_words_and_quoted(word, reason):
    explanation = states.explain_waiting([job(reason=word)])
    assert explanation.reason is reason
    assert word in explanation.message
    assert "Slurm job 5: " in explanation.message
    assert explanation.blockers == (), "it is not in its own way"


@pytest.mark.parametrize("word", ["", "None", "Cleaning"])
def test_a_job_that_slurm_has_not_compared_waits_for_no_other_jobs(word):
    assert "other jobs" not in states.explain_waiting([job(reason=word)]).message


@pytest.mark.parametrize("whose", ["QOS", "Assoc"])
def test_a_time_that_the_accounting_never_permits_names_what_sets_it(whose):
    explanation = states.explain_waiting([job(reason=f"{whose}MaxWallDurationPerJobLimit")])
    assert explanation.reason is Reason.QUOTA
    assert "scheduling.timeout, or `time_max_s`" in explanation.message


def test_every_release_explains_itself():
    """What Slurm 22.05 to 26.05 say of jobs that wait; docs/sources/slurm.md has the source."""
    reasons = {word: states.explain_waiting([job(reason=word)]) for word in WAITING.split()}
    default = states.explain_waiting([job(reason="AWordOfTomorrow")]).message.partition(" (")[0]
    assert {word for word in reasons if reasons[word].message.startswith(default)} == set()
    quotas = [word for word in reasons if word.startswith(("Max", "QOSM", "QOSG", "Assoc"))]
    by_quota = {word for word in quotas if reasons[word].reason is Reason.QUOTA}
    assert set(quotas) - by_quota == {"MaxPoweredUpNodes"}


def test_the_start_that_slurm_expects_is_said():
    explanation = states.explain_waiting([job(reason="Resources", start_s=1795461300.0)])
    assert "expects to start the job at 2026-11-23 19:15:00Z" in explanation.message


def test_a_held_job_says_what_releases_it():
    assert "`scontrol release 5`" in states.explain_waiting([job(reason="JobHeldUser")]).message


def test_components_that_wait_for_another_say_nothing():
    rows = [job(reason="Dependency"), job(reason="Resources", component=1)]
    assert states.explain_waiting(rows).reason is Reason.CAPACITY


def test_what_can_never_start_is_said_but_not_for_nodes_that_may_come_back():
    assert "label trainshed-slurm-account" in states.explain_never(
        [job(reason="AccountNotAllowed")]
    )
    assert "set scheduling.timeout" in states.explain_never([job(reason="PartitionTimeLimit")])
    assert states.explain_never([job(reason="PartitionNodeLimit")]) is None
    assert states.explain_never([job(reason="Resources")]) is None


@pytest.mark.parametrize(
    ("before", "after", "has_news", "polls_fast"),
    [
        pytest.param(["PENDING None"], ["PENDING None"], False, False, id="the same"),
        pytest.param([], ["PENDING None"], True, True, id="a new job"),
        pytest.param(["PENDING Priority"], ["PENDING Resources"], True, False, id="another reason"),
        pytest.param(["PENDING Priority"], ["RUNNING None"], True, True, id="a start"),
        pytest.param(["RUNNING None"], ["COMPLETED None"], True, True, id="an end"),
        pytest.param(["RUNNING None"], [], True, True, id="a job that is missing"),
        pytest.param(["COMPLETED None"], [], False, False, id="an ended job that is forgotten"),
        pytest.param(
            ["PENDING None", "COMPLETED None"], ["RUNNING None"], True, True, id="one of several"
        ),
    ],
)
def test_slurm_is_asked_often_only_while_a_job_moves(before, after, has_news, polls_fast):
    def rows(jobs):
        return {str(number): [job(*words.split())] for number, words in enumerate(jobs)}

    change = states.compare_answers(rows(before), rows(after))
    assert (change.has_news, change.is_moving) == (has_news, polls_fast)
