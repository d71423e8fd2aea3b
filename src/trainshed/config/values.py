"""Readers that check and convert the values of settings.

A reader gets a value of TOML, a variable or a flag, and raises WrongValue.
"""

import math
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from trainshed.config.settings import DROP, LOG, PASS, REFUSE
from trainshed.engines.container_runtime import AUTO, CHOICES, USER_OF_IMAGE
from trainshed.engines.isolation.modes import AUTO as AUTO_MODE
from trainshed.engines.isolation.modes import CALL_FAMILIES, DEFAULT, MODES, NONE, at_least
from trainshed.engines.network.kinds import NETWORKS
from trainshed.engines.setting_readers import SAMPLE_S_MAX
from trainshed.model.durations import FORM, seconds_of
from trainshed.model.resources import FleetPolicy
from trainshed.observability.logs import ServerLogFormat
from trainshed.storage.buckets import GsPaths

#: The word instead of a port that switches off gRPC.
NO_GRPC = "none"


#: ``name``, ``name:port``, ``[::1]:port``.
_HOST = re.compile(r"(?:\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._-]+)(?::[0-9]{1,5})?|[0-9A-Fa-f:.]+")
PORT_MAX = 65_535
_LISTEN = re.compile(r"(?P<host>\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._-]+):(?P<port>[0-9]{1,5})")
_USER = re.compile(rf"[0-9]{{1,10}}(:[0-9]{{1,10}})?|{USER_OF_IMAGE}")
_COLLECTOR = re.compile(r"https?://[^/\s?#@]+(/[^\s?#]*)?")
_ORIGIN = re.compile(r"https?://[^/\s?#]+/?")


#: Lower ids are users of the machine; the id above the maximum means no user.
_UID_MIN, _UID_MAX = 1000, (1 << 32) - 3
_UIDS = f"[FIRST, LAST], two whole numbers from {_UID_MIN} to {_UID_MAX}"
_VARIABLE = re.compile(r"[A-Za-z_*][A-Za-z0-9_*]*")


class WrongValue(Exception):
    """A wrong value; the message describes accepted values."""


Reader = Callable[[Any], Any]


def text(value: Any) -> str:
    """Read a text that is not empty."""
    if not isinstance(value, str) or not value.strip():
        raise WrongValue("a text that is not empty")
    return value


def texts(value: Any) -> tuple[str, ...]:
    """Read a list of texts that are not empty."""
    if not isinstance(value, list) or not all(isinstance(v, str) and v.strip() for v in value):
        raise WrongValue("a list of texts")
    return tuple(value)


def file_path(value: Any) -> Path:
    """Read the absolute path of a file; the file need not exist."""
    if not isinstance(value, str) or not value.startswith("/") or value.endswith("/"):
        raise WrongValue("the absolute path of a file")
    return Path(value)


def hosts(value: Any) -> tuple[str, ...]:
    """Read names and addresses, with or without a port."""
    names = texts(value)
    if not all(map(_HOST.fullmatch, names)):
        raise WrongValue("a list of host names or addresses, without http://")
    return names


def listen_address(value: Any) -> tuple[str, int]:
    """Read ``HOST:PORT`` as host and port."""
    match = _LISTEN.fullmatch(value) if isinstance(value, str) else None
    if match is None or not 0 < int(match["port"]) <= PORT_MAX:
        raise WrongValue('HOST:PORT, such as "127.0.0.1:9464"')
    return match["host"].strip("[]"), int(match["port"])


def origins(value: Any) -> tuple[str, ...]:
    """Read origins as browsers send them."""
    urls = texts(value)
    if not all(map(_ORIGIN.fullmatch, urls)):
        raise WrongValue("a list of origins such as https://console.example")
    return urls


def aliases(value: Any) -> dict[str, str]:
    """Read a map of accelerators to their replacements; ``any`` means every one."""
    if not isinstance(value, dict) or not all(isinstance(v, str) and v for v in value.values()):
        raise WrongValue('a table from one accelerator to another, or to "any"')
    return value


def table(value: Any) -> dict[str, Any]:
    """Read a table that an engine parses itself."""
    if not isinstance(value, dict):
        raise WrongValue("a table")
    return value


def whole(least: int, most: int | None = None) -> Reader:
    """Return a reader of whole numbers; refuses true and false."""

    def read(value: Any) -> int:
        is_number = isinstance(value, int) and not isinstance(value, bool)
        if not is_number or value < least or (most is not None and value > most):
            to = f" to {most}" if most is not None else ""
            raise WrongValue(f"a whole number from {least}{to}")
        return int(value)

    return read


def most(value: Any) -> int | None:
    """Read a limit; 0 means no limit."""
    return int(whole(0)(value)) or None


def number(value: Any) -> float:
    """Read a number from 0; refuses infinity."""
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if not is_number or not math.isfinite(value) or value < 0:
        raise WrongValue("a number from 0")
    return float(value)


def duration(value: Any) -> float:
    """Read a duration, also as a number of seconds; return seconds."""
    if not isinstance(value, str):
        try:
            return number(value)
        except WrongValue:
            raise WrongValue(FORM) from None
    try:
        return seconds_of(value)
    except ValueError:
        raise WrongValue(FORM) from None


def duration_or_never(value: Any) -> float | None:
    """Read a duration; 0 means never."""
    return duration(value) or None


def usage_every(value: Any) -> float:
    """Read the time between two samples; 0 means no samples."""
    seconds = duration(value)
    if seconds and not 1 <= seconds <= SAMPLE_S_MAX:
        raise WrongValue('0, or a time from "1s" to "1h"')
    return seconds


def switch(value: Any) -> bool:
    if not isinstance(value, bool):
        raise WrongValue("true or false")
    return value


def switch_or_auto(value: Any) -> bool | None:
    """Read true, false or ``auto``, with which the server decides."""
    if value == AUTO:
        return None
    try:
        return switch(value)
    except WrongValue as wrong:
        raise WrongValue(f'{wrong}, or "{AUTO}"') from None


def container_runtime(value: Any) -> str:
    """Read the container runtime."""
    if value not in CHOICES:
        raise WrongValue(" or ".join(f'"{choice}"' for choice in CHOICES))
    return str(value)


def container_user(value: Any) -> str:
    """Read the user of containers."""
    if not isinstance(value, str) or not _USER.fullmatch(value):
        raise WrongValue(f'"UID", "UID:GID" or "{USER_OF_IMAGE}"')
    return value


def policy(value: Any) -> FleetPolicy:
    """Read a fleet policy by its name."""
    try:
        return FleetPolicy(value)
    except ValueError:
        raise WrongValue(" or ".join(f'"{choice.value}"' for choice in FleetPolicy)) from None


def gs_paths(value: Any) -> GsPaths:
    """Read the form in which programs get gs:// directories."""
    try:
        return GsPaths(value)
    except ValueError:
        raise WrongValue(" or ".join(f'"{choice.value}"' for choice in GsPaths)) from None


def isolation_mode(value: Any) -> str:
    """Read an isolation mode, or the word for the strongest mode that works."""
    if value not in (AUTO_MODE, *MODES):
        raise WrongValue(" or ".join(f'"{mode}"' for mode in (AUTO_MODE, *MODES)))
    return str(value)


def job_network(value: Any) -> str:
    """Read the network of jobs."""
    if value not in NETWORKS:
        raise WrongValue(" or ".join(f'"{name}"' for name in NETWORKS))
    return str(value)


def required_modes(value: Any) -> tuple[str, ...]:
    """Read the weakest accepted mode, or a list of the accepted modes."""
    requested = value if isinstance(value, list) and value else [value]
    if not all(isinstance(mode, str) and mode in MODES for mode in requested):
        modes = ", ".join(f'"{mode}"' for mode in MODES)
        raise WrongValue(
            f"one of {modes}, weakest first (stronger ones are then accepted too), or a list of "
            "accepted modes"
        )
    return tuple(value) if isinstance(value, list) else at_least(value)


def seccomp(value: Any) -> str:
    """Read whether to filter system calls of jobs."""
    if value not in {DEFAULT, NONE}:
        raise WrongValue(f'"{DEFAULT}" or "{NONE}"')
    return str(value)


def call_families(value: Any) -> tuple[str, ...]:
    """Read families of system calls that jobs may make."""
    if not isinstance(value, list) or not all(name in CALL_FAMILIES for name in value):
        families = ", ".join(f'"{name}"' for name in CALL_FAMILIES)
        raise WrongValue(f"a list of families of system calls, of {families}")
    return tuple(value)


def refuse_or_pass(value: Any) -> str:
    """Read whether the gateway refuses or forwards requests to Google that it does not answer."""
    if value not in {REFUSE, PASS}:
        raise WrongValue(f'"{REFUSE}" or "{PASS}"')
    return str(value)


def telemetry(value: Any) -> str:
    """Read how the gateway treats writes to Cloud Logging and Cloud Monitoring."""
    if value not in {DROP, LOG, PASS}:
        raise WrongValue(f'"{DROP}", "{LOG}" or "{PASS}"')
    return str(value)


def log_format(value: Any) -> ServerLogFormat:
    """Read the form of the server's log."""
    try:
        return ServerLogFormat(value)
    except ValueError:
        raise WrongValue(" or ".join(f'"{form.value}"' for form in ServerLogFormat)) from None


def otlp_endpoint(value: Any) -> str:
    """Read the URL of a collector, without credentials: they belong into a header."""
    if not isinstance(value, str) or not _COLLECTOR.fullmatch(value) or not _has_address(value):
        raise WrongValue(
            'a URL of OTLP over HTTP without user and password, such as "http://127.0.0.1:4318"'
        )
    return value.rstrip("/")


def _has_address(url: str) -> bool:
    try:
        parts = urlsplit(url)
        return bool(parts.hostname) and parts.port != 0
    except ValueError:
        return False


def uid_range(value: Any) -> tuple[int, int]:
    """Read the first and the last user id; refuses root and users of the machine."""
    is_pair = isinstance(value, list) and len(value) == 2  # noqa: PLR2004 - first and last
    if not is_pair or not all(type(uid) is int for uid in value):
        raise WrongValue(_UIDS)
    first, last = value
    if not _UID_MIN <= first <= last <= _UID_MAX:
        raise WrongValue(_UIDS)
    return first, last


def variable_names(value: Any) -> tuple[str, ...]:
    """Read names of variables, in which * matches any text."""
    names = texts(value)
    if not all(map(_VARIABLE.fullmatch, names)):
        raise WrongValue('a list of names of variables, such as "HTTPS_PROXY" or "AWS_*"')
    return names


port = whole(0, PORT_MAX)

#: The most GPUs of one attempt (engines/local/devices/find.py).
fake_gpus = whole(0, 253)


def grpc_port(value: Any) -> int | None:
    """Read a port, or the word for none."""
    if value == NO_GRPC:
        return None
    try:
        return int(port(value))
    except WrongValue as wrong:
        raise WrongValue(f'{wrong}, or "{NO_GRPC}"') from None
