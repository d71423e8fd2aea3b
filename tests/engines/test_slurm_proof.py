"""What can be proven of an attempt on a cluster: facts and memory to a decision."""

import pytest

from trainshed.engines.cluster_end import EndByCluster
from trainshed.engines.decisions import (
    STANDS,
    GiveUp,
    Over,
    Recorded,
    Runs,
    TakeClaim,
    Unknown,
    Waits,
    give_up,
)
from trainshed.engines.slurm import states
from trainshed.engines.slurm.parse import Cancellation, SlurmJob
from trainshed.engines.slurm.proof import Memory, SlurmFacts, decide_state, follow
from trainshed.engines.slurm.states import OVER, SlurmState
from trainshed.engines.supervise.record.folder import Order
from trainshed.engines.warden.protocol import ENDS_PROCESSES
from trainshed.model.attempt import AttemptKey, Loss, Outcome, ReplicaExit
from trainshed.model.explanation import Explanation, Reason
from trainshed.model.roles import Role

KEY = AttemptKey(4611686018427387904, 2)
ORDER = Order(grace_s=30.0, reason="cancel")
LATE_S = 90.0


def rows(word, reason="", nodes=("n1",)):
    return [SlurmJob("7", 0, word, reason, nodes, None, "ts", str(KEY))]


def outcome(code=0, signal=None, *, interrupted=False, message="it ended"):
    status = code if signal is None else 128 + signal
    code = code if signal is None else None
    replica = ReplicaExit(
        Role.PRIMARY, 0, "primary-0", code, signal, 1.0, stopped_by_us=interrupted
    )
    return Outcome(status, message, (replica,), interrupted=interrupted)


def facts(word=None, **more):
    """What is read of an attempt that was submitted, as Slurm says of its job."""
    shown = {"rows": rows(word)} if word else {}
    return SlurmFacts(
        **{"key": KEY, "job": "7", "number": 9, "lost_after_s": LATE_S, **shown, **more}
    )


BEGUN = {"has_begun": True}
KILLED = {**BEGUN, "outcome": outcome(signal=15)}
INTERRUPTED = {**BEGUN, "outcome": outcome(143, interrupted=True)}
LEFT = {**BEGUN, "outcome": outcome(143, interrupted=True, message=f"n1 {ENDS_PROCESSES}")}
FORGOTTEN = (
    "Slurm no longer knows the job of the attempt, its accounting (sacct) reports no cancellation, "
    "and no end is recorded"
)
BY_A_PERSON = Over(
    EndByCluster(states.explain_cancelled("7", Cancellation(None, 0.0)), Loss.OPERATOR),
    takes_claim=True,
)
GONE = Memory(missed=2, counted_at=9)
LONG_OVER = Memory(over_since_s=-LATE_S)
REQUEUED = Memory(queued_at=7, is_requeued=True)
NEVER = {"rows": rows("PENDING", reason="AccountNotAllowed", nodes=())}


@pytest.mark.parametrize(
    ("given", "memory", "decision"),
    [
        # an end that is written down counts for ever
        (facts("RUNNING", end=STANDS), Memory(), Over(STANDS, is_written=True)),
        # never submitted
        (facts(is_submitted=False, job=""), Memory(), Unknown()),
        (
            facts(is_submitted=False, job="", order=ORDER),
            Memory(),
            Over(EndByCluster(early=True), is_written=True),
        ),
        # ordered to end before it began: who has the claim decides
        (facts("PENDING", order=ORDER), Memory(), TakeClaim()),
        (facts("PENDING", order=ORDER, claim=True), Memory(), Over(EndByCluster(early=True))),
        (
            facts("PENDING", order=ORDER._replace(lost=True), claim=True),
            Memory(),
            Over(EndByCluster("the attempt was given up before it began", Loss.INFRA)),
        ),
        (facts("RUNNING", order=ORDER, claim=False), Memory(), Runs()),
        (facts("RUNNING", order=ORDER, **BEGUN), Memory(), Runs()),
        # a recorded end that only the program can have caused, or that we ordered
        (facts("RUNNING", **BEGUN, outcome=outcome(0)), Memory(), Recorded()),
        (facts("NODE_FAIL", **BEGUN, outcome=outcome(42)), Memory(), Recorded()),
        (facts("PREEMPTED", **KILLED, order=ORDER), Memory(), Recorded()),
        (facts(is_away=True, **BEGUN, outcome=outcome(42)), Memory(), Recorded()),
        # a recorded end that Slurm has to explain
        (facts("RUNNING", **KILLED), Memory(), Runs()),
        (facts("COMPLETING", **KILLED), Memory(), Runs()),
        (facts(**KILLED), Memory(missed=1), Runs()),
        (facts(is_away=True, **KILLED), GONE, Runs()),
        (facts(is_up=False, **KILLED), GONE, Runs()),
        (facts("COMPLETED", **KILLED), Memory(), Over(STANDS)),
        (facts("FAILED", **BEGUN, outcome=outcome(200)), Memory(), Over(STANDS)),
        (
            facts("FAILED", **INTERRUPTED),
            Memory(),
            Over(
                EndByCluster("the launcher was stopped from outside Trainshed", Loss.INFRA, ("n1",))
            ),
        ),
        (
            facts("FAILED", **LEFT),
            Memory(),
            Over(
                EndByCluster(
                    f"the cluster reclaims its nodes: n1 {ENDS_PROCESSES}", Loss.MAINTENANCE
                )
            ),
        ),
        # its launcher keeps the nodes: believed once an answer shows its job after that
        (facts("RUNNING", **KILLED, is_held=True), Memory(held_at=8), Runs()),
        (facts("RUNNING", **KILLED, is_held=True), Memory(held_at=7), Over(STANDS)),
        (facts("RUNNING", **KILLED), Memory(held_at=7), Runs()),
        # Slurm is away
        (facts(is_away=True), Memory(), Unknown()),
        (facts("RUNNING", is_away=True, **BEGUN), Memory(), Unknown()),
        # it is in the queue
        (facts(**NEVER), Memory(), TakeClaim()),
        (
            facts(**NEVER, claim=True),
            Memory(),
            Over(EndByCluster(fault=states.explain_never(NEVER["rows"]), never=True)),
        ),
        (facts("PENDING", **BEGUN), Memory(queued_at=8), Runs()),
        (facts("PENDING", **BEGUN), REQUEUED, Unknown()),
        (facts("REQUEUED"), Memory(queued_at=8), Runs()),
        (facts("REQUEUED"), REQUEUED, Unknown()),
        (facts("PENDING", **KILLED), REQUEUED, Unknown()),
        # it has its nodes
        (facts("RUNNING", **BEGUN), Memory(), Runs()),
        (
            facts("CONFIGURING"),
            Memory(),
            Runs(
                Explanation(
                    Reason.NOT_STARTING,
                    "Slurm boots or prepares n1 for the job (Slurm job 7 is CONFIGURING)",
                    ("n1",),
                )
            ),
        ),
        (facts("TELEPORTING", **BEGUN), Memory(), Unknown()),
        # Slurm does not show its job
        (facts(job="", number=0), Memory(), Unknown()),
        (facts(job=""), GONE, Unknown()),
        (facts(**BEGUN, is_new=True), Memory(), Runs()),
        (facts(**BEGUN), Memory(missed=1), Unknown()),
        (facts(**BEGUN), GONE._replace(over_since_s=-LATE_S), Unknown()),  # sacct is asked first
        (facts(**BEGUN, cancellation=Cancellation()), GONE, Unknown()),
        *(
            (facts(**BEGUN, **given), GONE._replace(over_since_s=-LATE_S), GiveUp(FORGOTTEN))
            for given in ({"cancellation": Cancellation()}, {"order": ORDER})
        ),
        *(
            (facts(**given, cancellation=Cancellation(None, 0.0)), GONE, BY_A_PERSON)
            for given in ({}, BEGUN, KILLED, INTERRUPTED)
        ),
        (facts(**KILLED), GONE, Unknown()),
        (facts(**KILLED, cancellation=Cancellation()), GONE, Over(STANDS)),
        (facts(**BEGUN, is_up=False), GONE._replace(over_since_s=-LATE_S), Unknown()),
        # its job is over, and its batch step has not even taken the claim
        (facts("COMPLETED"), Memory(), TakeClaim()),
        (facts("FAILED", claim=False), Memory(over_since_s=0.0), Runs()),
        (
            facts(rows=rows("FAILED", "NonZeroExitCode", ("n1", "n2")), claim=True, spool="/s"),
            Memory(),
            Over(
                EndByCluster(
                    "the batch step of the Slurm job 7 never began on n1 (Slurm says "
                    "NonZeroExitCode); `srun -w n1 ls -d /s` shows whether the node sees the spool",
                    Loss.INFRA,
                    ("n1",),
                )
            ),
        ),
        (
            facts(rows=rows("FAILED", "JobLaunchFailure", ()), claim=True),
            Memory(),
            Over(
                EndByCluster(
                    "the batch step of the Slurm job 7 never began (Slurm says JobLaunchFailure)",
                    Loss.INFRA,
                )
            ),
        ),
        # its job is over, and its records tell no end
        (facts("COMPLETED", **BEGUN), Memory(over_since_s=0.0), Runs()),
        (facts("COMPLETED", **BEGUN), LONG_OVER, GiveUp("the launcher of the attempt was killed")),
        (
            facts("OUT_OF_MEMORY", **BEGUN),
            LONG_OVER,
            GiveUp(
                "the launcher of the attempt was killed",
                EndByCluster(
                    "the launcher of the attempt was killed with its program: out of memory "
                    "(Slurm says OUT_OF_MEMORY)",
                    exit_code=137,
                ),
            ),
        ),
        (
            facts("CANCELLED", **BEGUN, order=ORDER),
            LONG_OVER,
            GiveUp("the launcher of the attempt was killed"),
        ),
    ],
)
def test_the_decision_follows_from_the_facts(given, memory, decision):
    assert decide_state(given, memory) == decision


@pytest.mark.parametrize(
    ("word", "memory", "end"),
    [
        (
            "PREEMPTED",
            Memory(),
            EndByCluster("Slurm has preempted the job 7 of the attempt", Loss.MAINTENANCE),
        ),
        (
            "TIMEOUT",
            Memory(),
            EndByCluster("the Slurm job 7 has reached its time limit", Loss.LIMIT),
        ),
        (
            "NODE_FAIL",
            Memory(),
            EndByCluster(
                "Slurm reports NODE_FAIL for the job 7 of the attempt on n1", Loss.INFRA, ("n1",)
            ),
        ),
        (
            "CANCELLED",
            Memory(),
            EndByCluster(
                "someone other than this server cancelled the Slurm job 7 (scancel)", Loss.OPERATOR
            ),
        ),
        (
            "CANCELLED",
            REQUEUED,
            EndByCluster(
                "the Slurm job 7 was requeued, and an attempt starts only once", Loss.INFRA
            ),
        ),
    ],
)
@pytest.mark.parametrize("recorded", [BEGUN, KILLED, INTERRUPTED])
def test_a_job_that_did_not_end_of_itself_is_lost_by_slurms_word(word, memory, end, recorded):
    given = facts(word, **recorded, cancellation=Cancellation())
    assert decide_state(given, memory) == Over(end, takes_claim=True)


def test_a_cancelled_job_is_judged_once_slurm_was_asked_by_whom():
    for recorded in ({}, BEGUN, KILLED, INTERRUPTED):
        assert decide_state(facts("CANCELLED", **recorded), Memory()) == Unknown()


@pytest.mark.parametrize(
    ("uid", "nodes", "decision"),
    [
        (None, ("n1",), TakeClaim),  # Slurm may have cancelled it, since n1 could not start it
        (0, ("n1",), TakeClaim),
        (1000, ("n1",), Over),
        (None, (), Over),
    ],
)
def test_a_job_that_was_cancelled_before_it_began_may_be_one_that_could_not_be_started(
    uid, nodes, decision
):
    given = facts(rows=rows("CANCELLED", nodes=nodes), cancellation=Cancellation(uid))
    assert isinstance(decide_state(given, Memory()), decision)


def test_a_job_that_slurm_has_not_shown_yet_waits():
    for given in (facts(number=0), facts(is_new=True)):
        decision = decide_state(given, Memory())
        assert isinstance(decision, Waits)
        assert decision.waits.reason is Reason.ENGINE_QUEUE
        assert "job 7" in decision.waits.message


def test_a_job_in_the_queue_waits_with_the_words_of_slurm():
    held = facts(rows=rows("PENDING", reason="JobHeldUser", nodes=()))
    assert decide_state(held, Memory()) == Waits(states.explain_waiting(held.rows))
    assert decide_state(held, Memory()).waits.reason is Reason.HELD
    begins = facts(**NEVER, claim=False)  # its launcher has the claim: the answer is older
    assert decide_state(begins, Memory()) == Waits(states.explain_waiting(begins.rows))


def test_what_stands_still_or_cannot_be_reached_says_so():
    suspended = facts("SUSPENDED", **BEGUN)
    assert decide_state(suspended, Memory()) == Runs(states.explain_suspended(suspended.rows))
    silent = facts("RUNNING", **BEGUN, silent=frozenset({"n1"}))
    assert decide_state(silent, Memory()) == Unknown(states.explain_unreachable(KEY, {"n1"}))


@pytest.mark.parametrize("state", list(SlurmState), ids=str)
@pytest.mark.parametrize("recorded", [{}, BEGUN, KILLED, INTERRUPTED])
def test_every_state_has_a_decision_and_only_what_is_over_ends(state, recorded):
    word = next((word for word, meaning in states.STATES.items() if meaning is state), "?")
    decision = decide_state(facts(word, **recorded), Memory())
    assert not isinstance(decision, Over) or state in OVER


@pytest.mark.parametrize(
    ("has_ended", "has_decided", "last_words", "decision"),
    [
        (True, True, "", Recorded()),
        (False, True, "", Over(STANDS)),
        (False, False, "", Over(EndByCluster(fault="why", loss=Loss.INFRA), takes_claim=True)),
        (
            False,
            False,
            "no space",
            Over(EndByCluster(fault="why: no space", loss=Loss.INFRA), takes_claim=True),
        ),
    ],
)
def test_what_is_given_up_ends_by_the_records_that_are_there(
    has_ended, has_decided, last_words, decision
):
    given = give_up("why", last_words, has_ended=has_ended, has_decided=has_decided)
    assert given == decision


def looks(*given):
    memory = Memory()
    for number, look in enumerate(given, 1):
        memory = follow(memory, facts(**{"number": number, "now_s": float(number), **look}))
    return memory


SHOWN = {"rows": rows("RUNNING")}
DONE = {"rows": rows("COMPLETED")}
PENDING = {"rows": rows("PENDING", nodes=()), **BEGUN}


@pytest.mark.parametrize(
    ("given", "missed"),
    [
        (({}, {}), 2),
        (({}, {"number": 1}), 1),  # the same answer
        (({}, SHOWN, {}), 1),  # not in a row
        (({}, {"is_away": True}, {}), 2),
        (({}, {"is_up": False}), 1),
        (({"is_new": True}, {}), 1),
        (({"job": ""}, {"job": "", "outcome": outcome(1)}), 1),
        (({"is_submitted": False},), 0),
    ],
)
def test_answers_in_a_row_without_the_job_are_counted(given, missed):
    assert looks(*given).missed == missed


@pytest.mark.parametrize(
    ("given", "since_s"),
    [
        ((SHOWN, DONE, DONE), 2.0),
        ((DONE, SHOWN), None),
        ((DONE, {"is_away": True}), 1.0),
        (({}, {}), 2.0),  # from when it was gone
        (({}, {}, SHOWN), None),
    ],
)
def test_what_is_over_is_over_since_it_was_first_seen_so(given, since_s):
    assert looks(*given).over_since_s == since_s


@pytest.mark.parametrize(
    ("given", "is_requeued"),
    [
        ((PENDING, PENDING), False),  # the second answer may have been under way
        ((PENDING, PENDING, PENDING), True),
        ((PENDING, PENDING, SHOWN, PENDING, PENDING), False),
        ((PENDING, PENDING, PENDING, SHOWN), True),  # for ever
        (({**PENDING, "has_begun": False},) * 3, False),
    ],
)
def test_a_job_that_waits_though_it_began_is_requeued_after_two_answers(given, is_requeued):
    assert looks(*given).is_requeued is is_requeued


def test_kept_nodes_are_counted_from_the_first_answer_with_the_running_job():
    held = {**SHOWN, "is_held": True}
    assert looks(SHOWN, held, held).held_at == 2
    assert looks({"is_held": True}, DONE | {"is_held": True}).held_at is None
