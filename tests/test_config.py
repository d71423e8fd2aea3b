"""Settings: what beats what, and that no mistake in the file goes unnoticed."""

import re
from dataclasses import fields
from pathlib import Path

import pytest

from trainshed.config import ImageMapping, LocalEnvironment, Settings, load_settings
from trainshed.config.load import _ROWS, _TABLES
from trainshed.config.settings import (
    ConsoleSettings,
    EngineSettings,
    GatewaySettings,
    IsolationSettings,
    LogSettings,
    MetricsSettings,
    OtelSettings,
)
from trainshed.config.values import WrongValue, fake_gpus
from trainshed.engines.kubernetes.options import KubernetesOptions
from trainshed.engines.local.devices.find import COUNT_MAX
from trainshed.engines.slurm.options import SlurmOptions
from trainshed.model.faults import UsageFault
from trainshed.model.resources import FleetPolicy
from trainshed.model.restarts import Budgets
from trainshed.observability.logs import ServerLogFormat
from trainshed.placement.jobs import QuotaRule
from trainshed.storage.buckets import GsPaths, RemoteBucket

PAGE = Path(__file__).parent.parent / "docs/reference/config.md"


@pytest.fixture
def load(tmp_path):
    def run(text=None, environ=None, **flags):
        if text is not None:
            (tmp_path / "config.toml").write_text(text)
        return load_settings(None, {"TRAINSHED_DATA_DIR": str(tmp_path), **(environ or {})}, flags)

    return run


def refused(load, text=None, **flags):
    with pytest.raises(UsageFault) as raised:
        load(text, **flags)
    return str(raised.value)


def example():
    return re.search(r"```toml\n(.*?)```", PAGE.read_text(), re.DOTALL)[1]


def test_nothing_need_be_said(load, tmp_path):
    loaded = load()
    assert loaded == Settings(data_dir=tmp_path, grpc_port=8081)
    assert loaded.store_url == f"sqlite:///{tmp_path}/trainshed.db"


def test_the_example_of_the_page_is_read_as_it_says(load, tmp_path):
    assert load(example()) == Settings(
        data_dir=tmp_path,
        host="127.0.0.1",
        port=8080,
        grpc_port=8081,
        tls_certificate=Path("/etc/trainshed/tls/tls.crt"),
        tls_key=Path("/etc/trainshed/tls/tls.key"),
        database="postgresql+psycopg://trainshed@db/trainshed",
        allowed_hosts=("trainer.lan",),
        allowed_origins=("https://console.example",),
        body_bytes_max=8_388_608,
        policy=FleetPolicy.BEST_EFFORT,
        slots=64,
        container_user="1000:1000",
        grace_s=10.0,
        notice_s=120.0,
        restarts_infra=3,
        restarts_user=0,
        hang_s=1800.0,
        hang_restart=False,
        hang_stacks=True,
        running_days_default=7.0,
        finished_days_max=365.0,
        gpu_alias={"NVIDIA_TESLA_T4": "any", "NVIDIA_TESLA_V100": "NVIDIA_A100_80GB"},
        gpu_wait_s=60.0,
        fake_gpus=0,
        pass_env=("TEAM_*",),
        otel=OtelSettings(endpoint="http://127.0.0.1:4318/v1/traces"),
        isolation=IsolationSettings(
            require=("container", "users", "sandbox", "landlock"), seccomp_allow=("perf",)
        ),
        buckets={
            "shared-data": RemoteBucket("gs://corp-data/train"),
            "archive": RemoteBucket("s3://corp-archive", {"key": "ID", "secret": "KEY"}),
        },
        quotas=(
            QuotaRule(accelerator="NVIDIA_TESLA_T4", limit=8, project="demo", region="us-central1"),
        ),
        environments=(
            LocalEnvironment(name="torch-2", python="/srv/environments/torch-2/bin/python"),
        ),
        images=(
            ImageMapping(
                environment="torch-2",
                image="registry.example/team/*",
                entrypoint=("python", "-m", "trainer.task"),
            ),
            ImageMapping(environment="torch-2", runtime_version="2.*"),
            ImageMapping(
                environment="container", runtime_version="1.15", run="registry.example/tf-1.15:1"
            ),
        ),
        processes_max=16_384,
        package_bytes_max=4 << 30,
        log_bytes_per_s_max=16 << 20,
        project_bytes_max=None,
        project_jobs_max=100_000,
        streams_max=64,
        log_bytes_max=1 << 30,
        log_days_max=30.0,
        prices_file=Path("/etc/trainshed/prices.toml"),
        metrics=MetricsSettings(listen=("127.0.0.1", 9464)),
    )


def test_the_page_has_every_key_and_the_file_every_setting():
    text = example()
    for keys in [*_TABLES.values(), *(row[3] for row in _ROWS.values())]:
        assert [key for key in keys if not re.search(rf"\b{key}\b", text)] == []
    whole = {
        "isolation": IsolationSettings,
        "metrics": MetricsSettings,
        "gateway": GatewaySettings,
        "console": ConsoleSettings,
        "otel": OtelSettings,
        "log": LogSettings,
    }
    for name, settings in whole.items():
        assert {field for field, _ in _TABLES[name].values()} == set(settings._fields)
    tables = (keys for name, keys in _TABLES.items() if name not in whole)
    settable = {name for keys in tables for name, _ in keys.values()}
    settable |= {*whole, "buckets", "engines", *(row[0] for row in _ROWS.values())}
    by_flag_only = {"config_file", "data_dir", "anonymous", "insecure_http", "start_engines"}
    assert {f.name for f in fields(Settings)} - settable == by_flag_only


@pytest.mark.parametrize("settings", [EngineSettings, KubernetesOptions, SlurmOptions])
def test_the_page_has_every_key_of_an_engines_table(settings):
    text = PAGE.read_text().partition("## Engines")[2].partition("## Connections")[0]
    keys = {f.name for f in fields(settings)} - {"options"}
    assert {key for key in keys if not re.search(rf"\b{key}\b", text)} == set()


def test_a_flag_beats_the_environment_and_that_beats_the_file(load):
    text = '[server]\ndatabase = "sqlite:///file"\nport = 1\nhost = "127.0.0.2"'
    assert load(text).database == "sqlite:///file"
    environ = {"TRAINSHED_DATABASE": "sqlite:///environment"}
    assert load(text, environ).database == "sqlite:///environment"
    loaded = load(text, environ, database="sqlite:///flag", port=0, host=None)
    assert (loaded.database, loaded.port, loaded.host) == ("sqlite:///flag", 0, "127.0.0.2")


@pytest.mark.parametrize(
    ("environ", "endpoint"),
    [
        ({}, "http://file:4318/v1/traces"),
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": "https://all:1/base/"}, "https://all:1/base/v1/traces"),
        (
            {
                "OTEL_EXPORTER_OTLP_ENDPOINT": "https://all:1",
                "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "http://own:2/t",
            },
            "http://own:2/t",
        ),
        ({"OTEL_SDK_DISABLED": "True", "OTEL_EXPORTER_OTLP_ENDPOINT": "http://all:1"}, ""),
    ],
)
def test_the_variables_of_opentelemetry_beat_the_file(load, environ, endpoint):
    text = '[otel]\nendpoint = "http://file:4318/"\nto_replicas = false'
    assert load(text, environ).otel == OtelSettings(endpoint, to_replicas=False)
    assert load("").otel.endpoint == ""


@pytest.mark.parametrize(
    "url", ["ftp://c:1", "http://", "http://[::1", "http://c:99999", "http://c:a", "http://:1", "c"]
)
def test_an_endpoint_without_an_address_is_refused(load, url):
    with pytest.raises(UsageFault, match=r"otel\.endpoint must be a URL of OTLP over HTTP"):
        load(f'[otel]\nendpoint = "{url}"')


def test_an_endpoint_with_a_password_is_refused_and_says_where_it_was_set(load):
    wrong = "http://user:secret@collector:4318"
    with pytest.raises(UsageFault, match="OTEL_EXPORTER_OTLP_ENDPOINT must be a URL"):
        load("", {"OTEL_EXPORTER_OTLP_ENDPOINT": wrong})
    with pytest.raises(UsageFault, match=r"otel\.endpoint must be a URL") as refusal:
        load(f'[otel]\nendpoint = "{wrong}"')
    assert "secret" not in str(refusal.value)


def test_the_flag_for_the_form_of_the_log_beats_the_file(load):
    assert load("").log.format is ServerLogFormat.TEXT
    assert load('[log]\nformat = "json"').log.format is ServerLogFormat.JSON
    assert load('[log]\nformat = "json"', log_format="text").log.format is ServerLogFormat.TEXT
    with pytest.raises(UsageFault, match='must be "text" or "json", got '):
        load('[log]\nformat = "xml"')


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("127.0.0.1:9464", ("127.0.0.1", 9464)),
        ("[::1]:9464", ("::1", 9464)),
        ("prometheus.internal:1", ("prometheus.internal", 1)),
    ],
)
def test_the_address_of_metrics_is_a_host_and_a_port(load, text, address):
    assert load(f'[metrics]\nlisten = "{text}"').metrics.listen == address


@pytest.mark.parametrize(
    "text", ["9464", ":9464", "127.0.0.1", "127.0.0.1:0", "h:65536", "h:x", ""]
)
def test_an_address_without_a_host_or_a_port_is_refused(load, text):
    with pytest.raises(UsageFault, match=r"metrics\.listen must be HOST:PORT, such as"):
        load(f'[metrics]\nlisten = "{text}"')


def test_the_data_directory_of_the_flag_is_where_the_file_is_looked_for(load, tmp_path):
    (tmp_path / "other").mkdir()
    (tmp_path / "other/config.toml").write_text("[server]\nport = 7")
    loaded = load("[server]\nport = 1", data_dir=str(tmp_path / "other"))
    assert (loaded.port, loaded.data_dir) == (7, tmp_path / "other")


def test_a_file_that_is_named_must_exist(tmp_path):
    with pytest.raises(UsageFault, match=r"none\.toml"):
        load_settings(tmp_path / "none.toml", {}, {"data_dir": str(tmp_path)})
    (tmp_path / "mine.toml").write_text("[server]\nport = 5")
    assert load_settings(tmp_path / "mine.toml", {}, {"data_dir": str(tmp_path)}).port == 5


@pytest.mark.parametrize(
    ("word", "port"), [("none", None), ("0", 0), ("9001", 9001), (9001, 9001), (None, 8081)]
)
def test_grpc_has_a_port_or_none(load, word, port):
    assert load(grpc_port=word).grpc_port == port


@pytest.mark.parametrize(("word", "port"), [(None, 0), ("none", None), ("8081", 8081)])
def test_a_free_port_for_http_means_a_free_one_for_grpc(load, word, port):
    assert load(port=0, grpc_port=word).grpc_port == port


@pytest.mark.parametrize(
    ("written", "seconds"),
    [("'30m'", 1800), ("'1h30m'", 5400), ("'2d'", 172_800), ("90", 90), ("'90'", 90), ("1.5", 1.5),
     ("'0.5s'", 0.5), ("0", None), ("'0s'", None), ("'0'", None)],
)  # fmt: skip
def test_a_time_is_written_as_gcloud_takes_it_and_none_is_never(load, written, seconds):
    assert load(f"[hangs]\nafter = {written}").hang_s == seconds


@pytest.mark.parametrize(("written", "seconds"), [("'0s'", 0), ("'1m'", 60), ("10", 10)])
def test_samples_are_taken_as_often_as_the_file_says(load, written, seconds):
    assert load(f"[usage]\nevery = {written}").usage_s == seconds
    assert load("").usage_s == 10


def test_a_job_runs_for_a_week_unless_something_else_is_set(load):
    assert load().running_s_default == 604_800
    assert load("[jobs]\nrunning_days_default = 0.5").running_s_default == 43_200
    assert load("[jobs]\nrunning_days_default = 0").running_s_default is None


def test_the_budgets_are_those_of_the_file_and_maintenance_has_none(load):
    assert load().budgets == Budgets(maintenance=None, infra=3, user=0)
    loaded = load("[restarts]\ninfra = 0\nuser = 5")
    assert loaded.budgets == Budgets(maintenance=None, infra=0, user=5)


def test_a_server_is_anonymous_by_flag_only(load):
    assert load(anonymous=True).anonymous
    assert not load(anonymous=False).anonymous
    assert "--anonymous" in refused(load, "[server]\nanonymous = true")


def test_plain_http_for_other_machines_is_a_flag_only(load):
    assert load(insecure_http=True).insecure_http
    assert "--insecure-http" in refused(load, "[server]\ninsecure_http = true")


def test_the_flag_switches_the_console_off_and_leaves_its_other_settings(load):
    text = "[console]\nplain_http = true"
    assert load(text).console == ConsoleSettings(plain_http=True)
    assert load(text, no_console=True).console == ConsoleSettings(enabled=False, plain_http=True)
    assert load("[console]\nenabled = false", no_console=False).console.enabled is False


@pytest.mark.parametrize(
    ("written", "expected"), [("true", True), ("false", False), ("'auto'", None)]
)
def test_https_is_wished_or_left_to_the_address(load, written, expected):
    assert load().https is None
    assert load(f"[server]\nhttps = {written}").https is expected
    assert "true or false" in refused(load, "[server]\nhttps = 'maybe'")


def test_the_flag_for_fake_gpus_beats_the_file(load):
    assert load("[fleet]\nfake_gpus = 2").fake_gpus == 2
    assert load("[fleet]\nfake_gpus = 2", fake_gpus=0).fake_gpus == 0


def test_as_many_fake_gpus_as_one_attempt_can_hold():
    assert fake_gpus(COUNT_MAX) == COUNT_MAX
    with pytest.raises(WrongValue):
        fake_gpus(COUNT_MAX + 1)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("[server]\ntls_certificate = 'tls.crt'", ["the absolute path of a file"]),
        ("[server]\ntls_certificate = '/tls.crt'", ["needs server.tls_key"]),
        ("[server]\ntls_key = '/tls.key'", ["needs server.tls_certificate"]),
        ("[serve]", ["'serve'", "did you mean server?", "quota"]),
        ("port = 1", ["'port'", "server, fleet"]),
        ("[server]\nprot = 1", ["config.toml: server", "'prot'", "did you mean port?"]),
        ("[server]\nport = '8080'", ["server.port", "'8080'", "from 0 to 65535"]),
        ("[server]\nport = 65536", ["server.port", "65536"]),
        ("[server]\nport = -1", ["server.port"]),
        ("[server]\nport = true", ["server.port", "True"]),
        ("[server]\nport = 80.0", ["server.port"]),
        ("[server]\ngrpc_port = 'off'", ["server.grpc_port", '"none"']),
        ("[server]\nhost = ''", ["server.host", "not empty"]),
        ("[server]\nallowed_hosts = 'a'", ["server.allowed_hosts", "list"]),
        ("[server]\nallowed_hosts = ['http://a']", ["without http://"]),
        ("[server]\nallowed_origins = ['a.example']", ["https://console.example"]),
        ("[server]\ndata_dir = '/x'", ["data_dir", "--data-dir"]),
        ("[server]\nbody_bytes_max = 0", ["server.body_bytes_max", "from 1"]),
        ("server = 1", ["server must be a table", "[server]"]),
        ("[fleet]\npolicy = 'fast'", ["fleet.policy", '"exact" or "best-effort" or "emulate"']),
        ("[fleet]\npolicy = []", ["fleet.policy"]),
        ("[fleet]\nslots = 0", ["fleet.slots"]),
        ("[fleet]\ngrace_s = nan", ["fleet.grace_s", "a number from 0"]),
        ("[fleet]\ngrace_s = inf", ["fleet.grace_s"]),
        ("[fleet]\ngrace_s = -1", ["fleet.grace_s"]),
        ("[fleet]\nnotice = '2 minutes'", ["fleet.notice", "'2 minutes'", "120s, 2m or 1h30m"]),
        ("[fleet]\nnotice = -1", ["fleet.notice", "a duration such as"]),
        ("[fleet]\nnotice = true", ["fleet.notice"]),
        ("[restarts]\ninfra = -1", ["restarts.infra", "a whole number from 0"]),
        ("[restarts]\nusr = 1", ["'usr'", "did you mean user?"]),
        ("[usage]\nevery = '0.5s'", ["usage.every", "0, or a time from"]),
        ("[usage]\nevery = '2h'", ["usage.every", '"1s" to "1h"']),
        ("[hangs]\nafter = 'never'", ["hangs.after", "a duration such as"]),
        ("[hangs]\nrestart = 1", ["hangs.restart", "true or false"]),
        ("[jobs]\nrunning_days_default = -1", ["jobs.running_days_default", "a number from 0"]),
        ("[jobs]\nfinished_days_max = '1y'", ["jobs.finished_days_max", "a number"]),
        ("[fleet]\nfake_gpus = 254", ["fleet.fake_gpus", "from 0 to 253"]),
        ("[fleet]\nfake_gpus = true", ["fleet.fake_gpus"]),
        ("[fleet]\ngpu_wait_s = -1", ["fleet.gpu_wait_s"]),
        ("[fleet.gpu_alias]\nA = 1", ["fleet.gpu_alias", '"any"']),
        ("[logs]\nbytes_max = '1 GB'", ["logs.bytes_max", "whole number"]),
        ("[logs]\ndays_max = '30d'", ["logs.days_max", "a number"]),
        ("[quota]\nlimit = 1", ["quota must be a list of tables", "[[quota]]"]),
        ("quota = [1]", ["[[quota]]"]),
        ("[[quota]]\nlimit = 1", ["quota 1 has no accelerator"]),
        ("[[quota]]\naccelerator = 'A'\nlimit = -1", ["quota 1.limit", "-1"]),
        ("[[quota]]\naccelerator = 'A'\nlimit = 1\nregions = 'x'", ["'regions'", "region?"]),
        ("[[environment]]\nname = 'a'", ["environment 1 has no python"]),
        ("[[environment]]\nname = 'a'\npython = 'p'\n" * 2, ["environment 2", "'a'"]),
        ("[[image]]\nenvironment = 'a'", ["image 1", "either image or runtime_version"]),
        (
            "[[image]]\nenvironment = 'a'\nimage = 'i'\nruntime_version = '2'",
            ["either image or runtime_version"],
        ),
        ("[[image]]\nimage = 'i'", ["image 1 has no environment"]),
        ("[[image]]\nenvironment='a'\nimage='i'\nentrypoint='python x'", ["entrypoint", "list"]),
        ("[server", ["cannot read the settings", "config.toml"]),
        ("[server]\nport = 1\nport = 2", ["cannot read the settings"]),
    ],
)
def test_a_mistake_in_the_file_is_named_with_what_is_accepted(load, text, words):
    message = refused(load, text)
    assert "config.toml" in message
    assert [word for word in words if word not in message] == []


@pytest.mark.parametrize(
    ("flags", "word"),
    [
        ({"port": 70_000}, "--port must be a whole number from 0 to 65535, got 70000"),
        ({"grpc_port": "x"}, "--grpc-port must be"),
        ({"host": ""}, "--host must be a text that is not empty, got ''"),
        ({"fleet_policy": "fast"}, "--fleet-policy must be"),
        ({"fake_gpus": -1}, "--fake-gpus must be a whole number from 0 to 253, got -1"),
    ],
)
def test_a_mistake_in_a_flag_names_the_flag(load, flags, word):
    assert word in refused(load, **flags)


def test_a_file_that_is_no_text_is_refused(load, tmp_path):
    (tmp_path / "config.toml").write_bytes(b"\xff\xfe")
    assert "cannot read the settings" in refused(load)


def test_isolation_is_a_table_of_its_own(load):
    text = '[isolation]\nmode = "landlock"\nrequire = ["users", "landlock"]\nuids = [1000, 1000]'
    assert load(text).isolation == IsolationSettings(
        mode="landlock", require=("users", "landlock"), uids=(1000, 1000)
    )


@pytest.mark.parametrize(
    ("line", "accepted"),
    [
        ('mode = "users-only"', '"auto" or "container" or "users"'),
        ('require = "auto"', "stronger ones are then accepted too"),
        ("require = []", "stronger ones are then accepted too"),
        ("uids = [0, 10]", "two whole numbers from 1000"),
        ("uids = [3000, 2000]", "two whole numbers from 1000"),
        ("uids = 5", "two whole numbers from 1000"),
        ("seccomp = true", '"default" or "none"'),
        ('seccomp_allow = "perf"', 'a list of families of system calls, of "bpf"'),
        ('seccomp_allow = ["everything"]', '"perf"'),
        ('allow_root_jobs = "yes"', "true or false"),
    ],
)
def test_a_wrong_value_of_isolation_is_named(load, line, accepted):
    message = refused(load, f"[isolation]\n{line}")
    assert f"isolation.{line.split()[0]} must be " in message
    assert accepted in message


def test_buckets_that_are_kept_elsewhere_are_read(load):
    buckets = load(
        '[buckets]\n"data" = "gs://corp-data/sub"\n'
        'shared = { uri = "s3://corp", options = { key = "k" } }'
    ).buckets
    assert buckets["data"] == ("gs://corp-data/sub", {})
    assert buckets["shared"] == ("s3://corp", {"key": "k"})


@pytest.mark.parametrize(
    "text",
    [
        'data = "corp-secret"',
        'data = { uri = "gs://x", option = "secret" }',
        'data = { uri = "gs://x", options = "secret" }',
        "data = 7",
    ],
)
def test_a_bucket_that_is_not_understood_is_named_without_its_credentials(load, text):
    message = refused(load, f"[buckets]\n{text}")
    assert "buckets.data must be a URI such as" in message
    assert "secret" not in message


def test_a_name_of_a_bucket_that_none_can_have_is_refused(load):
    assert "buckets.No is not a valid bucket name" in refused(load, '[buckets]\nNo = "gs://x"')


def test_the_gateway_s_words_are_read_and_wrong_ones_named(load):
    gateway = load('[gateway]\nenabled = false\nport = 4711\ngs_paths = "path"').gateway
    assert gateway == GatewaySettings(enabled=False, port=4711, gs_paths=GsPaths.PATH)
    assert load('[gateway]\ntelemetry = "log"').gateway.telemetry == "log"
    message = refused(load, '[gateway]\ntelemetry = "keep"')
    assert 'gateway.telemetry must be "drop", "log" or "pass", got \'keep\'' in message
    message = refused(load, '[gateway]\ngs_paths = "both"')
    assert 'gateway.gs_paths must be "path" or "uri", got \'both\'' in message


def test_names_of_variables_are_names(load):
    assert "AWS_*" in refused(load, '[fleet]\npass_env = ["A=B"]')
    assert load('[fleet]\npass_env = ["A_*"]').pass_env == ("A_*",)
