"""What the Vertex SDK sends for each of its jobs runs in a mapped environment, pip included."""

import json
import re
import threading
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer

import pytest

from conformance.client_scripts import bucket_variables, run_sdk_script
from conformance.conftest import BUCKETS, CONFIG, PROJECT
from engines.test_replica_machine import wheel_of
from server_process import ServerProcess

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

ENDED = {
    f"{kind}_STATE_{word}"
    for kind in ("JOB", "PIPELINE")
    for word in ("SUCCEEDED", "FAILED", "CANCELLED")
}
#: The folder of wheels is served at the machine's loopback, which no network of a job has.
PASSED = '[isolation]\nnetwork = "host"\n\n[fleet]\npass_env = ["PIP_*"]\n'


@pytest.fixture(scope="module")
def wheels(tmp_path_factory):
    """The address of a folder with a wheel: jobs do not see the folders of tests."""
    folder = tmp_path_factory.mktemp("wheels")
    wheel_of(folder, "required")
    handler = partial(Quiet, directory=str(folder))
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}/"
        server.shutdown()


class Quiet(SimpleHTTPRequestHandler):
    def log_message(self, *_):
        pass


@pytest.fixture(scope="module")
def sdk_server(tmp_path_factory, wheels):
    """A server without a network: packages come from a folder."""
    data = tmp_path_factory.mktemp("service")
    (data / "config.toml").write_text(CONFIG.replace("[fleet]\n", PASSED))
    installers = {"PIP_NO_INDEX": "1", "PIP_FIND_LINKS": wheels}
    installers |= {"UV_NO_INDEX": "1", "UV_FIND_LINKS": wheels}
    server = ServerProcess(data, environ={"TRAINSHED_CACHE_DIR": str(data / "cache"), **installers})
    server.start()
    for bucket in BUCKETS:
        status, answer = server.call("POST", f"/storage/v1/b?project={PROJECT}", {"name": bucket})
        assert status == 200, answer
    yield server
    server.stop()


#: What `make test` runs; `make test-full` runs all cases with both SDKs.  Of the classes that are
#: not here, test_vertex_sdk.py has the training job and test_vertex_sdk_tuning.py the study.
SHORT = (
    "script_prebuilt", "script_own_image", "container_training_job", "automl", "experiment",
)  # fmt: skip


@pytest.fixture(
    scope="module",
    params=[
        pytest.param(("newest", SHORT), id="short"),
        pytest.param(("newest", ()), id="newest", marks=pytest.mark.full),
        pytest.param(("1.60.0", ()), id="1.60.0", marks=pytest.mark.full),
    ],
)
def results(request, sdk_server):
    """What became of each case: the job's name, or the refusal that the user saw."""
    sdk, cases = request.param
    bucket = bucket_variables(sdk_server, PROJECT, "stage-bkt")
    way = (sdk, "rest")
    return run_sdk_script(sdk_server, way, "sdk_jobs.py", "--cases", *cases, **bucket)


#: What the SDK sends in the place of a command where the image is no prebuilt one.
OF_OWN_IMAGE = re.compile(
    r"pip install --upgrade pip && pip3 install -q --user /gcs/stage-bkt/\S+\.tar\.gz"
    r" && python3 -m aiplatform_custom_trainer_script\.task --x 1"
)
#: A shell takes the parameters of a trial for its own, as on Vertex: ``sh -c COMMAND --lr 0.1``.
ARGUMENTS = {"tuning_prebuilt": ["--x", "1", "--lr"]}
SENTENCES = {
    "automl": "there are no managed datasets here",
    "persistent_resource": "there are no persistent resources here",
    "autolog": "there are no metadata stores here",
    "experiment": "there are no metadata stores here",
}


def test_every_job_of_the_sdk_runs_with_its_requirement_arguments_and_variables(
    results, sdk_server
):
    jobs = {name: result["name"] for name, result in results.items() if "name" in result}
    for name, job in jobs.items():
        ended = sdk_server.wait_for(f"/v1/{job}", ENDED)
        log = sdk_server.log_of(job)
        assert ended["state"].endswith("_SUCCEEDED"), (name, ended.get("error"), log[-3000:])
        report = json.loads(re.search(r"^FOUND (.*)$", log, re.MULTILINE)[1])
        expected = ARGUMENTS.get(name, ["--x", "1"])
        assert report["args"][: len(expected) + 1][: len(expected)] == expected, name
        assert (report["K"], report["required"]) == ("V", "1.0"), name
        assert report["model"].startswith("gs://stage-bkt/"), name


def test_a_script_in_an_image_of_ones_own_is_installed_by_a_shell(results, sdk_server):
    _, document = sdk_server.call("GET", f"/v1/{results['script_own_image']['name']}")
    pools = document["jobSpec"]["workerPoolSpecs"]
    if two := results.get("script_own_image_two_replicas"):
        _, document = sdk_server.call("GET", f"/v1/{two['name']}")
        pools += document["jobSpec"]["workerPoolSpecs"]
        assert len(pools) == 3
    for pool in pools:
        shell, flag, command = pool["containerSpec"]["command"]
        assert (shell, flag) == ("sh", "-c")
        assert OF_OWN_IMAGE.fullmatch(command)


def test_what_has_no_counterpart_is_refused_in_a_sentence(results):
    refused = {name: result["refused"] for name, result in results.items() if "refused" in result}
    assert set(refused) == set(SENTENCES) & set(results)
    for name, message in refused.items():
        assert SENTENCES[name] in message, name
