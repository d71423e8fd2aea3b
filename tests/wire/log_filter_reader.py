"""A second reader of the Logging query language, and filters written in all ways.

It evaluates trees on documents and shares no code with the product.
"""

import json
import re

from hypothesis import strategies as st

from trainshed.model.log_line import SEVERITIES, LogLine
from trainshed.wire.logging_v2.log_entry import LogEntry
from trainshed.wire.times import nanoseconds, timestamp

NIGHT = nanoseconds("2026-11-21T00:00:00Z")


def entry_of(line, project="demo-proj", job_id="j_run"):
    return LogEntry(line, 7, 1, project=project, job_id=job_id)


WORDS = ["loss", "Loss", "ERROR", "0.5", "3", "a b", "é", "x/y", '"q"', "back\\slash", "true", ""]
KEYS = ["message", "step", "deep", "k.x"]
TASKS = ["master-replica-0", "worker-replica-1", "service"]
JSON = st.recursive(
    st.sampled_from([*WORDS, "LOSS at 3", 3, 0.5, True, False, None]),
    lambda inner: (
        st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from(KEYS), inner, max_size=2)
    ),
    max_leaves=4,
)
TEXTS = st.one_of(
    st.lists(st.sampled_from(WORDS), max_size=3).map(" ".join),
    st.builds(
        lambda message, more, is_ascii: json.dumps(
            {"message": message, **more}, ensure_ascii=is_ascii
        ),
        st.sampled_from(WORDS),
        st.dictionaries(st.sampled_from(KEYS[1:]), JSON, max_size=3),
        st.booleans(),
    ),
)
LINES = st.builds(
    LogLine,
    stamp_ns=st.integers(0, 3).map(lambda n: NIGHT + n),
    task_name=st.sampled_from(TASKS),
    text=TEXTS,
    severity=st.sampled_from(SEVERITIES),
    trial=st.sampled_from(["", "1", "3"]),
)
ORDERED = ["=", "!=", "<", "<=", ">", ">="]
RANKED = [
    "DEFAULT",
    "DEBUG",
    "INFO",
    "NOTICE",
    "WARNING",
    "ERROR",
    "CRITICAL",
    "ALERT",
    "EMERGENCY",
]
PATHS = st.one_of(
    st.lists(st.sampled_from(KEYS), min_size=1, max_size=2).map(
        lambda keys: ("jsonPayload", *keys)
    ),
    st.sampled_from(
        [
            ("resource", "labels", "task_name"),
            ("resource", "labels", "job_id"),
            ("resource", "type"),
            ("labels", "ml.googleapis.com/trial_id"),
            ("logName",),
        ]
    ),
)
VALUES = st.sampled_from([*WORDS, "NULL_VALUE", "j_run", "worker-replica-1", "ml_job", "1"])
STAMPS = st.integers(0, 3).map(lambda n: timestamp(NIGHT + n))
COMPARISONS = st.one_of(
    st.tuples(st.just("word"), st.sampled_from([*WORDS, "ml_job", "worker", "demo-proj", "a/b"])),
    st.tuples(st.just("is"), PATHS, st.sampled_from([*ORDERED, ":"]), VALUES),
    st.tuples(st.just("exists"), PATHS),
    st.tuples(st.just("severity"), st.sampled_from(ORDERED), st.sampled_from(RANKED)),
    st.tuples(st.just("time"), st.sampled_from(ORDERED), STAMPS),
)
TREES = st.recursive(
    COMPARISONS,
    lambda inner: st.one_of(
        st.tuples(st.just("not"), inner),
        st.tuples(st.just("and"), st.lists(inner, min_size=2, max_size=3)),
        st.tuples(st.just("or"), st.lists(inner, min_size=2, max_size=3)),
    ),
    max_leaves=6,
)


def is_true(tree, document):  # noqa: PLR0911 - one for each kind of tree
    """What the language means, from its documentation alone, on the document that clients get."""
    kind, *rest = tree
    match kind, rest:
        case "not", [item]:
            return not is_true(item, document)
        case "and", [items]:
            return all(is_true(item, document) for item in items)
        case "or", [items]:
            return any(is_true(item, document) for item in items)
        case "word", [text]:
            places = ("logName", "severity", "resource", "labels", "jsonPayload")
            values = [document[place] for place in places if place in document]
            return any(has(leaf, text) for value in values for leaf in leaves(value))
        case "exists", [path]:
            return any(value not in (None, {}) for value in below(document, path))
        case "severity", [sign, name]:
            return holds(sign, RANKED.index(document["severity"]), RANKED.index(name))
        case "time", [sign, stamp]:
            return holds(sign, document["timestamp"], stamp)
        case "is", [path, sign, text]:
            is_name = path[-1] == "job_id"
            return any(compare(value, sign, text, is_name) for value in below(document, path))
    raise AssertionError(tree)


def holds(sign, one, other):
    signs = {"=": one == other, "!=": one != other}
    return signs[sign] if sign in signs else eval_order(sign, one, other)


def eval_order(sign, one, other):
    return {"<": one < other, "<=": one <= other, ">": one > other, ">=": one >= other}[sign]


def below(document, path):
    values = [document]
    for key in path:
        flat = [
            leaf for value in values for leaf in (value if isinstance(value, list) else [value])
        ]
        while any(isinstance(value, list) for value in flat):
            flat = [x for value in flat for x in (value if isinstance(value, list) else [value])]
        values = [value[key] for value in flat if isinstance(value, dict) and key in value]
    while any(isinstance(value, list) for value in values):
        values = [x for value in values for x in (value if isinstance(value, list) else [value])]
    return values


def leaves(value):
    if isinstance(value, dict):
        return [leaf for item in value.values() for leaf in leaves(item)]
    if isinstance(value, list):
        return [leaf for item in value for leaf in leaves(item)]
    return [value]


def number(text):
    try:
        return float(text)
    except ValueError:
        return None


def has(value, text):
    if isinstance(value, str):
        return text.lower() in value.lower()
    if isinstance(value, dict):
        return any(key.lower() == text.lower() or has(item, text) for key, item in value.items())
    if isinstance(value, list):
        return any(has(item, text) for item in value)
    return same(value, text)


def same(value, text):
    if isinstance(value, str):
        return value.lower() == text.lower()
    if value is None:
        return text.upper() == "NULL_VALUE"
    if isinstance(value, bool):
        return text.lower() == ("true" if value else "false")
    return isinstance(value, int | float) and number(text) == value


def compare(value, sign, text, is_name):
    if is_name:
        return text in value if sign == ":" else holds(sign, value, text)
    if sign == ":":
        return has(value, text)
    if sign in ("=", "!="):
        return same(value, text) is (sign == "=")
    if isinstance(value, str):
        return eval_order(sign, value.lower(), text.lower())
    if isinstance(value, bool) or not isinstance(value, int | float) or number(text) is None:
        return False
    return eval_order(sign, value, number(text))


def write(tree, draw):  # noqa: PLR0911 - one for each kind of tree
    """A tree as a person may type it: all blanks, quotes, signs and needless parentheses."""
    blank = lambda: draw(st.sampled_from([" ", "  ", "\n", " -- why\n "]))  # noqa: E731
    kind, *rest = tree
    match kind, rest:
        case "not", [item]:
            inner = write(item, draw)
            inner = f"({inner})" if item[0] in ("and", "or", "not") else inner
            return draw(
                st.sampled_from([f"NOT {inner}", f"NOT({inner})", f"-{inner}", f"-({inner})"])
            )
        case "and", [items]:
            first, *parts = [enclosed(item, ("and",), draw) for item in items]
            joins = [draw(st.sampled_from([blank(), f"{blank()}AND{blank()}"])) for _ in parts]
            return first + "".join(map("".join, zip(joins, parts, strict=True)))
        case "or", [items]:
            parts = [enclosed(item, ("and", "or"), draw) for item in items]
            return f"{blank()}OR{blank()}".join(parts)
        case "word", [text]:
            return value_text(text, draw, is_bare=re.fullmatch(r"[A-Za-z0-9/._]+", text))
        case "exists", [path]:
            return f"{path_text(path, draw)}:*"
        case "severity", [sign, name]:
            return f"severity{draw(st.sampled_from(['', ' ']))}{sign}{name}"
        case "time", [sign, stamp]:
            return f'timestamp{sign}"{stamp}"'
        case "is", [path, sign, text]:
            space = draw(st.sampled_from(["", " "]))
            value = value_text(text, draw, is_bare=re.fullmatch(r"[\w./-]+", text))
            return f"{path_text(path, draw)}{space}{sign}{space}{value}"
    raise AssertionError(tree)


def enclosed(item, kinds, draw):
    written = write(item, draw)
    return f"({written})" if item[0] in kinds or draw(st.booleans()) else written


def path_text(path, draw):
    return ".".join(
        part
        if re.fullmatch(r"\w+", part) and draw(st.booleans())
        else json.dumps(part)
        if n
        else part
        for n, part in enumerate(path)
    )


def value_text(text, draw, *, is_bare):
    if is_bare and text not in ("AND", "OR", "NOT") and draw(st.booleans()):
        return text
    quote = draw(st.sampled_from(['"', "'"]))
    return quote + text.replace("\\", "\\\\").replace(quote, f"\\{quote}") + quote
