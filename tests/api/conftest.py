"""Everything that the tests of the edge log can be read, whoever set up logging before."""

import logging

import pytest


@pytest.fixture(autouse=True)
def _log_is_heard(monkeypatch, caplog):
    monkeypatch.setattr(logging.getLogger("trainshed"), "propagate", True)
    caplog.set_level(logging.DEBUG, logger="trainshed")
