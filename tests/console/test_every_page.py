"""Every page and state in both themes: accessible, without a fault, from routes that are public."""

import re

import pytest
from playwright.sync_api import expect

from console.browser import Visitor, find_violations, save_picture
from console.documents import create_study, simulated_job, study
from console.routes import VERBS, find_route
from e2e.support import PROJECT, submit

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]

#: The words of each page's address, and a text that it shows when it is complete.
PAGES = {
    "queue": ("", "rows"),
    "queue-ended": ("?show=ended", "row"),
    "queue-empty": ("?q=nothing-has-this-name", "matches the filter"),
    "job": (f"jobs/{PROJECT}/{{running}}", "Job is running"),
    "job-failed": (f"jobs/{PROJECT}/{{failed}}", "FAILED"),
    "job-waiting": (f"jobs/{PROJECT}/{{waiting}}", "CAPACITY"),
    "job-metrics": (f"jobs/{PROJECT}/{{running}}?tab=metrics", "loss"),
    "job-usage": (f"jobs/{PROJECT}/{{running}}?tab=usage", "GPU memory"),
    "job-goodput": (f"jobs/{PROJECT}/{{running}}?tab=goodput", "Where the time went"),
    "curves": (f"curves?job={PROJECT}/{{running}}&job={PROJECT}/{{failed}}", "loss"),
    "usage": ("usage", "GPU hours"),
    "alerts": ("alerts", "Alerts"),
    "job-environment": (f"jobs/{PROJECT}/{{running}}?tab=environment", "Environment"),
    "job-spec": (f"jobs/{PROJECT}/{{running}}?tab=spec", "workerPoolSpecs"),
    "job-missing": (f"jobs/{PROJECT}/1", "Search all jobs"),
    "compare": (
        f"compare?left={PROJECT}/{{running}}&right={PROJECT}/{{failed}}",
        "Two jobs side by side",
    ),
    "study": (f"studies/{PROJECT}/{{study}}", "trial"),
    "nodes": ("nodes", "4 nodes"),
    "nodes-table": ("nodes?view=table", "4 nodes"),
    "submit": (f"submit?from={PROJECT}/{{running}}", "No problems."),
    "settings": ("settings", "Settings"),
    "missing": ("no-such-page", "There is no such page"),
}
#: What make test looks at.
QUICK = {
    *((name, "light") for name in ("job-metrics", "nodes", "settings")),
    *((name, "dark") for name in ("queue", "study", "submit")),
}


@pytest.fixture(scope="module")
def ids(simulated):
    """The ids of a job that runs, one that failed, one that waits, and of a study that ended."""
    running = submit(simulated, simulated_job("running", "measured=60", gpus=4, workers=5))
    failed = submit(simulated, simulated_job("failed", "runs=0", "exit=3"))
    waiting = submit(simulated, simulated_job("waiting", gpus=4, workers=1))
    ended = create_study(simulated, study("digits", trials=4, parallel=4))
    simulated.wait_for(f"/v1/{running}", {"JOB_STATE_RUNNING"})
    simulated.wait_for(f"/v1/{failed}", {"JOB_STATE_FAILED"})
    simulated.wait_for(f"/v1/{ended}", {"JOB_STATE_SUCCEEDED"})
    names = {"running": running, "failed": failed, "waiting": waiting, "study": ended}
    yield {key: name.rpartition("/")[2] for key, name in names.items()}
    for name in (running, waiting):
        simulated.call("POST", f"/v1/{name}:cancel", {})


@pytest.fixture(scope="module")
def called():
    """The requests of all pages, for the last test."""
    return set()


def open_page(visitor, name, ids, theme="light"):
    address, text = PAGES[name]
    page = visitor.open("/console/" + address.format(**ids), color_scheme=theme)
    expect(page.get_by_text(re.compile(re.escape(text), re.IGNORECASE)).first).to_be_visible()
    expect(page.get_by_text(re.compile("^(Loading|Reading)"))).to_have_count(0)
    return page


@pytest.fixture(scope="module")
def visitor(chromium, simulated):
    """One visitor of all pages: a window of its own for each would take as long as the page."""
    visitor = Visitor(chromium, simulated.url).sign_in(simulated.token)
    yield visitor
    visitor.close()


@pytest.mark.parametrize(
    ("name", "theme"),
    [
        pytest.param(name, theme, marks=() if (name, theme) in QUICK else pytest.mark.full)
        for theme in ("light", "dark")
        for name in PAGES
    ],
)
def test_a_page_is_accessible(visitor, ids, called, name, theme):
    page = open_page(visitor, name, ids, theme)
    save_picture(page, f"page-{name}-{theme}")
    called.update(visitor.requests)
    assert find_violations(page) == []
    page.close()
    visitor.check()


@pytest.mark.full
@pytest.mark.parametrize("theme", ["light", "dark"])
def test_the_sign_in_page_is_accessible(simulated, visit, theme):
    page = visit(simulated, token=None, color_scheme=theme).open()
    expect(page.get_by_label("Token")).to_be_visible()
    assert find_violations(page) == []


@pytest.mark.full
def test_a_narrow_window_and_large_text_need_no_sideways_scrolling(simulated, visit, ids):
    """A phone, and 200 % zoom of a small window: the queue and a job still fit."""
    visitor = visit(simulated)
    for name in ("queue", "job"):
        page = open_page(visitor, name, ids)
        page.set_viewport_size({"width": 390, "height": 800})
        page.wait_for_timeout(200)
        save_picture(page, f"narrow-{name}")
        width = page.evaluate("document.documentElement.scrollWidth")
        assert width <= 390, name


def test_every_call_of_a_page_is_a_documented_route_with_a_command(called):
    """A page shows nothing that no public route and no command gives."""
    if len(called) < 20:
        pytest.skip(
            "the tests of the pages, whose requests it needs, did not run: run the whole folder"
        )
    root = "/trainshed/v1"
    calls = {(method, path.partition("?")[0]) for method, path in called}
    native = {(method, path.removeprefix(root)) for method, path in calls if path.startswith(root)}
    others = {path for _, path in calls if not path.startswith((f"{root}/", "/console/"))}
    assert others == set()
    routes = {call: find_route(*call) for call in native}
    assert {call for call, route in routes.items() if route not in VERBS} == set()
