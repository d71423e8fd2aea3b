"""Reads the settings from the file, the environment and the flags.

A flag overrides an environment variable, which overrides the file, which overrides the default.
The tables below list the file's keys; docs/reference/config.md describes them.
"""

import difflib
import re
import tomllib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Final, NoReturn

from trainshed.config.engine_tables import read_engines
from trainshed.config.settings import (
    ConsoleSettings,
    GatewaySettings,
    IsolationSettings,
    LogSettings,
    MetricsSettings,
    OtelSettings,
    Settings,
)
from trainshed.config.values import (
    Reader,
    WrongValue,
    aliases,
    call_families,
    container_runtime,
    container_user,
    duration,
    duration_or_never,
    fake_gpus,
    file_path,
    grpc_port,
    gs_paths,
    hosts,
    isolation_mode,
    job_network,
    listen_address,
    log_format,
    most,
    number,
    origins,
    otlp_endpoint,
    policy,
    port,
    refuse_or_pass,
    required_modes,
    seccomp,
    switch,
    switch_or_auto,
    table,
    telemetry,
    text,
    texts,
    uid_range,
    usage_every,
    variable_names,
    whole,
)
from trainshed.files.server_files import read_database
from trainshed.model.faults import UsageFault
from trainshed.placement.jobs import QuotaRule
from trainshed.service.starts.images import ImageMapping, LocalEnvironment
from trainshed.storage.buckets import BUCKET_RULE, RemoteBucket, data_dir, is_bucket_name

FILE = "config.toml"
#: The tables that become one field of Settings, with the type of this field.
_WHOLE: Mapping[str, Callable[..., Any]] = {
    "isolation": IsolationSettings,
    "gateway": GatewaySettings,
    "console": ConsoleSettings,
    "otel": OtelSettings,
    "log": LogSettings,
    "metrics": MetricsSettings,
}
GRPC_PORT_DEFAULT = 8081
#: What OpenTelemetry adds to the URL of a collector.
_TRACES_PATH: Final = "/v1/traces"
#: OpenTelemetry's variables, and what is added to their URL.
_OTEL_VARIABLES: Final = (
    ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", ""),
    ("OTEL_EXPORTER_OTLP_ENDPOINT", _TRACES_PATH),
)

#: Tables of the file: key → (field of Settings, how the value is read).
_TABLES: Mapping[str, Mapping[str, tuple[str, Reader]]] = {
    "server": {
        "host": ("host", text),
        "port": ("port", port),
        "grpc_port": ("grpc_port", grpc_port),
        "https": ("https", switch_or_auto),
        "tls_certificate": ("tls_certificate", file_path),
        "tls_key": ("tls_key", file_path),
        "database": ("database", text),
        "allowed_hosts": ("allowed_hosts", hosts),
        "allowed_origins": ("allowed_origins", origins),
        "body_bytes_max": ("body_bytes_max", whole(1)),
        "failed_sign_ins_a_minute": ("failed_sign_ins_a_minute", whole(0)),
    },
    "fleet": {
        "policy": ("policy", policy),
        "slots": ("slots", whole(1)),
        "gpu_alias": ("gpu_alias", aliases),
        "container_runtime": ("container_runtime", container_runtime),
        "container_user": ("container_user", container_user),
        "fake_gpus": ("fake_gpus", fake_gpus),
        "gpu_wait_s": ("gpu_wait_s", number),
        "grace_s": ("grace_s", number),
        "notice": ("notice_s", duration),
        "pass_env": ("pass_env", variable_names),
    },
    "isolation": {
        "mode": ("mode", isolation_mode),
        "require": ("require", required_modes),
        "allow_root_jobs": ("allow_root_jobs", switch),
        "uids": ("uids", uid_range),
        "container_read_only": ("container_read_only", switch),
        "network": ("network", job_network),
        "refuse_ports": ("refuse_ports", switch_or_auto),
        "seccomp": ("seccomp", seccomp),
        "seccomp_allow": ("seccomp_allow", call_families),
    },
    "gateway": {
        "enabled": ("enabled", switch),
        "port": ("port", port),
        "other_apis": ("other_apis", refuse_or_pass),
        "public": ("public", refuse_or_pass),
        "telemetry": ("telemetry", telemetry),
        "gs_paths": ("gs_paths", gs_paths),
    },
    "otel": {
        "endpoint": ("endpoint", otlp_endpoint),
        "to_replicas": ("to_replicas", switch),
    },
    "log": {
        "format": ("format", log_format),
    },
    "console": {
        "enabled": ("enabled", switch),
        "plain_http": ("plain_http", switch),
    },
    "metrics": {
        "listen": ("listen", listen_address),
        "jobs": ("jobs", switch),
        "jobs_max": ("jobs_max", whole(1, 10_000)),
    },
    "engine": {
        "name": ("engine", text),
        "options": ("engine_options", table),
    },
    "restarts": {
        "infra": ("restarts_infra", whole(0)),
        "user": ("restarts_user", whole(0)),
    },
    "hangs": {
        "after": ("hang_s", duration_or_never),
        "restart": ("hang_restart", switch),
        "stacks": ("hang_stacks", switch),
    },
    "usage": {
        "every": ("usage_s", usage_every),
    },
    "jobs": {
        "running_days_default": ("running_days_default", number),
        "finished_days_max": ("finished_days_max", number),
    },
    "limits": {
        "processes_max": ("processes_max", most),
        "package_bytes_max": ("package_bytes_max", most),
        "log_bytes_per_s_max": ("log_bytes_per_s_max", most),
        "project_bytes_max": ("project_bytes_max", most),
        "project_jobs_max": ("project_jobs_max", most),
        "streams_max": ("streams_max", most),
    },
    "environments": {
        "relax_pins": ("relax_pins", switch),
        "bytes_max": ("environments_bytes_max", most),
    },
    "logs": {
        "bytes_max": ("log_bytes_max", whole(1)),
        "days_max": ("log_days_max", number),
    },
    "prices": {"file": ("prices_file", file_path)},
    "audit": {
        "rows_max": ("audit_rows_max", whole(1)),
        "days_max": ("audit_days_max", number),
    },
}

#: Repeated tables: name → (field of Settings, type of a row, required keys, how keys are read).
_ROWS: Mapping[str, tuple[str, Callable[..., Any], tuple[str, ...], Mapping[str, Reader]]] = {
    "quota": (
        "quotas",
        QuotaRule,
        ("accelerator", "limit"),
        {"accelerator": text, "limit": whole(0), "project": text, "region": text},
    ),
    "environment": (
        "environments",
        LocalEnvironment,
        ("name", "python"),
        {"name": text, "python": text},
    ),
    "image": (
        "images",
        ImageMapping,
        ("environment",),
        {
            "environment": text,
            "image": text,
            "runtime_version": text,
            "entrypoint": texts,
            "run": text,
        },
    ),
}

#: A table for the only engine, or a list of tables for several engines.
_ENGINE = "engine"
#: The table of buckets in other storage services; its keys are the names of the buckets.
_BUCKETS = "buckets"
#: The user and the password in a URL.
_PASSWORD = re.compile(r"//[^/@]*@")
_REMOTE = re.compile(r"[a-z][a-z0-9+.-]*://.+")
_REMOTES = 'a URI such as "gs://corp-data/sub" or "s3://corp-data", or { uri = ..., options = {} }'

#: Keys that users put into the file by mistake, and what to do instead.
_ELSEWHERE = {
    "data_dir": "give --data-dir or TRAINSHED_DATA_DIR",
    "anonymous": "it is the flag --anonymous, given on every start",
    "insecure_http": "it is the flag --insecure-http, given on every start",
}


def load_settings(
    path: Path | None, environ: Mapping[str, str], flags: Mapping[str, Any]
) -> Settings:
    """Read the settings of a server.

    Without ``path`` the file is ``config.toml`` in the data directory, if it exists.  ``flags``
    are those of ``trainshed serve`` by name (None counts as not given; others are ignored).
    Raises UsageFault, which names the file, the key and the accepted values.
    """
    folder = data_dir(flags.get("data_dir"), environ)
    file = path or folder / FILE
    values: dict[str, Any] = {"config_file": file.absolute()}
    values |= _read_file(file, must_exist=path is not None)
    if database := environ.get("TRAINSHED_DATABASE"):
        values["database"] = database
    values |= _read_flags(flags)
    if flags.get("no_console"):
        values["console"] = values.get("console", ConsoleSettings())._replace(enabled=False)
    if form := flags.get("log_format"):
        values["log"] = LogSettings(_read("--log-format", form, log_format))
    values["otel"] = _read_otel(values.get("otel", OtelSettings()), environ)
    if "grpc_port" not in values:
        # with --port 0 another server may run, and may use the default gRPC port
        values["grpc_port"] = 0 if values.get("port") == 0 else GRPC_PORT_DEFAULT
    return Settings(data_dir=folder, **values)


def _read_otel(table: OtelSettings, environ: Mapping[str, str]) -> OtelSettings:
    """Return where traces go: OpenTelemetry's own variables win.  Raises UsageFault."""
    if environ.get("OTEL_SDK_DISABLED", "").lower() == "true":
        return table._replace(endpoint="")
    for name, path in _OTEL_VARIABLES:
        if value := environ.get(name):
            url = _read(name, value, otlp_endpoint)
            return table._replace(endpoint=url + path)
    return table._replace(endpoint=table.endpoint and table.endpoint + _TRACES_PATH)


def load_used_settings(environ: Mapping[str, str], flags: Mapping[str, Any]) -> Settings:
    """Read the settings for a command on a server's data directory, with the server's database.

    The server records a database that ``trainshed serve`` got by a flag or a variable, because
    the file does not have it.  Raises UsageFault.
    """
    settings = load_settings(None, environ, flags)
    recorded = None if settings.database else read_database(settings.data_dir)
    return replace(settings, database=recorded) if recorded else settings


def load_environments(
    path: Path,
) -> tuple[tuple[LocalEnvironment, ...], tuple[ImageMapping, ...]]:
    """Read the rows ``[[environment]]`` and ``[[image]]`` of a settings file.

    Raises UsageFault if the file is missing or a server would not start with it.
    """
    values = _read_file(path, must_exist=True)
    return values.get("environments", ()), values.get("images", ())


def _read_file(path: Path, *, must_exist: bool) -> dict[str, Any]:
    """Return fields of Settings by name.  Raises UsageFault."""
    if not must_exist and not path.exists():
        return {}
    try:
        document = tomllib.loads(path.read_text("utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise UsageFault(f"cannot read the settings {path}: {error}") from error
    fields: dict[str, Any] = {}
    for name, value in document.items():
        if name == _ENGINE and isinstance(value, list):
            fields["engines"] = read_engines(f"{path}: {name}", value, _read)
        elif name in _TABLES:
            values = _read_table(f"{path}: {name}", value, _TABLES[name])
            fields |= {name: _WHOLE[name](**values)} if name in _WHOLE else values
        elif name in _ROWS:
            fields |= _read_rows(f"{path}: {name}", value, name)
        elif name == _BUCKETS:
            fields[name] = _read_buckets(f"{path}: {name}", value)
        else:
            _refuse_unknown(str(path), name, [*_TABLES, *_ROWS, _BUCKETS])
    _check_tls_files(str(path), fields)
    return fields


def _check_tls_files(place: str, fields: Mapping[str, Any]) -> None:
    """Raise UsageFault for a certificate without its key, or a key without its certificate."""
    for name, other in (("tls_certificate", "tls_key"), ("tls_key", "tls_certificate")):
        if name in fields and other not in fields:
            raise UsageFault(f"{place}: server.{name} needs server.{other}; set both or neither")


def _read_table(place: str, table: Any, keys: Mapping[str, tuple[str, Reader]]) -> dict[str, Any]:
    if not isinstance(table, dict):
        raise UsageFault(f"{place} must be a table: write [{place.rpartition(' ')[2]}]")
    fields = {}
    for key, value in table.items():
        if key not in keys:
            _refuse_unknown(place, key, keys)
        name, read = keys[key]
        fields[name] = _read(f"{place}.{key}", value, read)
    return fields


def _read_buckets(place: str, table: Any) -> dict[str, RemoteBucket]:
    """Read the buckets; errors show no values, because some are credentials."""
    if not isinstance(table, dict):
        raise UsageFault(f"{place} must be a table: write [{_BUCKETS}]")
    return {name: _bucket(f"{place}.{name}", name, value) for name, value in table.items()}


def _bucket(place: str, name: str, value: Any) -> RemoteBucket:
    if not is_bucket_name(name):
        raise UsageFault(f"{place} is not a valid bucket name; it has {BUCKET_RULE}")
    table = value if isinstance(value, dict) else {"uri": value}
    uri, options = table.get("uri"), table.get("options", {})
    is_known = table.keys() <= {"uri", "options"} and isinstance(options, dict)
    if not is_known or not isinstance(uri, str) or not _REMOTE.fullmatch(uri):
        raise UsageFault(f"{place} must be {_REMOTES}")
    return RemoteBucket(uri, options)


def _read_rows(place: str, rows: Any, name: str) -> dict[str, Any]:
    target, make, required, readers = _ROWS[name]
    if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
        raise UsageFault(f"{place} must be a list of tables: write [[{name}]] above each")
    keys = {key: (key, read) for key, read in readers.items()}
    entries = []
    for position, row in enumerate(rows, 1):
        row_place = f"{place} {position}"
        values = _read_table(row_place, row, keys)
        for key in required:
            if key not in values:
                raise UsageFault(f"{row_place} has no {key}; it needs {' and '.join(required)}")
        entries.append(make(**values))
        _check_row(row_place, entries)
    return {target: tuple(entries)}


def _check_row(place: str, rows: list[Any]) -> None:
    """Check the last row against the others.  Raises UsageFault."""
    row = rows[-1]
    if isinstance(row, ImageMapping) and (row.image is None) == (row.runtime_version is None):
        raise UsageFault(f"{place} needs either image or runtime_version")
    if isinstance(row, LocalEnvironment) and row.name in {
        environment.name for environment in rows[:-1]
    }:
        raise UsageFault(f"{place}: there is another environment named {row.name!r}")


def _read_flags(flags: Mapping[str, Any]) -> dict[str, Any]:
    """Return fields of Settings from the flags of ``trainshed serve``.  Raises UsageFault."""
    passed = {name: value for name, value in flags.items() if value is not None}
    fields: dict[str, Any] = {}
    for name in ("host", "port", "grpc_port", "database"):
        if name in passed:
            place = f"--{name.replace('_', '-')}"
            value = passed[name]
            is_port = value.isdecimal() if name == "grpc_port" and isinstance(value, str) else False
            fields[name] = _read(
                place, int(value) if is_port else value, _TABLES["server"][name][1]
            )
    if "fleet_policy" in passed:
        fields["policy"] = _read("--fleet-policy", passed["fleet_policy"], policy)
    if "fake_gpus" in passed:
        fields["fake_gpus"] = _read("--fake-gpus", passed["fake_gpus"], fake_gpus)
    for name in ("anonymous", "insecure_http"):
        if passed.get(name):
            fields[name] = True
    if passed.get("engine"):
        fields["start_engines"] = tuple(passed["engine"])
    return fields


def _read(place: str, value: Any, read: Reader) -> Any:
    try:
        return read(value)
    except WrongValue as wrong:
        shown = _PASSWORD.sub("//***@", repr(value))
        raise UsageFault(f"{place} must be {wrong}, got {shown}") from None


def _refuse_unknown(place: str, key: str, keys: Iterable[str]) -> NoReturn:
    near = difflib.get_close_matches(key, keys, n=1)
    hint = f"did you mean {near[0]}? " if near else ""
    if key in _ELSEWHERE:
        hint = f"{_ELSEWHERE[key]}. "
    raise UsageFault(f"{place} has no key {key!r}; {hint}The accepted keys are: {', '.join(keys)}")
