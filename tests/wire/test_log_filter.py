"""The Logging query language: what is documented, beside a second reader of it, and refusals."""

import contextlib
import json
import re

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from trainshed.model.extras import install_command
from trainshed.model.log_line import SEVERITIES, LogLine, decode, encode, encode_all
from trainshed.model.refusals import Code, Refusal
from trainshed.wire.filter_text import DEPTH_MAX, TERMS_MAX
from trainshed.wire.logging_v2 import narrowing, regular_expressions
from trainshed.wire.logging_v2.log_entry import LogEntry
from trainshed.wire.logging_v2.log_filter import EXPRESSIONS_MAX, LENGTH_MAX, read_log_filter
from trainshed.wire.times import nanoseconds, timestamp

NIGHT = nanoseconds("2026-11-21T00:00:00Z")
PLAIN = LogLine(NIGHT, "master-replica-0", "Epoch 3: Loss 0.25, accuracy=0.9", "INFO")
WARNING = LogLine(
    NIGHT + 1_500_000_000,
    "worker-replica-1",
    json.dumps(
        {
            "message": "Disk NEARLY full",
            "severity": "WARNING",
            "step": 1200,
            "ok": False,
            "none": None,
            "disk": {"path": "/data/train", "used": 0.93},
            "tags": ["red", "blue"],
            "k8s.io/pod": "p-1",
            "text": "gr\u00fc\u00dfe",
        }
    ),
    "WARNING",
    trial="7",
)


def entry_of(line, project="demo-proj", job_id="j_run"):
    return LogEntry(line, 7, 1, project=project, job_id=job_id)


def passing(text, *lines):
    """Which of some lines pass, by their first letters: P(lain) or W(arning)."""
    matches = read_log_filter(text).matches
    names = {PLAIN: "P", WARNING: "W"}
    return "".join(names[line] for line in lines or (PLAIN, WARNING) if matches(entry_of(line)))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", "PW"),
        ("  -- a comment alone\n", "PW"),
        # severities, by their order and their numbers
        ("severity>=WARNING", "W"),
        ("severity >= warning", "W"),
        ("severity<ERROR", "PW"),
        ("severity=INFO", "P"),
        ("severity!=INFO", "W"),
        ("severity=(ERROR OR WARNING)", "W"),
        ("severity>=400", "W"),
        ("severity>NOTICE", "W"),
        ("severity=NOTICE", ""),
        ("severity=~WARN", "W"),
        # words and phrases anywhere, whatever their case
        ("loss", "P"),
        ("nearly", "W"),
        ('"disk nearly"', "W"),
        ("'disk nearly'", "W"),
        ("loss nearly", ""),
        ("loss OR nearly", "PW"),
        ("-loss", "W"),
        ("NOT loss", "W"),
        ("/data/train", "W"),
        ("0.25", "P"),
        ("1200", "W"),
        ("blue", "W"),
        ("GRÜSSE OR grüße", "W"),
        ("worker-replica", "W"),
        ("ml_job j_run", "PW"),
        ("logs/worker", "W"),
        ("Epoch", "P"),
        ("nothing-of-this", ""),
        # texts of a field
        ("textPayload:LOSS", "P"),
        ("jsonPayload.message:full", "W"),
        ('jsonPayload.message="disk nearly full"', "W"),
        ('jsonPayload.message!="disk nearly full"', "P"),
        ('jsonPayload.message=~"^Disk [A-Z]+"', "W"),
        ('jsonPayload.message!~"^Disk"', "P"),
        ('textPayload=~"(?i)LOSS 0\\.\\d+"', "P"),
        ('textPayload=~"loss"', ""),
        ('jsonPayload.message:("disk" AND "full")', "W"),
        ('jsonPayload.message:("disk" full)', "W"),
        ("jsonPayload.message:(loss OR (disk AND NOT empty))", "PW"),
        ("json_payload.message:full", "W"),
        # numbers, flags, null, lists, what is missing
        ("jsonPayload.step>1000", "W"),
        ("jsonPayload.step=1.2e3", "W"),
        ("jsonPayload.step>=-5", "W"),
        ("jsonPayload.step=(-5 OR 1200)", "W"),
        ("jsonPayload.step<1000", ""),
        ("jsonPayload.disk.used>0.9", "W"),
        ("jsonPayload.ok=false", "W"),
        ("jsonPayload.none=NULL_VALUE", "W"),
        ("jsonPayload.tags=red", "W"),
        ("jsonPayload.tags:ed", "W"),
        ('jsonPayload."k8s.io/pod"=p-1', "W"),
        ("jsonPayload.disk:train", "W"),
        ("jsonPayload:red", "W"),
        ("jsonPayload.step:*", "W"),
        ("NOT jsonPayload.step:*", "P"),
        ("jsonPayload.step!=3", "W"),
        ("NOT jsonPayload.step=3", "PW"),
        ("jsonPayload.none:*", ""),
        ("protoPayload.serviceName:ml", ""),
        ("httpRequest.status>=500", ""),
        ('trace=""', "PW"),
        ("trace:*", ""),
        # resources, labels, names
        ("resource.type=ml_job", "PW"),
        ('resource.type="gce_instance"', ""),
        ('(resource.type="ml_job" OR resource.type="cloudml_job")', "PW"),
        ('resource.labels.job_id="j_run"', "PW"),
        ('resource.labels.job_id="J_RUN"', ""),
        ("resource.labels.job_id:run", "PW"),
        ('resource.labels.task_name="worker-replica-1"', "W"),
        ('(resource.labels.task_name="worker-replica-1" OR labels.task_name="T")', "W"),
        ("resource.labels.project_id=demo-proj", "PW"),
        ("resource.labels.zone=a", ""),
        ('labels."ml.googleapis.com/trial_id"=7', "W"),
        ("labels.ml.googleapis.com/trial_id=7", "W"),
        ('labels."ml.googleapis.com/endpoint":*', ""),
        ("labels:*", "W"),
        ("logName=projects/demo-proj/logs/worker-replica-1", "W"),
        ('logName:"master"', "P"),
        ('log_id("worker-replica-1")', "W"),
        ('insertId>"017952192000"', "PW"),
        # times
        ('timestamp>"2026-11-21T00:00:01Z"', "W"),
        ('timestamp>="2026-11-21T01:00:00+01:00" timestamp<2026-11-21T00:00:01Z', "P"),
        ('timestamp>="2026-11-21T00:00:01.000000+0000"', "W"),
        ('timestamp>="2026-11-21"', "PW"),
        ('timestamp="2026-11-21T00:00:00Z"', "P"),
        (
            '(timestamp="2026-11-21" AND insertId>I) OR timestamp>"2026-11-21T00:00:00Z"',
            "W",
        ),
        # functions
        ('SEARCH("nearly DISK")', "W"),
        ('SEARCH("near")', ""),
        ('SEARCH(textPayload, "epoch loss")', "P"),
        ('SEARCH("`disk nearly`")', "W"),
        ('SEARCH("`nearly disk`")', ""),
        ("sample(insertId, 1)", "PW"),
        ("sample(insertId, 0)", ""),
        # comments, line ends, parentheses, juxtaposition
        ("severity=INFO -- only these\n AND loss", "P"),
        ("severity=INFO\nloss", "P"),
        ("((loss))", "P"),
        ("NOT(loss)", "W"),
        ("-(loss OR nothing)", "W"),
        # NOT before OR before AND
        ("severity=INFO OR severity=WARNING AND loss", "P"),
        ("loss AND severity=INFO OR severity=WARNING", "P"),
        ("NOT loss OR epoch", "PW"),
    ],
)
def test_a_documented_filter_lets_through_what_it_says(text, expected):
    assert passing(text) == expected


@pytest.mark.parametrize(
    ("text", "at", "accepted"),
    [
        ("thud=1", 1, "a field of a LogEntry (timestamp, severity"),
        ("loss: 3", 1, "or a phrase in quotes"),
        ("textPayload.thud=1", 1, "a field of a LogEntry"),
        ("resource.thud=1", 1, "a field of a LogEntry"),
        ("severity>=LOUD", 11, "a severity: DEFAULT, DEBUG, INFO"),
        ("loss timestamp>yesterday", 16, "a time such as"),
        ('timestamp>"2026-02-31T00:00:00Z"', 11, "a time such as"),
        ('timestamp=~"2026"', 1, "a time has no =~"),
        ("severity>=", 11, "a value"),
        ("severity=(ERROR OR )", 20, "a value"),
        ("(loss", 6, "the ')' of the '(' at character 1"),
        ("loss)", 5, "AND, OR or the end of the filter"),
        ("loss AND", 9, "a field, or a word or phrase"),
        ("AND loss", 1, "a comparison"),
        ('"loss', 1, "a field, or a word or phrase"),
        ('textPayload=~"(a"', 14, "a regular expression of RE2 (missing )"),
        ('textPayload=~"(a)\\1"', 14, "a regular expression of RE2"),
        ('ip_in_net(jsonPayload.ip, "10.0.0.0/8")', 1, 'one of the functions log_id("TASK")'),
        ("cast(jsonPayload.a, INT64)", 1, "one of the functions"),
        ('log_id("a", "b")', 1, "one of the functions"),
        ("sample(insertId, 2)", 1, "one of the functions"),
        ('SEARCH(thud, "a")', 8, "a field of a LogEntry"),
    ],
)
def test_a_bad_filter_is_refused_with_its_position_and_what_is_accepted(text, at, accepted):
    with pytest.raises(Refusal) as caught:
        read_log_filter(text)
    assert caught.value.code is Code.INVALID_ARGUMENT
    assert [v.field for v in caught.value.violations] == ["filter"]
    assert f"at character {at}: must be " in caught.value.message
    assert accepted in caught.value.message


def test_every_part_of_a_filter_has_a_bound():
    for text, match in (
        ("a" * (LENGTH_MAX + 1), "at most 20000 characters, got 20001"),
        ("(" * (DEPTH_MAX + 1) + "a" + ")" * (DEPTH_MAX + 1), "at most 50 deep"),
        ("a " * (TERMS_MAX + 1), f"at most {TERMS_MAX} comparisons"),
        ("textPayload=~a " * (EXPRESSIONS_MAX + 1), f"at most {EXPRESSIONS_MAX} regular"),
        ('textPayload=~"((a{100}){100}){100}"', "a regular expression of RE2"),
    ):
        with pytest.raises(Refusal, match=re.escape(match)):
            read_log_filter(text)


def test_without_re2_a_regular_expression_is_refused_with_the_install_command(monkeypatch):
    def missing(name):
        raise ImportError(name)

    monkeypatch.setattr(regular_expressions, "import_module", missing)
    with pytest.raises(Refusal, match=re.escape(install_command("re2"))) as caught:
        read_log_filter("textPayload=~a")
    assert caught.value.code is Code.FAILED_PRECONDITION
    assert passing("textPayload:loss") == "P"


def test_a_sample_is_the_same_every_time_and_about_as_large_as_it_says():
    lines = [LogLine(NIGHT + n, "t", str(n)) for n in range(2000)]
    matches = read_log_filter("sample(insertId, 0.25)").matches
    chosen = [line for line in lines if matches(entry_of(line))]
    assert 400 < len(chosen) < 600
    assert chosen == [line for line in lines if matches(entry_of(line))]


# ---- a second reader of the language, for trees that are written in all ways ----

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


@settings(max_examples=400)
@given(tree=TREES, line=LINES, data=st.data())
def test_every_tree_means_the_same_to_a_second_reader(tree, line, data):
    text = write(tree, data.draw)
    entry = entry_of(line)
    assert read_log_filter(text).matches(entry) == is_true(tree, entry.render()), text


@settings(max_examples=400)
@given(tree=TREES, line=LINES, data=st.data())
def test_nothing_that_passes_is_skipped(tree, line, data):
    """Readers of files skip jobs, times and lines before they look at an entry."""
    log_filter = read_log_filter(write(tree, data.draw))
    entry = entry_of(line)
    assume(log_filter.matches(entry))
    allowed = narrowing.time_range(log_filter.tree)
    assert allowed.from_ns <= line.stamp_ns < (allowed.before_ns or line.stamp_ns + 1)
    for names, own in (
        (narrowing.job_ids(log_filter.tree), "j_run"),
        (narrowing.task_names(log_filter.tree), line.task_name),
        (narrowing.trial_numbers(log_filter.tree), line.trial),
    ):
        assert names is None or own in names
    same = {"severity": line.severity, "stream": line.stream, "trial": line.trial}
    for stored in (encode(line), encode_all(line.stamp_ns, line.task_name, [line.text], **same)):
        assert decode(stored) == line
        for clause in narrowing.byte_clauses(
            log_filter.tree, project="demo-proj", job_id="j_run", trial=line.trial
        ):
            assert any(text in stored.lower() for text in clause)


PIECES = [
    *"()=:!<>~\".'* -\\,", "AND ", "OR ", "NOT ", "severity", "timestamp", "labels.k", "ERROR",
    '"2026-11-21"', "SEARCH(", "sample(insertId,", "=~", "0.5", "jsonPayload.a", "--", "\n",
]  # fmt: skip


@given(st.text(max_size=40) | st.lists(st.sampled_from(PIECES), max_size=20).map("".join))
def test_any_text_is_read_or_refused(text):
    with contextlib.suppress(Refusal):
        assert read_log_filter(text).matches(entry_of(PLAIN)) in (True, False)
        narrowing.time_range(read_log_filter(text).tree)
