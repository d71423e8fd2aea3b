"""How single values of the settings are read; each refusal says what would be accepted."""

import math
import re
from collections.abc import Callable
from typing import Any

from trainshed.engines.container_runtime import CHOICES, USER_OF_IMAGE
from trainshed.model.durations import FORM, seconds_of
from trainshed.model.resources import FleetPolicy

#: In place of a port for gRPC.
NO_GRPC = "none"


#: ``name``, ``name:port``, ``[::1]:port``.
_HOST = re.compile(r"(?:\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._-]+)(?::[0-9]{1,5})?|[0-9A-Fa-f:.]+")
_USER = re.compile(rf"[0-9]{{1,10}}(:[0-9]{{1,10}})?|{USER_OF_IMAGE}")
_ORIGIN = re.compile(r"https?://[^/\s?#]+/?")


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
    found = texts(value)
    if not all(map(_HOST.fullmatch, found)):
        raise WrongValue("a list of host names or addresses, without http://")
    return found


def origins(value: Any) -> tuple[str, ...]:
    """Origins as browsers send them."""
    found = texts(value)
    if not all(map(_ORIGIN.fullmatch, found)):
        raise WrongValue("a list of origins such as https://console.example")
    return found


def aliases(value: Any) -> dict[str, str]:
    """Which accelerator stands in for which; ``any`` is every one."""
    if not isinstance(value, dict) or not all(isinstance(v, str) and v for v in value.values()):
        raise WrongValue('a table from one accelerator to another, or to "any"')
    return value


def table(value: Any) -> dict[str, Any]:
    """A table that somebody else reads."""
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
    """Yes or no."""
    if not isinstance(value, bool):
        raise WrongValue("true or false")
    return value


def container_runtime(value: Any) -> str:
    """Which container runtime is used."""
    if value not in CHOICES:
        raise WrongValue(" or ".join(f'"{each}"' for each in CHOICES))
    return str(value)


def container_user(value: Any) -> str:
    """Whom containers run as."""
    if not isinstance(value, str) or not _USER.fullmatch(value):
        raise WrongValue(f'"UID", "UID:GID" or "{USER_OF_IMAGE}"')
    return value


def policy(value: Any) -> FleetPolicy:
    """A fleet policy by its name."""
    try:
        return FleetPolicy(value)
    except ValueError:
        raise WrongValue(" or ".join(f'"{each.value}"' for each in FleetPolicy)) from None


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
