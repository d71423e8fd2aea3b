"""Nodes are drained, maintained and resumed by administrators, over a real store."""

from dataclasses import replace
from unittest.mock import MagicMock

import pytest

from api.support import application, build_native, client, native_routes
from databases import new_database
from store.builders import add, place
from trainshed.api.native.fleet import fleet_router
from trainshed.engines.base import PlacedBy
from trainshed.engines.several import Engines, ServedEngine
from trainshed.model.refusals import Refusal
from trainshed.model.resources import Node
from trainshed.service.nodes.node_service import NodeService
from trainshed.service.telemetry.counters import Counters
from trainshed.service.telemetry.server_page import MetricsPage, PageSources
from trainshed.store.opening import open_store
from trainshed.testing.fake_engine import FakeEngine

ADMIN = {"Authorization": "Bearer admin"}
OF = "/trainshed/v1/nodes"


@pytest.fixture
def store(tmp_path):
    store = open_store(new_database(tmp_path))
    store.see_nodes("test", [Node(name=name, vcpus=64, memory_gb=512.0) for name in ("n1", "n2")])
    yield store
    store.close()


@pytest.fixture
def looked():
    """Called whenever those who place jobs should look at the nodes."""
    return MagicMock()


@pytest.fixture
def edge(store, looked):
    nodes = NodeService(store=store, notice_s=90.0, ordered=looked)
    native = build_native(store=store, nodes=nodes)
    with client(application([], native=native_routes(fleet_router(native)))) as edge:
        yield edge


@pytest.fixture
def order(edge):
    def send(node, word, document=None, **headers):
        answer = edge.post(f"{OF}/{node}:{word}", json=document, headers={**ADMIN, **headers})
        return answer.status_code, answer.json()

    return send


def state_of(edge, name):
    nodes = edge.get(OF).json()["nodes"]
    node = next(node for node in nodes if node["name"] == name)
    return node["state"], node.get("notice")


def placed(store, count=1):
    return sorted(place(store, add(store).uid).uid for _ in range(count))


@pytest.mark.parametrize(
    ("word", "document", "state"),
    [
        ("drain", None, ("DRAINED", None)),
        ("drain", {}, ("DRAINED", None)),
        ("drain", {"notice": "30s"}, ("MAINTENANCE", "30s")),
        ("drain", {"notice": "0s"}, ("MAINTENANCE", "0s")),
        ("maintain", None, ("MAINTENANCE", "90s")),
        ("maintain", {}, ("MAINTENANCE", "90s")),
        ("maintain", {"notice": "0.5s"}, ("MAINTENANCE", "0.5s")),
    ],
)
def test_an_order_is_kept_may_be_repeated_and_is_taken_back(edge, order, word, document, state):
    for _ in range(2):
        status, answer = order("n1", word, document)
        assert (status, answer["node"]["state"]) == (200, state[0])
        assert (state_of(edge, "n1"), state_of(edge, "n2")) == (state, ("READY", None))
    for _ in range(2):
        assert order("n1", "resume")[1]["message"] == "n1 takes new replicas"
        assert state_of(edge, "n1") == ("READY", None)


def test_who_places_jobs_is_told_of_every_order_that_was_kept(order, looked):
    order("n1", "drain")
    order("n1", "resume")
    order("none", "drain")
    assert looked.call_count == 2


def test_an_order_says_what_becomes_of_the_jobs(store, order):
    uids = placed(store, 3)
    answer = order("n1", "maintain", {"notice": "120s"})[1]
    assert answer["message"] == (
        "3 jobs on n1 get 120 s notice, and start again elsewhere or when n1 is back"
    )
    assert [int(name.rpartition("/")[2]) for name in answer["jobs"]] == uids
    assert answer["node"]["replicas"] == 6
    message = order("n1", "drain")[1]["message"]
    assert message == "n1 takes no new replicas; 3 jobs on n1 run on"


def test_a_list_names_the_jobs_on_each_node_that_the_caller_may_see(store, edge):
    mine = add(store, project="demo")
    for record in (mine, add(store, project="other")):
        place(store, record.uid)
    jobs = {node["name"]: node["jobs"] for node in edge.get(OF).json()["nodes"]}
    assert jobs == {"n1": [mine.name], "n2": [mine.name]}
    jobs = {n["name"]: len(n["jobs"]) for n in edge.get(OF, headers=ADMIN).json()["nodes"]}
    assert jobs == {"n1": 2, "n2": 2}


def test_one_job_is_one_and_none_is_none(store, order):
    assert order("n2", "drain")[1]["message"] == "n2 takes no new replicas; nothing runs on it"
    placed(store)
    assert order("n2", "drain")[1]["message"].endswith("1 job on n2 runs on")
    assert order("n2", "maintain")[1]["message"].startswith("1 job on n2 gets 90 s notice")


def test_a_node_that_is_none_is_answered_with_those_there_are(order):
    for word in ("drain", "maintain", "resume"):
        status, answer = order("gpu9", word)
        assert (status, answer["error"]["status"]) == (404, "NOT_FOUND")
        assert answer["error"]["message"] == "there is no node gpu9; there are: n1, n2"


@pytest.mark.parametrize("token", ["demo", "reader"])
@pytest.mark.parametrize("word", ["drain", "maintain", "resume"])
def test_only_an_administrator_may_order(edge, order, token, word):
    status, answer = order("n1", word, Authorization=f"Bearer {token}")
    assert (status, answer["error"]["status"]) == (403, "PERMISSION_DENIED")
    assert "administrator" in answer["error"]["message"]
    assert state_of(edge, "n1") == ("READY", None)


@pytest.mark.parametrize(
    "document",
    [{"notice": 120}, {"notice": "2m"}, {"notice": "-1s"}, {"notice": "1000000s"},
     {"notice": "nan"}, {"grace": "1s"}, []],
)  # fmt: skip
def test_a_notice_is_a_duration_as_json_has_it(edge, order, document):
    status, answer = order("n1", "maintain", document)
    assert (status, answer["error"]["status"]) == (400, "INVALID_ARGUMENT")
    assert state_of(edge, "n1") == ("READY", None)


@pytest.fixture
def several(store, looked):
    """Two engines with a node of the same name; the cluster gives out its places itself."""
    here, there = FakeEngine([]), FakeEngine([])
    order = "scontrol update nodename=NODE state=drain reason=R"
    there.traits = replace(there.traits, orders_nodes=order, places=PlacedBy.ENGINE)
    engines = Engines({"test": ServedEngine(engine=here), "far": ServedEngine(engine=there)})
    store.see_nodes("far", [Node(name="n1")])
    return NodeService(store=store, notice_s=90.0, ordered=looked, engines=engines), there


def test_of_several_engines_nodes_are_named_with_theirs(several):
    nodes, there = several
    there.unreachable = True
    listing = nodes.listing()
    assert [node.name for node in listing.nodes] == ["far/n1", "test/n1", "test/n2"]
    assert [(engine.name, engine.health) for engine in listing.engines] == [
        ("test", ""),
        ("far", "ENGINE_AWAY"),
    ]
    assert listing.engines[1].since
    far, here, _ = listing.nodes
    assert far.order_command == "scontrol update nodename=n1 state=drain reason=R"
    assert here.order_command is None
    assert (far.gpus_free, here.gpus_free) == (None, 0), "the cluster has jobs of other users too"
    with pytest.raises(Refusal, match="several nodes n1: far/n1, test/n1"):
        nodes.drain("n1")
    assert nodes.drain("test/n1").message.startswith("test/n1 takes no new replicas")
    assert nodes.resume("n2").node.name == "test/n2"
    with pytest.raises(Refusal, match=r"scontrol update nodename=n1 state=drain reason=R"):
        nodes.drain("far/n1")


def test_the_page_of_figures_has_all_engines(several, store):
    nodes, there = several
    there.answered_s = lambda: 1.0
    there.count_commands = lambda: {("squeue", True): 3, ("sbatch", False): 1}
    sources = PageSources(store=store, counters=Counters(), engines=nodes.engines)
    page = MetricsPage(sources).text()
    assert 'trainshed_engine_up{engine="far",reason=""} 1.0' in page
    assert 'trainshed_engine_enqueued{engine="far"} 0.0' in page
    assert 'trainshed_engine_answer_age_seconds{engine="far"}' in page
    sbatch = 'engine="far",command="sbatch",result="failed"'
    assert f"trainshed_engine_commands_total{{{sbatch}}} 1.0" in page
    assert 'trainshed_node_replicas{node="test/n1",state="READY"}' in page


def test_an_order_names_a_node_with_its_engine(order, store):
    store.see_nodes("far", [Node(name="n1")])
    assert order("test%2Fn1", "drain")[1]["node"]["name"] == "test/n1"
    assert order("far/n1", "drain")[0] == 200


def test_an_unexpected_error_is_an_incident_with_a_number(store, caplog):
    nodes = NodeService(store=store, notice_s=90.0, ordered=MagicMock(side_effect=KeyError("x")))
    native = build_native(store=store, nodes=nodes)
    audit = MagicMock()
    with client(application([], native=native_routes(fleet_router(native)), audit=audit)) as edge:
        answer = edge.post(f"{OF}/n1:drain", headers=ADMIN)
    error = answer.json()["error"]
    assert (answer.status_code, error["status"]) == (500, "INTERNAL")
    number = error["message"].removeprefix(
        "The server failed unexpectedly; its log has the details as incident "
    )
    assert any(f"incident {number} at POST" in record.getMessage() for record in caplog.records)
    assert "KeyError" in caplog.text
    assert audit.call_args.kwargs["status"] == f"INTERNAL {number}"
