"""Links that were neither measured nor given are unknown, and plans say so."""

import re
from dataclasses import replace

import pytest

from planning.test_what_ifs import HOST, JOB, RUNS, TRAINING, WORK, rows
from trainshed.catalog.catalog import Catalog
from trainshed.catalog.open import catalog_for
from trainshed.model.roles import Dialect
from trainshed.planning.cluster_facts import matching_forecast
from trainshed.planning.host_kinds import host_kind
from trainshed.planning.job_plan import plan_of
from trainshed.planning.layouts import HostType
from trainshed.planning.links import FAST_GBPS, SLOW_GBPS, links_of
from trainshed.planning.plan_request import CATALOG, BatchRule, PlanRequest
from trainshed.planning.plan_words import head, recommendations, remarks
from trainshed.planning.prices import PriceList
from trainshed.planning.scaling.calibration import Run, RunKind
from trainshed.planning.scaling.fitting import calibrated
from trainshed.planning.submit_note import submit_note

#: A host whose network is only that of Google's machine type, and one without any.
ASSUMED = replace(HOST, network_assumed=True)
UNKNOWN = replace(HOST, network_gbps=0.0)
#: Runs on one host.
ONE_HOST = RUNS[:2]
#: Its exchange takes most of a step also over 100 Gbit/s.
HEAVY = replace(TRAINING, parameters=5e9, gradient_bytes=2e10)
STREAM = Run(kind=RunKind.LINK, accelerators=2, hosts=2, link_bytes=25e6)
PRICES = PriceList(region="us-central1")


def plan(host=ASSUMED, runs=ONE_HOST, training=TRAINING, job=JOB, **wishes):
    request = PlanRequest(**{"what_if": [("gpus", (8, 32))], "reducers": 0, **wishes})
    calibration = calibrated(training, host, runs)
    return plan_of(
        replace(job, host_type=HostType(host=ASSUMED)), request, [calibration], WORK, PriceList()
    )


@pytest.mark.parametrize("host", [ASSUMED, UNKNOWN], ids=["of the catalog", "none"])
def test_unknown_links_give_the_range_of_slow_and_fast_ones_and_no_recommendation(host):
    answer = plan(host, file="job.yaml")
    *_, one_host, four_hosts = answer.options
    assert (one_host.ends, len(four_hosts.ends)) == ((), 2)
    slow, fast = (
        plan(host, network_gbps=gbps).own.prediction.speedup for gbps in (SLOW_GBPS, FAST_GBPS)
    )
    span = four_hosts.prediction.speedup
    assert (span.low, span.high) == (slow.low, min(32, fast.high))
    assert fast.point > 2 * slow.point
    assert not answer.marks.of(four_hosts)
    assert answer.marks.of(one_host) == ("cheapest",)
    first = head(answer)
    assert re.match(r"32 GPUs: [\d.]+ to [\d.]+ times one, [\d.]+ h to [\d.]+ days for", first), (
        first
    )
    assert "measure them: trainshed plan calibrate" in first
    assert "job.yaml" in first
    lines = list(recommendations(answer))
    assert (
        "fastest   not known without the links between hosts: 8 GPUs with 1 Gbit/s, 32" in lines[0]
    )
    assert any("--network-gbps catalog" in line for line in remarks(answer))


@pytest.mark.parametrize("host", [ASSUMED, UNKNOWN], ids=["of the catalog", "none"])
def test_the_gain_of_reducers_depends_on_unknown_links(host):
    condition = ", if the hosts have the network of the catalog"
    assert matching_forecast(plan(host)).sentence.endswith(condition)
    assert condition not in matching_forecast(plan(host, network_gbps=1.0)).sentence


def test_without_a_file_iperf3_measures_links():
    assert "measure them for --stream-gbps: iperf3 -c HOST" in head(plan())


@pytest.mark.parametrize(
    ("host", "runs", "wishes"),
    [
        (ASSUMED, RUNS, {}),
        (UNKNOWN, (*ONE_HOST, STREAM), {}),
        (HOST, ONE_HOST, {}),
        (UNKNOWN, ONE_HOST, {"network_gbps": 10.0}),
        (UNKNOWN, ONE_HOST, {"stream_gbps": 0.2}),
        (UNKNOWN, ONE_HOST, {"network_gbps": CATALOG}),
    ],
    ids=["two hosts", "a stream", "a rate", "the network", "the stream", "Google's machines"],
)
def test_a_measured_or_given_link_is_known(host, runs, wishes):
    answer = plan(host, runs, **wishes)
    assert not any(option.ends for option in answer.options)
    assert answer.marks.fastest
    assert "not measured" not in head(answer)


def test_a_stream_decides_where_no_network_is_stated():
    """Today's assumption of 10 Gbit/s made a stream of 0.2 Gbit/s look faster than it is."""
    by_stream = plan(UNKNOWN, stream_gbps=0.2).own.prediction.speedup.point
    with_network = plan(UNKNOWN, network_gbps=0.25, stream_gbps=0.2).own.prediction.speedup.point
    assert by_stream == pytest.approx(with_network, rel=0.1)
    assert by_stream < plan(UNKNOWN, network_gbps=1.0).own.prediction.speedup.point


def test_another_network_keeps_the_share_that_was_measured():
    request = PlanRequest(network_gbps=10.0)
    calibration = calibrated(TRAINING, HOST, RUNS)
    links = links_of(calibration, HOST, request)
    assert links.calibration is calibration
    assert links.host.network_gbps == 10.0
    assumed = links_of(calibrated(TRAINING, ASSUMED, RUNS), ASSUMED, request)
    assert assumed.calibration.host.network_gbps == 10.0, "it is the network of the measured hosts"


def test_a_host_that_the_catalog_does_not_know_needs_a_rate():
    own = replace(HOST, machine_type="own-8", network_gbps=0.0)
    request = PlanRequest(network_gbps=CATALOG, what_if=[("gpus", (8, 32))])
    calibration = calibrated(TRAINING, own, ONE_HOST)
    answer = plan_of(
        replace(JOB, host_type=HostType(host=own)), request, [calibration], WORK, PriceList()
    )
    *_, one_host, four_hosts = answer.options
    assert one_host.prediction
    assert four_hosts.answer.field == "network-gbps"
    unstated = replace(HOST, network_gbps=0.0)
    links = links_of(calibrated(TRAINING, unstated, ONE_HOST), unstated, request)
    assert links.host.network_gbps == 32


def test_other_hosts_have_the_share_of_their_own_links():
    wide = replace(ASSUMED, machine_type="n1-standard-64")
    measured = calibrated(TRAINING, HOST, RUNS)
    links = links_of(measured, wide, PlanRequest())
    assert [end.host.network_gbps for end in links.ends] == [SLOW_GBPS, FAST_GBPS]
    assert all(end.calibration is measured for end in links.ends)


def test_hosts_with_fewer_accelerators_have_the_links_of_their_machine_type():
    measured = calibrated(TRAINING, ASSUMED, RUNS)
    half = replace(ASSUMED, per_host=4)
    links = links_of(measured, half, PlanRequest())
    assert (links.host, links.calibration, links.ends) == (half, measured, ())


def test_reducers_are_not_recommended_for_unknown_links():
    light = plan(reducers=None)
    assert rows(light) == [(1, 0), (8, 0), (32, 0)], "over 100 Gbit/s they make no difference"
    reduced = plan(reducers=2)
    slow, fast = (end.cluster for end in reduced.own.ends)
    assert (slow.reducer_gbps, fast.reducer_gbps) == (1.0, 100.0), "in the catalog's proportion"


def test_parameter_servers_have_links_like_the_hosts():
    training = replace(TRAINING, strategy=type(TRAINING.strategy).PS_DISTRIBUTED)
    job = replace(JOB, servers=replace(JOB.reducers, gbps=16.0, count=2))
    ends = plan(training=training, job=job).own.ends
    assert [end.cluster.server_gbps for end in ends] == [0.5, 50.0]


def test_a_deadline_that_fast_links_would_meet_is_refused_with_what_to_measure():
    met = plan(network_gbps=FAST_GBPS).own.time_s.high
    refused = plan(deadline=met * 1.01, file="job.yaml").refused
    assert refused.field == "network-gbps"
    assert "depends on the links" in refused.message
    assert plan(deadline=1.0).refused.field == "deadline"


def test_notes_say_what_holds_with_any_links():
    calibration = calibrated(TRAINING, ASSUMED, ONE_HOST)
    job = replace(JOB, host_type=HostType(host=ASSUMED), hosts=8)
    assert submit_note(calibration, job, PRICES) is None, "it may scale well"
    requested = submit_note(calibration, job, PRICES, says_unknown=True)
    assert "the links between hosts were not measured" in requested.message
    assert "% efficiency" not in requested.message
    heavy = calibrated(HEAVY, ASSUMED, ONE_HOST)
    note = submit_note(heavy, job, PRICES)
    assert re.search(r"That is \d to \d+ % efficiency\.", note.message), note.message
    assert "times less" in note.message
    assert "not measured" in note.message


def test_only_google_s_network_is_an_assumption():
    catalog = catalog_for(Dialect.AIPLATFORM_V1, None, (), None)
    assert isinstance(catalog, Catalog)
    google = catalog.known_machines["n1-standard-8"]
    machines = (google, replace(google, egress_gbps=1.0), replace(google, egress_gbps=None))
    kinds = [
        host_kind(replace(catalog, known_machines={"own": machine}), "own", ("CPU", 1))
        for machine in machines[1:]
    ]
    kinds.insert(0, host_kind(catalog, "n1-standard-8", ("CPU", 1)))
    assert [(kind.network_gbps, kind.network_assumed) for kind in kinds] == [
        (google.egress_gbps, True),
        (1.0, False),
        (0.0, False),
    ]


def test_reducers_are_on_the_network_that_is_given():
    """By the catalog a reducer of 32 Gbit/s would serve hosts of 5 Gbit/s alone."""
    given = plan(reducers=None, stream_gbps=5.0)
    assert given.job.reducers.gbps == 5.0, "Google gives both machines 32 Gbit/s"
    assert plan(reducers=None, network_gbps=CATALOG).job.reducers.gbps == 32
    own = replace(HOST, network_gbps=0.0)
    calibration = calibrated(TRAINING, own, ONE_HOST)
    request = PlanRequest(network_gbps=2.0)
    job = replace(JOB, host_type=replace(JOB.host_type, host=own))
    assert plan_of(job, request, [calibration], WORK, PRICES).job.reducers.gbps == 2.0


@pytest.mark.parametrize(
    ("runs", "least", "most"),
    [
        ((replace(RUNS[0], step_s_p10=0.05, step_s_p90=0.5),), 32.0, 32.0),
        ((RUNS[0], replace(RUNS[1], step_s=0.16)), 35.0, 36.0),
    ],
    ids=["linear", "super-linear was measured"],
)
def test_a_range_is_never_better_than_linear_unless_that_was_measured(runs, least, most):
    own = plan(runs=runs).own
    assert least - 1e-6 < own.prediction.speedup.high < most + 1e-6
    rate = own.prediction.samples_per_s.high
    assert rate == pytest.approx(own.prediction.efficiency.high * 32 * 64 / 0.18, rel=0.05)
    assert own.time_s.low == pytest.approx(WORK.samples / rate)
    assert own.prediction.step_s.low == pytest.approx(32 * 64 / rate)


def test_a_larger_batch_than_the_measured_one_may_be_faster_than_linear():
    alone = replace(JOB, hosts=8)
    divided = plan(job=alone, batch=BatchRule.KEEP_GLOBAL, what_if=[("gpus", (16,))])
    two_hosts = next(option for option in divided.options if option.cluster.hosts == 2)
    assert two_hosts.what_if.batch.samples == 256
    assert two_hosts.what_if.ends[1].efficiency_max == float("inf")


@pytest.mark.parametrize(
    ("host", "runs"),
    [(replace(HOST, network_gbps=5.0), ONE_HOST), (UNKNOWN, (*ONE_HOST, STREAM))],
    ids=["stated", "a stream"],
)
def test_reducers_are_on_the_network_of_the_calibration(host, runs):
    """By the catalog, reducers of 32 Gbit/s would serve hosts of 5 Gbit/s."""
    gbps = host.network_gbps or 0.2
    assert plan(host, runs, reducers=None).job.reducers.gbps == pytest.approx(gbps)


def test_reducers_of_an_own_catalog_keep_their_rate():
    own = JOB.host_type
    answer = plan_of(JOB, PlanRequest(), [calibrated(TRAINING, HOST, RUNS)], WORK, PRICES)
    assert (own.host.network_assumed, answer.job.reducers.gbps) == (False, 32)
