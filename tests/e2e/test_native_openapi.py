"""The native routes keep what their OpenAPI document says, whatever they are sent."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from e2e.chaos import FULL
from e2e.every_route import openapi_document
from e2e.support import custom_job, serving, submit
from golden import check_golden

SCHEMATHESIS = Path(sys.executable).parent / "schemathesis"
DOCUMENT_FILE = Path(__file__).parents[2] / "docs/reference/openapi.json"

#: An answer that the document does not have, or none at all, is a failure.
CHECKS = (
    "not_a_server_error,status_code_conformance,content_type_conformance,"
    "response_schema_conformance,negative_data_rejection,unsupported_method"
)
#: Loopback is reached directly, whatever proxy the environment has; nothing else is reached.
NOWHERE = dict.fromkeys(("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"), "http://127.0.0.1:9")
#: Fuzzing takes a minute, and many on a machine that is busy.
FUZZ_S_MAX = 900
#: What the document's own words and bounds lead to; make test-full draws beside them.
PHASES = "coverage,fuzzing" if FULL else "coverage"
EXAMPLES = "20"
#: One method that no path has; make test-full tries all that a path does not have.
METHODS = "" if FULL else '[phases.coverage]\nunexpected-methods = ["PATCH"]\n'
#: The other routes get drawn names.
OF_ONE_JOB = """\
[[operations]]
include-path-regex = "/jobs/"
parameters = {{ "path.project" = "{project}", "path.job" = "{job}" }}
"""


def test_the_document_is_the_committed_one():
    text = json.dumps(openapi_document(), indent=2, ensure_ascii=False)
    check_golden(DOCUMENT_FILE, f"{text}\n")


def test_all_schemas_that_the_document_refers_to_are_in_it():
    document = openapi_document()
    names = set(re.findall(r'"\$ref": "#/components/schemas/([^"]+)"', json.dumps(document)))
    assert names <= set(document["components"]["schemas"])


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    with serving(tmp_path_factory.mktemp("openapi") / "data") as server:
        yield server


def fuzz(server, folder, settings=""):
    """Run schemathesis against the server; fail with its output where it finds something."""
    (folder / "schemathesis.toml").write_text(METHODS + settings)
    done = subprocess.run(
        [SCHEMATHESIS, "--config-file", folder / "schemathesis.toml", "run",
         f"{server.url}/trainshed/v1/openapi.json", "--checks", CHECKS,
         "--header", f"Authorization: Bearer {server.token}", "--request-timeout", "30",
         "--generation-database", "none", "--seed", "1", "--no-color",
         "--phases", PHASES, "--max-examples", EXAMPLES,
         "--suppress-health-check", "too_slow"],
        env={**os.environ, **NOWHERE, "NO_PROXY": "127.0.0.1", "SCHEMATHESIS_REPORT": "false"},
        cwd=folder,
        text=True,
        capture_output=True,
        timeout=FUZZ_S_MAX,
        check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout[-8000:] + done.stderr[-2000:]


@pytest.mark.full
@pytest.mark.slow
@pytest.mark.timeout(FUZZ_S_MAX + 300)
def test_nothing_that_is_sent_gets_an_answer_that_is_not_documented(server, tmp_path):
    fuzz(server, tmp_path)
    assert server.call("GET", "/trainshed/v1/nodes")[0] == 200, "its token was good to the end"


@pytest.mark.slow
@pytest.mark.timeout(FUZZ_S_MAX + 300)
def test_the_same_holds_where_the_routes_of_a_job_get_one_that_has_run(server, tmp_path):
    name = submit(server, custom_job("told"))
    server.wait_for(f"/v1/{name}", {"JOB_STATE_SUCCEEDED"})
    project, job = name.split("/")[1], name.rpartition("/")[2]
    fuzz(server, tmp_path, settings=OF_ONE_JOB.format(project=project, job=job))
    path = f"/trainshed/v1/projects/{project}/jobs/{job}"
    assert server.call("GET", path)[0] == 404, "no DELETE reached the job: see OF_ONE_JOB"
    assert server.call("GET", "/trainshed/v1/nodes")[0] == 200, "its token was good to the end"
