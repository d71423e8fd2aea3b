"""Readable log records for the API tests, and a browser on a server with the fake engine."""

import logging
from types import SimpleNamespace

import pytest

from api.browsers import HOST, WALL, Browser, make_server
from api.support import serving
from trainshed.service.auth import tokens


@pytest.fixture(autouse=True)
def _log_is_heard(monkeypatch, caplog):
    monkeypatch.setattr(logging.getLogger("trainshed"), "propagate", True)
    caplog.set_level(logging.DEBUG, logger="trainshed")


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    settings = {"allowed_hosts": (HOST,), "allowed_origins": (WALL,)}
    application = make_server(tmp_path_factory.mktemp("server"), **settings)
    with serving(application.http) as port:
        yield SimpleNamespace(application=application, port=port, store=application.store)
    application.stop()


@pytest.fixture
def browser(server):
    browser = Browser(server.port)
    yield browser
    browser.http.close()


@pytest.fixture
def token(server):
    return tokens.create(server.store, {"name": "laptop", "project": "demo", "role": "submitter"})


@pytest.fixture
def signed_in(browser, token):
    assert browser.sign_in(token=token.token).status_code == 200
    return browser


@pytest.fixture
def noted(server):
    """What the audit log has since the test began, as (method, status, caller)."""
    server.application.audit_log.write()
    begun = len(server.store.audit_log(limit=1000))

    def entries():
        server.application.audit_log.write()
        rows = server.store.audit_log(limit=1000)[begun:]
        return [(row.method, row.status, row.caller) for row in rows]

    return entries
