"""Makes all log records of the API tests readable, also if other tests set up logging before."""

import logging

import pytest


@pytest.fixture(autouse=True)
def _log_is_heard(monkeypatch, caplog):
    monkeypatch.setattr(logging.getLogger("trainshed"), "propagate", True)
    caplog.set_level(logging.DEBUG, logger="trainshed")
