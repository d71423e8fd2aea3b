"""What a supervisor tells its launcher, one JSON line each over a socket pair."""

import json
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class StartFailed:
    """One replica could not be started; the supervisor ends the others by itself."""

    index: int
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Started:
    """Every replica has been started."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Exited:
    """One replica ended."""

    index: int
    status: int
    """As ``waitpid`` gives it."""
    seconds: float
    stopped: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Finished:
    """No process of the job is left, but for ``left``, which even SIGKILL did not end."""

    left: Sequence[int] = ()


Message = StartFailed | Started | Exited | Finished
_TYPES = {kind.__name__: kind for kind in (StartFailed, Started, Exited, Finished)}


def encode(messages: Iterable[Message]) -> bytes:
    """Write messages as lines."""
    return b"".join(
        json.dumps({"is": type(message).__name__, **asdict(message)}).encode() + b"\n"
        for message in messages
    )


def decode(line: bytes) -> Message:
    """Read one line back."""
    fields = json.loads(line)
    message: Message = _TYPES[fields.pop("is")](**fields)
    return message
