"""Finds the severity of a line of output, from the prefixes of frameworks and loggers.

Structured lines (JSON with a severity and a message) are what Cloud Logging's own agents recognise;
the prefixes are those of Python's logging, absl and glog, PyTorch and TensorFlow.  The stream gives
no information: most loggers write all lines to stderr.
"""

import json
import math
import re
from collections.abc import Mapping
from itertools import islice
from typing import Any, Final, NoReturn

#: The words of loggers, in capitals, and the severity of each.
WORDS: Final[Mapping[str, str]] = {
    "DEFAULT": "DEFAULT",
    "TRACE": "DEBUG",
    "DEBUG": "DEBUG",
    "INFO": "INFO",
    "INFORMATION": "INFO",
    "NOTICE": "INFO",
    "WARN": "WARNING",
    "WARNING": "WARNING",
    "ERR": "ERROR",
    "ERROR": "ERROR",
    "SEVERE": "ERROR",
    "CRITICAL": "CRITICAL",
    "FATAL": "CRITICAL",
    "ALERT": "CRITICAL",
    "EMERGENCY": "CRITICAL",
    "PANIC": "CRITICAL",
}

#: The words of prefixes: those above, a compiler's, and the letters of glog.
_MARKS: Final[Mapping[str, str]] = {
    **WORDS,
    "error": "ERROR",
    "warning": "WARNING",
    "D": "DEBUG",
    "I": "INFO",
    "W": "WARNING",
    "E": "ERROR",
    "F": "CRITICAL",
}

#: Python's logging levels are multiples of ten.
_LEVELS: Final = ("DEFAULT", "DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL")

_SEVERITY_KEYS: Final = ("severity", "level", "levelname")
_MESSAGE_KEYS: Final = ("message", "msg")
_JSON_LENGTH_MAX: Final = 1 << 16
_BRACKETS_MAX: Final = 200
#: Messages of gRPC may have 100 levels; each nested object takes three of them.
_DEPTH_MAX: Final = 30
#: The most digits of a number: every such number fits a double.
_DIGITS_MAX: Final = 300
_PREFIX_LENGTH_MAX: Final = 200
_WORDS_AFTER_TIME: Final = 4

_WORD: Final = "(" + "|".join(sorted(WORDS, key=len, reverse=True)) + ")"
_TIME = r"\[?\d{4}[-/]\d\d[-/]\d\d[T ]\d\d:\d\d:\d\d(?:[.,]\d+)?(?:Z|[+-]\d\d:?\d\d)?\]?"

#: torchrun and PyTorch put ``[rank0]:`` in front of a rank's lines.
_RANK = re.compile(r"\[(?:rank)?\d+\]: ?")

#: Prefixes of lines with their severity; if it is empty, the first group names the severity.
_PREFIXES: Final = tuple(
    (re.compile(pattern), severity)
    for pattern, severity in (
        (rf"\[?{_WORD}\b(?:\]|:|\s|$)", ""),
        (r"\[?([DIWEF])\d{4} \d\d:\d\d:\d", ""),  # glog, absl
        (r"\[([IWEF]) \S+:\d+\]", ""),  # PyTorch's C++ side
        (rf"{_TIME}:? ([DIWEF])[ \]/]", ""),  # TensorFlow's
        (r"(?:fatal )?(error|warning): ", ""),
        (r"\S+:\d+: \w*Warning: ", "WARNING"),  # Python's warnings
        (r"Fatal Python error: |Segmentation fault\b|Aborted \(core dumped\)", "CRITICAL"),
        (r"[A-Za-z_][\w.]*(?:Error|Exception|Interrupt)(?::|$)", "ERROR"),
    )
)

#: JSON can contain unpaired surrogates, other encodings cannot.
_SURROGATE = re.compile(r"\\u[dD][89a-fA-F]")
_AT_TIME = re.compile(_TIME)
_SEPARATORS = re.compile(r"[\s\[\]:,|]+(?:-\s+)?")
_TRACEBACK = re.compile(r"\s*(?:\+ )?(?:Exception Group )?Traceback \(most recent call last\):")


#: The characters that may precede a match, once a newline is before each line.
_BEGIN: Final = r"\n[^\S\n]*(?:\[(?:rank)?\d+\]: ?)?[^\S\n]*"
#: The beginnings of all prefixes: it matches every line with a severity, and others too.
_MAY_SAY: Final = re.compile(
    rf"{_BEGIN}(?=[{{+\[\dDIWEFTNSCAPfew])(?:\{{|(?:\+ )?(?:Exception Group )?Traceback|\[?{_WORD}|"
    r"\[?[DIWEF]\d{4} |\[[IWEF] |"
    r"\[?\d{4}[-/]|(?:fatal )?(?:error|warning): |Fatal Python|Segmentation f|Aborted \()"
)
#: Words in lines that have a severity but that ``_MAY_SAY`` does not match.
_RARE: Final = ("Error", "Exception", "Interrupt", "Warning: ")


class SeverityReader:
    """Reads one stream of one replica; a traceback stays an ERROR until its last line."""

    __slots__ = ("_in_traceback",)

    def __init__(self) -> None:
        """Start outside of any traceback."""
        self._in_traceback = False

    def are_plain(self, texts: str) -> bool:
        """Whether all of the next lines, joined by newlines, are INFO; False: some may not be.

        For many lines at once this is ten times faster than a check of each.
        """
        if self._in_traceback or any(word in texts for word in _RARE):
            return False
        return _MAY_SAY.search(f"\n{texts}") is None

    def of(self, text: str) -> str:
        """Return the severity of the next line."""
        rank = _RANK.match(text)
        body = text[rank.end() :] if rank else text
        if _TRACEBACK.match(body):
            self._in_traceback = True
            return "ERROR"
        if self._in_traceback and (not body or body[0].isspace()):
            return "ERROR"
        may_end, self._in_traceback = self._in_traceback, False
        return severity_of(body) or ("ERROR" if may_end and _names_exception(body) else "INFO")


def severity_of(text: str) -> str | None:
    """Return the severity that the line itself gives; None if it gives none."""
    if text.startswith("{"):
        return _structured(text)
    start = text[:_PREFIX_LENGTH_MAX].lstrip()
    for pattern, severity in _PREFIXES:
        if match := pattern.match(start):
            return severity or _MARKS[match[1]]
    return _after_time(start)


def _after_time(start: str) -> str | None:
    """Find a level after the time, behind a few names: ``- trainer.data - INFO -``."""
    time = _AT_TIME.match(start)
    if time is None:
        return None
    words = (word for word in _SEPARATORS.split(start[time.end() :]) if word)
    return next((WORDS[w] for w in islice(words, _WORDS_AFTER_TIME) if w in WORDS), None)


def payload_of(text: str) -> dict[str, Any] | None:
    """Return the object of a structured line, with ``message`` set; None for a line of text."""
    payload = _object(text)
    message = None if payload is None else _first(payload, _MESSAGE_KEYS)
    if payload is None or not isinstance(message, str):
        return None
    return {**payload, "message": message}


def _structured(text: str) -> str | None:
    payload = _object(text)
    level = None if payload is None else _first(payload, _SEVERITY_KEYS)
    if isinstance(level, str):
        return WORDS.get(level.upper())
    if isinstance(level, int) and not isinstance(level, bool):
        return _LEVELS[max(0, min(level // 10, len(_LEVELS) - 1))]
    return None


def _object(text: str) -> dict[str, Any] | None:
    """Return a line's object if clients can get it both as JSON and by gRPC."""
    if not (text.startswith("{") and len(text) <= _JSON_LENGTH_MAX):
        return None
    brackets = text.count("{") + text.count("[")
    if brackets > _BRACKETS_MAX or _SURROGATE.search(text):
        return None
    try:
        value = json.loads(text, parse_constant=_refuse, parse_float=_finite, parse_int=_whole)
    except ValueError:
        return None
    is_deep = brackets > _DEPTH_MAX and _depth(value) > _DEPTH_MAX
    return value if isinstance(value, dict) and not is_deep else None


def _depth(value: Any) -> int:
    """Count the objects and lists around the innermost value."""
    if not isinstance(value, (dict, list)):
        return 0
    items = value.values() if isinstance(value, dict) else value
    return 1 + max(map(_depth, items), default=0)


def _first(payload: Mapping[str, Any], keys: tuple[str, ...]) -> Any:
    return next((payload[key] for key in keys if key in payload), None)


def _names_exception(text: str) -> bool:
    """Whether a line names the exception of a traceback: ``pkg.Failed: why`` or ``Stopped``."""
    name, _, _ = text.partition(":")
    return all(part.isidentifier() for part in name.strip().split("."))


def _finite(number: str) -> float:
    parsed = float(number)
    return parsed if math.isfinite(parsed) else _refuse(number)


def _whole(number: str) -> int:
    return int(number) if len(number) <= _DIGITS_MAX else _refuse(number)


def _refuse(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is not JSON")
