"""The messages of ListLogEntries, which are declared by hand, have Google's numbers and types."""

import json
import subprocess
from pathlib import Path

import pytest
from google.protobuf.json_format import ParseDict

from trainshed.model.log_line import LogLine
from trainshed.wire.descriptors import message_class
from trainshed.wire.logging_v2.log_entry import LogEntry

LOGGING_PYTHON = Path(__file__).parents[2] / ".venv-gs/bin/python"
NAMES = ("ListLogEntriesRequest", "ListLogEntriesResponse", "LogEntry", "MonitoredResource")
CODE = """
import json
from google.cloud.logging_v2 import types
found = {}
for name in ("ListLogEntriesRequest", "ListLogEntriesResponse", "LogEntry"):
    found[name] = getattr(types, name).pb().DESCRIPTOR
found["MonitoredResource"] = found["LogEntry"].fields_by_name["resource"].message_type
print(json.dumps({
    name: {field.name: [field.number, field.type] for field in message.fields}
    for name, message in found.items()
}))
"""


def test_the_declared_fields_are_those_of_google():
    if not LOGGING_PYTHON.exists():
        pytest.skip(".venv-gs is not installed; make test installs it")
    done = subprocess.run(
        [LOGGING_PYTHON, "-W", "ignore", "-c", CODE], capture_output=True, text=True, check=True
    )
    google = json.loads(done.stdout)
    google["ListLogEntriesRequest"]["project_ids"] = [1, 9]  # deprecated, and gone from clients
    for name in NAMES:
        ours = message_class(f"google.logging.v2.{name}").DESCRIPTOR
        for field in ours.fields:
            assert google[name][field.name] == [field.number, field.type], (name, field.name)


@pytest.mark.parametrize(
    "value",
    [
        "1" + "0" * 400,
        "-" + "9" * 309,
        "[" * 60 + "]" * 60,
        '{"a":' * 60 + "1" + "}" * 60,
        '{"a":' * 29 + "9" * 300 + "}" * 29,
    ],
)
def test_every_line_that_a_job_can_print_fits_into_a_message(value):
    """Numbers are doubles there, and messages are at most 100 deep."""
    line = LogLine(1, "master-replica-0", f'{{"message": "m", "value": {value}}}', "INFO")
    entry = LogEntry(line, 1, 1, project="p", job_id="j").render()
    response = message_class("google.logging.v2.ListLogEntriesResponse")
    sent = ParseDict({"entries": [entry]}, response()).SerializeToString()
    assert response.FromString(sent).entries[0].json_payload["message"] in ("m", line.text)
