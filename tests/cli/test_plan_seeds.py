"""Examples of the source documents (``benchmarks/scaling/seeds.toml``), as a user types them."""

import json

import pytest

SPEEDUPS = """
[[series]]
id = "speed-ups"
strategy = "allreduce"
metric = "times one GPU"
batch_per_acc = 1
points = """
BERT = SPEEDUPS + "[[1, 1, 1.0], [512, 64, 46.5]]"
ALEXNET = SPEEDUPS + "[[1, 1, 1.0], [2, 1, 1.7], [4, 1, 3.5], [8, 1, 6.2]]"
TPUS = SPEEDUPS + f"[[1, 1, 1.0], [1024, 128, {256 / 2.2}]]"
#: ResNet-50 on ImageNet: 29 h for 90 epochs on one host with 8 P100.
HOURS = """
[[series]]
id = "one-hour"
model = "resnet50"
system = "own-p100"
strategy = "allreduce"
precision = "fp32"
params = 25.56e6
batch_per_acc = 32
data = "synthetic"
points = [[8, 1, 1104.5]]

[[system]]
name = "own-p100"
accelerator = "P100"
per_host = 8
intra = "nvlink1"
network = "rdma"
network_gbps = 50

[[intra]]
name = "nvlink1"
gbytes = 80
"""
DEVICES = {"acceleratorConfig": {"type": "NVIDIA_TESLA_V100", "count": 8}}
EXAMPLE = {"scaleTier": "CUSTOM", "region": "us-central1", "masterType": "n1-highmem-96",
           "workerType": "n1-highmem-96", "masterConfig": DEVICES,
           "workerConfig": DEVICES}  # fmt: skip


@pytest.fixture
def options(trainshed, written):
    """Plans a table of measurements; gives the options by their number of accelerators."""

    def run(table, *words):
        file = written("table.toml", table)
        answer = trainshed("plan", "--measured", file, *words, "--format", "json")
        assert answer.code == 0, answer.err
        document = answer.json
        return document, {option["accelerators"]: option for option in document["options"]}

    return run


def test_46_times_on_512_is_a_fixed_share_with_a_limit_and_no_knee_beyond(options):
    document, by_count = options(BERT, "--what-if", "gpus=2,64,1024")
    assert list(by_count) == [1, 2, 64, 512, 1024], "measured counts are rows as well"
    assert "measured" in by_count[512]["notes"]
    speedups = [option["samples_per_s"]["point"] for option in by_count.values()]
    assert speedups == sorted(speedups), "no slowdown between measured counts"
    assert by_count[512]["samples_per_s"]["point"] == pytest.approx(46.5, rel=0.01)
    assert by_count[1024]["samples_per_s"]["high"] < 53
    assert document["marks"]["knee"] < list(by_count).index(512)
    (sentence,) = [note for note in document["notes"] if "fixed share" in note]
    assert "1.96 %" in sentence
    assert "51 times" in sentence


def test_29_hours_on_8_are_one_hour_on_256(options):
    work = ("--target", f"samples={90 * 1_281_167}")
    _, by_count = options(HOURS, "--what-if", "gpus=256", *work)
    assert by_count[8]["time_s"]["point"] == pytest.approx(29 * 3600, rel=0.01)
    hours = {end: seconds / 3600 for end, seconds in by_count[256]["time_s"].items()}
    assert hours["low"] < 1.0 < hours["high"]
    assert 0.95 <= hours["point"] <= 1.10


def test_a_step_that_gains_more_than_the_count_is_named_and_no_count_is_refused(options):
    document, by_count = options(ALEXNET, "--what-if", "gpus=1")
    for count, speedup in ((1, 1.0), (2, 1.7), (4, 3.5), (8, 6.2)):
        assert by_count[count]["samples_per_s"]["point"] == pytest.approx(speedup, rel=0.06)
    assert any("from 2 to 4 accelerators throughput grows" in note for note in document["notes"])


def test_116_times_on_1024_is_an_efficiency_of_11_percent(options):
    _, by_count = options(TPUS, "--what-if", "gpus=1024")
    assert by_count[1024]["efficiency"]["point"] == pytest.approx(0.1136, abs=0.005)


@pytest.mark.parametrize(("hosts", "reducers"), [(5, 16), (8, 25)])
def test_hosts_of_100_gbit_need_reducers_of_as_many_gbit(trainshed, written, hosts, reducers):
    job = {"trainingInput": {**EXAMPLE, "workerCount": hosts - 1}}
    file = written("config.yaml", json.dumps(job))
    run = trainshed("plan", file)
    assert run.code == 3, "nothing was measured"
    assert f"reducers  {reducers} reducers of n1-highcpu-16 carry" in run.out
    assert f"the workers {100 * hosts}: the exchange is predicted at" in run.out
    assert f"price     {8 * hosts} GPUs: " in run.out
    document = trainshed("plan", file, "--format", "json").json
    assert document["reducers"]["sufficient"] == reducers
