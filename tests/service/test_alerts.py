"""Alerts for users without Prometheus: when each begins, what it says, and who sees it."""

import json
import logging
from pathlib import Path
from types import SimpleNamespace

import pytest

from databases import new_database
from store.builders import add, place
from trainshed.engines.capabilities import GpuNow
from trainshed.model.attempt import AttemptKey
from trainshed.model.gpus import GpuState, NodeGpu
from trainshed.model.resources import Node
from trainshed.observability.logs import JsonFormatter
from trainshed.service.alerts.alerts import Alerts
from trainshed.service.alerts.rules import (
    AlertFacts,
    AlertKind,
    HeldGpu,
    HungReplica,
    QueueState,
    list_alerts,
)
from trainshed.store.opening import open_store
from trainshed.store.records.steps import NewEvent

NOW_S = 1_800_000_000.0
JOB = "projects/p/locations/l/customJobs/1"


def find_kinds(**facts):
    return [alert.kind for alert in list_alerts(AlertFacts(now_s=NOW_S, **facts))]


@pytest.mark.parametrize(("idle_s", "kinds"), [(1799.0, []), (1800.0, [AlertKind.GPU_HELD_IDLE])])
def test_a_gpu_is_held_and_idle_from_half_an_hour(idle_s, kinds):
    held = HeldGpu(node="n", gpu=0, project="p", job=JOB, idle_s=idle_s)
    assert find_kinds(held_gpus=[held]) == kinds


@pytest.mark.parametrize(("age_s", "kinds"), [(599.0, []), (600.0, [AlertKind.REPLICA_HUNG])])
def test_a_hang_is_an_alert_ten_minutes_after_its_report(age_s, kinds):
    hung = HungReplica(project="p", job=JOB, task_name="t", since_s=NOW_S - age_s)
    assert find_kinds(hung=[hung]) == kinds


@pytest.mark.parametrize(("age_s", "kinds"), [(179.0, []), (180.0, [AlertKind.NODE_LOST])])
def test_a_node_is_lost_three_minutes_after_its_last_report(age_s, kinds):
    assert find_kinds(nodes_seen_s={"n": NOW_S - age_s}) == kinds


@pytest.mark.parametrize(("free", "kinds"), [(10, []), (9, [AlertKind.DISK_NEARLY_FULL])])
def test_a_disk_is_nearly_full_below_a_tenth(free, kinds):
    assert find_kinds(disks={"data": (free, 100)}) == kinds


@pytest.mark.parametrize(
    ("wait_s", "waiting", "free", "looked_s", "kinds"),
    [
        (3601.0, 1, 1, 900.0, [AlertKind.QUEUE_STUCK]),
        (3601.0, 1, 1, 899.0, []),
        (3600.0, 1, 1, 900.0, []),
        (3601.0, 0, 1, 900.0, []),
        (3601.0, 1, 0, 900.0, []),
    ],
)
def test_a_queue_is_stuck_while_jobs_wait_and_gpus_are_free(wait_s, waiting, free, looked_s, kinds):
    queue = QueueState(oldest_wait_s=wait_s, waits_for_capacity=waiting, gpus_free=free)
    assert find_kinds(queue=queue, stuck_since_s=NOW_S - looked_s) == kinds


def test_every_message_says_what_to_do_next():
    facts = AlertFacts(
        now_s=NOW_S,
        hung=[HungReplica(project="p", job=JOB, task_name="t", since_s=0.0)],
        held_gpus=[HeldGpu(node="n", gpu=0, project="p", job=JOB, idle_s=7200.0)],
        queue=QueueState(oldest_wait_s=7200.0, waits_for_capacity=1, gpus_free=1),
        stuck_since_s=0.0,
        nodes_seen_s={"n": 0.0},
        disks={"data": (0, 100)},
    )
    alerts = list_alerts(facts)
    assert {alert.kind for alert in alerts} == set(AlertKind)
    assert [alert.message for alert in alerts if "trainshed " not in alert.message] == []


@pytest.fixture
def store(tmp_path):
    store = open_store(new_database(tmp_path))
    gpu = NodeGpu(uuid="GPU-1", type="T4", state=GpuState.HELD)
    store.see_nodes("test", [Node(name="n1", devices=(gpu,))])
    yield store
    store.close()


def make_alerts(store, *, at_s=0.0, idle_uid=None):
    gpu = NodeGpu(uuid="GPU-1", type="T4", state=GpuState.HELD)
    status = GpuNow(gpu=gpu, attempt=AttemptKey(idle_uid, 1) if idle_uid else None, idle_s=3600.0)
    return Alerts(
        store=store,
        gpus_now=lambda: [status],
        disks={"data": Path("/")},
        now=lambda: store.now().timestamp() + at_s,
    )


def list_kinds(alerts, sees=lambda _: True):
    kinds = [alert.kind for alert in alerts.listing(sees).alerts]
    return [kind for kind in kinds if kind is not AlertKind.DISK_NEARLY_FULL]  # of this machine


def test_an_idle_gpu_names_its_job_to_callers_who_may_see_it(store):
    uid = place(store, add(store).uid).uid
    alerts = make_alerts(store, idle_uid=uid)

    assert list_kinds(alerts) == [AlertKind.GPU_HELD_IDLE]
    (message,) = [row.message for row in alerts.listing(lambda _: True).alerts if row.job]
    assert "ask ada, or" in message
    assert list_kinds(alerts, lambda project: project == "another") == []


@pytest.mark.parametrize(("user", "words"), [("ada", "ask ada, or"), ("", "ask its owner, or")])
def test_the_message_of_an_idle_gpu_names_the_user_and_the_command_that_cancels_the_job(
    user, words
):
    held = HeldGpu(node="n", gpu=0, project="p", job="projects/p/jobs/j", user=user, idle_s=1800.0)
    (alert,) = list_alerts(AlertFacts(now_s=NOW_S, held_gpus=[held]))
    assert words in alert.message
    assert "(trainshed jobs cancel projects/p/jobs/j)" in alert.message


def test_a_replica_that_recovered_is_no_alert(store):
    uid = place(store, add(store).uid).uid
    alerts = make_alerts(store, at_s=1000.0)
    store.see_nodes("test", [])

    store.add_event(uid, NewEvent(kind="HUNG", message="", data={"task_name": "t"}))
    hung = list_kinds(alerts)
    store.add_event(uid, NewEvent(kind="RECOVERED", message="", data={"task_name": "t"}))

    assert hung == [AlertKind.REPLICA_HUNG]
    assert list_kinds(alerts) == []


def test_a_full_disk_is_an_alert_since_the_server_noticed_it(store, monkeypatch):
    full = SimpleNamespace(f_bavail=1, f_blocks=100, f_frsize=1)
    monkeypatch.setattr("trainshed.service.alerts.alerts.os.statvfs", lambda _: full)
    alerts = make_alerts(store)
    first, *_ = alerts.listing().alerts
    alerts.now = lambda: store.now().timestamp() + 3600
    later, *_ = alerts.listing().alerts
    assert (later.kind, later.since) == (AlertKind.DISK_NEARLY_FULL, first.since)


def test_the_log_says_once_that_an_alert_began_and_once_that_it_is_over(store, caplog):
    caplog.set_level(logging.INFO, "trainshed.service.alerts.alerts")
    alerts = make_alerts(store, at_s=1000.0)  # no engine has reported the node for so long

    alerts.look()
    alerts.look()
    store.see_nodes("test", [])
    alerts.look()

    lines = [line for line in caplog.messages if "DISK" not in line]
    assert [line.partition(":")[0] for line in lines] == [
        "alert NODE_LOST",
        "alert NODE_LOST of n1 is over",
    ]


def test_a_json_log_has_the_job_the_replica_and_the_node_of_an_alert(store, caplog):
    record = add(store)
    place(store, record.uid)
    store.add_event(record.uid, NewEvent(kind="HUNG", message="", data={"task_name": "t"}))
    make_alerts(store, at_s=1000.0).look()
    documents = [json.loads(JsonFormatter().format(logged)) for logged in caplog.records]
    lost, hung = (
        next(one for one in documents if kind in one["message"]) for kind in ("LOST", "HUNG")
    )
    assert lost["node"] == "n1"
    job = record.job
    assert (hung["project"], hung["job"], hung["task"]) == (job.project, job.job_id, "t")
