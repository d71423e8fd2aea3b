"""What a thread or task works on, as fields of its log records.

A field is computed when a record is written, because most work writes none.  Engines name an
attempt in the arguments of their records; these need no fields of their own.
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar, Token
from typing import Final

from trainshed.model.attempt import AttemptKey
from trainshed.observability.spans import attempt_parent

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

#: The number of the database whose jobs have traces; None without traces.
_traced_installation: int | None = None
_CURRENT: ContextVar[LogFields | None] = ContextVar("log_fields", default=None)


def current_fields() -> Mapping[str, object]:
    """Return the fields of the current thread or task; empty without any."""
    read = _CURRENT.get()
    return {} if read is None else read()


def set_traced_installation(number: int | None) -> None:
    """Let records about an attempt name its span in the traces of this installation."""
    global _traced_installation  # noqa: PLW0603 - the log of a process
    _traced_installation = number


def fields_of_record(args: object, own: Mapping[str, object]) -> Mapping[str, object]:
    """Return the fields of a record: what its thread works on, what it names, and its ``own``.

    ``args`` are the arguments of its message.  The trace of a request wins over that of a job.
    """
    fields = {**current_fields(), **own}
    keys = [arg for arg in args if isinstance(arg, AttemptKey)] if isinstance(args, tuple) else []
    if keys and "uid" not in fields:
        fields |= keys[0]._asdict()
    uid, attempt = fields.get("uid"), fields.get("attempt")
    if _traced_installation is None or fields.get("trace_id"):
        return fields
    if isinstance(uid, int) and isinstance(attempt, int):
        trace = attempt_parent(_traced_installation, uid, attempt)
        fields["trace_id"] = f"{trace.trace_id:032x}"
        fields["span_id"] = f"{trace.span_id:016x}"
    return fields


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
