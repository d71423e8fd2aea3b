"""The Logging query language: documented filters, refusals and bounds."""

import contextlib
import json
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trainshed.model.log_line import LogLine
from trainshed.model.refusals import Code, Refusal
from trainshed.model.texts import install_command
from trainshed.wire.filter_text import DEPTH_MAX, TERMS_MAX
from trainshed.wire.logging_v2 import narrowing, regular_expressions
from trainshed.wire.logging_v2.log_filter import EXPRESSIONS_MAX, LENGTH_MAX, read_log_filter
from wire.log_filter_reader import NIGHT, entry_of

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
        ('timestamp=~"2026"', 1, "do not compare times"),
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


@pytest.mark.parametrize(
    ("operator", "stamps"),
    [
        ("=", (10**9, 10**9 + 1)),
        (">=", (10**9, None)),
        (">", (10**9 + 1, None)),
        ("<", (0, 10**9)),
        ("<=", (0, 10**9 + 1)),
        ("!=", (0, None)),
    ],
)
def test_a_comparison_of_times_narrows_the_log_to_its_stamps(operator, stamps):
    tree = read_log_filter(f'timestamp{operator}"1970-01-01T00:00:01Z"').tree
    stamp_range = narrowing.time_range(tree)
    assert (stamp_range.from_ns, stamp_range.before_ns) == stamps


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


PIECES = [
    *"()=:!<>~\".'* -\\,", "AND ", "OR ", "NOT ", "severity", "timestamp", "labels.k", "ERROR",
    '"2026-11-21"', "SEARCH(", "sample(insertId,", "=~", "0.5", "jsonPayload.a", "--", "\n",
]  # fmt: skip


@given(st.text(max_size=40) | st.lists(st.sampled_from(PIECES), max_size=20).map("".join))
def test_any_text_is_read_or_refused(text):
    with contextlib.suppress(Refusal):
        assert read_log_filter(text).matches(entry_of(PLAIN)) in (True, False)
        narrowing.time_range(read_log_filter(text).tree)
