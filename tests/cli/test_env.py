"""``trainshed env``: what is printed is what a shell, gcloud and the SDKs really take."""

import ast
import json
import os
import shlex
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

from cli.standin import StandIn
from conformance.gcloud import GCLOUD, Warm, needs_gcloud, quiet
from trainshed.service.auth.certificates import ensure_tls
from trainshed.workbench import client_settings

GSUTIL_SETTINGS = Path(client_settings.__file__).with_name("gsutil.boto")
RECORDER = Path(__file__).with_name("grpc_recorder.py")
SDK_PYTHON = Path(__file__).parent.parent.parent / ".venv-google/bin/python"


@pytest.fixture(autouse=True)
def _no_settings_of_mine(monkeypatch):
    for name in list(os.environ):
        if name.startswith(
            ("CLOUDSDK_", "TRAINSHED_TOKEN", "TRAINSHED_URL", "STORAGE_EMULATOR", "GRPC_DEFAULT")
        ):
            monkeypatch.delenv(name)


@pytest.fixture
def data(home):
    return home / "it's data"


@pytest.fixture
def server(data, monkeypatch, trainshed):
    assert trainshed
    monkeypatch.setenv("TRAINSHED_DATA_DIR", str(data))
    with StandIn(answer_of) as server:
        server.note(data)
        yield server


def answer_of(_verb, path, _document):
    if path.endswith("/bucketTokens"):
        return 200, {"token": "tsd_of-bucket"}
    return 200, {"jobs": [{"jobId": "j1", "state": "QUEUED"}]}


def list_requests(server):
    """What was asked of the server beside a token for buckets and the staging bucket."""
    of_env = ("/bucketTokens", "/storage/v1/b", "/storage/v1/b/demo-staging")
    return [request for request in server.requests if not request[1].endswith(of_env)]


def in_a_shell(text, *names, **environ):
    """What the variables are once a shell has read the lines."""
    script = f"set -eu\n{text}\nexec {shlex.quote(sys.executable)} -c " + shlex.quote(
        "import os, sys; [print(n, os.environ.get(n), sep='=') for n in sys.argv[1:]]"
    )
    process = subprocess.run(
        ["/bin/sh", "-c", f"{script} {' '.join(names)}"],
        env={"PATH": os.environ["PATH"], **environ},
        capture_output=True,
        text=True,
        check=True,
        timeout=120,
    )
    return dict(line.split("=", 1) for line in process.stdout.splitlines())


def test_a_shell_takes_the_lines_and_finds_the_token(trainshed, server, data):
    run = trainshed("env", "--shell", "--project", "demo", "--region", "europe-west4")
    assert run.code == 0
    assert "tsd_admin" not in run.out + run.err
    as_json = trainshed("env", "--project", "demo", "--region", "europe-west4", "--format", "json")
    variables = as_json.json["variables"]
    left_over = {"CLOUDSDK_AUTH_ACCESS_TOKEN": "old"}
    environ = in_a_shell(run.out, *variables, **left_over)
    assert environ == {name: str(value) for name, value in variables.items()}
    assert variables == {
        "CLOUDSDK_API_ENDPOINT_OVERRIDES_ML": f"{server.url}/",
        "CLOUDSDK_API_ENDPOINT_OVERRIDES_AIPLATFORM": f"{server.url}/",
        "CLOUDSDK_API_ENDPOINT_OVERRIDES_STORAGE": f"{server.url}/storage/v1/",
        "CLOUDSDK_API_ENDPOINT_OVERRIDES_LOGGING": f"{server.url}/",
        "CLOUDSDK_AUTH_DISABLE_CREDENTIALS": "false",
        "CLOUDSDK_AUTH_ACCESS_TOKEN_FILE": str(data / "admin-token"),
        "CLOUDSDK_AUTH_ACCESS_TOKEN": None,
        "CLOUDSDK_CORE_PROJECT": "demo",
        "CLOUDSDK_COMPUTE_REGION": "europe-west4",
        "CLOUDSDK_AI_REGION": "europe-west4",
        "CLOUDSDK_CORE_DISABLE_USAGE_REPORTING": "true",
        "CLOUDSDK_ML_ENGINE_POLLING_INTERVAL": "2",
        "STORAGE_EMULATOR_HOST": f"{server.url}/as/tsd_of-bucket",
        "CLOUD_STORAGE_EMULATOR_ENDPOINT": f"{server.url}/as/tsd_of-bucket",
        "GCSFS_EXPERIMENTAL_ZB_HNS_SUPPORT": "false",
        "BOTO_CONFIG": str(GSUTIL_SETTINGS),
        "CLOUDSDK_CORE_ACCOUNT": "trainshed",
    }
    path = "/trainshed/v1/projects/demo/bucketTokens"
    wish = {"bucket": "*", "expires": "12h"}
    assert server.requests[0] == ("POST", path, "Bearer tsd_admin", wish)


BUCKETS = "/storage/v1/b"


def without_buckets(_verb, path, document):
    """A server on which no bucket exists yet."""
    if path.startswith(f"{BUCKETS}/"):
        return 404, {"error": {"message": "The specified bucket does not exist."}}
    return (200, document) if path == BUCKETS else answer_of(None, path, None)


@pytest.mark.parametrize("how", ["--shell", "--python"])
def test_the_staging_bucket_is_made_unless_it_exists(trainshed, server, data, how):
    run = trainshed("env", how, "--project", "demo")
    assert ("GET", f"{BUCKETS}/demo-staging", "Bearer tsd_admin", None) in server.requests
    assert not any(request[:2] == ("POST", BUCKETS) for request in server.requests)
    assert run.err == ""
    with StandIn(without_buckets) as bare:
        bare.note(data)
        run = trainshed("env", how, "--project", "demo")
    assert bare.requests[-1] == ("POST", BUCKETS, "Bearer tsd_admin", {"name": "demo-staging"})
    assert "gs://demo-staging was made" in run.err


def test_a_staging_bucket_of_ones_own_that_is_missing_is_named(trainshed, data):
    with StandIn(without_buckets) as server:
        server.note(data)
        words = ("--project", "demo", "--bucket", "gs://mine/", "--data-dir", data)
        run = trainshed("env", "--python", *words)
    assert "staging_bucket='gs://mine'" in run.out
    assert "gs://mine does not exist" in run.err
    assert "trainshed buckets create mine --project demo" in run.err
    assert not any(request[0] == "POST" for request in server.requests)


def test_without_a_token_for_buckets_an_old_address_is_taken_away(trainshed, data):
    with StandIn(lambda *_: (403, {"error": {"message": "not for you"}})) as server:
        server.note(data)
        run = trainshed("env", "--data-dir", data)
    assert "unset STORAGE_EMULATOR_HOST" in run.out
    assert "storage clients, which are left out: not for you" in run.err
    assert "trainshed buckets create local-staging --project local" in run.err


@pytest.mark.usefixtures("server")
def test_env_again_in_its_own_shell_keeps_the_project_and_the_server(trainshed, monkeypatch):
    monkeypatch.setenv("CLOUDSDK_CORE_PROJECT", "demo")
    monkeypatch.setenv("TRAINSHED_URL", "http://trainer.lan:8080")
    settings = trainshed("env", "--format", "json").json
    assert (settings["project"], settings["url"]) == ("demo", "http://trainer.lan:8080")
    assert settings["stagingBucket"] == "gs://demo-staging"


def test_our_own_verbs_of_that_shell_speak_to_the_same_server(trainshed, server, data):
    names = ("TRAINSHED_DATA_DIR", "TRAINSHED_URL", "TRAINSHED_TOKEN")
    left_over = {"TRAINSHED_URL": "http://old"}
    own = in_a_shell(trainshed("env", "--data-dir", data).out, *names, **left_over)
    assert list(own.values()) == [str(data), "None", "None"]
    (data / "mine").write_text("tsd_mine\n")
    words = ("--url", "http://trainer.lan:8080", "--token-file", data / "mine")
    other = in_a_shell(trainshed("env", *words).out, *names)
    assert list(other.values()) == [str(data), "http://trainer.lan:8080", "tsd_mine"]
    assert server


def test_a_token_in_a_variable_stays_in_its_variable(trainshed, server, monkeypatch):
    monkeypatch.setenv("TRAINSHED_TOKEN", "tsd_mine")
    run = trainshed("env")
    assert "tsd_mine" not in run.out
    names = ("CLOUDSDK_AUTH_ACCESS_TOKEN", "CLOUDSDK_AUTH_ACCESS_TOKEN_FILE",
             "STORAGE_EMULATOR_HOST")  # fmt: skip
    environ = in_a_shell(run.out, *names, TRAINSHED_TOKEN="tsd_mine")
    assert list(environ.values()) == ["tsd_mine", "None", f"{server.url}/as/tsd_of-bucket"]
    refusal = trainshed("env", "--gcloud")
    assert refusal.code == 2
    assert "--token-file" in refusal.err


def test_without_tokens_no_credentials_are_asked_for(trainshed, server, data):
    server.note(data, anonymous=True)
    variables = trainshed("env", "--format", "json").json["variables"]
    assert variables["CLOUDSDK_AUTH_DISABLE_CREDENTIALS"] == "true"
    assert variables["CLOUDSDK_AUTH_ACCESS_TOKEN_FILE"] is None
    assert variables["STORAGE_EMULATOR_HOST"] == server.url
    assert "AnonymousCredentials()" in trainshed("env", "--python").out
    assert "auth/disable_credentials true" in trainshed("env", "--gcloud").out


def test_certificates_are_named_where_tls_is_spoken(trainshed, server, data):
    tls = {
        *("GRPC_DEFAULT_SSL_ROOTS_FILE_PATH", "REQUESTS_CA_BUNDLE", "HTTPLIB2_CA_CERTS"),
        *("CLOUDSDK_CORE_CUSTOM_CA_CERTS_FILE", "SSL_CERT_FILE"),
    }

    def read_tls_variables():
        return tls & trainshed("env", "--format", "json").json["variables"].keys()

    assert read_tls_variables() == set()
    server.note(data, grpc="127.0.0.1:8081", ca="/ca-bundle.pem")
    assert read_tls_variables() == {"GRPC_DEFAULT_SSL_ROOTS_FILE_PATH"}
    server.url = server.url.replace("http:", "https:")
    server.note(data, grpc="127.0.0.1:8081", ca="/ca-bundle.pem")
    assert read_tls_variables() == tls


@pytest.mark.parametrize(
    ("words", "word"),
    [
        (["--project", "123456"], "got the number 123456"),
        (["--url", "127.0.0.1:8080"], "such as http://127.0.0.1:8080, got 127.0.0.1:8080"),
        (["--url", "http://127.0.0.1:8080/prefix"], "got http://127.0.0.1:8080/prefix"),
        (["--python", "--transport", "grpc"], "no gRPC address"),
        (["--token-file", "none"], "--token-file must be a file with a token, got none"),
        (["--shell", "--gcloud"], "not allowed with"),
    ],
)
def test_a_mistake_is_one_clear_line(trainshed, server, words, word):
    assert server
    run = trainshed("env", *words)
    assert run.code == 2
    assert word in run.err
    assert run.out == ""


def test_without_a_server_nothing_is_made_up(trainshed, data):
    run = trainshed("env", "--data-dir", data)
    assert run.code == 2
    assert "trainshed serve" in run.err


def test_a_lost_token_and_a_stopped_server_are_told(trainshed, server, data):
    (data / "admin-token").unlink()
    assert "there is no token" in trainshed("env").err
    server.note(data, pid=2**22 + 1)
    run = trainshed("env")
    assert run.code == 0
    assert "not running" in run.err


def test_a_server_elsewhere_is_not_given_the_token_of_this_machine(trainshed, server):
    assert server
    run = trainshed("env", "--url", "http://trainer.lan:8080", "--format", "json")
    assert "tsd_admin" not in run.out
    assert "there is no token" in run.err


def gcloud(*words, environ):
    return subprocess.run(
        [GCLOUD, *words], env=environ, capture_output=True, text=True, timeout=120, check=False
    )


@needs_gcloud
@pytest.mark.full  # test_a_shell_takes_the_lines has them, and conformance/ has gcloud with them
def test_gcloud_takes_the_lines_of_the_shell(trainshed, server, tmp_path):
    lines = trainshed("env", "--shell", "--project", "demo").out
    process = subprocess.run(
        ["/bin/sh", "-c", f"{lines}\nexec gcloud ai-platform jobs list --format=json"],
        env={**os.environ, **quiet(tmp_path / "gcloud")},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert process.returncode == 0, process.stderr
    assert '"jobId": "j1"' in process.stdout
    assert list_requests(server) == [("GET", "/v1/projects/demo/jobs", "Bearer tsd_admin", None)]


@needs_gcloud
@pytest.mark.slow
def test_gcloud_takes_its_own_lines_with_no_network(trainshed, server, tmp_path):
    lines = trainshed("env", "--gcloud", "--project", "demo").out
    environ = {**os.environ, **quiet(tmp_path / "gcloud")}
    with closing(Warm(tmp_path / "gcloud")) as warm:  # each line by itself takes a second
        commands = (shlex.split(line, comments=True) for line in lines.splitlines())
        for command, *words in filter(None, commands):
            assert command == "gcloud"
            warm(words, {"https_proxy": "http://127.0.0.1:9"}, tmp_path).ok()
    process = gcloud("ai-platform", "jobs", "list", "--format=json", environ=environ)
    assert process.returncode == 0, process.stderr
    assert server.requests[-1] == ("GET", "/v1/projects/demo/jobs", "Bearer tsd_admin", None)


@pytest.fixture
def grpc_server(data):
    """Its note for clients, and its process."""
    files = ensure_tls(data, [])
    argv = [sys.executable, RECORDER, files.key, files.certificate]
    with subprocess.Popen(
        argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        port = json.loads(process.stdout.readline())
        yield {"grpc": f"127.0.0.1:{port}", "ca": str(files.bundle)}, process


USE = """
print(aiplatform.CustomJob.list())
from google.cloud import storage
storage.Client(project='demo').bucket('b').exists()
"""


@pytest.mark.full  # conformance/test_over_https.py sets what is printed
@pytest.mark.slow
@pytest.mark.skipif(not SDK_PYTHON.exists(), reason="make test installs Google's clients")
def test_the_vertex_sdk_takes_the_lines_of_python(trainshed, server, grpc_server, data, tmp_path):
    note, recorder = grpc_server
    server.note(data, **note)
    rest = trainshed("env", "--python", "--project", "demo").out
    over_grpc = trainshed("env", "--python", "--project", "demo", "--transport", "grpc").out
    assert "tsd_admin" not in rest + over_grpc
    (tmp_path / "script.py").write_text(rest + USE + over_grpc + USE)
    process = subprocess.run(
        [SDK_PYTHON, "-W", "ignore", tmp_path / "script.py"],
        env={"PATH": os.environ["PATH"], "HOME": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert process.returncode == 0, process.stderr
    jobs = "/v1/projects/demo/locations/us-central1/customJobs"
    assert list_requests(server)[0] == ("GET", jobs, "Bearer tsd_admin", None)
    assert ("GET", "/as/tsd_of-bucket/storage/v1/b/b", None, None) in server.requests
    method = "/google.cloud.aiplatform.v1.JobService/ListCustomJobs"
    calls, _ = recorder.communicate(timeout=60)
    assert [json.loads(line) for line in calls.splitlines()] == [[method, "Bearer tsd_admin"]]


def test_airflow_gets_a_connection_an_endpoint_and_whom_to_trust(trainshed, server, data):
    key = data / "it's a key.json"
    text = trainshed("env", "--airflow", "--project", "demo", "--key-file", key).out
    compile(text, "airflow_local_settings.py", "exec")
    assert f"aiplatform.init(api_endpoint='{server.url}', api_transport=\"rest\")" in text
    [line] = [line for line in text.splitlines() if "AIRFLOW_CONN" in line]
    connection = json.loads(ast.literal_eval(line.partition(", ")[2].removesuffix(")")))
    assert connection["extra"] == {"project": "demo", "key_path": str(key)}
    run = trainshed("env", "--airflow")
    assert run.code == 2
    assert "trainshed keys create" in run.err


@pytest.mark.parametrize("how", ["--shell", "--python", "--gcloud"])
def test_a_project_id_that_google_would_not_take_is_refused_first(trainshed, how):
    """It was made into a bucket's name, ``-emo-roj-staging``."""
    run = trainshed("env", how, "--project", "Demo_Proj", "--url", "http://127.0.0.1:1")
    assert run.code == 2
    assert run.err == (
        "error: --project must be a project id (lower-case letters, digits and hyphens; it begins "
        "with a letter), got 'Demo_Proj'\n"
    )
