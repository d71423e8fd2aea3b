import os
import signal
import uuid
from contextlib import suppress

import pytest

from engines.support import assert_no_survivor, marked_processes


@pytest.fixture
def mark():
    """A name for the processes of one test; what does not end by itself fails the test."""
    name = uuid.uuid4().hex
    yield name
    try:
        assert_no_survivor(name)
    finally:
        for pid in marked_processes(name):
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
