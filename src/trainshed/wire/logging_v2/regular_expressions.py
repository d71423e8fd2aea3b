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


class MissingRe2(Exception):
    """The server has no RE2; the message says how to install it."""


def compile_re2(pattern: str, *, ignores_case: bool = False) -> Any:
    """Return a compiled expression of RE2, for texts in UTF-8.

    Raises BadExpression, and MissingRe2 on a server without RE2.
    """
    try:
        re2: Any = import_module("re2")
    except ImportError:
        raise MissingRe2(
            "RE2, which this server does not have; its administrator installs it with: "
            f"{install_command('re2')}"
        ) from None
    options = re2.Options()
    options.max_mem = MEMORY_MAX
    options.log_errors = False
    options.case_sensitive = not ignores_case
    try:
        return re2.compile(encode_text(pattern), options)
    except re2.error as error:
        raise BadExpression(_decode(error.args[0])) from None


def compile_expression(pattern: str) -> Callable[[str], bool]:
    """Return a function that says whether a text has a match anywhere.

    Raises BadExpression, and Refusal (FAILED_PRECONDITION) on a server without RE2.
    """
    try:
        compiled = compile_re2(pattern)
    except MissingRe2 as missing:
        message = f"filter: =~ and !~ need {missing}. Without it, search by ':' or by a word alone"
        raise Refusal(Code.FAILED_PRECONDITION, message) from None
    return lambda text: compiled.search(encode_text(text)) is not None


def encode_text(text: str) -> bytes:
    """Encode a text; replaces lone surrogates, which UTF-8 cannot encode."""
    return text.encode("utf-8", "replace")


def _decode(reason: Any) -> str:
    return reason.decode("utf-8", "replace") if isinstance(reason, bytes) else str(reason)
