"""Submit: J6 a refused text is repaired and submitted, J7 a waiting job starts by its change."""

import re

import pytest
from playwright.sync_api import expect

from console.browser import take_picture
from console.documents import simulated_job
from e2e.support import IMAGE, PROJECT, native, submit

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]

REFUSED = f"""\
displayName: refused
jobSpec:
  workerPoolSpecs:
  - machineSpec:
      machineType: n1-standard-8
      acceleratorType: NVIDIA_TESLA_T4
      acceleratorCount: 3
    replicaCount: 1
    containerSpec:
      imageUri: {IMAGE}
      command: [python, -m, train]
      args: [runs=0]
"""


def paste(page, text):
    """Put a text into the editor as a user does: from the clipboard, over all that is there."""
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    page.evaluate("text => navigator.clipboard.writeText(text)", text)
    page.get_by_label("Text of the job").click()
    page.keyboard.press("Control+A")
    page.keyboard.press("Control+V")


def problems(page):
    return page.get_by_role("region", name="Problems").get_by_role("listitem")


def test_a_refused_text_is_repaired_by_the_offered_edit_and_submitted(simulated, visit):
    page = visit(simulated).open("/console/submit")
    page.get_by_role("main").get_by_label("project", exact=True).fill(PROJECT)
    paste(page, REFUSED)
    expect(problems(page)).to_have_count(1)
    expect(problems(page).first).to_contain_text("line 7")
    expect(problems(page).first).to_contain_text(re.compile("Accepted:.*2.*4"))
    expect(page.get_by_role("button", name="Submit", exact=True)).to_be_disabled()
    take_picture(page, "submit-refused")
    problems(page).first.get_by_role("button", name=re.compile("2|4")).first.click()
    expect(problems(page)).to_have_count(0)
    expect(page.get_by_text("It would start now.", exact=True)).to_be_visible()
    take_picture(page, "submit")
    page.get_by_role("button", name="Submit", exact=True).click()
    expect(page).to_have_url(re.compile(f"/console/jobs/{PROJECT}/"))
    expect(page.get_by_role("heading", name=re.compile("refused"))).to_be_visible()


@pytest.mark.full
@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("jobSpec:\n\tworkerPoolSpecs: []\n", "indented with a tab"),
        ("a: &a [x, x]\nb: &b [*a, *a]\njobSpec: [*b, *b]\n", re.compile("alias|anchor|jobSpec")),
        ("- a\n- b\n", "must be a mapping"),
        ("jobSpec: {workerPoolSpecs: []}\nmore: 1\n", "more"),
    ],
    ids=["tab", "aliases", "a list", "an unknown field"],
)
def test_a_text_that_is_no_job_gets_a_sentence_in_place(simulated, visit, text, words):
    page = visit(simulated).open("/console/submit")
    page.get_by_role("main").get_by_label("project", exact=True).fill(PROJECT)
    paste(page, text)
    expect(problems(page).filter(has_text=words).first).to_be_visible()
    expect(page.get_by_role("button", name="Submit", exact=True)).to_be_disabled()


def test_a_waiting_job_starts_by_the_offered_change(simulated, visit):
    """J7: the queue says why, Try it opens Submit with the change, and the new job runs."""
    holders = [submit(simulated, simulated_job(f"holder-{n}", gpus=4)) for n in range(7)]
    for name in holders:
        simulated.wait_for(f"/v1/{name}", {"JOB_STATE_RUNNING"})
    waiting = submit(simulated, simulated_job("too-big", "runs=0", gpus=4))
    page = visit(simulated).open("/console/?q=too-big")
    page.get_by_role("button", name="why", exact=True).click()
    panel = page.locator(".why-panel")
    expect(panel).to_contain_text("CAPACITY")
    expect(panel.locator(".change")).to_be_visible()
    take_picture(page, "why-try-it")
    panel.get_by_role("link", name="Try it").click()
    expect(page.get_by_text("It would start now.", exact=True)).to_be_visible()
    expect(page.get_by_text(re.compile("^The text of too-big with a change"))).to_be_visible()
    expect(page.locator(".cm-activeLine")).to_have_text(re.compile("replicaCount|acceleratorCount"))
    take_picture(page, "submit-change")
    page.get_by_role("button", name="Submit", exact=True).click()
    expect(page).to_have_url(re.compile(f"/console/jobs/{PROJECT}/"))
    changed = page.url.rpartition("/")[2].partition("?")[0]
    path = f"projects/{PROJECT}/locations/us-central1/customJobs/{changed}"
    simulated.wait_for(f"/v1/{path}", {"JOB_STATE_SUCCEEDED"})
    assert native(simulated, waiting)["state"] == "QUEUED"
    for name in (*holders, waiting):
        simulated.call("POST", f"/v1/{name}:cancel", {})


@pytest.mark.full
def test_a_server_that_is_away_loses_no_typed_text(visit, killable):
    visitor = visit(killable)
    page = visitor.open("/console/submit")
    page.get_by_role("main").get_by_label("project", exact=True).fill(PROJECT)
    paste(page, "displayName: typed\n")
    expect(problems(page).first).to_be_visible()
    visitor.forgive("ERR_CONNECTION|ERR_INCOMPLETE|ERR_EMPTY")
    killable.stop()
    page.keyboard.type("jobSpec: {}")
    expect(page.get_by_text("The server has not answered for")).to_be_visible()
    take_picture(page, "away")
    expect(page.get_by_label("Text of the job")).to_contain_text("jobSpec: {}")
    killable.start()
    expect(page.get_by_text("The server has not answered for")).to_be_hidden()
    page.reload()
    expect(page.get_by_label("Text of the job")).to_contain_text("jobSpec: {}")


@pytest.mark.full
def test_a_submission_whose_answer_is_lost_is_sent_again_as_the_same_job(simulated, visit):
    visitor = visit(simulated)
    visitor.forgive("ERR_FAILED")
    page = visitor.open("/console/submit")
    page.get_by_role("main").get_by_label("project", exact=True).fill(PROJECT)
    paste(page, REFUSED.replace("refused", "sent-again").replace("Count: 3", "Count: 2"))
    losses = iter(["the first"])

    def lose_first_answer(route):
        if route.request.method == "POST" and next(losses, None):
            route.fetch()
            route.abort()
        else:
            route.continue_()

    page.route("**/projects/*/jobs", lose_first_answer)
    button = page.get_by_role("button", name="Submit", exact=True)
    button.click()
    expect(page.get_by_text("The server does not answer.")).to_be_visible()
    button.click()
    expect(page).to_have_url(re.compile(f"/console/jobs/{PROJECT}/"))
    expect(page.get_by_role("link", name="sent-again")).to_be_visible()
    take_picture(page, "submitted")
    jobs = simulated.call("GET", f"/trainshed/v1/projects/{PROJECT}/jobs?q=sent-again")[1]["jobs"]
    assert len(jobs) == 1
