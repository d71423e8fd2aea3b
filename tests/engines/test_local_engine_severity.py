"""How grave a line is, from what real loggers write."""

import json

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from trainshed.model.log_line import SEVERITIES
from trainshed.model.severity import SeverityReader, payload_of

LINES = {
    "step 12 loss=0.1": "INFO",
    "": "INFO",
    "Error rate: 0.1": "INFO",
    "ERROR": "ERROR",
    "ERRORS were found": "INFO",
    "[ERROR] disk": "ERROR",
    "WARNING:tensorflow:slow": "WARNING",
    "ERROR:root:no data": "ERROR",
    "DEBUG - x": "DEBUG",
    "CRITICAL:root:x": "CRITICAL",
    "W1121 12:00:00.123456 140 file.cc:1] slow": "WARNING",
    "E0000 00:00:1721000000.000000 12 cuda_dnn.cc:8310] x": "ERROR",
    "I1121 12:00:00.1 1 a.py:1] y": "INFO",
    "F1121 12:00:00.1 1 a.py:1] y": "CRITICAL",
    "2026-11-21 12:00:00.123456: W tensorflow/core/x.cc:1] y": "WARNING",
    "2026-11-21 12:00:00,123 ERROR no data": "ERROR",
    "2026-11-21 12:00:00,123 - trainer.data - WARNING - slow": "WARNING",
    "2026-11-21T12:00:00Z [ERROR] x": "ERROR",
    "[2026-11-21 12:00:00,123][trainer][WARNING] x": "WARNING",
    "[2026-11-21 12:00:00,123] [INFO] x ERROR": "INFO",
    "2026-11-21 12:00:00 INFO retry after ERROR": "INFO",
    "[rank0]:[W1121 12:00:00.1 ProcessGroupNCCL.cpp:1] x": "WARNING",
    "[rank3]: ValueError: bad": "ERROR",
    "[W socket.cpp:697] x": "WARNING",
    "/a/b.py:12: UserWarning: old": "WARNING",
    "warning: unused": "WARNING",
    "torch.OutOfMemoryError: CUDA out of memory": "ERROR",
    "KeyboardInterrupt": "ERROR",
    "Fatal Python error: Segmentation fault": "CRITICAL",
    '{"severity": "WARNING", "message": "x"}': "WARNING",
    '{"level": "error", "msg": "x"}': "ERROR",
    '{"levelname": "CRITICAL", "message": "x"}': "CRITICAL",
    '{"level": 30, "message": "x"}': "WARNING",
    '{"level": -1e999}': "INFO",
    '{"severity": ["ERROR"]}': "INFO",
    '{"severity": "ERROR"': "INFO",
    '{"a": ' + "[" * 5000: "INFO",
}


@pytest.mark.parametrize(("text", "severity"), LINES.items(), ids=[t[:40] for t in LINES])
def test_a_line_s_severity(text, severity):
    assert SeverityReader().of(text) == severity


def test_a_traceback_is_an_error_to_its_last_line():
    text = """before
Traceback (most recent call last):
  File "a.py", line 1, in <module>
    f()

During handling of the above exception, another exception occurred:

Traceback (most recent call last):
  File "a.py", line 3, in <module>
trainer.NoData: nothing here
after"""
    reader = SeverityReader()
    severities = [reader.of(line) for line in text.splitlines()]
    assert severities == ["INFO", *["ERROR"] * 4, "INFO", "INFO", *["ERROR"] * 3, "INFO"]


@given(st.text(max_size=400) | st.text(alphabet="-:[]| aE0123456789.T", max_size=400))
@example("2026-11-21 12:00:00 " + "-" * 180)
@example("2026-11-21 12:00:00 " + "[a]" * 60)
@example(":" * 200)
def test_any_line_has_a_severity_at_once(text):
    assert SeverityReader().of(text) in SEVERITIES


@given(st.text(max_size=200) | st.dictionaries(st.text(), st.text() | st.floats()).map(json.dumps))
@example('{"message": "\\ud800"}')
@example('{"message": "x", "loss": 1e999}')
@example('{"message": "x", "loss": NaN}')
@example('{"message": "x", "deep": ' + "[" * 900 + "]" * 900 + "}")
def test_what_is_taken_for_a_payload_can_be_written_as_json(text):
    payload = payload_of(text)
    assert payload is None or json.dumps(payload, allow_nan=False, ensure_ascii=False).encode()


def test_a_structured_line_keeps_all_its_fields_and_has_a_message():
    assert payload_of('{"level": "error", "msg": "x", "step": 3}') == {
        "level": "error",
        "msg": "x",
        "step": 3,
        "message": "x",
    }
    assert payload_of('{"step": 3}') is None
