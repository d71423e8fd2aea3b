"""What all pages share: keys that can be switched off, the theme, windows of one browser."""

import re

import pytest
from playwright.sync_api import expect

from console.browser import wait_on_page
from console.documents import simulated_job
from e2e.support import submit

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]

#: More would leave none of a browser's six connections to calls.
STREAMS_MAX = 3


@pytest.fixture(scope="module", autouse=True)
def job(simulated):
    """A job, so that the queue is not empty."""
    submit(simulated, simulated_job("runs"))


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


@pytest.mark.full
def test_the_path_above_those_of_studies_is_their_list(simulated, visit):
    page = visit(simulated).open("/console/studies")
    expect(page.get_by_role("link", name="Studies")).to_have_attribute("aria-current", "page")
    expect(page.get_by_label("Kind")).to_have_value("TUNING_JOB")


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


@pytest.mark.full
def test_nine_windows_of_a_browser_all_work(simulated, visit):
    visitor = visit(simulated)
    windows = [visitor.open() for _ in range(9)]
    for page in windows:
        expect(page.get_by_role("link", name="runs")).to_be_visible()
    live = [page.locator(".connection.live") for page in windows]
    wait_on_page(windows[0], lambda: sum(mark.count() for mark in live) == STREAMS_MAX)
    for page in windows[:STREAMS_MAX]:
        page.close()
    last = windows[-1]
    wait_on_page(last, lambda: sum(mark.count() for mark in live[STREAMS_MAX:]) == STREAMS_MAX)
