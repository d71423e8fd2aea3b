"""Each check of the doctor: quiet on what is right, and loud on each breach, made by hand."""

from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest

from trainshed.engines.base import LivingProcess
from trainshed.engines.network.leftovers import JobNetworkCounts
from trainshed.engines.supervise.leftovers import SUBREAPER
from trainshed.lifecycle.events import Command
from trainshed.model.attempt import AttemptKey, Phase
from trainshed.model.resources import FleetPolicy, Node
from trainshed.model.status import FINAL, JobState
from trainshed.model.trials import TrialState
from trainshed.store.audit import AuditedTrial
from trainshed.store.clock_jumps import ClockJump
from trainshed.store.records.nodes import NodeRow
from trainshed.store.records.steps import StoredCommand
from trainshed.workbench.doctor.examine import (
    CHECKS,
    DoctorReport,
    examine,
    keep_confirmed,
    results_of,
)
from trainshed.workbench.doctor.snapshot import (
    Check,
    CheckResult,
    DiskFacts,
    DoctorFinding,
    FolderFacts,
    JobFacts,
    LogFacts,
    RowsFacts,
    SeatFacts,
    Snapshot,
)

NS = 1_000_000_000
NOW = 1_000_000 * NS
KEY = AttemptKey(7, 2)
OLD = AttemptKey(7, 1)
SEAT = SeatFacts(node="here", vcpus=4, memory_gb=8.0, gpus=1)
NODE = Node(name="here", vcpus=8, memory_gb=16.0, gpus={"T4": 2}, slots=2, policy=FleetPolicy.EXACT)
BEGAN = {"is": "Began", "pid": 5}
ENDED = {"is": "Ended"}


def job(state=JobState.RUNNING, **changes):
    is_over = state in FINAL
    fields = {
        "uid": 7,
        "name": "projects/p/jobs/j",
        "state": state,
        "attempt": 2,
        "holds": not is_over and state is not JobState.QUEUED,
        "create_ns": NOW - 500 * NS,
        "update_ns": NOW - 400 * NS,
        "end_ns": NOW - 300 * NS if is_over else None,
        "has_error": state in (JobState.FAILED, JobState.CANCELLED),
        "is_explained": True,
        "owner": "here-1",
    }
    return JobFacts(**{**fields, **changes})


def node_row(node):
    return NodeRow(engine="local", node=node, seen_time=datetime.fromtimestamp(NOW / NS, tz=UTC))


def folder(*records, **changes):
    log = LogFacts(first_ns=20, last_ns=30, lines=2)
    fields = {"path": Path("/data/jobs/7/2"), "is_held": True, "log": log, "records": records}
    return FolderFacts(**{**fields, **changes})


def process(key=KEY, **changes):
    return LivingProcess(**{"pid": 99, "key": key, "command": "python task.py", **changes})


def rows(seen_job, **changes):
    fields = {
        "jobs": {7: seen_job},
        "attempts": {OLD: (SEAT,), KEY: (SEAT,)},
        "replicas": {OLD: 1, KEY: 1},
        "nodes": (node_row(NODE),),
        "stamps": {7: NOW - 400 * NS},
        "leases": {
            "server:here-1": ("here-1", NOW + 5 * NS),
            "scheduler": ("here-1", NOW + 5 * NS),
        },
    }
    return RowsFacts(**{**fields, **changes})


def snapshot(state=JobState.RUNNING, *, server=1, row=None, **changes):
    """A job in a state, with everything as it should be."""
    is_over = state in FINAL
    lives = not is_over and state is not JobState.QUEUED
    newest = folder(BEGAN) if lives else folder(BEGAN, ENDED, is_held=False)
    before = folder(BEGAN, ENDED, is_held=False, log=LogFacts(first_ns=10, last_ns=19, lines=2))
    fields = {
        "now_ns": NOW,
        "machine": "here",
        "server_pid": server,
        "files_max": 65_536,
        "rows": rows(row or job(state)),
        "folders": {OLD: before, KEY: newest},
        "processes": (process(),) if lives else (),
        "disk": DiskFacts(free_bytes=1 << 40, free_files=1 << 30),
    }
    return Snapshot(**{**fields, **changes})


def failed(observation):
    return {result.check.name for result in results_of(observation) if result.word == "FAILED"}


def noted(observation):
    return {result.check.name for result in results_of(observation) if result.word == "noted"}


def texts(observation):
    return " ".join(
        finding.text for result in results_of(observation) for finding in result.findings
    )


@pytest.mark.parametrize("state", JobState)
@pytest.mark.parametrize("server", [1, None])
def test_nothing_is_said_of_what_is_as_it_should_be(state, server):
    results = results_of(snapshot(state, server=server))
    assert {result.word for result in results} == {"ok"}


def with_rows(state=JobState.RUNNING, row=None, **changes):
    return snapshot(state, rows=rows(row or job(state), **changes))


def with_folder(state=JobState.RUNNING, **changes):
    observation = snapshot(state)
    return replace(
        observation,
        folders={**observation.folders, KEY: replace(observation.folders[KEY], **changes)},
    )


def with_disk(**changes):
    return snapshot(disk=replace(snapshot().disk, **changes))


STUDY = job(uid=8, name="projects/p/jobs/tune", attempt=0, holds=False, owner=None, is_study=True)
ENDED_STUDY = replace(STUDY, state=JobState.SUCCEEDED, end_ns=NOW)


def with_study(study=STUDY, seen_job=None, **changes):
    """The job is that of a study's first trial."""
    seen_job = seen_job or job()
    trial = {"study_uid": 8, "number": 1, "job_uid": 7, "state": TrialState.ACTIVE, **changes}
    study_rows = rows(seen_job, trials=(AuditedTrial(**trial),))
    both = replace(study_rows, jobs={7: seen_job, 8: study}, stamps={7: NOW, 8: NOW})
    return snapshot(seen_job.state, rows=both)


OVERFULL = {"attempts": {OLD: (SEAT,), KEY: (SEAT,) * 3}, "replicas": {OLD: 1, KEY: 3}}
SMALL = node_row(replace(NODE, vcpus=3, memory_gb=4.0))
LAUNCH = StoredCommand(seq=1, uid=KEY.uid, attempt=KEY.attempt, kind=Command.LAUNCH)

BREACHES = {
    "database-is-sound": with_rows(damage=("page 3 is torn",)),
    "every-job-has-its-story": with_rows(stamps={}),
    "waiting-says-why": snapshot(row=job(JobState.QUEUED, is_explained=False), processes=()),
    "over-has-an-end": snapshot(JobState.FAILED, row=job(JobState.FAILED, end_ns=None)),
    "over-holds-nothing": snapshot(JobState.SUCCEEDED, row=job(JobState.SUCCEEDED, holds=True)),
    "active-holds-places": snapshot(row=job(holds=False)),
    "attempts-have-seats": with_rows(attempts={KEY: (SEAT,)}),
    "commands-are-performed": with_rows(commands=(LAUNCH,)),
    "trials-have-jobs": with_study(job_uid=9),
    "over-ends-its-trials": with_study(ENDED_STUDY),
    "leases-are-valid": with_rows(leases={}),
    "newest-attempt-alone": snapshot(processes=(process(OLD),)),
    "over-has-no-process": snapshot(JobState.CANCELLED, processes=(process(),)),
    "active-is-attended": with_folder(is_held=False),
    "engines-agree": snapshot(elsewhere={AttemptKey(9, 1): Phase.WAITING}),
    "nodes-not-overfull": with_rows(**OVERFULL),
    "gpus-not-shared": snapshot(
        processes=(
            process(devices=frozenset({"GPU-1"})),
            process(AttemptKey(8, 1), devices=frozenset({"GPU-1", "GPU-2"})),
        )
    ),
    "networks-end-with-jobs": snapshot(networks=JobNetworkCounts(left_over=(99,), links=("tap0",))),
    "logs-are-whole": with_folder(log=LogFacts(wrong=("line 3 of 00000001.jsonl is not read",))),
    "records-are-whole": with_folder(wrong_records=("line 2 cannot be read",)),
    "secrets-are-private": with_disk(open_modes={"/data/admin-token": 0o644}),
    "notes-are-readable": with_disk(unreadable_notes=("/data/objects/bkt/ab/abcd.json",)),
    "backups-are-whole": with_disk(wrong_backup=("jobs/7/1/records.jsonl is missing",)),
    "disk-has-room": with_disk(free_bytes=1 << 20),
    "files-can-be-opened": snapshot(files_max=100),
}
REMARKS = {
    "folders-have-jobs": snapshot(folders={AttemptKey(9, 1): folder(path=Path("/data/jobs/9/1"))},
                                  processes=(), rows=RowsFacts(leases=rows(job()).leases)),
    "buckets-have-projects": with_disk(buckets=("by-hand",)),
    "uploads-are-finished": with_disk(old_uploads=("/data/uploads/sessions/a",)),
    "clocks-agree": with_disk(future_s=3600.0),
    "disk-has-room": with_disk(free_bytes=1 << 29),
    "files-can-be-opened": snapshot(files_max=1000),
    "programs-behind-walls": with_rows(nodes=(node_row(replace(NODE, isolation="none")),)),
    "ports-are-held": snapshot(lost_holder=98),
    "jobs-have-networks": with_rows(nodes=(node_row(replace(NODE, network="host: no tun")),)),
    "leftovers-can-be-ended": with_rows(nodes=(node_row(replace(NODE, leftovers=SUBREAPER)),)),
    "commands-are-performed": replace(BREACHES["commands-are-performed"], server_pid=None),
    "active-is-attended": replace(BREACHES["active-is-attended"], server_pid=None),
    "engines-agree": with_rows(claims={KEY}),
}  # fmt: skip


@pytest.mark.parametrize("name", BREACHES)
def test_a_breach_is_found_by_its_own_check_and_no_other(name):
    observation = BREACHES[name]
    assert failed(observation) == {name}
    (result,) = (outcome for outcome in results_of(observation) if outcome.check.name == name)
    assert all(finding.subject and finding.text and finding.advice for finding in result.findings)


def test_a_clock_that_has_jumped_is_noted_for_a_week():
    """From the jump on; one that is put right again is told by its own jump."""
    day_ns = 86_400 * 10**9
    now_ns = snapshot().now_ns + 20 * day_ns
    for ago_days, is_noted in ((0, True), (6, True), (8, False), (-1, False)):
        jump = ClockJump(at_ns=now_ns - ago_days * day_ns, by_ns=400 * day_ns)
        observation = replace(with_rows(jumps=(jump,)), now_ns=now_ns)
        assert ("clocks-agree" in noted(observation)) == is_noted, ago_days


@pytest.mark.parametrize("name", REMARKS)
def test_what_breaks_no_promise_is_only_noted(name):
    assert (failed(REMARKS[name]), noted(REMARKS[name])) == (set(), {name})


def test_every_check_has_its_breach():
    assert {check.name for check in CHECKS} == BREACHES.keys() | REMARKS.keys()
    assert len({check.name for check in CHECKS}) == len(CHECKS)


@pytest.mark.parametrize(
    ("observation", "name", "words"),
    [
        (with_folder(JobState.SUCCEEDED, is_held=True), "over-has-no-process", "supervisor"),
        (snapshot(JobState.QUEUED, processes=(process(),)), "newest-attempt-alone", "waits"),
        (snapshot(JobState.FAILED, row=job(JobState.FAILED, has_error=False)), "over-has-an-end",
         "has no reason"),
        (snapshot(row=job(end_ns=5)), "over-has-an-end", "is not over"),
        (snapshot(JobState.QUEUED, row=job(JobState.QUEUED, holds=True)), "active-holds-places",
         "waits and holds"),
        (with_study(replace(STUDY, state=JobState.QUEUED)), "active-holds-places",
         "is in the queue"),
        (with_study(replace(STUDY, holds=True, owner="here-1")), "active-holds-places",
         "is a tuning job and holds places"),
        (with_study(study_uid=9), "trials-have-jobs", "belongs to no study"),
        (with_study(job_uid=9), "trials-have-jobs", "trial 1 has no job"),
        (with_study(ENDED_STUDY), "over-ends-its-trials", "its trial 1 is not"),
        (with_study(ENDED_STUDY, state=TrialState.SUCCEEDED), "over-ends-its-trials",
         "(7/2, RUNNING), the job"),
        (with_rows(replicas={OLD: 1, KEY: 2}), "attempts-have-seats", "2 replicas"),
        (with_rows(attempts={OLD: (SEAT,), KEY: ()}, replicas={OLD: 1}), "attempts-have-seats",
         "no seats"),
        (snapshot(folders={}), "active-is-attended", "no folder"),
        (snapshot(elsewhere={OLD: Phase.READY}), "engines-agree", "attempt 7/1 is READY"),
        (with_rows(nodes=(SMALL,)), "nodes-not-overfull", "4 vCPUs"),
        (with_rows(nodes=(SMALL,)), "nodes-not-overfull", "8 GB of memory"),
        (with_rows(**OVERFULL), "nodes-not-overfull", "3 replicas and has 2 slots"),
        (with_rows(**OVERFULL), "nodes-not-overfull", "3 GPUs and has 2"),
        (snapshot(row=job(owner="dead-2")), "leases-are-valid", "belongs to dead-2"),
        (with_rows(commands=(StoredCommand(seq=1, uid=8, attempt=1, kind=Command.STOP),)),
         "commands-are-performed", "belongs to a deleted job"),
        (with_folder(log=LogFacts(first_ns=19, last_ns=30)), "logs-are-whole", "earlier attempt"),
        (with_folder(JobState.SUCCEEDED, log=LogFacts(first_ns=20, last_ns=30, is_torn=True)),
         "logs-are-whole", "incomplete though the end of the attempt is recorded"),
        (with_folder(suspended=77), "active-is-attended", "process 77, is suspended"),
        (with_folder(is_private=False), "secrets-are-private", "7/2"),
        (with_disk(free_files=3), "disk-has-room", "3 more files"),
    ],
)  # fmt: skip
def test_a_breach_is_told_in_words(observation, name, words):
    assert failed(observation) == {name}
    assert words in texts(observation)


@pytest.mark.parametrize(
    "observation",
    [
        with_folder(log=LogFacts(first_ns=20, last_ns=30, is_torn=True)),
        replace(with_folder(log=LogFacts(first_ns=19, last_ns=30)), rows=rows(job(), fenced={OLD})),
        with_folder(is_held=False, records=(BEGAN, {"is": "Decided"})),
        with_rows(row=job(JobState.PREPARING, update_ns=NOW), commands=(LAUNCH,)),
        snapshot(processes=(process(AttemptKey(12345, 1)),)),
        snapshot(row=job(JobState.QUEUED, update_ns=NOW, is_explained=False), processes=()),
        replace(with_rows(leases={}), server_pid=None),
        snapshot(machine="elsewhere", folders={}, processes=()),
        with_disk(free_files=None),
        with_study(),
        with_study(replace(STUDY, state=JobState.PREPARING)),
        with_study(replace(STUDY, state=JobState.CANCELLING), state=TrialState.SUCCEEDED),
        with_study(ENDED_STUDY, job(JobState.FAILED), state=TrialState.SUCCEEDED),
        with_study(ENDED_STUDY, job(JobState.FAILED), state=TrialState.SUCCEEDED, job_uid=9),
    ],
    ids=[
        "a line may be torn while it is written",
        "what was fenced and lives after all writes on",
        "an end that was decided is enough",
        "a launch may be on its way",
        "a process of another data directory",
        "a job that was just accepted need not be explained",
        "without a server nobody holds a lease",
        "attempts on other machines are not looked for here",
        "file systems that count no files",
        "a study has no attempt and holds no place",
        "nor before its first trial runs",
        "the job of a trial that is over may end later than the trial",
        "a study ends after its trials",
        "the job of a trial that is over may be forgotten",
    ],
)
def test_what_may_be_is_no_breach(observation):
    assert failed(observation) == set()


def test_an_emulated_fleet_gives_no_gpus_that_could_be_too_many():
    node = replace(NODE, policy=FleetPolicy.EMULATE, gpus={}, vcpus=0)
    assert failed(with_rows(nodes=(node_row(node),))) == set()


@pytest.mark.parametrize("name", BREACHES)
def test_breaches_that_come_together_are_all_found(name):
    disk = replace(BREACHES[name].disk, free_bytes=0, open_modes={"a": 0o777})
    observation = replace(BREACHES[name], disk=disk, files_max=1)
    assert failed(observation) == {
        name, "disk-has-room", "secrets-are-private", "files-can-be-opened",
    }  # fmt: skip


def test_what_could_not_be_looked_at_is_not_called_ok():
    observation = snapshot(rows=RowsFacts(), unseen={"ROWS": "the file is\nno database"})
    by_name = {result.check.name: result for result in results_of(observation)}
    assert by_name["over-has-an-end"].word == "unseen"
    assert "the file is no database" in by_name["over-has-an-end"].unseen
    assert by_name["disk-has-room"].word == "ok"


def test_only_what_is_there_at_every_look_is_told():
    passing, lasting = BREACHES["over-has-no-process"], BREACHES["disk-has-room"]
    looks = iter([replace(passing, disk=lasting.disk), lasting, lasting])
    paused = []
    report = examine(lambda: next(looks), paused.append)
    assert {result.check.name for result in report.results if result.findings} == {"disk-has-room"}
    assert len(paused) == 2


def test_one_look_is_enough_where_nothing_is_found():
    paused = []
    assert examine(snapshot, paused.append).words == {"ok"}
    assert paused == []


def test_the_same_breach_of_another_subject_is_another_breach():
    check = Check(name="c", promise="p", parts=frozenset(), find=lambda _: ())
    one, two = (
        CheckResult(check=check, findings=(DoctorFinding(subject=name, text="t", advice="a"),))
        for name in ("one", "two")
    )
    assert keep_confirmed([one], [one]) == (one,)
    assert keep_confirmed([one], [two])[0].word == "ok"


def test_networks_of_all_servers_have_a_line_of_their_own():
    """What was looked at is of one server; the networks of this machine are of all."""
    observation = snapshot(networks=JobNetworkCounts(namespaces=5, ways_out=3))
    report = DoctorReport(results=(), snapshot=observation)
    assert report.networks.startswith("3 networks of jobs with 5 namespaces are on this machine")
    assert "network" not in report.looked_at
    assert DoctorReport(results=(), snapshot=snapshot()).networks == ""
