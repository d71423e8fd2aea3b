"""Submit: J6 a refused text is repaired and submitted, J7 a waiting job starts by its change."""

import contextlib
import io
import json
import re
from itertools import pairwise

import pytest
import yaml
from playwright.sync_api import expect

from console.browser import Visitor, take_picture
from console.documents import refused_cases, simulated_job, trainer_job
from e2e.support import PROJECT, native, submit
from trainshed.cli.main import main

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]

#: How to make a job for an engine, the number of jobs of four GPUs that leave two free, and the end
#: of the names of pictures; those without one are the guide's.
ENGINES = {"simulated": (simulated_job, 7, ""), "local": (trainer_job, 1, "-local")}
#: A local run sends nothing over a network, so the server ignores what Google's sizing wants.
IGNORED_RULE = "reducer-bandwidth"
CASES = refused_cases()
TEXTS_THAT_ARE_NO_JOB = {
    "a tab": ("jobSpec:\n\tworkerPoolSpecs: []\n", "indented with a tab"),
    "a list": ("- a\n- b\n", "must be a mapping"),
    "an unknown field": ("jobSpec: {workerPoolSpecs: []}\nmore: 1\n", "more"),
    "10,000 lines": ("displayName: long\n" + "# line\n" * 10_000 + "jobSpec: 1\n", "line 10002"),
    "a billion laughs": (
        "a: &a [x, x, x, x, x, x, x, x, x]\n"
        + "".join(f"{b}: &{b} [{', '.join(9 * ['*' + a])}]\n" for a, b in pairwise("abcdefghi"))
        + "jobSpec: *i\n",
        re.compile("alias|anchor"),
    ),
    "a long name": (yaml.safe_dump(simulated_job("n" * 4096)), "at most 128"),
    "a label of markup": (
        yaml.safe_dump(simulated_job("labelled", labels={"team": "<img src=x>"})),
        "The label team=<img src=x> is malformed",
    ),
    "a label that is a formula": (
        yaml.safe_dump(simulated_job("labelled", labels={"=1+1": "x"})),
        "The label =1+1=x is malformed",
    ),
    "a long label": (
        yaml.safe_dump(simulated_job("labelled", labels={"team": "v" * 4096})),
        "at most 64 lower-case letters",
    ),
}


@pytest.fixture(scope="module")
def editor(simulated, chromium):
    """Submit, open for all texts of this file: a page for each would take most of the time."""
    visitor = Visitor(chromium, simulated.url).sign_in(simulated.token)
    page = visitor.open("/console/submit")
    page.get_by_role("main").get_by_label("project", exact=True).fill(PROJECT)
    yield page
    visitor.check()
    visitor.close()


def paste(page, text):
    """Put a text into the editor as a user does: from the clipboard, over all that is there."""
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    page.evaluate("text => navigator.clipboard.writeText(text)", text)
    page.get_by_label("Text of the job").click()
    page.keyboard.press("Control+A")
    page.keyboard.press("Control+V")


def problems(page):
    return page.get_by_role("region", name="Problems").get_by_role("listitem")


def check_text(page, text, change):
    """Return the server's check of a text, to which ``change`` changes the page."""

    def is_its_check(response):
        request = response.request
        return request.url.endswith("jobs:check") and request.post_data_json["text"] == text

    with page.expect_response(is_its_check) as checking:
        change()
    return checking.value.json()


def test_a_refused_text_is_repaired_by_the_offered_edit_and_submitted(server, engine_name, visit):
    make_job, _, suffix = ENGINES[engine_name]
    text = yaml.safe_dump(make_job("refused", "runs=0", gpus=3), sort_keys=False)
    line = text.splitlines().index("      acceleratorCount: 3") + 1
    page = visit(server).open("/console/submit")
    page.get_by_role("main").get_by_label("project", exact=True).fill(PROJECT)
    paste(page, text)
    expect(problems(page)).to_have_count(1)
    expect(problems(page).first).to_contain_text(f"line {line}")
    expect(problems(page).first).to_contain_text(re.compile("Accepted:.*2.*4"))
    expect(page.get_by_role("button", name="Submit", exact=True)).to_be_disabled()
    take_picture(page, f"submit-refused{suffix}")
    problems(page).first.get_by_role("button", name=re.compile("2|4")).first.click()
    expect(problems(page)).to_have_count(0)
    expect(page.get_by_text("It would start now.", exact=True)).to_be_visible()
    take_picture(page, f"submit{suffix}")
    page.get_by_role("button", name="Submit", exact=True).click()
    expect(page).to_have_url(re.compile(f"/console/jobs/{PROJECT}/"))
    expect(page.get_by_role("heading", name=re.compile("refused"))).to_be_visible()
    expect(page.locator(".job-title .state")).to_contain_text("SUCCEEDED")


@pytest.mark.full
@pytest.mark.parametrize("name", TEXTS_THAT_ARE_NO_JOB)
def test_a_text_that_is_no_job_gets_a_sentence_in_place(editor, name):
    text, words = TEXTS_THAT_ARE_NO_JOB[name]
    check_text(editor, text, lambda: paste(editor, text))
    expect(problems(editor).filter(has_text=words).first).to_be_visible()
    take_picture(editor, f"submit-{name.replace(' ', '-')}")
    expect(editor.get_by_role("button", name="Submit", exact=True)).to_be_disabled()


@pytest.mark.full
@pytest.mark.parametrize("case", CASES)
def test_a_refused_case_of_the_catalog_has_its_problems_at_their_lines(editor, tmp_path, case):
    """J6: the same verdict as the command line, a mark at each line, and edits that repair."""
    location, document = CASES[case]
    text = yaml.safe_dump(document, sort_keys=False)
    answer = check_text(editor, text, lambda: paste(editor, text))
    field = editor.get_by_label("location", exact=True)
    if location and field.input_value() != location:
        answer = check_text(editor, text, lambda: field.fill(location))
    violations = sorted(answer["violations"], key=lambda v: (v.get("line", 0), v.get("column", 0)))
    assert [(v["rule"], v["field"]) for v in violations] == judge_in_terminal(
        tmp_path / "job.yaml", text, location
    )
    expect(problems(editor)).to_have_count(len(violations))
    for item, violation in zip(problems(editor).all(), violations, strict=True):
        expect(item).to_contain_text(f"Accepted: {violation['accepted']}")
        check_place(editor, item, violation, text)
    repair(editor, answer)


def judge_in_terminal(path, text, location):
    """Return (rule, field) of what ``trainshed validate`` refuses, as the server names fields."""
    path.write_text(text)
    region = ["--region", location] if location else []
    with contextlib.redirect_stdout(io.StringIO()) as out:
        main(["validate", str(path), "--format", "json", *region])
    [answer] = json.loads(out.getvalue())
    named = [(v["rule"], v["field"].replace("--region", "location")) for v in answer["violations"]]
    return [(rule, field) for rule, field in named if rule != IGNORED_RULE]


def check_place(page, item, violation, text):
    """Check that a problem stands, and is marked, at the line that has its field."""
    if "line" not in violation:
        expect(item.locator("b")).to_have_text(violation["field"])
        return
    item.get_by_role("button", name=f"line {violation['line']}", exact=True).click()
    active = page.locator(".cm-activeLine")
    expect(active).to_have_text(text.splitlines()[violation["line"] - 1])
    expect(active.locator(".cm-lintRange, .cm-lintPoint").first).to_be_attached()


def repair(page, answer):
    """Use offered edits until none is offered; a text of which each had one is then a job."""
    is_repairable = all("edit" in violation for violation in answer["violations"])
    while any("edit" in violation for violation in answer["violations"]):
        button = problems(page).get_by_role("button", name=re.compile("^(Use|Rename)")).first
        count = len(answer["violations"])
        with page.expect_response(re.compile("jobs:check$")) as checking:
            button.click()
        answer = checking.value.json()
        assert len(answer["violations"]) < count
        expect(problems(page)).to_have_count(len(answer["violations"]))
    assert answer["valid"] == is_repairable


def test_a_waiting_job_starts_by_the_offered_change(server, engine_name, visit):
    """J7: the queue says why, Try it opens Submit with the change, and the new job runs."""
    make_job, count, suffix = ENGINES[engine_name]
    holders = [submit(server, make_job(f"holder-{n}", gpus=4)) for n in range(count)]
    for name in holders:
        server.wait_for(f"/v1/{name}", {"JOB_STATE_RUNNING"})
    waiting = submit(server, make_job("too-big", "runs=0", gpus=4))
    page = visit(server).open("/console/?q=too-big")
    page.get_by_role("button", name="why", exact=True).click()
    panel = page.locator(".why-panel")
    expect(panel).to_contain_text("CAPACITY")
    expect(panel.locator(".change")).to_be_visible()
    take_picture(page, f"why-try-it{suffix}")
    panel.get_by_role("link", name="Try it").click()
    expect(page.get_by_text("It would start now.", exact=True)).to_be_visible()
    expect(page.get_by_text(re.compile("^The text of too-big with a change"))).to_be_visible()
    expect(page.locator(".cm-activeLine")).to_have_text(re.compile("replicaCount|acceleratorCount"))
    take_picture(page, f"submit-change{suffix}")
    page.get_by_role("button", name="Submit", exact=True).click()
    expect(page).to_have_url(re.compile(f"/console/jobs/{PROJECT}/"))
    changed = page.url.rpartition("/")[2].partition("?")[0]
    path = f"projects/{PROJECT}/locations/us-central1/customJobs/{changed}"
    server.wait_for(f"/v1/{path}", {"JOB_STATE_SUCCEEDED"})
    assert native(server, waiting)["state"] == "QUEUED"
    for name in (*holders, waiting):
        server.call("POST", f"/v1/{name}:cancel", {})


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
    paste(page, yaml.safe_dump(simulated_job("sent-again", "runs=0", gpus=2)))
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
    expect(page.get_by_role("heading", level=1)).to_contain_text("sent-again")
    take_picture(page, "submitted")
    jobs = simulated.call("GET", f"/trainshed/v1/projects/{PROJECT}/jobs?q=sent-again")[1]["jobs"]
    assert len(jobs) == 1
