"""Examples of the source documents (``benchmarks/scaling/seeds.toml``), as a user types them."""

import json

import pytest

SPEEDUPS = """
[[series]]
id = "bert"
strategy = "allreduce"
metric = "times one GPU"
batch_per_acc = 1
points = [[1, 1, 1.0], [512, 64, 46.5]]
"""
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
           "workerType": "n1-highmem-96", "workerCount": 4, "masterConfig": DEVICES,
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
    document, by_count = options(SPEEDUPS, "--what-if", "gpus=2,64,1024")
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


def test_five_hosts_of_100_gbit_need_16_reducers(trainshed, written):
    file = written("config.yaml", json.dumps({"trainingInput": EXAMPLE}))
    run = trainshed("plan", file)
    assert run.code == 3, "nothing was measured"
    assert "reducers  16 reducers of n1-highcpu-16 carry 512 Gbit/s, the workers 500" in run.out
    assert "price     40 GPUs: " in run.out
    assert trainshed("plan", file, "--format", "json").json["reducers"]["sufficient"] == 16
