"""Jobs in a network of their own have the gateway there, also after the server was killed."""

import pytest

from e2e.support import custom_job, good, serving, submit, wait_until
from e2e.test_gs_in_jobs import BUCKET, CONFIG, FOREIGN, GOOGLE_PYTHON
from engines.isolating import isolation_of
from trainshed.engines.network.choose import try_network

#: Uploads by Google's client, then waits for an object that the test makes when it has killed the
#: server, and uploads again.
UPLOADS = """\
import os, socket, time
from google.cloud import storage
assert not set(os.environ) & {"https_proxy", "HTTPS_PROXY"}
client = storage.Client()
print("project", client.project, flush=True)
print("host", socket.gethostbyname("storage.googleapis.com"), flush=True)
bucket = client.bucket("BUCKET")
bucket.blob("before").upload_from_string("one", timeout=60)
print("uploaded before", flush=True)
while not bucket.blob("go").exists(timeout=60):
    time.sleep(0.1)
bucket.blob("after").upload_from_string("two", timeout=60)
print("read", bucket.blob("after").download_as_text(timeout=60), flush=True)
""".replace("BUCKET", BUCKET)
#: What another project's job reaches at the same addresses: the gateway, as itself.
REACHES = """\
import urllib.error, urllib.request, os
place = os.environ["GCE_METADATA_HOST"]
for word, host in (("project", place), ("named", "metadata.google.internal")):
    url = f"http://{host}/computeMetadata/v1/project/project-id"
    ask = urllib.request.Request(url, headers={"Metadata-Flavor": "Google"})
    print(word, urllib.request.urlopen(ask, timeout=60).read().decode())
for bucket in ("BUCKET", "FOREIGN"):
    try:
        url = f"http://{place}/storage/v1/b/{bucket}/o"
        print(bucket, urllib.request.urlopen(url, timeout=60).status)
    except urllib.error.HTTPError as error:
        print(bucket, error.code)
""".replace("BUCKET", BUCKET).replace("FOREIGN", FOREIGN)
MODES = ("users", "sandbox")


@pytest.fixture(params=MODES)
def server(request, tmp_path):
    mode = request.param
    isolation_of(mode)
    if why := try_network(mode):
        pytest.skip(f"no network of a job's own here: {why}")
    config = CONFIG.replace('mode = "MODE"', f'mode = "{mode}"\nnetwork = "job"')
    with serving(tmp_path / "data", config=config) as server:
        for project, name in (("demo-proj", BUCKET), ("others", FOREIGN)):
            good(server.call("POST", f"/storage/v1/b?project={project}", {"name": name}))
        yield server


def ended(server, name):
    finals = {"JOB_STATE_SUCCEEDED", "JOB_STATE_FAILED"}
    return server.wait_for(f"/v1/{name}", finals)["state"]


@pytest.mark.slow
@pytest.mark.skipif(not GOOGLE_PYTHON.exists(), reason="make test installs the clients")
@pytest.mark.parametrize("server", ["users"], indirect=True)
def test_googles_client_uploads_before_and_after_the_server_was_killed(server):
    document = custom_job("uploads", UPLOADS)
    document["jobSpec"]["workerPoolSpecs"][0]["containerSpec"]["imageUri"] = "google.test/x:1"
    name = submit(server, document)
    wait_until(lambda: "uploaded before" in server.log_of(name), lambda: server.log_of(name))
    server.kill()
    server.start()
    path = f"/upload/storage/v1/b/{BUCKET}/o?uploadType=media&name=go"
    good(server.call("POST", path, {}))
    assert ended(server, name) == "JOB_STATE_SUCCEEDED", server.log_of(name)
    log = server.log_of(name)
    for line in ("project demo-proj", "host 127.0.0.2", "read two"):
        assert line in log


def test_a_job_reaches_the_gateway_in_its_own_network_as_itself_alone(server):
    name = submit(server, custom_job("reaches", REACHES), "others")
    assert ended(server, name) == "JOB_STATE_SUCCEEDED", server.log_of(name)
    lines = server.log_of(name).splitlines()
    assert {"project others", "named others"} < set(lines)
    assert f"{FOREIGN} 200" in lines
    assert {f"{BUCKET} 403", f"{BUCKET} 404"} & set(lines)
