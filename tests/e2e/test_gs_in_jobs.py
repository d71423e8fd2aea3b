"""Programs of jobs have gs:// and credentials by what Google's clients look for, in each mode."""

from pathlib import Path

import pytest

from e2e.support import NO_PUBLIC, custom_job, good, serving, submit
from engines.isolating import isolation_of
from examples.cluster import needs

BUCKET, FOREIGN = "mine-of-jobs", "theirs-of-jobs"

#: What Google's clients do, with nothing but the standard library: a token from the metadata
#: server, then storage by Google's own name, trusting whom the variables name.
PROGRAM = """\
import json, os, urllib.error, urllib.request

def get(url, method="GET", data=None, **headers):
    request = urllib.request.Request(url, data, headers, method=method)
    try:
        with urllib.request.urlopen(request, timeout=30) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, ""

metadata = f"http://{os.environ['GCE_METADATA_HOST']}/computeMetadata/v1"
flavor = {"Metadata-Flavor": "Google"}
_, said = get(f"{metadata}/instance/service-accounts/default/token", **flavor)
own = {"Authorization": "Bearer " + json.loads(said)["access_token"]}
objects = "https://storage.googleapis.com"
print("project", get(f"{metadata}/project/project-id", **flavor)[1])
print("written", get(f"{objects}/BUCKET/a/b.txt", "PUT", b"by its name", **own)[0])
print("read", get(f"{objects}/BUCKET/a/b.txt", **own)[1])
found = json.loads(get("https://www.googleapis.com/storage/v1/b/BUCKET/o", **own)[1])["items"]
print("listed", *(each["name"] for each in found))
print("foreign", get(f"{objects}/FOREIGN/a", **own)[0])
print("model", os.environ["AIP_MODEL_DIR"])
""".replace("BUCKET", BUCKET).replace("FOREIGN", FOREIGN)
OFF = "import os; print('told', sorted({'GCE_METADATA_HOST', 'https_proxy'} & set(os.environ)))"
OFF += "; print('model', os.environ['AIP_MODEL_DIR'])"


GOOGLE_PYTHON = Path(__file__).parents[2] / ".venv-google/bin/python"
CONFIG = f"""\
{NO_PUBLIC}
[isolation]
mode = "MODE"
allow_root_jobs = true

[[environment]]
name = "google"
python = "{GOOGLE_PYTHON}"

[[image]]
image = "google.test/*"
environment = "google"

"""


MODES = ("users", "landlock")
#: Clients that take seconds of a processor to import; the mode changes nothing of what they say.
ONE_MODE = ("users", pytest.param("landlock", marks=pytest.mark.full))


@pytest.fixture(params=MODES)
def server(request, tmp_path):
    isolation_of(request.param)
    with serving(tmp_path / "data", config=CONFIG.replace("MODE", request.param)) as server:
        for project, name in (("demo-proj", BUCKET), ("others", FOREIGN)):
            good(server.call("POST", f"/storage/v1/b?project={project}", {"name": name}))
        yield server


def ended(server, document):
    base = {"outputUriPrefix": f"gs://{BUCKET}/out"}
    document["jobSpec"]["baseOutputDirectory"] = base
    name = submit(server, document)
    finals = {"JOB_STATE_SUCCEEDED", "JOB_STATE_FAILED"}
    state = server.wait_for(f"/v1/{name}", finals)["state"]
    return state, server.log_of(name)


def test_a_program_finds_its_bucket_by_google_s_names_and_no_other_s(server):
    state, log = ended(server, custom_job("by-name", PROGRAM))
    assert state == "JOB_STATE_SUCCEEDED", log
    facts = dict(line.partition(" ")[::2] for line in log.splitlines() if " " in line)
    assert (facts["project"], facts["written"], facts["read"]) == (
        "demo-proj",
        "200",
        "by its name",
    )
    assert facts["listed"] == "a/b.txt"
    assert facts["foreign"] in {"403", "404"}
    assert facts["model"] == f"gs://{BUCKET}/out/model/"
    state, log = ended(server, custom_job("off", OFF) | {"labels": {"trainshed-gateway": "off"}})
    assert "told []" in log
    assert f"model {server.data_dir}/buckets/{BUCKET}/out/model/" in log


#: Says of each call what came of it; whatever is returned was read from nothing.
TRIES = """\
def tried(name, call):
    try:
        print("EMPTY", name, repr(call()), flush=True)
    except Exception as error:
        print("error", name, type(error).__name__, flush=True)

MISSING, FOREIGN = "gs://OWN/nothing", "gs://THEIRS/nothing"
""".replace("OWN", BUCKET).replace("THEIRS", FOREIGN)
BY_CLIENTS = """
import fsspec, gcsfs
from google.cloud import storage
client = storage.Client()
for uri in (MISSING, FOREIGN):
    name = uri.split("/")[2]
    tried("storage", lambda: client.bucket(name).blob("nothing").download_as_bytes())
    tried("gcsfs", lambda: gcsfs.GCSFileSystem().cat(uri))
    tried("fsspec", lambda: fsspec.open(uri, "rt").open().readline())
tried("storage list", lambda: list(client.list_blobs("THEIRS")))
tried("gcsfs ls", lambda: gcsfs.GCSFileSystem().ls(FOREIGN))
tried("storage write", lambda: client.bucket("THEIRS").blob("x").upload_from_string("x"))
""".replace("THEIRS", FOREIGN)
BY_TENSORFLOW = """
import os
import tensorflow as tf
GFile = tf.io.gfile.GFile
for uri in (MISSING, FOREIGN):
    tried("read", lambda: GFile(uri).read())
    tried("bytes", lambda: GFile(uri, "rb").read(5))
    tried("stat", lambda: tf.io.gfile.stat(uri))
    tried("listdir", lambda: tf.io.gfile.listdir(uri))
    tried("lines", lambda: list(tf.data.TextLineDataset(uri)))
    tried("records", lambda: list(tf.data.TFRecordDataset(uri)))
tried("readline", lambda: GFile(FOREIGN).readline())
tried("glob", lambda: tf.io.gfile.glob(FOREIGN + "*"))
"""
#: The port of nobody: what is left of a gateway whose server is away.
AWAY = """
import os
for name, text in dict(os.environ).items():
    if name.startswith("GCE_METADATA"):
        os.environ[name] = "127.0.0.1:1"
os.environ["https_proxy"] = "http://127.0.0.1:1"
import tensorflow as tf
tried("readline", lambda: tf.io.gfile.GFile(FOREIGN).readline())
"""


def outcomes(server, document):
    state, log = ended(server, document)
    assert state == "JOB_STATE_SUCCEEDED", log
    lines = [line for line in log.splitlines() if line.startswith(("EMPTY ", "error "))]
    assert lines, log
    return lines


def empty(lines):
    return [line for line in lines if line.startswith("EMPTY ")]


@pytest.mark.slow
@pytest.mark.skipif(not GOOGLE_PYTHON.exists(), reason="make test installs the clients")
@pytest.mark.parametrize("server", ONE_MODE, indirect=True)
def test_what_cannot_be_read_is_an_error_in_every_client(server):
    document = custom_job("clients", TRIES + BY_CLIENTS)
    document["jobSpec"]["workerPoolSpecs"][0]["containerSpec"]["imageUri"] = "google.test/x:1"
    assert not empty(outcomes(server, document))


@pytest.mark.full
@needs("tensorflow")
def test_what_cannot_be_read_is_an_error_in_tensorflow(server):
    assert not empty(outcomes(server, custom_job("tensorflow", TRIES + BY_TENSORFLOW)))


@pytest.mark.full
@needs("tensorflow")
def test_a_line_that_cannot_be_read_is_an_error_where_the_gateway_is_away(server):
    assert not empty(outcomes(server, custom_job("away", TRIES + AWAY)))
