"""The server's log as JSON: one object a line, with what the thread works on, and no secrets."""

import io
import json
import logging

import pytest

from trainshed.model.attempt import AttemptKey
from trainshed.observability.log_fields import (
    FIELDS,
    log_fields,
    reset_log_fields,
    set_log_fields,
    set_traced_installation,
)
from trainshed.observability.logs import JsonFormatter
from trainshed.observability.spans import attempt_parent

EVIL = "\x1b[2J\u202e\ud800\n{"


@pytest.fixture
def log():
    stream = io.StringIO()
    logger = logging.getLogger("trainshed.test")
    logger.setLevel(logging.DEBUG)
    handler = logging.StreamHandler(stream)
    handler.setFormatter(JsonFormatter())
    logger.handlers[:] = [handler]

    def read():
        lines = stream.getvalue().splitlines()
        return [json.loads(line) for line in lines]

    logger.read = read
    logger.stream = stream
    yield logger
    logger.handlers.clear()


def test_a_record_is_one_line_of_ascii():
    """Without a logger: pytest would record EVIL, which no worker of pytest-xdist can send."""
    attributes = {"name": "trainshed.test", "levelname": "WARNING"}
    record = logging.makeLogRecord({**attributes, "msg": "cannot read %s", "args": (EVIL,)})
    line = JsonFormatter().format(record)
    assert line.isascii()
    assert not {"\x1b", "\n"} & {*line}
    document = json.loads(line)
    assert document["message"] == f"cannot read {EVIL}"
    assert (document["level"], document["logger"]) == ("WARNING", "trainshed.test")
    assert len(document["ts"]) == len("2026-11-30T10:53:50.123456789Z")


def test_a_record_has_the_fields_of_what_is_worked_on(log):
    with log_fields(uid=7, attempt=1):
        with log_fields(attempt=2, task="workerpool0-0"):
            log.info("inner")
        log.info("outer")
    log.info("none", extra={"fields": {"method": "GET", "status": 200, "secret": "x"}})
    inner, outer, none = log.read()
    assert (inner["uid"], inner["attempt"], inner["task"]) == (7, 2, "workerpool0-0")
    assert (outer["uid"], outer["attempt"]) == (7, 1)
    assert not {"task", "node"} & outer.keys(), "what has no value is left out"
    assert none.keys() - set(FIELDS) == {"ts", "level", "logger", "message"}


def test_fields_are_computed_only_for_a_record(log):
    calls = []
    token = set_log_fields(lambda: calls.append(1) or {"caller": "dora"})
    log.debug("left out")
    log.setLevel(logging.INFO)
    log.debug("left out")
    assert len(calls) == 1
    reset_log_fields(token)
    log.info("later")
    assert "caller" not in log.read()[-1]


def test_a_record_that_names_an_attempt_has_its_job_and_its_trace(log):
    key = AttemptKey(7, 2)
    log.info("cannot observe the attempt %s", key)
    set_traced_installation(5)
    try:
        log.info("cannot observe the attempt %s", key)
        log.info("answered", extra={"fields": {"uid": 7, "attempt": 2, "trace_id": "of a request"}})
        log.info("a job without an attempt", extra={"fields": {"uid": 7}})
    finally:
        set_traced_installation(None)
    without, traced, request, job = log.read()
    assert (without["uid"], without["attempt"]) == (7, 2)
    assert "trace_id" not in without
    parent = attempt_parent(5, 7, 2)
    ids = (f"{parent.trace_id:032x}", f"{parent.span_id:016x}")
    assert (traced["trace_id"], traced["span_id"]) == ids
    assert request["trace_id"] == "of a request"
    assert "span_id" not in request.keys() | job.keys()


def test_an_exception_is_an_object(log):
    try:
        int("bad")
    except ValueError:
        log.exception("failed")
    error = log.read()[0]["error"]
    assert (error["type"], error["message"]) == (
        "ValueError",
        "invalid literal for int() with base 10: 'bad'",
    )
    assert "Traceback" in error["stack"]
