"""J1 to J7 by the keyboard alone: no step of a journey needs a pointer."""

import json
import re

import pytest
from benchmarks.service.log_files import attempt_log, training_lines, write_log
from playwright.sync_api import expect

from console.browser import take_picture
from console.documents import simulated_job
from e2e.support import PARENT, PROJECT, good, native, submit

pytestmark = [pytest.mark.full, pytest.mark.slow, pytest.mark.timeout(300)]

LINES = 5000
#: Keys come faster than frames: what a key opens must have the focus without a frame.
PRESS_AND_SAY_WHAT_GETS_THE_NEXT_KEY = """
async key => {
  document.body.dispatchEvent(new KeyboardEvent("keydown", {key, bubbles: true, cancelable: true}));
  for (let turn = 0; turn < 20; turn += 1) await null;
  return document.activeElement.id;
}"""


@pytest.fixture(scope="module")
def jobs(simulated):
    """Jobs by name: some run, and one waits that would start with a change."""
    names = ["holder-0", "holder-1", "holder-2", "holder-3", "holder-4", "holder-5", "holder-6"]
    jobs = {name: submit(simulated, simulated_job(name, gpus=4)) for name in names}
    for name in jobs.values():
        simulated.wait_for(f"/v1/{name}", {"JOB_STATE_RUNNING"})
    jobs["waits"] = submit(simulated, simulated_job("waits", "runs=0", gpus=4))
    folder = attempt_log(simulated.data_dir, native(simulated, jobs["holder-0"])["uid"])
    write_log(folder, training_lines(LINES, ("workerpool0-0",)))
    yield jobs
    for name in jobs.values():
        simulated.call("POST", f"/v1/{name}:cancel", {})


@pytest.fixture
def page(simulated, visit, jobs):
    page = visit(simulated).open()
    expect(page.get_by_text(f"{len(jobs)} rows")).to_be_visible()
    return page


def press(page, *keys):
    for key in keys:
        page.keyboard.press(key)


def tab_to(page, locator, key="Tab"):
    """Move the focus to an element, as a user without a pointer does."""
    expect(locator).to_be_visible()
    for _ in range(80):
        if locator.evaluate("element => element === document.activeElement"):
            return
        press(page, key)
    expect(locator).to_be_focused()


def test_signing_in(simulated, visit):
    page = visit(simulated, token=None).open()
    expect(page.get_by_label("Token")).to_be_focused()
    page.keyboard.type(simulated.token)
    press(page, "Enter")
    expect(page.get_by_role("navigation")).to_be_visible()


def test_a_row_is_found_opened_and_left(page):
    press(page, "/")
    page.keyboard.type("holder-0")
    expect(page.get_by_text("1 row", exact=True)).to_be_visible()
    press(page, "Enter", "j", "Enter")
    expect(page.get_by_role("heading", level=1)).to_contain_text("holder-0")
    press(page, "g", "n")
    expect(page.get_by_role("heading", name="Nodes", exact=True)).to_be_visible()
    press(page, "g", "q")
    expect(page.get_by_role("grid", name="Jobs")).to_be_visible()


def test_jobs_are_selected_and_cancelled(simulated, page):
    names = [submit(simulated, simulated_job("doomed", gpus=0)) for _ in range(2)]
    press(page, "/")
    page.keyboard.type("doomed")
    expect(page.get_by_text("2 rows")).to_be_visible()
    tab_to(page, page.get_by_role("grid", name="Jobs"))
    press(page, "j", "x", "j", "x", ".")
    expect(page.get_by_text("2 selected")).to_be_visible()
    expect(page.get_by_role("dialog", name="doomed")).to_be_visible()
    press(page, "Escape")
    tab_to(page, page.get_by_role("button", name="Cancel 2…"), "Shift+Tab")
    press(page, "Enter")
    expect(page.get_by_role("dialog", name="Cancel 2 jobs?")).to_be_visible()
    press(page, "Enter")
    expect(page.get_by_text("2 jobs will be cancelled.")).to_be_visible()
    for name in names:
        simulated.wait_for(f"/v1/{name}", {"JOB_STATE_CANCELLED"})


def test_the_keys_are_listed(page):
    press(page, "?")
    dialog = page.get_by_role("dialog", name="Keys")
    expect(dialog).to_contain_text("Select the row")
    take_picture(page, "keys")
    press(page, "Escape")
    expect(dialog).to_be_hidden()


def test_a_log_is_read_and_searched(simulated, visit, jobs):
    job = jobs["holder-0"].rpartition("/")[2]
    page = visit(simulated).open(f"/console/jobs/{PROJECT}/{job}")
    number = page.get_by_role("log").locator(".line-number")
    expect(number.filter(has_text="5,000")).to_be_visible()
    assert page.evaluate(PRESS_AND_SAY_WHAT_GETS_THE_NEXT_KEY, ":") == "jump-target"
    page.keyboard.type("2500")
    press(page, "Enter")
    expect(number.filter(has_text="2,500")).to_be_visible()
    press(page, "/")
    expect(page.get_by_label("Find in the log")).to_be_focused()
    page.keyboard.type("step 77 ")
    press(page, "Enter")
    expect(page.locator(".line.current mark")).to_have_text("step 77 ")
    press(page, "Escape", "Home")
    expect(page.locator(".log-follow")).to_have_text("○ follow")
    press(page, "f")
    expect(page.locator(".log-follow")).to_have_text("● following")
    expect(number.filter(has_text="5,000")).to_be_visible()


def test_a_refused_text_is_pasted_repaired_and_submitted(simulated, page):
    press(page, "g", "b")
    project = page.get_by_role("main").get_by_label("project", exact=True)
    tab_to(page, project)
    press(page, "ControlOrMeta+A")
    page.keyboard.type(PROJECT)
    tab_to(page, page.get_by_label("Text of the job"), "Shift+Tab")
    page.keyboard.insert_text(json.dumps(simulated_job("by-keys", "runs=0", gpus=3), indent=1))
    problem = page.get_by_role("region", name="Problems").get_by_role("listitem")
    expect(problem).to_have_count(1)
    tab_to(page, problem.get_by_role("button", name=re.compile("^line")))
    press(page, "Enter")
    expect(page.locator(".cm-activeLine")).to_contain_text('"acceleratorCount": 3')
    tab_to(page, problem.get_by_role("button", name=re.compile("^Use")))
    press(page, "Enter")
    submit_button = page.get_by_role("button", name="Submit", exact=True)
    expect(submit_button).to_be_enabled()
    tab_to(page, submit_button)
    press(page, "Enter")
    expect(page.get_by_role("heading", level=1)).to_contain_text("by-keys")
    job = page.url.rpartition("/")[2].partition("?")[0]
    path = f"/trainshed/v1/projects/{PROJECT}/jobs/{job}:cancel"
    assert simulated.call("POST", path, {})[0] == 200
    job = page.url.rpartition("/")[2].partition("?")[0]  # it waits, and tests count open jobs
    good(simulated.call("POST", f"/v1/{PARENT}/customJobs/{job}:cancel", {}))


def test_a_waiting_job_gets_its_change(simulated, page, jobs):
    press(page, "/")
    page.keyboard.type("waits")
    expect(page.get_by_text("1 row", exact=True)).to_be_visible()
    tab_to(page, page.get_by_role("grid", name="Jobs"))
    press(page, "j", "w")
    tab_to(page, page.get_by_role("link", name="Try it"))
    press(page, "Enter")
    submit_button = page.get_by_role("button", name="Submit", exact=True)
    expect(submit_button).to_be_enabled()
    tab_to(page, submit_button)
    press(page, "Enter")
    expect(page).to_have_url(re.compile(f"/console/jobs/{PROJECT}/"))
    assert native(simulated, jobs["waits"])["state"] == "QUEUED"
