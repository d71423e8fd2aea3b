"""A thread reaches files as another user, or not at all."""

import os
from types import SimpleNamespace

import pytest

from trainshed.files import acting


def test_a_machine_whose_call_for_groups_is_not_known_refuses(monkeypatch):
    """The number of another machine's call left the thread all groups of root."""
    monkeypatch.setattr(acting.os, "uname", lambda: SimpleNamespace(machine="ppc64le"))
    with pytest.raises(PermissionError, match="ppc64le"), acting.acting_as(os.geteuid() + 1):
        pytest.fail("files were reached")
