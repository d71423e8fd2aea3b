"""Programs of jobs have gs:// and credentials by what Google's clients look for, in each mode."""

import pytest

from e2e.support import custom_job, good, serving, submit
from engines.isolating import isolation_of

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


@pytest.fixture(params=["users", "landlock"])
def server(request, tmp_path):
    isolation_of(request.param)
    config = f'[isolation]\nmode = "{request.param}"\nallow_root_jobs = true\n'
    with serving(tmp_path / "data", config=config) as found:
        for project, name in (("demo-proj", BUCKET), ("others", FOREIGN)):
            good(found.call("POST", f"/storage/v1/b?project={project}", {"name": name}))
        yield found


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
    found = dict(line.partition(" ")[::2] for line in log.splitlines() if " " in line)
    assert (found["project"], found["written"], found["read"]) == (
        "demo-proj",
        "200",
        "by its name",
    )
    assert found["listed"] == "a/b.txt"
    assert found["foreign"] in {"403", "404"}
    assert found["model"] == f"gs://{BUCKET}/out/model/"
    state, log = ended(server, custom_job("off", OFF) | {"labels": {"trainshed-gateway": "off"}})
    assert "told []" in log
    assert f"model {server.data_dir}/buckets/{BUCKET}/out/model/" in log
