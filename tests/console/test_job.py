"""The page of a job in a real browser: why it waits, orders, why it failed, what replicas got."""

import re

import pytest
from playwright.sync_api import expect

from console.browser import take_picture
from console.documents import simulated_job, trainer_job
from console.test_log import job_path, started
from console.written_logs import WrittenLog
from e2e.support import custom_job, good, native, submit, wait_until

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]


def wait_for_state(server, name, state):
    wait_until(lambda: native(server, name)["state"] == state, lambda: native(server, name))


def state_of(page):
    return page.locator(".job-title .state")


def test_a_waiting_job_says_why_and_starts_when_its_blocker_is_cancelled(simulated, visit):
    blocker = submit(simulated, simulated_job("blocker", gpus=4, workers=6))
    wait_for_state(simulated, blocker, "RUNNING")
    waiting = submit(simulated, simulated_job("waiting", gpus=4))
    visitor = visit(simulated)
    page = visitor.open(job_path(waiting))
    expect(page.get_by_text("CAPACITY")).to_be_visible()
    expect(page.get_by_text("No line yet: the job waits for machines")).to_be_visible()
    take_picture(page, "job-waiting")
    page.get_by_role("link", name="blocker").click()
    expect(page.get_by_role("heading", name="blocker")).to_be_visible()
    page.get_by_role("button", name="Cancel…").click()
    expect(page.get_by_role("dialog")).to_contain_text("A cancelled job cannot be continued.")
    page.get_by_role("button", name="Cancel the job").click()
    expect(state_of(page)).to_contain_text("CANCELLED")
    expect(page.locator(".job-events")).to_contain_text("asked to cancel the job")
    page.go_back()
    expect(state_of(page)).to_contain_text("RUNNING")
    expect(page.get_by_text("CAPACITY")).to_be_hidden()
    page.get_by_role("button", name="Cancel…").click()
    page.keyboard.press("Escape")
    expect(page.get_by_role("dialog")).to_be_hidden()
    assert native(simulated, waiting)["state"] == "RUNNING"
    good(simulated.call("POST", f"/v1/{waiting}:cancel", {}))


def test_a_held_job_is_resumed_by_a_button_beside_the_command(simulated, visit):
    name = submit(simulated, simulated_job("stopped", "scancel"))
    wait_until(lambda: (native(simulated, name).get("waiting") or {}).get("reason") == "HELD")
    page = visit(simulated).open(job_path(name))
    expect(page.get_by_text("trainshed jobs resume").first).to_be_visible()
    page.get_by_role("button", name="Resume").click()
    expect(state_of(page)).to_contain_text("RUNNING")
    expect(page.get_by_role("button", name="Resume")).to_be_hidden()
    good(simulated.call("POST", f"/v1/{name}:cancel", {}))


TRACEBACK = (
    "Traceback (most recent call last):",
    '  File "/app/trainer/task.py", line 88, in train',
    "    raise ValueError('the loss is nan')",
    "ValueError: the loss is nan",
)


def test_a_failed_job_opens_at_its_error(simulated, visit):
    name, uid = started(simulated, "failing", "runs=4", "exit=3")
    log = WrittenLog(simulated, uid)
    log.add([f"step {n}" for n in range(1000)])
    log.add(TRACEBACK, task="workerpool0-0", severity="ERROR")
    log.add([f"shutting down {n}" for n in range(500)], task="workerpool0-0")
    wait_for_state(simulated, name, "FAILED")
    page = visit(simulated).open(job_path(name))
    failure = page.get_by_label("Failure")
    expect(failure).to_contain_text("exited with a non-zero status of 3")
    words = failure.locator("pre").first.locator(".word")
    expect(words).to_have_text([line.strip() for line in TRACEBACK[1:]])
    expect(failure).to_contain_text("shutting down 499")
    expect(page.locator(".line.current .line-text")).to_have_text(TRACEBACK[0])
    expect(page.locator("tr.failed").first).to_contain_text("3")
    take_picture(page, "job-failed")


@pytest.mark.full
def test_a_program_that_fails_shows_its_last_words(local, visit):
    name = submit(local, trainer_job("nan", "runs=0", "exit=1", "lines=400", workers=1))
    wait_for_state(local, name, "FAILED")
    page = visit(local).open(job_path(name))
    failure = page.get_by_label("Failure")
    expect(failure).to_contain_text("exited with a non-zero status of 1")
    expect(failure).to_contain_text("ValueError: the loss is nan")
    expect(page.locator(".line.current .line-text")).to_have_text(
        re.compile("Traceback|ValueError")
    )
    take_picture(page, "job-failed-local")


@pytest.mark.full
def test_a_job_in_the_queue_of_an_engine_says_why_and_since_when(queueing, visit):
    server, _ = queueing
    name = submit(server, custom_job("queued-there"))
    wait_for_state(server, name, "ENQUEUED")
    page = visit(server).open()
    row = page.get_by_role("row").filter(has_text="queued-there")
    expect(row).to_contain_text("ENQUEUED")
    expect(row).to_contain_text("in its engine's queue")
    row.get_by_role("button", name="why", exact=True).click()
    panel = page.locator(".why-panel")
    expect(panel).to_contain_text("Jobs with a higher priority are before it.")
    why = re.compile(r"Reason ENGINE_QUEUE for (\d+ min )?\d+ s, number 7 in the queue")
    expect(panel).to_contain_text(why)
    take_picture(page, "queue-enqueued")
    row.get_by_role("link", name="queued-there").click()
    since = re.compile(r"number 7 in the queue · (\d+ min )?\d+ s")
    expect(page.get_by_role("main")).to_contain_text(since)
    expect(page.get_by_text("Jobs with a higher priority are before it.").first).to_be_visible()
    take_picture(page, "job-enqueued")


@pytest.mark.full
def test_a_viewer_has_no_orders(simulated, visit):
    name, _ = started(simulated, "watched")
    document = {"name": "watcher", "role": "viewer"}
    token = good(simulated.call("POST", "/trainshed/v1/tokens", document))["token"]
    page = visit(simulated, token=token).open(job_path(name))
    expect(page.get_by_role("button", name="Copy as")).to_be_visible()
    for title in ("Cancel…", "Submit again…"):
        expect(page.get_by_text(title)).to_have_count(0)
    page.get_by_role("button", name="More").click()
    expect(page.get_by_role("link", name="Compare with another job")).to_be_visible()
    expect(page.get_by_text("Delete…")).to_have_count(0)


@pytest.mark.full
def test_labels_change_and_an_ended_job_is_deleted(simulated, visit):
    document = simulated_job("<b>named</b>", "runs=0.2", labels={"team": "vision", "old": "1"})
    name = submit(simulated, document)
    wait_for_state(simulated, name, "SUCCEEDED")
    visitor = visit(simulated)
    page = visitor.open(job_path(name))
    expect(page.get_by_role("heading", name="<b>named</b>")).to_be_visible()
    page.get_by_role("button", name="More").click()
    page.get_by_role("button", name="Labels…").click()
    page.get_by_label("One label a line").fill("team=speech")
    page.get_by_role("button", name="Save").click()
    expect(page.locator(".job-label")).to_have_text(["team: speech"])
    expect(page.get_by_role("button", name="More")).to_be_focused()
    other = visitor.open(job_path(name))
    expect(other.locator(".job-label")).to_have_text(["team: speech"])
    page.get_by_role("button", name="More").click()
    page.get_by_role("button", name="Delete…").click()
    page.get_by_role("button", name="Delete the job").click()
    expect(page.get_by_text("The job was deleted.")).to_be_visible()
    other.reload()
    expect(other.get_by_role("alert")).to_contain_text("has no job")
    other.get_by_role("link", name="Search all jobs").click()
    expect(other.get_by_text("No job matches the filter.")).to_be_visible()


@pytest.fixture(scope="module")
def two_jobs(local):
    """Two jobs of two replicas that differ in one argument."""
    names = [submit(local, custom_job(f"run-{n}", f"print({n})", workers=1)) for n in (1, 2)]
    for name in names:
        wait_for_state(local, name, "SUCCEEDED")
    return names


@pytest.mark.full
def test_replicas_environments_stand_side_by_side(local, visit, two_jobs):
    page = visit(local).open(job_path(two_jobs[0], "?tab=environment"))
    table = page.get_by_label("Environment variables")
    rows = table.locator("tbody tr")
    expect(rows.first).to_have_class("differs")
    names = [text.replace("≠", "").strip() for text in rows.locator("th").all_inner_texts()]
    differing = table.locator("tr.differs").count()
    assert "RANK" in names[:differing]
    assert "CLUSTER_SPEC" in names
    assert "MASTER_ADDR" in names[differing:]
    table.get_by_label("only differences").check()
    expect(rows).to_have_count(differing)
    take_picture(page, "job-environment")
    page.get_by_label("beside").select_option("no other")
    expect(table.locator("tr.differs")).to_have_count(0)


@pytest.mark.full
def test_the_spec_is_the_document_to_submit_again(local, visit, two_jobs):
    page = visit(local).open(job_path(two_jobs[0]))
    page.get_by_role("tab", name="Log").focus()
    page.keyboard.press("ArrowLeft")
    expect(page).to_have_url(re.compile("tab=spec"))
    expect(page.locator("pre.job-spec")).to_contain_text("displayName: run-1")
    page.get_by_label("JSON as submitted").check()
    expect(page.locator("pre.job-spec")).to_contain_text('"displayName": "run-1"')


def test_two_jobs_show_what_differs(simulated, visit):
    jobs = [submit(simulated, simulated_job(f"run-{n}", f"runs=0.{n}")) for n in (1, 2)]
    for name in jobs:
        wait_for_state(simulated, name, "SUCCEEDED")
    first, second = ("/".join(job_path(name).split("/")[3:]) for name in jobs)
    page = visit(simulated).open(f"/console/compare?left={first}")
    page.get_by_label("Right").fill("run-2")
    page.keyboard.press("Enter")
    expect(page.get_by_text("Right must be PROJECT/JOB, got run-2")).to_be_visible()
    page.get_by_label("Right").fill(second)
    page.keyboard.press("Enter")
    spec = page.get_by_label("Spec")
    expect(spec.locator("tr.differs").filter(has_text="runs=0.1").first).to_contain_text("runs=0.2")
    expect(spec.locator("tr.differs").filter(has_text="machineType")).to_have_count(0)
    expect(page.get_by_label("Machines")).to_contain_text("no difference")
    take_picture(page, "compare")
    page.get_by_role("button", name="Exchange the sides").click()
    expect(page.locator(".compare-heads a").first).to_have_text("run-2")


@pytest.mark.full
def test_what_is_copied_names_the_job(local, visit, two_jobs):
    visitor = visit(local)
    visitor.context.grant_permissions(["clipboard-read", "clipboard-write"], origin=local.url)
    page = visitor.open(job_path(two_jobs[0]))
    page.get_by_role("button", name="Copy as").click()
    page.get_by_role("button", name="gcloud command").click()
    expect(page.get_by_text("Copied the gcloud command.")).to_be_visible()
    text = page.evaluate("navigator.clipboard.readText()")
    assert f"custom-jobs describe {two_jobs[0].rpartition('/')[2]} --region=us-central1" in text


@pytest.mark.full
def test_a_job_that_is_forgotten_while_open_stays_on_the_page(simulated, visit):
    name = submit(simulated, simulated_job("forgotten", "runs=0.2"))
    wait_for_state(simulated, name, "SUCCEEDED")
    page = visit(simulated).open(job_path(name))
    expect(page.get_by_role("heading", name="forgotten")).to_be_visible()
    project, job = name.split("/")[1], name.rpartition("/")[2]
    good(simulated.call("DELETE", f"/trainshed/v1/projects/{project}/jobs/{job}"))
    page.evaluate("document.dispatchEvent(new Event('visibilitychange'))")  # opens the stream again
    expect(page.get_by_text("does not have this job any more")).to_be_visible()
    expect(page.get_by_role("heading", name="forgotten")).to_be_visible()
