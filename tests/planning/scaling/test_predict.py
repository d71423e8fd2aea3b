"""What is predicted of a calibrated job: what holds for all, and the examples that are known."""

import itertools
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from trainshed.planning.scaling.calibration import Run, RunKind
from trainshed.planning.scaling.cluster import Cluster, HostKind
from trainshed.planning.scaling.fitting import calibrated
from trainshed.planning.scaling.parameters import parameters_from
from trainshed.planning.scaling.predict import predict
from trainshed.planning.scaling.prediction import Binding, NoPrediction, Prediction
from trainshed.planning.scaling.reach import Extrapolation, reach_of
from trainshed.planning.scaling.training import StepBatch, Strategy, Training, divide_batch

DGX = HostKind(
    accelerator="P100",
    per_host=8,
    inside="nvlink1",
    inside_bytes=80e9,
    network="rdma",
    network_gbps=50,
)
RESNET = Training(
    model="resnet50",
    parameters=25.56e6,
    largest=2.36e6,
    gradient_bytes=4 * 25.56e6,
    batch_per_accelerator=32,
    data="synthetic",
)
TRAININGS = st.builds(
    Training,
    gradient_bytes=st.floats(1e5, 1e10),
    batch_per_accelerator=st.floats(1, 512),
    strategy=st.sampled_from([Strategy.ALLREDUCE, Strategy.FSDP, Strategy.ALLREDUCE_CPU]),
    data=st.sampled_from(["real", "synthetic"]),
)
SECONDS = st.floats(1e-3, 60)


def one(step_s):
    return Run(kind=RunKind.COMPUTE, steps=50, step_s=step_s)


def predict_on(calibration, accelerators, hosts, **more):
    cluster = Cluster(host=calibration.host, accelerators=accelerators, hosts=hosts, **more)
    return predict(calibration, cluster)


@given(training=TRAININGS, step_s=SECONDS, rate=st.sampled_from([1.0, 10.0, 100.0]))
@settings(max_examples=40)
def test_an_interval_holds_its_point_and_a_step_never_shrinks_with_more_hosts(
    training, step_s, rate
):
    host = HostKind(per_host=8, inside_bytes=12e9, network_gbps=rate)
    calibration = calibrated(training, host, [one(step_s)])
    predictions = [predict_on(calibration, 8 * hosts, hosts) for hosts in (1, 2, 4, 8)]
    steps = [step.step_s for step in predictions]
    assert all(step.low <= step.point <= step.high for step in steps)
    assert all(a.point <= b.point * 1.0001 for a, b in itertools.pairwise(steps))
    for prediction in predictions:
        batch = prediction.cluster.accelerators * training.batch_per_accelerator
        assert prediction.samples_per_s.point * prediction.step_s.point == pytest.approx(batch)
        assert prediction.speedup.point <= prediction.cluster.accelerators * 1.0001


@given(training=TRAININGS, step_s=SECONDS)
@settings(max_examples=40)
def test_the_measured_step_is_returned_with_efficiency_one(training, step_s):
    calibration = calibrated(training, DGX, [one(step_s)])
    prediction = predict_on(calibration, 1, 1)
    assert prediction.step_s.point == pytest.approx(step_s, rel=1e-3)
    assert prediction.efficiency.point == pytest.approx(1)
    assert prediction.base_accelerators == 1


@given(training=TRAININGS, compute_s=SECONDS)
@settings(max_examples=40)
def test_compute_is_found_again_from_a_step_of_a_whole_host(training, compute_s):
    alone = calibrated(training, DGX, [one(compute_s)])
    step = predict_on(alone, 8, 1).step_s.point
    whole = Run(kind=RunKind.HOST, accelerators=8, steps=50, step_s=step)
    prediction = predict_on(calibrated(training, DGX, [whole]), 8, 1)
    assert prediction.step_s.point == pytest.approx(step, rel=0.02)


def test_one_hour_on_256_from_29_hours_on_8():
    step = 29 * 3600 / (90 * 1281167 / 256)
    run = Run(kind=RunKind.HOST, accelerators=8, steps=50, step_s=step)
    prediction = predict_on(calibrated(RESNET, DGX, [run]), 256, 32)
    hours = prediction.samples_per_s.inverse(90 * 1281167 / 3600)
    assert 0.95 <= hours.point <= 1.10
    assert hours.holds(1.0)
    assert 0.85 <= prediction.efficiency.point <= 0.95
    assert prediction.extrapolated


def test_1024_from_one_is_refused_with_its_upper_bound():
    refusal = predict_on(calibrated(RESNET, DGX, [one(0.2)]), 1024, 128)
    assert isinstance(refusal, NoPrediction)
    assert refusal.samples_per_s == (0, pytest.approx(160 * 1024))


def shaped(reducers):
    """The step of PyTorch's DDP over gloo on four hosts behind 200 Mbit/s."""
    training = Training(gradient_bytes=50.4e6, stack="torch gloo", strategy=Strategy.REDUCERS)
    host = HostKind(network="tcp", network_gbps=0.2)
    runs = [one(0.835), Run(kind=RunKind.LINK, hosts=2, accelerators=2, link_bytes=2.42e7)]
    calibration = calibrated(training, host, runs)
    return predict_on(calibration, 4, 4, reducers=reducers, reducer_gbps=0.2)


def test_steps_over_a_slow_link_with_a_ring_and_with_reducers():
    ring, reduced = shaped(0), shaped(4)
    assert ring.step_s.point == pytest.approx(3.721, rel=0.05)
    assert reduced.step_s.point == pytest.approx(2.705, rel=0.05)
    assert ring.bound_by is Binding.NETWORK


def naive(parameters, largest, step_s):
    training = Training(
        parameters=parameters,
        largest=largest,
        gradient_bytes=4 * parameters,
        batch_per_accelerator=64,
        strategy=Strategy.PS_NAIVE,
        data="synthetic",
    )
    host = HostKind(per_host=4, inside_bytes=12e9, network="rdma", network_gbps=25)
    return predict_on(calibrated(training, host, [one(step_s)]), 16, 4)


def test_naive_parameter_servers_are_bound_by_the_largest_variable():
    vgg, resnet = naive(138.36e6, 102.76e6, 0.45), naive(44.55e6, 2.36e6, 0.536)
    assert isinstance(vgg, Prediction)
    assert vgg.speedup.point < 2.5
    assert resnet.speedup.point > 4 * vgg.speedup.point
    assert any("largest variable" in warning for warning in vgg.warnings)
    assert not any("largest variable" in warning for warning in resnet.warnings)


def test_without_a_timed_step_there_is_no_point():
    refusal = predict_on(calibrated(RESNET, DGX, []), 8, 1)
    assert (refusal.field, refusal.samples_per_s) == ("calibration", None)
    assert "trainshed plan calibrate" in refusal.accepted


def test_data_that_must_be_fed_is_said_first():
    training = Training(gradient_bytes=1e8, batch_per_accelerator=32)
    calibration = calibrated(training, DGX, [one(0.2)])
    assert (
        predict_on(calibration, 8, 1).warnings[0] == "assumes that the host can feed 8 accelerators"
    )


def test_an_exchange_for_each_micro_batch_is_not_planned_and_that_is_said():
    training = Training(gradient_bytes=1e8, batch_per_accelerator=128, micro_batches=4)
    assumed = (
        "assumes one exchange for the 4 micro batches of a step, as with no_sync() of "
        "DistributedDataParallel"
    )
    alone = calibrated(training, DGX, [one(0.2)])
    assert assumed not in predict_on(alone, 1, 1).warnings
    assert assumed in predict_on(alone, 8, 1).warnings
    both = Run(kind=RunKind.HOST, accelerators=16, hosts=2, step_s=0.3)
    assert assumed not in predict_on(calibrated(training, DGX, [one(0.2), both]), 32, 4).warnings
    servers = replace(training, strategy=Strategy.PS_NAIVE)
    assert assumed not in predict_on(calibrated(servers, DGX, [one(0.2)]), 16, 2).warnings
    whole = replace(training, micro_batches=1)
    assert assumed not in predict_on(calibrated(whole, DGX, [one(0.2)]), 16, 2).warnings


def test_a_host_that_cannot_feed_its_accelerators_binds():
    training = Training(gradient_bytes=1e8, batch_per_accelerator=32)
    runs = [one(0.2), Run(kind=RunKind.INPUT, samples_per_s=400)]
    prediction = predict_on(calibrated(training, DGX, runs), 8, 1)
    assert prediction.samples_per_s.point == pytest.approx(400, rel=1e-3)
    assert prediction.bound_by is Binding.INPUT


def test_steps_that_waited_say_what_a_host_delivers_and_what_a_fed_step_takes():
    training = Training(gradient_bytes=1e6, batch_per_accelerator=32)
    starved = replace(one(0.2), wait_share=0.75)
    calibration = calibrated(training, DGX, [starved])
    assert calibration.fitted.values["compute_s"] == pytest.approx(0.05, rel=0.05)
    alone, host, hosts = (predict_on(calibration, *at) for at in ((1, 1), (8, 1), (32, 4)))
    assert {alone.bound_by, host.bound_by, hosts.bound_by} == {Binding.INPUT}
    assert alone.step_s.point == pytest.approx(0.2, rel=0.01)
    assert host.samples_per_s.point == pytest.approx(160, rel=0.01)
    assert hosts.samples_per_s.point == pytest.approx(640, rel=0.01)


@pytest.mark.parametrize("share", [0.05, 0.1, 0.15, 0.5, 0.9])
def test_what_was_measured_is_predicted_however_long_it_waited(share):
    calibration = calibrated(RESNET, DGX, [replace(one(0.1), wait_share=share)])
    assert predict_on(calibration, 1, 1).step_s.point == pytest.approx(0.1, rel=0.005)


def test_a_run_that_did_not_wait_says_that_its_input_came():
    starved = replace(one(0.2), kind=RunKind.JOB, wait_share=0.6)
    mended = replace(one(0.16), kind=RunKind.JOB, batch_per_accelerator=64)
    calibration = calibrated(RESNET, DGX, [starved, mended])
    prediction = predict(
        calibration, Cluster(host=DGX, accelerators=1, hosts=1), batch=StepBatch(samples=64)
    )
    assert prediction.step_s.point == pytest.approx(0.16, rel=0.1)


def test_several_hosts_are_refused_while_nobody_knows_what_they_exchange():
    calibration = calibrated(Training(batch_per_accelerator=32), DGX, [one(0.2)])
    assert isinstance(predict_on(calibration, 8, 1), Prediction)
    refusal = predict_on(calibration, 16, 2)
    assert (refusal.field, refusal.samples_per_s) == ("gradient_bytes", (0.0, 2560.0))
    two_hosts = replace(one(0.3), kind=RunKind.TWO_HOSTS, accelerators=16, hosts=2)
    recalibrated = calibrated(Training(batch_per_accelerator=32), DGX, [one(0.2), two_hosts])
    assert isinstance(predict_on(recalibrated, 32, 4), Prediction)


def test_more_hosts_than_were_measured_are_between_nothing():
    within, apart = {(1, 1), (8, 1)}, {(1, 1), (16, 2)}
    assert reach_of(RESNET, DGX, within, (4, 1)) is Extrapolation.BETWEEN
    assert reach_of(RESNET, DGX, within, (4, 4)) is Extrapolation.FROM_INSIDE
    assert reach_of(RESNET, DGX, apart, (8, 1)) is Extrapolation.BETWEEN


def test_workers_that_do_not_wait_lose_nothing_to_the_slowest():
    def step_s(**more):
        training = replace(RESNET, strategy=Strategy.PS_DISTRIBUTED, **more)
        return predict_on(calibrated(training, DGX, [one(0.2)]), 64, 8, servers=8).step_s.point

    assert step_s(asynchronous=True) < step_s()


def test_jobs_that_differ_widen_what_is_said_of_the_next():
    def width(low, high):
        run = replace(one(0.2), kind=RunKind.JOB, steps=6000, step_s_p10=low, step_s_p90=high)
        ends = predict_on(calibrated(RESNET, DGX, [run]), 1, 1).step_s
        return ends.high / ends.low

    assert width(0.199, 0.201) < 1.1
    assert width(0.16, 0.24) > 1.3


def test_steps_without_exchange_say_how_much_of_it_is_hidden():
    training = Training(gradient_bytes=1e9, data="synthetic")
    alone = Run(kind=RunKind.NO_EXCHANGE, accelerators=8, steps=50, step_s=1.0)

    def gamma(step_s):
        run = Run(kind=RunKind.HOST, accelerators=8, steps=50, step_s=step_s)
        link = Run(kind=RunKind.COMPUTE, steps=50, step_s=0.98)
        host = HostKind(per_host=8, inside_bytes=4e9)
        return calibrated(training, host, [link, run, alone]).fitted.values["gamma"]

    assert gamma(1.1) > gamma(1.6)


def test_another_host_with_the_same_accelerator_has_the_links_of_its_data_sheet():
    calibration = calibrated(RESNET, DGX, [one(0.2)])
    smaller = Cluster(host=replace(DGX, per_host=4), accelerators=8, hosts=2)
    prediction = predict(calibration, smaller)
    assert "links of unmeasured hosts" in " ".join(prediction.warnings)


def test_a_smaller_batch_keeps_what_does_not_shrink():
    calibration = calibrated(RESNET, DGX, [one(0.2)])
    cluster = Cluster(host=DGX, accelerators=8, hosts=1)
    whole = predict(calibration, cluster)
    less = predict(calibration, cluster, batch=StepBatch(samples=4))
    assert whole.step_s.point / 8 < less.step_s.point < whole.step_s.point
    assert less.bound_by is Binding.BATCH


def test_micro_batches_take_their_compute_and_share_one_exchange():
    run = Run(kind=RunKind.TWO_HOSTS, accelerators=16, hosts=2, step_s=0.4)
    calibration = calibrated(RESNET, DGX, [one(0.2), run])
    two_hosts = Cluster(host=DGX, accelerators=16, hosts=2)
    steps = {
        count: predict(
            calibration, two_hosts, batch=StepBatch(samples=32 * count, micro_batches=count)
        )
        for count in (1, 2, 8)
    }
    alone = Cluster(host=DGX, accelerators=1, hosts=1)
    eight = predict(calibration, alone, batch=StepBatch(samples=256, micro_batches=8))
    assert eight.step_s.point == pytest.approx(8 * 0.2, rel=0.01)
    assert steps[8].efficiency.point > steps[2].efficiency.point > steps[1].efficiency.point
    lost_s = {count: step.step_s.point - 0.2 * count for count, step in steps.items()}
    assert lost_s[1] < lost_s[8] < 2.5 * lost_s[1], "one exchange, and the waiting of eight"


def test_an_accumulated_run_shows_the_time_of_a_micro_batch():
    accumulating = replace(RESNET, batch_per_accelerator=256, micro_batches=8)
    calibration = calibrated(accumulating, DGX, [one(1.6)])
    cluster = Cluster(host=DGX, accelerators=1, hosts=1)
    micro = predict(calibration, cluster, batch=StepBatch(samples=32, micro_batches=1))
    assert micro.step_s.point == pytest.approx(0.2, rel=0.01)
    whole = predict(calibration, cluster, batch=StepBatch(samples=256, micro_batches=1))
    assert whole.step_s.point < 1.6, "what does not shrink with the batch is spent once"


@pytest.mark.parametrize(
    ("samples", "batch"),
    [(64, (64, 2)), (32, (32, 1)), (16, (16, 1)), (96, (96, 3)), (40, (40, 2)), (33, (34, 2)),
     (0.3, (1, 1))],
)  # fmt: skip
def test_fewer_samples_change_accumulation_before_the_micro_batch(samples, batch):
    divided = divide_batch(replace(RESNET, batch_per_accelerator=128, micro_batches=4), samples)
    assert (divided.samples, divided.micro_batches) == batch


def test_memory_limits_a_micro_batch_and_a_batch_in_parts_stays_in_parts():
    assert divide_batch(RESNET, 64, most=16) == StepBatch(samples=64, micro_batches=4)
    tokens = replace(RESNET, batch_per_accelerator=0.5)
    assert divide_batch(tokens, 0.125) == StepBatch(samples=0.125, micro_batches=1)


def test_more_runs_make_a_prediction_surer():
    runs = [
        one(0.2),
        Run(kind=RunKind.HOST, accelerators=8, step_s=0.22),
        Run(kind=RunKind.TWO_HOSTS, accelerators=16, hosts=2, step_s=0.25),
    ]
    predictions = [predict_on(calibrated(RESNET, DGX, runs[:k]), 64, 8) for k in (1, 2, 3)]
    widths = [prediction.step_s.high / prediction.step_s.low for prediction in predictions]
    assert widths[0] > widths[1] > widths[2]


def test_a_busy_machine_is_said_and_weighs_less():
    runs = [one(0.2), replace(one(0.3), noisy=True)]
    prediction = predict_on(calibrated(RESNET, DGX, runs), 1, 1)
    assert prediction.step_s.point < 0.22
    assert "other work" in prediction.warnings[-1]


def test_a_busy_machine_may_have_slowed_a_run_by_all_that_others_used():
    busy = replace(one(0.2), noisy=True, load=2.0)
    widths = [
        predict_on(calibrated(RESNET, replace(DGX, cpus=cpus), [busy]), 1, 1).step_s
        for cpus in (2, 64)
    ]
    assert widths[0].high / widths[0].low > 1.5
    assert widths[1].high / widths[1].low < 1.2


def test_a_probe_of_the_link_that_found_nothing_says_nothing():
    probe = Run(kind=RunKind.LINK, accelerators=2, hosts=2)
    with_probe = predict_on(calibrated(RESNET, DGX, [one(0.2), probe]), 16, 2)
    assert with_probe == predict_on(calibrated(RESNET, DGX, [one(0.2)]), 16, 2)


def test_reducers_beside_an_all_reduce_shorten_its_exchange():
    calibration = calibrated(RESNET, replace(DGX, network_gbps=10), [one(0.2)])
    steps = [
        predict_on(calibration, 64, 8, reducers=r, reducer_gbps=10).step_s.point for r in (0, 4, 8)
    ]
    assert steps[0] > steps[1] > steps[2]


def test_few_steps_of_many_lengths_weigh_less_than_steady_ones():
    loose = Run(kind=RunKind.JOB, steps=4, step_s=0.3, step_s_p10=0.2, step_s_p90=0.5)
    steady = replace(one(0.2), step_s_p10=0.199, step_s_p90=0.201)
    assert predict_on(calibrated(RESNET, DGX, [steady, loose]), 1, 1).step_s.point < 0.21


def test_the_interval_of_unsteady_steps_holds_most_of_them():
    steps = {"steps": 200, "step_s": 0.016, "step_s_p10": 0.003, "step_s_p90": 0.09}
    unsteady = Run(kind=RunKind.COMPUTE, **steps)
    assert unsteady.is_unsteady
    calibration = calibrated(RESNET, DGX, [unsteady])
    assert calibration.doubt == 2
    answer = predict_on(calibration, 1, 1)
    assert answer.step_s.low <= 0.003
    assert answer.step_s.high >= 0.09


@pytest.mark.parametrize("strategy", list(Strategy))
def test_every_strategy_costs_something_on_more_hosts_and_nothing_on_one_accelerator(strategy):
    host = HostKind(per_host=4, inside_bytes=12e9, network="tcp", network_gbps=10)
    training = replace(RESNET, strategy=strategy)
    calibration = calibrated(training, host, [one(0.2)])
    assert predict_on(calibration, 1, 1).efficiency.point == pytest.approx(1)
    assert predict_on(calibration, 16, 4).efficiency.point < 0.97
    assert predict_on(calibration, 16, 4, servers=2, server_gbps=10).step_s.point > 0.2


def test_parameters_of_another_schema_are_not_read():
    with pytest.raises(ValueError, match="schema of parameters"):
        parameters_from({"schema": 2})


@pytest.mark.parametrize(("most", "speedup"), [(512, 46.5), (1024, 256 / 2.2)])
@pytest.mark.parametrize("training", [RESNET, Training(batch_per_accelerator=32)])
def test_far_counts_leave_no_slower_count_between_them_and_no_line_beyond(training, most, speedup):
    host = HostKind(accelerator="P100", per_host=8)
    far = Run(kind=RunKind.JOB, accelerators=most, hosts=most // 8, machines=most // 8, steps=100,
              step_s=0.2 * most / speedup)  # fmt: skip
    calibration = calibrated(training, host, [one(0.2), far])
    counts = [2**power for power in range(12)]
    predictions = [predict_on(calibration, n, max(1, n // 8)) for n in counts]
    gains = [prediction.speedup.point for prediction in predictions]
    assert gains == sorted(gains)
    law = 1 / (1 / speedup - (1 - 1 / speedup) / (most - 1))
    assert gains[counts.index(most)] == pytest.approx(speedup, rel=0.01)
    assert gains[-1] == pytest.approx(law, rel=0.1), "a fixed part limits every count"
    assert predictions[-1].bound_by is Binding.FIXED
