"""What is written down of an interpreter, once for all replicas that run in it."""

import errno
import subprocess
import sys

import pytest

from trainshed.engines.environments.replica_tools import tools_of
from trainshed.model.faults import is_transient


@pytest.mark.parametrize(
    "failure",
    [OSError(errno.ENOMEM, "no memory"), subprocess.CalledProcessError(-9, sys.executable)],
)
def test_an_interpreter_that_could_not_answer_once_is_asked_again(tmp_path, monkeypatch, failure):
    def fail(*_words, **_options):
        raise failure

    with monkeypatch.context() as patch:
        patch.setattr(subprocess, "run", fail)
        with pytest.raises(Exception, match=r"memory|killed") as raised:
            tools_of(sys.executable, tmp_path)
    assert is_transient(raised.value)
    assert tools_of(sys.executable, tmp_path).facts is not None


def test_a_program_that_is_no_python_has_no_overlay(tmp_path):
    assert tools_of("/bin/false", tmp_path).facts is None
    assert tools_of(str(tmp_path / "gone"), tmp_path).facts is None
