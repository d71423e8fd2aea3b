"""``trainshed console`` prints a link for one browser, and opens it without showing the code."""

import re
import stat
import webbrowser
from pathlib import Path
from urllib.parse import urlsplit
from urllib.request import url2pathname

import pytest

from cli.standin import StandIn

MADE = {"code": "c0de_-x", "expireTime": "2026-11-29T12:01:00Z"}


def link(trainshed, home, *flags, anonymous=False, refusal=None):
    def answer(verb, path, _document):
        if refusal and path.endswith(":code"):
            return 400, {"error": {"message": refusal, "status": "FAILED_PRECONDITION"}}
        return 200, MADE if verb == "POST" else {"anonymous": anonymous}

    with StandIn(answer) as server:
        server.note(home / "data")
        run = trainshed("console", *flags)
    return run, server


@pytest.fixture
def opened(monkeypatch, tmp_path):
    """What the browser was started with; it is one that there is."""
    urls = []
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    monkeypatch.setattr(webbrowser, "open", lambda url: urls.append(url) or True)
    return urls


def test_the_link_has_the_code_in_its_fragment(trainshed, home):
    run, server = link(trainshed, home)
    assert run.code == 0, run.err
    assert run.out == f"{server.url}/console/#code=c0de_-x\n"
    assert "once, within 60 seconds" in run.err
    assert server.requests[-1][:3] == ("POST", "/trainshed/v1/signin:code", "Bearer tsd_admin")


def test_json_has_the_link_and_its_end(trainshed, home):
    run, server = link(trainshed, home, "--format", "json")
    assert run.json == {
        "url": f"{server.url}/console/#code=c0de_-x",
        "expireTime": MADE["expireTime"],
    }


def test_a_server_that_needs_no_sign_in_needs_no_code(trainshed, home):
    run, server = link(trainshed, home, anonymous=True)
    assert run.out == f"{server.url}/console/\n"
    assert [path for _, path, _, _ in server.requests] == ["/trainshed/v1/signin"]
    assert "60 seconds" not in run.err


def test_a_refusal_is_told_in_the_servers_words(trainshed, home):
    run, _ = link(trainshed, home, refusal="The console of this server is switched off")
    assert (run.code != 0, run.out) == (True, "")
    assert "switched off" in run.err


def test_without_a_server_the_answer_is_what_to_start(trainshed):
    run = trainshed("console")
    assert run.code != 0
    assert "trainshed serve" in run.err


def test_no_other_user_can_read_the_code_from_the_browsers_process(trainshed, home, opened):
    run, server = link(trainshed, home, "--open")
    [address] = opened
    assert "c0de" not in address
    file = Path(url2pathname(urlsplit(address).path))
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    refresh = re.search(r'content="0; url=([^"]+)"', file.read_text())[1]
    assert refresh == f"{server.url}/console/#code=c0de_-x" == run.out.strip()


@pytest.mark.parametrize("folder", ["", "/does/not/exist"])
def test_without_a_folder_of_the_session_a_private_one_is_made(
    trainshed, home, opened, monkeypatch, folder
):
    monkeypatch.setenv("XDG_RUNTIME_DIR", folder)
    link(trainshed, home, "--open")
    file = Path(url2pathname(urlsplit(opened[0]).path))
    assert stat.S_IMODE(file.parent.stat().st_mode) == 0o700
    file.unlink()
    file.parent.rmdir()


@pytest.mark.usefixtures("opened")
def test_without_a_browser_the_link_is_printed_all_the_same(trainshed, home, monkeypatch):
    monkeypatch.setattr(webbrowser, "open", lambda _: False)
    run, server = link(trainshed, home, "--open")
    assert run.code == 0
    assert f"{server.url}/console/#code=" in run.out
    assert "cannot open a browser" in run.err
