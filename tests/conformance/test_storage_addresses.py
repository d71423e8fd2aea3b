"""Google's clients with a token for buckets in their storage address, against a real server."""

import os
import shlex
import subprocess
from pathlib import Path

import pytest

from conformance.conftest import PROJECT
from server_process import TRAINSHED

GOOGLE_PYTHON = Path(__file__).parents[2] / ".venv-google/bin/python"
DATA_PYTHON = Path(__file__).parents[2] / ".venv-gs/bin/python"

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not GOOGLE_PYTHON.exists(), reason="make test installs the clients"),
]

CODE = """
import os
import gcsfs
from google.api_core.exceptions import Forbidden, NotFound
from google.cloud import storage

client = storage.Client(project="demo-proj")
bucket = client.create_bucket("addressed-bkt")
content = os.urandom(9 << 20)
bucket.blob("dir/large").upload_from_string(content)  # a session, whose address has the token
assert bucket.get_blob("dir/large").download_as_bytes() == content  # by its media link
assert [each.name for each in client.list_buckets()] == ["addressed-bkt"]
assert not client.bucket("stage-bkt").exists()
try:
    client.create_bucket("another-bkt")
    raise SystemExit("made another bucket")
except Forbidden as error:
    assert "addressed-bkt only" in error.message
try:
    client.bucket("stage-bkt").blob("x").upload_from_string("x")
    raise SystemExit("wrote into another bucket")
except NotFound as error:
    assert "This storage address is for the bucket addressed-bkt only" in error.message

fs = gcsfs.GCSFileSystem(token="anon", project="demo-proj", use_listings_cache=False)
assert fs.cat("addressed-bkt/dir/large") == content
with fs.open("addressed-bkt/more/pieces", "wb", block_size=2**18) as file:
    file.write(content[: 2**20])
assert fs.ls("addressed-bkt") == ["addressed-bkt/dir", "addressed-bkt/more"]
assert not fs.exists("stage-bkt/x")
fs.rm("addressed-bkt/dir", recursive=True)
assert fs.find("addressed-bkt") == ["addressed-bkt/more/pieces"]
"""


def run_python(python, code, environ, cwd=None):
    done = subprocess.run(
        [python, "-W", "ignore", "-c", code],
        cwd=cwd,
        env={**os.environ, "GCSFS_EXPERIMENTAL_ZB_HNS_SUPPORT": "false", **environ},
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert done.returncode == 0, done.stderr


def address(server, **wish):
    path = f"/trainshed/v1/projects/{PROJECT}/bucketTokens"
    status, token = server.call("POST", path, wish)
    assert status == 200, token
    host = f"{server.url}/as/{token['token']}"
    return {**server.certificates, "STORAGE_EMULATOR_HOST": host}


def test_they_use_their_bucket_and_see_no_other(server):
    run_python(GOOGLE_PYTHON, CODE, address(server, bucket="addressed-bkt"))


EVERY_BUCKET = """
import gcsfs
from google.api_core.exceptions import NotFound
from google.cloud import storage

client = storage.Client(project="demo-proj")
made = client.create_bucket("every-bkt")
for bucket in (made, client.bucket("stage-bkt"), client.bucket("out-bkt")):
    bucket.blob("every/one").upload_from_string("content")
assert {"every-bkt", "stage-bkt", "out-bkt"} <= {one.name for one in client.list_buckets()}
fs = gcsfs.GCSFileSystem(token="anon", project="demo-proj", use_listings_cache=False)
assert fs.cat("out-bkt/every/one") == fs.cat("every-bkt/every/one") == b"content"
try:
    client.bucket("none-bkt").blob("x").upload_from_string("x")
    raise SystemExit("wrote into no bucket")
except NotFound as error:
    assert "trainshed buckets create none-bkt" in error.message, error.message
"""


def test_one_address_opens_every_bucket(server):
    run_python(GOOGLE_PYTHON, EVERY_BUCKET, address(server, bucket="*"))


OF_DATA_SCIENCE = """
import os, sys, types
import pandas
import pyarrow.fs
from google.cloud import storage

frame = pandas.DataFrame({"a": [1, 2]})
frame.to_csv("gs://stage-bkt/frames/a.csv", index=False)
assert list(pandas.read_csv("gs://stage-bkt/frames/a.csv")["a"]) == [1, 2]
anonymous = {"token": "anon"}  # else pandas hands the path to pyarrow, which looks for credentials
frame.to_parquet("gs://out-bkt/frames/a.parquet", storage_options=anonymous)
assert len(pandas.read_parquet("gs://out-bkt/frames/a.parquet", storage_options=anonymous)) == 2
files, path = pyarrow.fs.FileSystem.from_uri("gs://anonymous@out-bkt/frames/a.parquet")
assert len(pandas.read_parquet(path, filesystem=files)) == 2

sys.modules["tensorboard.compat.notf"] = types.ModuleType("notf")  # it is without TensorFlow
from tensorboard.backend.event_processing.event_multiplexer import EventMultiplexer
from tensorboard.compat.proto.event_pb2 import Event
from tensorboard.compat.proto.summary_pb2 import Summary
from tensorboard.summary.writer.event_file_writer import EventFileWriter

writer = EventFileWriter("events")
for step in range(3):
    value = Summary.Value(tag="loss", simple_value=step)
    writer.add_event(Event(step=step, summary=Summary(value=[value])))
writer.close()
[name] = os.listdir("events")
bucket = storage.Client(project="demo-proj").bucket("out-bkt")
bucket.blob(f"logs/run/{name}").upload_from_filename(f"events/{name}")
board = EventMultiplexer().AddRunsFromDirectory("gs://out-bkt/logs")
board.Reload()
assert [event.step for event in board.Scalars("run", "loss")] == [0, 1, 2]
"""


@pytest.mark.skipif(not DATA_PYTHON.exists(), reason="make test installs pandas")
def test_pandas_and_tensorboard_use_the_buckets_of_an_address(server, tmp_path):
    environ = address(server, bucket="*")
    environ["CLOUD_STORAGE_EMULATOR_ENDPOINT"] = environ["STORAGE_EMULATOR_HOST"]
    if server.url.startswith("https:"):
        environ["CURL_CA_BUNDLE"] = environ["REQUESTS_CA_BUNDLE"]
    run_python(DATA_PYTHON, OF_DATA_SCIENCE, environ, cwd=tmp_path)


README_LINES = """
job = aiplatform.CustomJob.from_local_script(
    "mine",
    script_path="task.py",
    container_uri="us-docker.pkg.dev/vertex-ai/training/tf-cpu.2-12.py310:latest",
)
job.run()
print(job.state.name)
from google.cloud import storage
print(len(list(storage.Client(project="demo-proj").list_blobs("my-bucket"))))
"""


@pytest.mark.parametrize("bucket", ["my-bucket", pytest.param(None, marks=pytest.mark.full)])
def test_the_sdk_lines_run_as_env_prints_them(server, tmp_path, bucket):
    """The README's example: a bucket of one's own, and the bucket that ``env`` names."""
    (tmp_path / "task.py").write_text("print('it ran')\n")
    (tmp_path / "more.py").write_text(README_LINES)
    chosen = f"--bucket {bucket}" if bucket else ""
    data_dir = f"--data-dir {shlex.quote(str(server.data_dir))}"
    lines = f"""
set -e
eval "$(trainshed env --shell --project demo-proj {data_dir})"
trainshed buckets list | grep -q my-bucket || trainshed buckets create my-bucket
trainshed env --python {chosen} > script.py
cat more.py >> script.py
{shlex.quote(str(GOOGLE_PYTHON))} -W ignore script.py
"""
    path = f"{TRAINSHED.parent}:{os.environ['PATH']}"
    done = subprocess.run(
        ["/bin/sh", "-c", lines],
        cwd=tmp_path,
        env={"PATH": path, "HOME": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-2] == "JOB_STATE_SUCCEEDED"
    assert int(done.stdout.splitlines()[-1]) > 0  # what the SDK put into my-bucket
