"""GPUs one by one: what the store knows of them, and what the answering server sees of its own."""

from dataclasses import replace
from datetime import UTC, datetime

import pytest
from prometheus_client.parser import text_string_to_metric_families
from pydantic import TypeAdapter

from databases import new_database
from store.builders import add, place
from trainshed.engines.capabilities import GpuNow
from trainshed.engines.supervise.record.gpu_file import GpuFigures
from trainshed.model.attempt import AttemptKey
from trainshed.model.gpus import GpuSample, GpuState, NodeGpu
from trainshed.model.resources import Demand, FleetPolicy, GroupDemand, JobDemand, Node, Seat
from trainshed.model.roles import Role
from trainshed.service.nodes.node_gpus import GpuReading, count_free, count_held
from trainshed.service.nodes.node_service import NodeOrdered, NodeService
from trainshed.service.telemetry.counters import Counters
from trainshed.service.telemetry.server_page import MetricsPage, PageSources
from trainshed.store import codec
from trainshed.store.opening import open_store
from trainshed.store.records.jobs import Holding
from trainshed.store.records.nodes import NodeRow

HERE = NodeGpu(
    uuid="GPU-1", name="NVIDIA H100 80GB HBM3", type="H100", memory_bytes=80 << 30,
    pci_bus_id="00000000:3B:00.0",
)  # fmt: skip
BROKEN = NodeGpu(uuid="GPU-2", index=1, type="H100", state=GpuState.FAULTY, problem="Xid 79")
PART = NodeGpu(uuid="MIG-1", index=2, type="PART")
AWAY = NodeGpu(uuid="GPU-9", type="T4", state=GpuState.FOREIGN, who="process 9 (python)")
AT = datetime(2026, 11, 23, 12, 0, 0, 123456, tzinfo=UTC)
READING = GpuSample(
    at=AT, used_bytes=1 << 30, use=0.5, power_w=312.5, energy_j=7e6, temperature_c=61,
    throttled=("hw slowdown",),
)  # fmt: skip
ERRORS = replace(READING, ecc_errors=3, throttled=())


@pytest.fixture
def store(tmp_path):
    store = open_store(new_database(tmp_path))
    store.see_nodes(
        "test",
        [Node(name="n1", devices=(HERE, BROKEN, PART)), Node(name="n2", devices=(AWAY,))],
    )
    yield store
    store.close()


def now(attempt=None):
    """What the engine of the server on n1 tells."""
    held = NodeGpu(uuid="GPU-1", name=HERE.name, type="H100", memory_bytes=80 << 30,
                   state=GpuState.HELD, who="process 5 (attempt 7/1)")  # fmt: skip
    return [
        GpuNow(
            gpu=held, attempt=attempt, reading=READING, idle_s=90.0, xids={31: 2},
            driver="580.65.06",
            recent=[(0.0, GpuFigures(use=None)), (10.0, GpuFigures(use=0.123456))],
        ),
        GpuNow(gpu=BROKEN, driver="580.65.06"),
        GpuNow(gpu=PART, reading=GpuSample(at=AT, used_bytes=3)),
    ]  # fmt: skip


def page_of(store, gpus_now):
    sources = PageSources(store=store, counters=Counters(), gpus_now=gpus_now)
    return MetricsPage(sources).text()


def devices(listing):
    return {gpu.uuid: gpu for node in listing.nodes for gpu in node.devices}


def test_the_answer_of_an_order_is_json_for_a_node_with_gpus(store):
    ordered = NodeService(store=store, ordered=lambda: None).drain("n1")
    node = TypeAdapter(NodeOrdered).dump_python(ordered, mode="json")["node"]
    assert (node["name"], node["state"], node["devices"]) == ("n1", "DRAINED", None)


def test_figures_are_of_the_answering_servers_machine_and_what_is_unmeasured_is_none(store):
    gpus = devices(NodeService(store=store, gpus_now=now).listing())
    assert gpus["GPU-1"].reading == GpuReading(
        at="2026-11-23T12:00:00.123Z", used_bytes=1 << 30, use=0.5, use_minute=None,
        power_w=312.5, energy_joules=7e6, is_energy_summed=None, temperature_c=61, ecc_errors=None,
        throttled=("hw slowdown",),
    )  # fmt: skip
    assert (gpus["GPU-1"].recent_use, gpus["MIG-1"].recent_use) == ([None, 0.1235], None)
    assert (gpus["GPU-1"].idle_s, gpus["MIG-1"].idle_s, gpus["GPU-9"].idle_s) == (90.0, None, None)
    assert gpus["GPU-1"].state is GpuState.HELD
    assert (gpus["GPU-2"].state, gpus["GPU-2"].problem) == (GpuState.FAULTY, "Xid 79")
    assert (gpus["GPU-9"].state, gpus["GPU-9"].who) == (GpuState.FOREIGN, "process 9 (python)")
    assert {(gpus[uuid].reading, gpus[uuid].job) for uuid in ("GPU-2", "GPU-9")} == {(None, None)}


def test_a_server_whose_engine_cannot_tell_shows_what_is_stored(store):
    gpus = devices(NodeService(store=store).listing())
    assert [gpu.state.value for gpu in gpus.values()] == ["FREE", "FAULTY", "FREE", "FOREIGN"]
    assert gpus["GPU-1"].pci_bus_id == "00000000:3B:00.0"


def test_the_job_is_named_to_those_who_may_see_its_project(store):
    job = place(store, add(store, creator="ada", display_name="census").uid)
    nodes = NodeService(store=store, gpus_now=lambda: now(AttemptKey(int(job.uid), 1)))
    (held,) = store.holding()
    mine = devices(nodes.listing(lambda project: project == held.project))
    foreign = devices(nodes.listing(lambda _: False))
    assert held.name
    gpu = mine["GPU-1"]
    assert (gpu.job, gpu.job_name, gpu.user) == (held.name, "census", "ada")
    gpu = foreign["GPU-1"]
    assert (gpu.job, gpu.job_name, gpu.user) == (None, None, None)


def test_metrics_have_what_is_measured_and_no_zero_for_what_is_not(store):
    page = text_string_to_metric_families(page_of(store, now))
    samples = {
        (sample.name, *sorted(sample.labels.items())): sample.value
        for family in page
        for sample in family.samples
        if "_gpu" in sample.name
    }
    first = (("gpu", "0"), ("node", "n1"))
    part = (("gpu", "2.0"), ("node", "n1"))
    assert {key: value for key, value in samples.items() if key[0] != "trainshed_gpu_info"} == {
        ("trainshed_gpu_utilization_ratio", *first): 0.5,
        ("trainshed_gpu_memory_used_bytes", *first): 1 << 30,
        ("trainshed_gpu_memory_used_bytes", *part): 3,
        ("trainshed_gpu_memory_total_bytes", *first): 80 << 30,
        ("trainshed_gpu_power_watts", *first): 312.5,
        ("trainshed_gpu_energy_joules_total", *first): 7e6,
        ("trainshed_gpu_idle_seconds", *first): 90,
        ("trainshed_gpu_temperature_celsius", *first): 61,
        ("trainshed_gpu_throttled", *first): 1,
        ("trainshed_gpu_xid_errors_total", *first, ("xid", "31")): 2,
        ("trainshed_node_gpus", ("node", "n1"), ("state", "FAULTY"), ("type", "H100")): 1,
        ("trainshed_node_gpus", ("node", "n1"), ("state", "HELD"), ("type", "H100")): 1,
        ("trainshed_node_gpus", ("node", "n1"), ("state", "FREE"), ("type", "PART")): 1,
        ("trainshed_node_gpus", ("node", "n2"), ("state", "FOREIGN"), ("type", "T4")): 1,
    }
    (info,) = [dict(key[1:]) for key in samples if ("uuid", "GPU-1") in key]
    assert (info["model"], info["driver"]) == (HERE.name, "580.65.06")


def test_metrics_have_errors_of_memory_and_whether_clocks_are_lower(store):
    page = page_of(store, lambda: [GpuNow(gpu=HERE, reading=ERRORS)])
    assert 'trainshed_gpu_ecc_errors_total{node="n1",gpu="0"} 3.0' in page
    assert 'trainshed_gpu_throttled{node="n1",gpu="0"} 0.0' in page


def test_nodes_of_other_releases_are_read():
    older = '{"name":"n1","region":null,"vcpus":4,"memory_gb":1.0,"policy":"exact"}'
    assert codec.NODE.decode(older).devices == ()
    newer = codec.NODE.encode(Node(name="n1")).replace("{", '{"of_the_next_release":[{"a":1}],', 1)
    assert codec.NODE.decode(newer) == Node(name="n1")


@pytest.mark.parametrize(
    ("node", "held", "free"),
    [
        (Node(name="n", gpus={"T4": 4}), {}, 4),
        (Node(name="n", gpus={"T4": 4}, gpus_held={"T4": 1}), {("e", "n"): 2, ("e", "m"): 4}, 1),
        (Node(name="n", gpus={"T4": 4, "V100": 2}), {("", "n"): 5, ("f", "n"): 1}, 1),
        (Node(name="n", gpus={"T4": 1}, gpus_held={"T4": 1}), {("e", "n"): 1}, 0),
        (Node(name="n", gpus={"T4": 2}, policy=FleetPolicy.EMULATE), {("e", "n"): 2}, 2),
        (Node(name="n"), {("e", "n"): 2}, 0),
    ],
)
def test_free_gpus_are_those_that_neither_jobs_nor_other_programs_hold(node, held, free):
    assert count_free(NodeRow(engine="e", node=node, seen_time=AT), held) == free


def test_gpus_are_held_by_the_seats_of_the_groups_that_ask_for_them():
    demand = JobDemand(
        region=None,
        groups=(
            GroupDemand(role=Role.PRIMARY, count=1, each=Demand(gpu_type="T4", gpu_count=2)),
            GroupDemand(role=Role.WORKER, count=2, each=Demand()),
        ),
    )
    seats = (
        Seat(role=Role.PRIMARY, index=0, node="n", engine="e"),
        Seat(role=Role.WORKER, index=0, node="n", engine="e"),
        Seat(role=Role.WORKER, index=1, node="m"),
    )
    holding = Holding(
        uid=1, project="p", attempt=1, demand=demand, seats=seats, since=AT, running_s_max=None
    )
    assert count_held([holding, holding]) == {("e", "n"): 4, ("", "m"): 0}
