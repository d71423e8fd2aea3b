"""The reference of telemetry has each span, each attribute and each key of the log."""

import re
from pathlib import Path

import pytest

from trainshed.api.request_records import CHILDREN
from trainshed.observability.log_fields import FIELDS
from trainshed.service.traces.job_spans import NAMES

ROOT = Path(__file__).parents[2]
TEXT = (ROOT / "docs/reference/telemetry.md").read_text().partition("## Traces")[2]
SOURCES = (
    "api/request_records.py",
    "service/traces/job_spans.py",
    "service/traces/job_traces.py",
    "store/writer.py",
)
ATTRIBUTE = re.compile(
    r'"((?:trainshed|http|rpc|url|client|user_agent|error|process|db|host)\.[a-z_.]+)"'
)


def attributes():
    """All names of attributes that the modules of spans write."""
    texts = [(ROOT / "src/trainshed" / source).read_text() for source in SOURCES]
    return sorted({name for text in texts for name in ATTRIBUTE.findall(text)})


def test_the_attributes_are_found_in_the_modules():
    assert {"http.route", "trainshed.job.uid", "db.system.name"} <= set(attributes())
    assert len(attributes()) > 20


@pytest.mark.parametrize("name", [*NAMES, *CHILDREN, *attributes(), *FIELDS])
def test_the_reference_has_the_name(name):
    assert f"`{name}`" in TEXT
