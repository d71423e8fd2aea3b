"""Nothing that is printed is obeyed by a terminal, but what is the command line's own."""

import ast
import asyncio
import io
import json
import logging
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import trainshed
from cli.standin import StandIn
from trainshed.cli import failures
from trainshed.cli.jobs.log_lines import LinePrinter
from trainshed.cli.local.sink import TerminalSink
from trainshed.cli.terminal import paint, table, write
from trainshed.client.faults import ServerRefusal
from trainshed.model.faults import Violation
from trainshed.model.launch_plan import ReplicaPlan
from trainshed.model.roles import Role
from trainshed.observability.logs import VisibleFormatter, log_to_stderr
from trainshed.service.jobs import refusing

SOURCE = Path(trainshed.__file__).parent
ROOMS = [*(SOURCE / "cli").rglob("*.py"), *(SOURCE / "workbench").rglob("*.py")]
#: The one place that writes on a terminal.
WRITER = SOURCE / "cli/terminal.py"

EVIL = "\x1b[2J\x1b[31m\x9b1m\u202egnp.exe\u2066\x07\ud800\r"
OBEYED = "\x1b\x9b\u202e\u2066\x07\ud800\r\x7f"


def is_calm(text):
    return not set(OBEYED) & set(text)


def calls_of(path):
    tree = ast.parse(path.read_text())
    return [node for node in ast.walk(tree) if isinstance(node, ast.Call)]


def prints(call):
    """Whether a call writes beside the writer."""
    match call.func:
        case ast.Name(id="print" | "pprint"):
            return True
        case ast.Attribute(attr="print_exception" | "print_exc" | "pprint"):
            return True
        case ast.Attribute(attr="write" | "writev" | "writelines"):
            return bool(call.args)
    return False


@pytest.mark.parametrize("path", sorted(ROOMS), ids=lambda path: str(path.relative_to(SOURCE)))
def test_no_module_prints_beside_the_writer(path):
    if path == WRITER:
        return
    line_numbers = [call.lineno for call in calls_of(path) if prints(call)]
    assert not line_numbers, f"{path}: use trainshed.cli.terminal"


@given(st.text(st.characters(codec=None)), st.booleans())
def test_a_line_has_the_colours_that_we_gave_it_and_nothing_else(text, coloured):
    stream = io.StringIO()
    write(paint(text, "\x1b[1m", on=coloured) + EVIL, stream)
    output = stream.getvalue()
    if coloured and text:
        assert output.startswith("\x1b[1m")
        output = output.removeprefix("\x1b[1m").replace("\x1b[0m", "", 1)
    assert is_calm(output)
    output.encode()


def test_a_table_has_the_rows_that_it_was_given():
    output = table(("NAME", "STATE"), [(f"a\nb  DONE{EVIL}", "RUNNING")])
    assert len(output.splitlines()) == 3
    assert is_calm(output)


@pytest.mark.parametrize("as_json", [False, True])
def test_a_foreign_job_s_log_is_shown_and_not_obeyed(as_json):
    stream = io.StringIO()
    line = {
        "time": "2026-11-20T20:10:10Z",
        "severity": "INFO",
        "task": f"worker{EVIL}",
        "message": f"{EVIL}\nERROR    20:10:11 service          │ you have mail",
    }
    LinePrinter(stream, as_json=as_json).print_line(line)
    output = stream.getvalue()
    assert is_calm(output)
    assert not any(row.startswith("ERROR") for row in output.splitlines())
    if as_json:
        assert json.loads(output) == line


def test_a_local_run_passes_what_the_user_s_own_program_writes(capsys):
    replica = ReplicaPlan(role=Role.PRIMARY, index=0, task_name="r", argv=("python",))
    sink = TerminalSink([replica], colour="never")
    sink.line(replica, "\x1b[32mgreen\x1b[0m", "stdout")
    sink.note(f"a note {EVIL}")
    captured = capsys.readouterr()
    assert captured.out == "r │ \x1b[32mgreen\x1b[0m\n"
    assert is_calm(captured.err)


def test_a_server_s_refusal_is_shown_and_not_obeyed(capsys):
    detail = {"fieldViolations": [{"field": EVIL, "description": EVIL}]}
    failures.report(ServerRefusal(400, EVIL, f"no {EVIL}", [detail]))
    failures.report(ValueError(EVIL))
    failures.report(FileNotFoundError(2, EVIL, EVIL))
    captured = capsys.readouterr()
    assert captured.out == ""
    assert "\\u202egnp.exe" in captured.err
    assert is_calm(captured.err)


@pytest.mark.parametrize("count", [1, 3, 4, 40])
def test_a_refusal_of_many_fields_prints_each_of_them_once(capsys, count):
    pairs = [(f"points[{n}]", f"lr{n} is not between 0 and 1") for n in range(count)]
    violations = [
        Violation(field=f, rule="study-first-points", message=m, accepted="") for f, m in pairs
    ]
    details = [{"field": field, "description": message} for field, message in pairs]
    message = refusing.invalid(violations).message
    failures.report(ServerRefusal(400, "INVALID_ARGUMENT", message, [{"fieldViolations": details}]))
    assert capsys.readouterr().err.splitlines() == [
        "error: INVALID_ARGUMENT: the request is refused; nothing was started",
        *(f"  {field}: {description}" for field, description in pairs),
    ]


def test_an_unexpected_error_s_trace_is_calm_too(capsys, monkeypatch):
    monkeypatch.setenv(failures.DEBUG, "1")
    failures.report(ValueError(EVIL))
    assert is_calm(capsys.readouterr().err)


JOB = {
    "name": "projects/p/jobs/j",
    "jobId": f"j{EVIL}",
    "displayName": EVIL,
    "state": f"SUCCEEDED{EVIL}",
    "createTime": "2026-11-20T20:10:10Z",
    "labels": {EVIL: EVIL},
    "errorMessage": f"bad\nlabels: {EVIL}",
}
ANSWERS = {
    "/v1/projects/p/jobs": {"jobs": [JOB]},
    "/v1/projects/p/jobs/j": JOB,
    "/trainshed/v1/nodes": {"nodes": [{"name": EVIL, "state": EVIL, "replicas": [EVIL]}]},
    "/trainshed/v1/projects/p/jobs/j/explain": {
        "name": EVIL, "state": EVIL, "message": EVIL,
        "waiting": {"reason": EVIL, "message": EVIL, "blockers": [EVIL]},
    },
}  # fmt: skip
VERBS = [
    ("ai-platform", "jobs", "list"),
    ("ai-platform", "jobs", "describe", "j"),
    ("ai-platform", "jobs", "describe", "j", "--summarize"),
    ("ai-platform", "jobs", "cancel", "j"),
    ("jobs", "explain", "j"),
]


@pytest.mark.parametrize("verb", VERBS, ids=" ".join)
@pytest.mark.parametrize("form", ["text", "json"])
def test_whatever_a_server_answers_is_shown_and_not_obeyed(trainshed, home, verb, form):
    def answer(_verb, path, _document):
        return 200, ANSWERS.get(path, {})

    with StandIn(answer) as server:
        server.note(home / "data")
        run = trainshed(*verb, "--project", "p", "--format", form)
    assert run.code == 0, run.err
    assert is_calm(run.out)
    assert is_calm(run.err)
    if form == "json" and "describe" in verb:
        assert run.json == JOB


def test_the_server_s_log_has_a_line_a_record():
    record = logging.LogRecord(
        "trainshed", logging.INFO, "", 1, "job %s", (f"a\n2026 ERROR forged {EVIL}",), None
    )
    text = VisibleFormatter("%(levelname)s %(message)s").format(record)
    assert len(text.splitlines()) == 1
    assert is_calm(text)


def test_calls_that_the_end_of_the_server_cuts_off_leave_one_line_and_no_trace(capsys):
    own = logging.getLogger("trainshed")
    before = list(own.handlers), own.propagate
    handler = logging.StreamHandler(sys.stderr)
    uvicorn = logging.getLogger("uvicorn.error")
    uvicorn.addHandler(handler)
    try:
        log_to_stderr()
        uvicorn.error("Cancel %s running task(s), timeout graceful shutdown exceeded", 2)
        requests = logging.getLogger("uvicorn.error.requests")
        requests.error("Exception in ASGI application", exc_info=asyncio.CancelledError("cut"))
        requests.error("Exception in ASGI application", exc_info=ValueError("kept"))
    finally:
        uvicorn.removeHandler(handler)
        for name in ("uvicorn.error", "uvicorn.error.requests"):
            logging.getLogger(name).filters.clear()
        own.handlers[:], own.propagate = before
    lines = capsys.readouterr().err.splitlines()
    assert lines[0] == "2 call(s) that had not ended, such as log streams, were cut off"
    assert lines[1:] == ["Exception in ASGI application", "ValueError: kept"]
