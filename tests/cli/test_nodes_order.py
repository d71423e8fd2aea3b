"""``trainshed nodes drain|maintain|resume``: what is sent, told and waited for."""

from types import SimpleNamespace

import pytest

from cli.standin import StandIn
from trainshed.cli.admin import nodes_order

NODE = {
    "name": "gpu1", "engine": "local", "state": "MAINTENANCE", "notice": "120s",
    "policy": "exact", "region": "", "vcpus": 8, "memoryGigabytes": 32.0, "gpus": {"T4": 2},
    "slots": 32, "replicas": 3, "seen": "2026-08-01T10:00:00Z",
}  # fmt: skip
JOBS = ["projects/p/jobs/a", "projects/p/jobs/b"]
MESSAGE = "2 jobs on gpu1 get 120 s notice"


class Fleet:
    """Answers as a server does whose node empties by one replica a look."""

    def __init__(self, replicas=3):
        self.replicas = replicas

    def __call__(self, verb, path, _document):
        node = {**NODE, "replicas": self.replicas}
        if verb == "GET":
            self.replicas = max(0, self.replicas - 1)
            return 200, {"nodes": [{**node, "name": "other", "replicas": 9}, node]}
        if "gpu1" not in path:
            message = "there is no node gpu2; there are: gpu1"
            return 404, {"error": {"code": 404, "status": "NOT_FOUND", "message": message}}
        return 200, {"node": node, "jobs": JOBS, "message": MESSAGE}


@pytest.fixture
def fleet(monkeypatch, home):
    monkeypatch.setattr(nodes_order, "POLL_S", 0.01)
    for name in ("TRAINSHED_URL", "TRAINSHED_TOKEN"):
        monkeypatch.delenv(name, raising=False)
    with StandIn(Fleet()) as server:
        server.note(home / "data")
        yield server


@pytest.mark.parametrize(
    ("words", "sent"),
    [
        (["drain", "gpu1"], ("drain", {})),
        (["drain", "gpu1", "--notice", "2m"], ("drain", {"notice": "120s"})),
        (["maintain", "gpu1"], ("maintain", {})),
        (["maintain", "gpu1", "--notice=1h30m"], ("maintain", {"notice": "5400s"})),
        (["maintain", "gpu1", "--notice", "90"], ("maintain", {"notice": "90s"})),
        (["maintain", "gpu1", "--notice", "0"], ("maintain", {"notice": "0s"})),
        (["resume", "gpu1"], ("resume", {})),
    ],
)
def test_the_order_is_sent_as_it_was_given(trainshed, fleet, words, sent):
    run = trainshed("nodes", *words)
    assert run.code == 0, run.err
    assert MESSAGE in run.out
    path = f"/trainshed/v1/nodes/gpu1:{sent[0]}"
    assert fleet.requests == [("POST", path, "Bearer tsd_admin", sent[1])]


def test_the_jobs_are_named_and_the_way_back(trainshed, fleet):
    assert fleet.requests == []
    run = trainshed("nodes", "maintain", "gpu1")
    assert run.out.splitlines() == [MESSAGE, *(f"  {job}" for job in JOBS)]
    assert "trainshed nodes resume gpu1" in run.err


def test_waiting_ends_when_the_node_is_empty(trainshed, fleet):
    run = trainshed("nodes", "maintain", "gpu1", "--wait")
    assert run.code == 0
    lines = [line for line in run.err.splitlines() if "left on" in line]
    assert len(lines) == 4
    assert "3 replicas left on gpu1" in lines[0]
    assert "1 replica left on gpu1" in lines[2]
    assert "no replica is left on gpu1" in lines[3]
    assert len(fleet.requests) > 3


def test_json_is_the_answer_with_the_node_as_it_was_seen_last(trainshed, fleet):
    run = trainshed("nodes", "drain", "gpu1", "--format", "json")
    assert run.json == {"node": NODE, "jobs": JOBS, "message": MESSAGE}
    waited = trainshed("nodes", "drain", "gpu1", "--wait", "--format", "json")
    assert waited.json["node"]["replicas"] == 0
    assert len(fleet.requests) > 2


def test_ctrl_c_leaves_the_order(trainshed, fleet, monkeypatch):
    def interrupt(_):
        raise KeyboardInterrupt

    monkeypatch.setattr(nodes_order, "time", SimpleNamespace(sleep=interrupt))
    run = trainshed("nodes", "maintain", "gpu1", "--wait")
    assert run.code == 130
    assert "gpu1 stays MAINTENANCE" in run.err
    assert [verb for verb, *_ in fleet.requests] == ["POST"]


def test_a_node_that_is_none_is_told_as_the_server_does(trainshed, fleet):
    run = trainshed("nodes", "drain", "gpu2")
    assert (run.code, run.out) == (1, "")
    assert "NOT_FOUND: there is no node gpu2; there are: gpu1" in run.err
    assert len(fleet.requests) == 1


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["drain"], "NODE"),
        (["resume", "gpu1", "--notice", "1s"], "--notice"),
        (["drain", "gpu1", "--notice", "soon"], "a duration such as 120s, 2m or 1h30m"),
        (["drain", "gpu1", "--notice=-1s"], "a duration such as"),
        (["drain", "gpu1", "--notice", "25h"], "at most a day"),
        (["drain", "gpu1", "--notice", ""], "a duration such as"),
    ],
)
def test_a_mistake_sends_nothing(trainshed, fleet, words, message):
    run = trainshed("nodes", *words)
    assert run.code == 2
    assert message in run.err
    assert fleet.requests == []


def test_the_list_shows_state_notice_and_what_is_left(trainshed, fleet):
    head, _, _, row = trainshed("nodes", "--wide").out.splitlines()
    assert head.split()[:3] == ["NODE", "STATE", "NOTICE"]
    assert row.split()[:3] == ["gpu1", "MAINTENANCE", "120s"]
    assert row.split()[head.split().index("REPLICAS") - 1 + row.count("2 T4")] == "3"
    assert len(fleet.requests) == 1


GPUS = [
    {"index": 0, "uuid": "GPU-1", "name": "H", "type": "H100", "memoryBytes": 80 << 30,
     "state": "HELD", "who": "process 5 (attempt 7/1)", "job": "projects/p/jobs/a",
     "idleSeconds": 1860.5,
     "reading": {"at": "2026-08-01T10:00:00Z", "usedBytes": 6 << 30, "use": 0.5,
                 "powerWatts": 312.5, "temperatureCelsius": 61, "eccErrors": 0,
                 "throttled": ["sw power cap"]}},
    {"index": 1, "uuid": "GPU-2", "name": "H", "type": "H100", "state": "FAULTY",
     "problem": "Xid 79 (the GPU has fallen off the bus)"},
]  # fmt: skip


def test_the_gpus_of_nodes_stand_below_them_with_who_has_them_and_what_is_wrong(
    trainshed, monkeypatch
):
    monkeypatch.setenv("TRAINSHED_TOKEN", "t")
    with StandIn(lambda *_: (200, {"nodes": [{**NODE, "devices": GPUS}]})) as server:
        text = trainshed("nodes", "--wide", "--url", server.url).out
        assert (
            trainshed("nodes", "--url", server.url, "--format", "json").json[0]["devices"] == GPUS
        )
    nodes, gpus = text.split("\n\n")
    assert len(nodes.splitlines()) == 3
    _, _, first, second, problem = gpus.splitlines()
    assert "  ".join(first.split()) == (
        "gpu1  0  H100  HELD  p/a  6144/81920  50%  -  31  min  312  W  61  C  0  sw  power  cap"
    )
    assert second.split() == ["gpu1", "1", "H100", "FAULTY", "-/-", *["-"] * 7]
    assert problem == "gpu1 GPU 1 (GPU-2): Xid 79 (the GPU has fallen off the bus)"
