"""What all pages share: keys, windows of one browser, the theme, and the rules of accessibility."""

import json
import re
from pathlib import Path

import pytest
from playwright.sync_api import expect

from console.browser import wait_on_page
from console.documents import create_study, simulated_job, study
from e2e.support import submit

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300), pytest.mark.usefixtures("names")]

AXE = Path(__file__).parents[2] / "console/node_modules/axe-core/axe.min.js"
#: More would leave none of a browser's six connections to calls.
STREAMS_MAX = 3
RULES = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]


@pytest.fixture(scope="module")
def names(simulated):
    """The full names of a job that runs, one that waits, one that failed, and a study."""
    running = submit(simulated, simulated_job("runs", gpus=4, workers=5))
    waiting = submit(simulated, simulated_job("waits", gpus=4, workers=1))
    failed = submit(simulated, simulated_job("failed", "runs=0", "exit=3", gpus=0))
    learned = create_study(simulated, study("learned"))
    simulated.wait_for(f"/v1/{running}", {"JOB_STATE_RUNNING"})
    for name in (failed, learned):
        simulated.wait_for(f"/v1/{name}", {"JOB_STATE_FAILED", "JOB_STATE_SUCCEEDED"})
    return {"running": running, "waiting": waiting, "failed": failed, "study": learned}


def page_of(name, kind="jobs"):
    parts = name.split("/")
    return f"/console/{kind}/{parts[1]}/{parts[-1]}"


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


def findings(page):
    """A line for each finding of axe-core, with the first elements."""
    page.evaluate(AXE.read_text("utf-8"))
    violations = page.evaluate(
        "rules => axe.run(document, {runOnly: rules}).then(result => result.violations)", RULES
    )
    return [
        f"{violation['id']}: {json.dumps([node['target'] for node in violation['nodes'][:3]])}"
        for violation in violations
    ]


@pytest.mark.full
@pytest.mark.parametrize("theme", ["light", "dark"])
def test_axe_finds_nothing(simulated, visit, names, theme):
    if not AXE.exists():
        pytest.skip("axe-core is not installed; make console installs it")
    visitor = visit(simulated, color_scheme=theme)
    pages = {
        "/console/": "grid",
        "/console/?q=no-such-job": "main",
        f"/console/?why={names['waiting'].rpartition('/')[2]}": "grid",
        "/console/settings?tab=tokens": "table",
        "/console/settings?tab=keys": "form",
        "/console/settings?tab=audit": "grid",
        "/console/settings?tab=browser": "main",
        "/console/nodes": "main",
        "/console/nodes?view=table": "main",
        "/console/submit": "textbox",
        "/console/compare": "main",
        page_of(names["study"], "studies"): "main",
        **{page_of(names[kind]): "main" for kind in ("running", "waiting", "failed")},
        f"{page_of(names['running'])}?tab=environment": "main",
        f"{page_of(names['running'])}?tab=spec": "main",
    }
    lines = {}
    for address, role in pages.items():
        page = visitor.open(address)
        expect(page.get_by_role(role).first).to_be_visible()
        expect(page.locator(".loading")).to_have_count(0)
        if problems := findings(page):
            lines[address] = problems
        page.close()
    assert not lines, json.dumps(lines, indent=1)
