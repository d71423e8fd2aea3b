"""What all pages share: keys, windows of one browser, and the theme."""

import re

import pytest
from playwright.sync_api import expect

from console.browser import wait_on_page
from console.documents import simulated_job
from e2e.support import submit

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300), pytest.mark.usefixtures("names")]

#: More would leave none of a browser's six connections to calls.
STREAMS_MAX = 3


@pytest.fixture(scope="module")
def names(simulated):
    """The full names of a job that runs and of one that waits."""
    running = submit(simulated, simulated_job("runs", gpus=4, workers=5))
    simulated.wait_for(f"/v1/{running}", {"JOB_STATE_RUNNING"})
    return {
        "running": running,
        "waiting": submit(simulated, simulated_job("waits", gpus=4, workers=1)),
    }


def page_of(name):
    parts = name.split("/")
    return f"/console/jobs/{parts[1]}/{parts[-1]}"


def test_keys_open_pages_and_are_listed(simulated, visit, names):
    page = visit(simulated).open()
    grid = page.get_by_role("grid", name="Jobs")
    expect(grid).to_be_visible()
    page.keyboard.press("?")
    dialog = page.get_by_role("dialog", name="Keys")
    expect(dialog).to_contain_text("Go to Nodes")
    page.keyboard.press("Escape")
    page.keyboard.press("g")
    page.keyboard.press("n")
    expect(page).to_have_url(re.compile("/console/nodes$"))
    page.keyboard.press("g")
    page.keyboard.press("q")
    expect(grid).to_be_visible()
    page.keyboard.press("/")
    page.keyboard.type("waits")
    expect(page.get_by_text("1 row", exact=True)).to_be_visible()
    page.get_by_label("Part of a name or id").blur()
    for key in "jx":
        page.keyboard.press(key)
    expect(page.get_by_text("1 selected")).to_be_visible()
    page.keyboard.press("w")
    expect(page.locator(".why-panel")).to_contain_text("Reason")
    page.keyboard.press("Enter")
    expect(page).to_have_url(re.compile(page_of(names["waiting"])))


def test_single_keys_can_be_switched_off(simulated, visit):
    page = visit(simulated).open("/console/settings?tab=browser")
    page.get_by_label("Single keys act").uncheck()
    page.get_by_role("link", name="Queue").click()
    expect(page.get_by_role("grid", name="Jobs")).to_be_visible()
    page.get_by_role("main").focus()
    page.keyboard.press("?")
    page.keyboard.press("g")
    page.keyboard.press("n")
    expect(page.get_by_role("dialog")).to_have_count(0)
    expect(page).to_have_url(re.compile("/console/$"))


def test_the_chosen_theme_stays(simulated, visit):
    visitor = visit(simulated, color_scheme="light")
    page = visitor.open("/console/settings?tab=browser")
    ground = "getComputedStyle(document.body).backgroundColor"
    light = page.evaluate(ground)
    page.get_by_role("main").get_by_label("dark").check()
    dark = page.evaluate(ground)
    assert dark != light
    again = visitor.open("/console/signin")
    expect(again.get_by_role("main")).to_be_visible()
    assert again.evaluate(ground) == dark


def test_nine_windows_of_a_browser_all_work(simulated, visit):
    visitor = visit(simulated)
    windows = [visitor.open() for _ in range(9)]
    for page in windows:
        expect(page.get_by_role("link", name="waits")).to_be_visible()
    live = [page.locator(".connection.live") for page in windows]
    wait_on_page(windows[0], lambda: sum(mark.count() for mark in live) == STREAMS_MAX)
    for page in windows[:STREAMS_MAX]:
        page.close()
    last = windows[-1]
    wait_on_page(last, lambda: sum(mark.count() for mark in live[STREAMS_MAX:]) == STREAMS_MAX)
