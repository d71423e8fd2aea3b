"""What a thread or task works on, as fields of its log records.

A field is computed when a record is written, because most work writes none.
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar, Token
from typing import Final

#: Returns fields by name, such as ``uid`` or ``caller``.
LogFields = Callable[[], Mapping[str, object]]

#: The fields of a record, in the order in which they are written.
FIELDS: Final = (
    "project",
    "job",
    "uid",
    "attempt",
    "task",
    "node",
    "study",
    "trial",
    "caller",
    "method",
    "status",
    "duration_s",
    "incident",
    "trace_id",
    "span_id",
)

_CURRENT: ContextVar[LogFields | None] = ContextVar("log_fields", default=None)


def current_fields() -> Mapping[str, object]:
    """Return the fields of the current thread or task; empty without any."""
    read = _CURRENT.get()
    return {} if read is None else read()


def set_log_fields(read: LogFields) -> Token[LogFields | None]:
    """Use these fields for later records of this thread or task, instead of earlier fields."""
    return _CURRENT.set(read)


def reset_log_fields(token: Token[LogFields | None]) -> None:
    """Use the fields from before ``set_log_fields`` again."""
    _CURRENT.reset(token)


@contextmanager
def log_fields(**fields: object) -> Iterator[None]:
    """Add these fields to the records that are written inside the block."""
    outer = _CURRENT.get()
    token = _CURRENT.set(lambda: {**(outer() if outer else {}), **fields})
    try:
        yield
    finally:
        _CURRENT.reset(token)
