"""Converts values of the model to JSON text and back, without loss.

Texts of users may contain lone surrogates and zero bytes, which databases cannot store.  JSON
escapes both, so JSON columns lose nothing; ``plain`` is for columns that are compared or shown.
"""

import enum
import functools
import json
import re
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, Final, Generic, TypeVar

from pydantic import TypeAdapter

from trainshed.model.explanation import Explanation
from trainshed.model.job import JobSpec
from trainshed.model.resources import Claim, JobDemand, Node, Seat
from trainshed.model.restarts import Restarts
from trainshed.model.status import JobError
from trainshed.model.stopping import StopOrder
from trainshed.model.study_start import KnownResult
from trainshed.model.trials import Measurement, Values
from trainshed.store.base import StoreFault

T = TypeVar("T")

NS_PER_US: Final = 1000
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_UNSTORABLE: Final = re.compile("[\x00\ud800-\udfff]")


def _word(value: enum.Enum) -> Any:
    return value.value


#: Pydantic's own JSON refuses lone surrogates in texts, and replaces them in keys.
_COMPACT: Final = json.JSONEncoder(
    separators=(",", ":"), check_circular=False, default=_word
).encode


class Codec(Generic[T]):
    """Converts values of one type to JSON text and back."""

    def __init__(self, kind: Any) -> None:
        """``kind``: a dataclass of the model, or a tuple or mapping of dataclasses."""
        self._kind = kind
        self._name = getattr(kind, "__name__", str(kind))

    @functools.cached_property
    def _adapter(self) -> TypeAdapter[T]:
        """The adapter, made on first use: making all adapters takes 5 % of the server's start."""
        return TypeAdapter(self._kind)

    def encode(self, value: T) -> str:
        """Return the value as JSON text in ASCII."""
        return _COMPACT(self._adapter.dump_python(value))

    def decode(self, text: str) -> T:
        """Return the value that ``encode`` wrote.  Raises StoreFault for any other text."""
        try:
            return self._adapter.validate_python(json.loads(text))
        except ValueError as error:
            raise StoreFault(
                f"the database has a malformed {self._name}; check it with: trainshed doctor"
            ) from error


SPEC: Final[Codec[JobSpec]] = Codec(JobSpec)
DEMAND: Final[Codec[JobDemand]] = Codec(JobDemand)
EXPLANATION: Final[Codec[Explanation]] = Codec(Explanation)
ERROR: Final[Codec[JobError]] = Codec(JobError)
NODE: Final[Codec[Node]] = Codec(Node)
RESTARTS: Final[Codec[Restarts]] = Codec(Restarts)
STOP: Final[Codec[StopOrder]] = Codec(StopOrder)
SEATS: Final[Codec[tuple[Seat, ...]]] = Codec(tuple[Seat, ...])
CLAIM: Final[Codec[Claim]] = Codec(Claim)
LABELS: Final[Codec[Mapping[str, str]]] = Codec(dict[str, str])
DATA: Final[Codec[Mapping[str, object]]] = Codec(dict[str, Any])
TEXTS: Final[Codec[tuple[str, ...]]] = Codec(tuple[str, ...])
TEXT: Final[Codec[str]] = Codec(str)
VALUES: Final[Codec[Values]] = Codec(Values)
KNOWN_RESULTS: Final[Codec[tuple[KnownResult, ...]]] = Codec(tuple[KnownResult, ...])
POINTS: Final[Codec[tuple[Values, ...]]] = Codec(tuple[Values, ...])
MEASUREMENT: Final[Codec[Measurement]] = Codec(Measurement)


@functools.lru_cache(1024)
def reason_of(explanation: str) -> str:
    """Return the reason of a stored explanation; cached, as many jobs have the same."""
    reason: str = json.loads(explanation)["reason"]
    return reason


def plain(text: str) -> str:
    """Replace characters that a database cannot store by U+FFFD."""
    return _UNSTORABLE.sub("\ufffd", text)


def to_ns(time: datetime) -> int:
    """Convert a datetime with a time zone to nanoseconds since 1970."""
    return (time - _EPOCH) // timedelta(microseconds=1) * NS_PER_US


def to_time(ns: int) -> datetime:
    """Convert nanoseconds since 1970 to a datetime in UTC, cut to microseconds."""
    return _EPOCH + timedelta(microseconds=ns // NS_PER_US)


def to_time_or_none(ns: int | None) -> datetime | None:
    """Convert nanoseconds since 1970 to a datetime; None stays None."""
    return None if ns is None else to_time(ns)
