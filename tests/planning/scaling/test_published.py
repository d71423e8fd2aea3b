"""Plans of trainings that were not measured, from published jobs like them."""

import math

import pytest
from benchmarks.planning.rows import curves

from trainshed.planning.scaling.cluster import Cluster, HostKind
from trainshed.planning.scaling.predict import predict
from trainshed.planning.scaling.prediction import NoPrediction
from trainshed.planning.scaling.published import (
    RATE_FACTOR,
    assumed_training,
    known_model,
    published_calibration,
)
from trainshed.planning.scaling.training import Strategy

HOST = HostKind(
    accelerator="NVIDIA_TESLA_V100",
    per_host=8,
    inside="nvlink2",
    inside_bytes=150e9,
    network_gbps=32,
)
RESNET50 = assumed_training(25.56e6, "fp32", Strategy.ALLREDUCE)


def planned(accelerators, training=RESNET50, model=None, host=HOST):
    calibration = published_calibration(training, host, model)
    hosts = max(1, accelerators // host.per_host)
    return predict(calibration, Cluster(host=host, accelerators=accelerators, hosts=hosts))


def test_a_count_of_parameters_shows_how_a_job_scales_and_not_how_fast_it_is():
    answers = {n: planned(n) for n in (1, 8, 32, 64)}
    gains = [answer.speedup.point for answer in answers.values()]
    assert gains == sorted(gains)
    assert answers[1].speedup.low == pytest.approx(1, rel=0.02)
    assert answers[64].speedup.low < 0.9 * gains[-1] < gains[-1] < 1.1 * answers[64].speedup.high
    assert {answer.rate_factor for answer in answers.values()} == {math.inf}
    assert not answers[64].extrapolated
    assert planned(1024).extrapolated
    assert isinstance(planned(8192), NoPrediction)


def test_a_known_model_has_a_rate_to_a_factor():
    one = planned(1, model=known_model("ResNet-50"))
    assert one.rate_factor == pytest.approx(RATE_FACTOR)
    assert 337 / RATE_FACTOR < one.samples_per_s.point < 337 * RATE_FACTOR
    assert planned(1, model=known_model("gpt-1.3b")).rate_factor < 2
    t4 = HostKind(accelerator="NVIDIA_TESLA_T4")
    assert planned(1, model=known_model("resnet50"), host=t4).rate_factor == math.inf


@pytest.mark.parametrize(
    ("name", "parameters"),
    [("resnet-50", 25.56e6), ("BERT_large", 336e6), ("gpt2", 124e6), ("gpt2-xl", 1.558e9),
     ("GPT-1.3B", 1.3e9), ("gpt-350M", 350e6)],
)  # fmt: skip
def test_families_are_known_by_their_usual_names(name, parameters):
    assert known_model(name).parameters == parameters


@pytest.mark.parametrize("name", ["", "resnet51", "gpt", "gpt-0m", "alexnet", "bert"])
def test_other_names_are_not_guessed(name):
    assert known_model(name) is None


def test_four_of_five_published_rates_are_within_the_factor():
    """Curves of well-known models on one accelerator, in the unit of our samples."""
    names = {"resnet50": "resnet50", "resnet101": "resnet101", "resnet152": "resnet152",
             "bert_base": "bert-base"}  # fmt: skip
    ratios = []
    for curve in curves():
        model = known_model(names.get(curve.training.model, ""))
        first = curve.points[0]
        rate = model and model.samples_per_s(curve.host.accelerator, curve.training.precision)
        if rate and first.accelerators == 1 and not curve.unprinted:
            ratios.append(first.batch_per_accelerator / first.step_s / rate)
    assert len(ratios) > 40
    inside = [1 / RATE_FACTOR < ratio < RATE_FACTOR for ratio in ratios]
    assert sum(inside) > 0.8 * len(inside)
