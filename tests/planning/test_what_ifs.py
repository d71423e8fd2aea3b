"""What is said of other clusters: marks, what cannot be told apart, and what is never asked."""

import re
from dataclasses import replace

import pytest

from trainshed.planning.amounts import lasting, money
from trainshed.planning.job_plan import plan_of
from trainshed.planning.layouts import HostType
from trainshed.planning.plan_request import BatchRule, PlanRequest
from trainshed.planning.plan_words import head, noun, recommendations
from trainshed.planning.planned_jobs import Helpers, PlannedJob
from trainshed.planning.prices import OwnPrices, PriceList
from trainshed.planning.scaling.calibration import Run, RunKind
from trainshed.planning.scaling.cluster import Cluster, HostKind
from trainshed.planning.scaling.fitting import calibrated
from trainshed.planning.scaling.training import Strategy, Training
from trainshed.planning.what_ifs import TrainingWork

HOST = HostKind(
    machine_type="n1-standard-32",
    accelerator="NVIDIA_TESLA_V100",
    per_host=8,
    cpus=32,
    inside="nvlink2",
    inside_bytes=150e9,
    network_gbps=32,
)
TRAINING = Training(
    model="resnet50",
    parameters=25.56e6,
    largest=2.36e6,
    gradient_bytes=4 * 25.56e6,
    batch_per_accelerator=64,
    stack="torch 2.6",
)
RUNS = (
    Run(kind=RunKind.COMPUTE, steps=100, step_s=0.18),
    Run(kind=RunKind.HOST, accelerators=8, steps=100, step_s=0.2),
    Run(kind=RunKind.TWO_HOSTS, accelerators=16, hosts=2, steps=100, step_s=0.26),
)
CALIBRATION = calibrated(TRAINING, HOST, RUNS)
REDUCERS = Helpers(machine_type="n1-highcpu-16", gbps=32)
JOB = PlannedJob(host_type=HostType(host=HOST), hosts=4, reducers=REDUCERS)
WORK = TrainingWork(samples=1e8, global_batch=2048, words="for 100,000,000 samples")


def planned(*accelerators, calibration=CALIBRATION, job=JOB, prices=None, work=WORK, **fields):
    request = PlanRequest(what_if=(("gpus", accelerators),), **fields)
    return plan_of(job, request, [calibration] if calibration else [], work, prices or PriceList())


def rows(plan):
    return [(option.cluster.accelerators, option.cluster.reducers) for option in plan.options]


def test_the_job_itself_is_among_its_what_ifs():
    assert rows(planned(8, reducers=0)) == [(1, 0), (8, 0), (16, 0), (32, 0)], "measured ones too"
    default = rows(planned(reducers=0))
    assert default == [(1, 0), (2, 0), (4, 0), (8, 0), (16, 0), (32, 0), (64, 0)]


def test_reducers_stand_beside_what_they_make_faster_and_never_idle():
    plan = planned(8, 16, 32)
    assert rows(plan) == [(1, 0), (8, 0), (16, 0), (32, 0), (32, 4)]
    assert "4 reducers would make it" in head(plan)
    assert "its reducers are worth their price" in list(plan.notes(plan.options[-1]))
    too_many = planned(32, reducers=40)
    assert "4 reducers match the workers, and more are idle" in too_many.notes(too_many.options[-1])
    assert too_many.marks.fastest is None
    refusal = "nothing is recommended: 4 reducers match the workers, and more are idle"
    assert list(recommendations(too_many)) == [refusal]
    assert list(recommendations(planned(32, 64, reducers=40))) == [refusal], "of the job itself"


def test_a_job_with_too_few_reducers_hears_of_more():
    few = replace(JOB, reducers=replace(REDUCERS, count=2))
    plan = planned(8, job=few)
    assert rows(plan)[-3:] == [(32, 0), (32, 4), (32, 2)]
    assert plan.own.cluster.reducers == 2
    assert "4 reducers would make it" in head(plan)
    enough = planned(8, job=replace(JOB, reducers=replace(REDUCERS, count=4)))
    assert rows(enough)[-3:] == [(16, 0), (32, 0), (32, 4)]
    assert "would make it" not in head(enough)


def test_the_sentence_says_times_time_price_and_what_binds():
    text = head(planned(32, reducers=0))
    number = r"[\d.]+"
    assert re.fullmatch(
        rf"32 GPUs: {number} times one \({number} to {number}\), {number} h "
        r"for 100,000,000 samples, \d+ USD; limited by links between hosts; "
        r"assumes that the host can feed 8 accelerators",
        text,
    )


def test_the_fewest_that_no_more_are_sure_to_beat_are_fastest():
    alone = calibrated(TRAINING, replace(HOST, network_gbps=8), RUNS[:1])
    plan = planned(
        8,
        16,
        32,
        calibration=alone,
        job=replace(JOB, host_type=HostType(host=alone.host)),
        reducers=0,
    )
    assert plan.marks.fastest.cluster.accelerators == 8
    assert "no difference that can be told from 8" in list(plan.notes(plan.options[2]))


def test_the_knee_is_where_a_doubling_of_price_is_worth_less():
    plan = planned(8, 16, 32, 64, reducers=0, batch=BatchRule.KEEP_GLOBAL)
    strict = planned(8, 16, 32, 64, reducers=0, batch=BatchRule.KEEP_GLOBAL,
                     worth=0.9)  # fmt: skip
    assert strict.marks.knee.cluster.accelerators < plan.marks.fastest.cluster.accelerators
    assert plan.marks.cheapest.cluster.accelerators == 8


def test_clusters_of_nearly_one_price_are_compared():
    hours = {"n1-standard-32": 1e-6, "n1-highcpu-16": 1.0}
    prices = PriceList(own=OwnPrices(source="a", currency="EUR", per_hour=hours))
    plan = planned(8, 16, 32, reducers=1, prices=prices)
    assert plan.marks.knee is plan.marks.fastest


def test_a_deadline_holds_at_the_pessimistic_end_and_the_cheapest_that_meets_it_is_named():
    hour = 3600
    plan = planned(8, 16, 32, 64, reducers=0, deadline=8 * hour)
    assert plan.marks.meets.cluster.accelerators == 16
    assert plan.marks.meets.time_s.high <= 8 * hour
    assert any(line.startswith("meets it") for line in recommendations(plan))
    late = planned(8, 16, deadline=60.0)
    assert late.refused.field == "deadline"
    poor = planned(8, 16, budget=1.0)
    assert poor.refused.field == "budget"


def test_larger_batches_need_more_samples_where_the_critical_batch_is_known():
    plain = planned(8, 64, reducers=0)
    limited = planned(8, 64, reducers=0, work=replace(WORK, critical_batch=2048))
    for a, b, batch in zip(
        plain.options, limited.options, (64, 512, 1024, 2048, 4096), strict=True
    ):
        more = (1 + batch / 2048) / 2
        assert b.time_s.point == pytest.approx(a.time_s.point * more)


def test_without_a_calibration_there_are_bounds_and_the_command_that_measures():
    plan = planned(8, calibration=None)
    assert plan.refused.field == "calibration"
    assert "at most 32 times one" in head(plan)
    assert "trainshed plan calibrate" in head(plan)
    assert list(recommendations(plan)) == []
    assert all(option.time_s is None for option in plan.options)


def test_other_hosts_need_their_own_calibration_or_the_same_accelerator():
    wide = replace(HOST, machine_type="n1-standard-64")
    other = replace(HOST, machine_type="a2-highgpu-8g", accelerator="NVIDIA_TESLA_A100")
    plan = planned(
        16, job=replace(JOB, others=(HostType(host=wide), HostType(host=other))), reducers=0
    )
    by_type = {}
    for option in plan.options:
        by_type.setdefault(option.cluster.host.machine_type, []).append(option)
    assert all(option.prediction for option in by_type["n1-standard-64"])
    assert [option.answer.field for option in by_type["a2-highgpu-8g"]] == ["calibration"] * 2
    assert plan.own.cluster.host.machine_type == "n1-standard-32"


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({"what_if": [("gpus", (100_000,))]}, "gpus"),
        ({"what_if": [("gpus", (13,))]}, "gpus"),
        ({"what_if": [("gpus", (6,))], "model_parallel": 4}, "gpus"),
        ({"what_if": [("model-parallel", (8,))]}, "model-parallel"),
        ({"servers": 2}, "parameter-servers"),
        ({"what_if": [("gpus", (8,))], "largest_batch": 32}, "batch"),
    ],
)
def test_what_cannot_be_known_is_refused_by_the_name_of_its_field(fields, field):
    whole = calibrated(TRAINING, HOST, RUNS[1:])  # nothing was measured on fewer than 8
    plan = plan_of(JOB, PlanRequest(**fields), [whole], WORK, PriceList())
    assert plan.refused.field == field
    assert plan.refused.accepted


def test_a_model_that_was_measured_on_one_accelerator_is_not_held_by_two():
    plan = planned(8, 16, model_parallel=2)
    assert plan.refused.field == "model-parallel"
    assert "1 accelerator trained in the measurement" in plan.refused.message
    assert plan.refused.accepted.startswith("1; or")


def test_a_global_batch_is_accumulated_before_it_shrinks():
    limits = {"batch": BatchRule.KEEP_GLOBAL, "largest_batch": 32.0}
    plan = planned(1, 8, 24, 64, reducers=0, **limits)
    batches = [option.what_if.batch for option in plan.options]
    of_job = WORK.global_batch
    assert [batch.samples for batch in batches] == [
        of_job,
        of_job / 8,
        of_job / 16,
        3 * 28,
        of_job / 32,
        32,
    ]
    assert "3 micro batches of 28; a step has 2,016 samples" in plan.notes(plan.options[3])
    assert "2 micro batches of 32" in plan.notes(plan.options[4])
    assert all(batch.samples <= 32 * batch.micro_batches for batch in batches)
    assert all(batch.samples % 1 == 0 for batch in batches)
    refused = planned(1 << 20, batch=BatchRule.KEEP_GLOBAL).options[-1].answer
    assert refused.field == "batch"
    assert "fewer than the 1048576 accelerators" in refused.message


def test_what_no_host_may_carry_is_refused_and_not_in_the_usual_list():
    host_type = HostType(host=HOST, variants=(replace(HOST, per_host=4), HOST))
    job = replace(JOB, host_type=host_type)
    assert rows(planned(job=job, reducers=0)) == [(4, 0), (8, 0), (16, 0), (32, 0), (64, 0)]
    plan = planned(3, 8, job=job, reducers=0)
    assert plan.options[0].answer.field == "gpus"
    assert "n1-standard-32 cannot have 3 NVIDIA_TESLA_V100" in plan.options[0].answer.message
    assert "4 or 8 on each host" in plan.options[0].answer.accepted


def test_hosts_that_were_not_measured_are_refused_by_name():
    other = replace(HOST, machine_type="n1-standard-8", accelerator="NVIDIA_TESLA_T4")
    option = planned(8, job=replace(JOB, others=(HostType(host=other),)), reducers=0).options[-1]
    message = "NVIDIA_TESLA_V100 of n1-standard-32 was measured, not NVIDIA_TESLA_T4 of n1-standard"
    assert option.answer.message.startswith(message)


def test_money_and_hours_are_never_compared():
    own = OwnPrices(source="own", currency="EUR", per_hour={"n1-standard-32": 1e6})
    plan = planned(8, 16, 32, prices=PriceList(own=own))
    assert plan.options[-1].cost is None, "its reducers have no price"
    assert plan.marks.fastest is plan.options[-1]
    assert plan.marks.cheapest.cluster.accelerators == 8
    assert plan.marks.knee.cost


def test_reducers_do_not_serve_parameter_servers():
    naive = calibrated(replace(TRAINING, strategy=Strategy.PS_NAIVE), HOST, RUNS)
    assert planned(32, calibration=naive, reducers=4).refused.field == "reducers"


def test_words_of_counts_times_and_money():
    clusters = [
        Cluster(host=HostKind(accelerator=kind), accelerators=count, hosts=1)
        for kind, count in (("CPU", 1), ("TPU_V3", 8), ("NVIDIA_TESLA_T4", 2))
    ]
    assert [noun(cluster) for cluster in clusters] == ["1 CPU replica", "8 TPUs", "2 GPUs"]
    assert [lasting(30), lasting(3600), lasting(6 * 3600)] == ["30.0 s", "60.0 min", "6.0 h"]
    assert [money(4.125, "EUR"), money(1234.4, "USD")] == ["4.12 EUR", "1,234 USD"]
    assert [money(0.0123, "EUR"), money(0.0, "USD")] == ["0.012 EUR", "0.00 USD"]


def test_more_hosts_over_a_thin_link_are_said_to_be_slower():
    thin = calibrated(TRAINING, replace(HOST, network_gbps=0.1), RUNS[:2])
    plan = planned(
        8, 16, calibration=thin, job=replace(JOB, host_type=HostType(host=thin.host)), reducers=0
    )
    with_reducers = planned(
        8, 16, calibration=thin, job=replace(JOB, host_type=HostType(host=thin.host))
    )
    assert "; 8 GPUs would take " in head(with_reducers)
    assert "would make it" not in head(with_reducers), "they would help less"
    assert "slower than 8" in list(plan.notes(plan.options[2]))
    assert plan.marks.fastest is plan.options[1]
