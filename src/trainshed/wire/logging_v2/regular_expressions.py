"""Compiles regular expressions of filters with RE2.

Python's ``re`` may take exponential time for a caller's expression; RE2 takes time proportional to
the text (decision 0075).
"""

from collections.abc import Callable
from importlib import import_module
from typing import Any, Final

from trainshed.model.refusals import Code, Refusal
from trainshed.model.texts import install_command

#: The largest memory of one compiled expression, in bytes.
MEMORY_MAX: Final = 1 << 20


class BadExpression(ValueError):
    """RE2 refuses the expression; the message has its reason."""


def compile_expression(pattern: str) -> Callable[[str], bool]:
    """Return a function that says whether a text has a match anywhere.

    Raises BadExpression, and Refusal (FAILED_PRECONDITION) on a server without RE2.
    """
    try:
        re2: Any = import_module("re2")
    except ImportError:
        message = (
            "filter: =~ and !~ need RE2, which this server does not have; its administrator "
            f"installs it with: {install_command('re2')}. "
            "Without it, search by ':' or by a word alone"
        )
        raise Refusal(Code.FAILED_PRECONDITION, message) from None
    options = re2.Options()
    options.max_mem = MEMORY_MAX
    options.log_errors = False
    try:
        compiled = re2.compile(_encode(pattern), options)
    except re2.error as error:
        raise BadExpression(_decode(error.args[0])) from None
    return lambda text: compiled.search(_encode(text)) is not None


def _encode(text: str) -> bytes:
    """Encode a text; replaces lone surrogates, which UTF-8 cannot encode."""
    return text.encode("utf-8", "replace")


def _decode(reason: Any) -> str:
    return reason.decode("utf-8", "replace") if isinstance(reason, bytes) else str(reason)
