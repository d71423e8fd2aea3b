"""Readers that check and convert the values of settings.

A reader gets a value of TOML, a variable or a flag, and raises WrongValue.
"""

import math
import re
from collections.abc import Callable
from typing import Any

from trainshed.config.settings import DROP, LOG, PASS, REFUSE
from trainshed.engines.container_runtime import AUTO, CHOICES, USER_OF_IMAGE
from trainshed.engines.isolation.modes import AUTO as AUTO_MODE
from trainshed.engines.isolation.modes import CALL_FAMILIES, DEFAULT, MODES, NONE, at_least
from trainshed.engines.network.kinds import NETWORKS
from trainshed.model.durations import FORM, seconds_of
from trainshed.model.resources import FleetPolicy
from trainshed.storage.buckets import GsPaths

#: In place of a port for gRPC.
NO_GRPC = "none"


#: ``name``, ``name:port``, ``[::1]:port``.
_HOST = re.compile(r"(?:\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._-]+)(?::[0-9]{1,5})?|[0-9A-Fa-f:.]+")
_USER = re.compile(rf"[0-9]{{1,10}}(:[0-9]{{1,10}})?|{USER_OF_IMAGE}")
_ORIGIN = re.compile(r"https?://[^/\s?#]+/?")


#: Ids below are users of the machine; the one above means no user.
_UID_MIN, _UID_MAX = 1000, (1 << 32) - 3
_UIDS = f"[FIRST, LAST], two whole numbers from {_UID_MIN} to {_UID_MAX}"
_VARIABLE = re.compile(r"[A-Za-z_*][A-Za-z0-9_*]*")


class WrongValue(Exception):
    """Says what would be accepted."""


Reader = Callable[[Any], Any]


def text(value: Any) -> str:
    """A text that is not empty."""
    if not isinstance(value, str) or not value.strip():
        raise WrongValue("a text that is not empty")
    return value


def texts(value: Any) -> tuple[str, ...]:
    """A list of such texts."""
    if not isinstance(value, list) or not all(isinstance(v, str) and v.strip() for v in value):
        raise WrongValue("a list of texts")
    return tuple(value)


def hosts(value: Any) -> tuple[str, ...]:
    """Names and addresses, with or without a port."""
    names = texts(value)
    if not all(map(_HOST.fullmatch, names)):
        raise WrongValue("a list of host names or addresses, without http://")
    return names


def origins(value: Any) -> tuple[str, ...]:
    """Origins as browsers send them."""
    urls = texts(value)
    if not all(map(_ORIGIN.fullmatch, urls)):
        raise WrongValue("a list of origins such as https://console.example")
    return urls


def aliases(value: Any) -> dict[str, str]:
    """Which accelerator stands in for which; ``any`` is every one."""
    if not isinstance(value, dict) or not all(isinstance(v, str) and v for v in value.values()):
        raise WrongValue('a table from one accelerator to another, or to "any"')
    return value


def table(value: Any) -> dict[str, Any]:
    """A table that an engine reads itself."""
    if not isinstance(value, dict):
        raise WrongValue("a table")
    return value


def whole(least: int, most: int | None = None) -> Reader:
    """Reads whole numbers; true and false are none."""

    def read(value: Any) -> int:
        is_number = isinstance(value, int) and not isinstance(value, bool)
        if not is_number or value < least or (most is not None and value > most):
            to = f" to {most}" if most is not None else ""
            raise WrongValue(f"a whole number from {least}{to}")
        return int(value)

    return read


def most(value: Any) -> int | None:
    """A limit; 0 is none."""
    return int(whole(0)(value)) or None


def number(value: Any) -> float:
    """A number from 0; infinity is none."""
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if not is_number or not math.isfinite(value) or value < 0:
        raise WrongValue("a number from 0")
    return float(value)


def duration(value: Any) -> float:
    """Seconds, written as a duration or as a number of them."""
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
    """The same; 0 is never."""
    return duration(value) or None


def switch(value: Any) -> bool:
    if not isinstance(value, bool):
        raise WrongValue("true or false")
    return value


def switch_or_auto(value: Any) -> bool | None:
    """Yes, no, or what the server finds right."""
    if value == AUTO:
        return None
    try:
        return switch(value)
    except WrongValue as wrong:
        raise WrongValue(f'{wrong}, or "{AUTO}"') from None


def container_runtime(value: Any) -> str:
    """Which container runtime is used."""
    if value not in CHOICES:
        raise WrongValue(" or ".join(f'"{choice}"' for choice in CHOICES))
    return str(value)


def container_user(value: Any) -> str:
    """Read the user of containers."""
    if not isinstance(value, str) or not _USER.fullmatch(value):
        raise WrongValue(f'"UID", "UID:GID" or "{USER_OF_IMAGE}"')
    return value


def policy(value: Any) -> FleetPolicy:
    """A fleet policy by its name."""
    try:
        return FleetPolicy(value)
    except ValueError:
        raise WrongValue(" or ".join(f'"{choice.value}"' for choice in FleetPolicy)) from None


def gs_paths(value: Any) -> GsPaths:
    """What programs see of a gs:// directory."""
    try:
        return GsPaths(value)
    except ValueError:
        raise WrongValue(" or ".join(f'"{choice.value}"' for choice in GsPaths)) from None


def isolation_mode(value: Any) -> str:
    """A mode, or the word for the strongest that works."""
    if value not in (AUTO_MODE, *MODES):
        raise WrongValue(" or ".join(f'"{mode}"' for mode in (AUTO_MODE, *MODES)))
    return str(value)


def job_network(value: Any) -> str:
    """Which network jobs have."""
    if value not in NETWORKS:
        raise WrongValue(" or ".join(f'"{name}"' for name in NETWORKS))
    return str(value)


def required_modes(value: Any) -> tuple[str, ...]:
    """The weakest mode that is accepted, or a list of those that are."""
    requested = value if isinstance(value, list) and value else [value]
    if not all(isinstance(mode, str) and mode in MODES for mode in requested):
        modes = ", ".join(f'"{mode}"' for mode in MODES)
        raise WrongValue(f"the weakest mode that will do, or a list of modes, of {modes}")
    return tuple(value) if isinstance(value, list) else at_least(value)


def seccomp(value: Any) -> str:
    """Whether system calls of jobs are filtered."""
    if value not in {DEFAULT, NONE}:
        raise WrongValue(f'"{DEFAULT}" or "{NONE}"')
    return str(value)


def call_families(value: Any) -> tuple[str, ...]:
    """Families of system calls that jobs may make."""
    if not isinstance(value, list) or not all(name in CALL_FAMILIES for name in value):
        families = ", ".join(f'"{name}"' for name in CALL_FAMILIES)
        raise WrongValue(f"a list of families of system calls, of {families}")
    return tuple(value)


def refuse_or_pass(value: Any) -> str:
    """Read what happens to requests to Google that the gateway does not answer."""
    if value not in {REFUSE, PASS}:
        raise WrongValue(f'"{REFUSE}" or "{PASS}"')
    return str(value)


def telemetry(value: Any) -> str:
    """Read what happens to writes of programs to Cloud Logging and Cloud Monitoring."""
    if value not in {DROP, LOG, PASS}:
        raise WrongValue(f'"{DROP}", "{LOG}" or "{PASS}"')
    return str(value)


def uid_range(value: Any) -> tuple[int, int]:
    """The first and the last number of users; root and those of the machine are none."""
    is_pair = isinstance(value, list) and len(value) == 2  # noqa: PLR2004 - first and last
    if not is_pair or not all(type(uid) is int for uid in value):
        raise WrongValue(_UIDS)
    first, last = value
    if not _UID_MIN <= first <= last <= _UID_MAX:
        raise WrongValue(_UIDS)
    return first, last


def variable_names(value: Any) -> tuple[str, ...]:
    """Names of variables, in which * stands for anything."""
    names = texts(value)
    if not all(map(_VARIABLE.fullmatch, names)):
        raise WrongValue('a list of names of variables, such as "HTTPS_PROXY" or "AWS_*"')
    return names


port = whole(0, 65_535)

#: As many as one attempt can hold (engines/local/devices/find.py).
fake_gpus = whole(0, 253)


def grpc_port(value: Any) -> int | None:
    """A port, or the word for none."""
    if value == NO_GRPC:
        return None
    try:
        return int(port(value))
    except WrongValue as wrong:
        raise WrongValue(f'{wrong}, or "{NO_GRPC}"') from None
