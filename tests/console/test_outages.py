"""A server that is killed, or has no database.

A process beside the server holds its ports after a kill, so connections are accepted, and no
request is answered until the server starts again.
"""

import time
from contextlib import contextmanager

import pytest
from playwright.sync_api import expect

from console.documents import simulated_job
from console.written_logs import WrittenLog
from e2e.support import PROJECT, native, submit

pytestmark = [pytest.mark.full, pytest.mark.slow, pytest.mark.timeout(600)]

NO_ANSWER = "The server has not answered for"
#: A page asks after 5 s whether the server answers, and waits 3 s; more is for a busy machine.
SHOWN_S_MAX = 20
#: What a test causes itself by killing a server.
CAUSED = "ERR_CONNECTION|ERR_INCOMPLETE|ERR_EMPTY|ERR_SOCKET|ERR_ABORTED|ERR_TIMED_OUT"


def job_path(name):
    return f"/console/jobs/{PROJECT}/{name.rpartition('/')[2]}"


def test_a_killed_server_is_away_though_its_port_is_held(killable, visit):
    visitor = visit(killable)
    visitor.forgive(CAUSED)
    page = visitor.open("/console/nodes")
    expect(page.locator(".connection.live")).to_be_visible()
    killable.kill()
    page.get_by_role("link", name="Queue").click()
    expect(page.get_by_text(NO_ANSWER)).to_be_visible(timeout=SHOWN_S_MAX * 1000)
    killable.start()
    expect(page.get_by_text(NO_ANSWER)).to_be_hidden()
    expect(page.locator(".connection.live")).to_be_visible()


def test_a_call_ends_when_the_server_stops_to_answer(killable, visit):
    """The text stays, and the button can be pressed again, before the call's own limit of 30 s."""
    visitor = visit(killable)
    visitor.forgive(CAUSED)
    page = visitor.open("/console/settings?tab=tokens")
    page.get_by_label("Name").fill("typed")
    killable.kill()
    page.get_by_role("button", name="Make a token").click()
    refusal = page.get_by_text("The server does not answer.")
    expect(refusal).to_be_visible(timeout=SHOWN_S_MAX * 1000)
    expect(page.get_by_label("Name")).to_have_value("typed")
    killable.start()
    expect(page.get_by_text(NO_ANSWER)).to_be_hidden()


def test_a_log_is_followed_over_a_killed_server_without_a_gap(killable, visit):
    name = submit(killable, simulated_job("over-a-kill", gpus=0))
    wait = time.monotonic() + 60
    while not native(killable, name)["attempt"]:
        assert time.monotonic() < wait, "the job has no attempt"
        time.sleep(0.05)
    log = WrittenLog(killable, native(killable, name)["uid"])
    log.add([f"tick {n}" for n in range(1, 101)])
    visitor = visit(killable)
    visitor.forgive(CAUSED)
    page = visitor.open(job_path(name))
    expect(last_number(page)).to_have_text("100")
    for end in (180, 330):
        killable.kill()
        log.add([f"tick {n}" for n in range(log.count + 1, end + 1)])
        expect(page.get_by_text(NO_ANSWER)).to_be_visible()
        killable.start()
        expect(last_number(page)).to_have_text(str(end))
        log.add([f"tick {n}" for n in range(log.count + 1, end + 21)])
        expect(last_number(page)).to_have_text(str(end + 20))
    texts = page.locator(".line:not(.service) .line-number").all_inner_texts()
    assert list(map(int, texts)) == list(range(int(texts[0]), 351))


def last_number(page):
    return page.locator(".line:not(.service) .line-number").last


def test_pages_whose_database_is_away_say_so_and_come_back(killable, visit):
    name = submit(killable, simulated_job("kept", gpus=0))
    visitor = visit(killable)
    visitor.forgive("^answer: 503")
    paths = ("/console/", "/console/nodes", job_path(name))
    followed = [visitor.open(path) for path in paths]
    for page in followed:
        expect(page.locator(".connection.live")).to_be_visible()
    form, settings = map(visitor.open, ("/console/submit", "/console/settings?tab=tokens"))
    editor, field = form.get_by_label("Text of the job"), settings.get_by_label("Name")
    expect(editor).to_be_visible()
    field.fill("typed")
    with without_database(killable):
        editor.click()
        form.keyboard.insert_text("displayName: typed")
        settings.get_by_role("button", name="Make a token").click()
        for page in (*followed, form, settings):
            expect(page.locator(".notice", has_text="database").first).to_be_visible()
    for page in (*followed, form, settings):
        expect(page.locator(".frame.away")).to_have_count(0)
    for page in followed:
        expect(page.locator(".connection.live")).to_be_visible()
    expect(editor).to_contain_text("displayName: typed")
    expect(field).to_have_value("typed")
    cancelled = followed[0].get_by_role("link", name="kept")
    killable.call("POST", f"/v1/{name}:cancel", {})
    expect(cancelled).to_have_count(0)


@contextmanager
def without_database(server):
    """Take the server's database away, and bring it back."""
    database = server.data_dir / "trainshed.db"
    aside = database.with_name("aside.db")
    database.rename(aside)
    try:
        yield
    finally:
        aside.rename(database)
