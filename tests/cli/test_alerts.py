"""``trainshed alerts`` prints what the server says, with what to do next."""

import pytest

from cli.standin import StandIn

ALERT = {
    "kind": "NODE_LOST",
    "subject": "node-0009",
    "message": "no engine has reported node-0009 for 5 min: check that its machine runs",
    "since": "2026-11-30T10:00:00Z",
    "page": "/console/nodes",
}


@pytest.fixture
def alerts(trainshed, home):
    def run(*words, rows=(ALERT,)):
        with StandIn(lambda *_: (200, {"alerts": list(rows)})) as server:
            server.note(home / "data")
            return trainshed("alerts", *words)

    return run


def test_a_row_has_what_was_measured_and_what_to_do(alerts):
    result = alerts()
    assert result.code == 0, result.err
    _, _, row = result.out.splitlines()
    assert "NODE_LOST" in row
    assert ALERT["message"] in row


def test_no_alert_is_said(alerts):
    result = alerts(rows=())
    assert result.code == 0
    assert "no alert" in result.err
    assert not result.out


def test_json_is_what_the_server_said(alerts):
    assert alerts("--format", "json").json == [ALERT]
