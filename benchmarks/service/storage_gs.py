"""Measures how fast a job reads gs:// through its gateway, compared with the same files by path.

``storage --gs`` calls this.  The readers run in a job of a new server, in an environment with
TensorFlow and Google's clients (``make .venv-gs/.done``).
"""

import json
import statistics
import tempfile
import time
from pathlib import Path

from benchmarks.harness import ROOT, Report, at_least
from benchmarks.service.documents import PROJECT, VERTEX
from benchmarks.service.servers import Server, local

PYTHON = ROOT / ".venv-gs" / "bin" / "python"
BUCKET = "bench-gs"
#: The least rate of TFRecords by gs:// divided by that by path, and of small objects per second.
RECORDS_SHARE_MIN = 0.5
OBJECTS_PER_S_MIN = 300.0
OVER = frozenset({"JOB_STATE_SUCCEEDED", "JOB_STATE_FAILED", "JOB_STATE_CANCELLED"})

CONFIG = f"""\
[isolation]
allow_root_jobs = true

[[environment]]
name = "gs"
python = "{PYTHON}"

[[image]]
image = "registry.test/*"
environment = "gs"
"""

#: These programs print lines of JSON: the measured quantity, its unit, and the rate of each round.
RECORDS = """
import json, os, sys, time
import tensorflow as tf

bucket, megabytes, rounds = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
path = os.environ["TRAINSHED_BUCKETS"] + "/" + bucket + "/records"
os.makedirs(path, exist_ok=True)
payload, shards = os.urandom(100_000), 16
for shard in range(shards):
    with tf.io.TFRecordWriter(f"{path}/train-{shard:05}.tfrecord") as writer:
        for _ in range(megabytes * 10 // shards):
            writer.write(payload)

def rate(folder):
    began = time.perf_counter()
    files = tf.data.Dataset.list_files(folder + "/train-*")
    found = files.interleave(tf.data.TFRecordDataset, cycle_length=8, num_parallel_calls=8)
    lengths = found.map(tf.strings.length).batch(100).prefetch(2)
    read = sum(int(tf.reduce_sum(each)) for each in lengths)
    assert read == megabytes * 10 // shards * shards * len(payload), read
    return read / 1e6 / (time.perf_counter() - began)

rate(path)
turns = [(rate(path), rate(f"gs://{bucket}/records")) for _ in range(rounds)]
for name, rates in zip(("path", "gs://"), zip(*turns)):
    print(json.dumps({"what": f"TFRecords by {name}", "unit": "MB/s", "rates": rates}), flush=True)
"""

OBJECTS = """
import json, os, sys, time
from concurrent.futures import ThreadPoolExecutor
import gcsfs
import tensorflow as tf
from google.cloud import storage

bucket, count = sys.argv[1], int(sys.argv[2])
folder = os.environ["TRAINSHED_BUCKETS"] + "/" + bucket + "/small"
os.makedirs(folder, exist_ok=True)
names = [f"small/{n:05}" for n in range(count)]
for name in names:
    with open(f"{folder}/{name[6:]}", "wb") as file:
        file.write(os.urandom(1000))

def by_tensorflow():
    uris = tf.data.Dataset.from_tensor_slices([f"gs://{bucket}/{name}" for name in names])
    found = uris.map(tf.io.read_file, num_parallel_calls=16).map(tf.strings.length)
    return sum(int(length) for length in found)

def by_gcsfs():
    found = gcsfs.GCSFileSystem().cat([f"{bucket}/{name}" for name in names])
    return sum(map(len, found.values()))

def by_google():
    blobs = storage.Client().bucket(bucket)
    with ThreadPoolExecutor(8) as threads:
        found = threads.map(lambda name: blobs.blob(name).download_as_bytes(), names)
        return sum(map(len, found))

for who in (by_tensorflow, by_gcsfs, by_google):
    began = time.perf_counter()
    assert who() == 1000 * count
    rate = count / (time.perf_counter() - began)
    what = f"small objects {who.__name__.replace('_', ' ')}"
    print(json.dumps({"what": what, "unit": "/s", "rates": [rate]}), flush=True)
"""


def compare(megabytes: int, objects: int, rounds: int) -> Report:
    """Measure records by ``gs://`` and by path, and small objects by ``gs://``."""
    if not PYTHON.exists():
        return Report(left_out={"gs://": "its environment is missing; run make .venv-gs/.done"})
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "config.toml").write_text(CONFIG)
        with local(Path(folder)) as server:
            with server.client() as client:
                client.call("POST", f"/storage/v1/b?project={PROJECT}", {"name": BUCKET})
            rates = _measured(server, RECORDS, megabytes, rounds)
            rates |= _measured(server, OBJECTS, objects)
    share = rates["TFRecords by gs://"][0] / rates["TFRecords by path"][0]
    slowest = min(rate for rate, unit in rates.values() if unit == "/s")
    return Report(
        goals=[
            at_least("TFRecords, gs:// over path", share, RECORDS_SHARE_MIN, "times"),
            at_least("small objects, the slowest client", slowest, OBJECTS_PER_S_MIN, "/s"),
        ],
        lines=[f"  {what:<32} {rate:9.1f} {unit}" for what, (rate, unit) in rates.items()],
        data={"rates": rates},
    )


def _measured(server: Server, code: str, *words: int) -> dict[str, tuple[float, str]]:
    """Run a job that measures; return the medians and units, by the measured quantity."""
    arguments = [BUCKET, *map(str, words)]
    container = {"imageUri": "registry.test/gs:1", "command": ["python", "-c", code]}
    pool = {
        "machineSpec": {"machineType": "n1-standard-4"},
        "replicaCount": 1,
        "containerSpec": {**container, "args": arguments},
    }
    job = {"displayName": "gs", "jobSpec": {"workerPoolSpecs": [pool]}}
    with server.client() as client:
        name = client.call("POST", VERTEX, job)["name"]
        while (state := client.call("GET", f"/v1/{name}")["state"]) not in OVER:
            time.sleep(0.5)
        logs = f"/trainshed/v1/projects/{PROJECT}/jobs/{name.rpartition('/')[2]}/logs"
        lines = [str(line["message"]) for line in client.lines(logs)]
    if state != "JOB_STATE_SUCCEEDED":
        raise SystemExit("\n".join(lines[-30:]))
    rows = [json.loads(line) for line in lines if line.startswith('{"what"')]
    return {row["what"]: (statistics.median(row["rates"]), row["unit"]) for row in rows}
