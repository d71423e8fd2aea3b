"""The queue: J1 the first visit, J2 filter, sort, select and cancel, and what other users see."""

import re

import pytest
from playwright.sync_api import expect

from console.browser import take_picture
from console.documents import simulated_job, trainer_job
from e2e.support import native, submit

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300), pytest.mark.usefixtures("jobs")]

RUNNING, WAITING = 24, 4
#: More elements than rows fit the window would be a table that is not virtual.
ROW_ELEMENTS_MAX = 60


@pytest.fixture(scope="module")
def jobs(simulated):
    """24 jobs that run and 4 that wait, by display name."""
    jobs = {}
    for number in range(RUNNING):
        name = f"resnet-{number:02}"
        jobs[name] = submit(simulated, simulated_job(name, labels={"team": "vision"}))
    for number in range(WAITING):
        name = f"bert-{number:02}"
        jobs[name] = submit(simulated, simulated_job(name, gpus=4, workers=1))
    for name in list(jobs)[:RUNNING]:
        simulated.wait_for(f"/v1/{jobs[name]}", {"JOB_STATE_RUNNING"})
    yield jobs
    for name in jobs.values():
        simulated.call("POST", f"/v1/{name}:cancel", {})


def rows(page):
    return (
        page.get_by_role("grid", name="Jobs")
        .get_by_role("row")
        .filter(has=page.get_by_role("gridcell"))
    )


def row_of(page, name):
    return rows(page).filter(has=page.get_by_role("link", name=name, exact=True))


def test_the_first_visit_shows_all_open_jobs_and_why_they_wait(simulated, visit, jobs):
    page = visit(simulated).open()
    expect(page.get_by_text(f"{len(jobs)} rows")).to_be_visible()
    assert 0 < rows(page).count() <= ROW_ELEMENTS_MAX
    counts = page.get_by_role("group", name="Open jobs by state")
    expect(counts.get_by_role("button", name=re.compile(r"RUNNING \d+"))).to_be_visible()
    waiting = rows(page).filter(has_text="QUEUED").first
    expect(waiting).to_contain_text(re.compile("before it|in use"))
    take_picture(page, "queue")
    first = row_of(page, "bert-00")  # which waits for nodes, the others wait for it
    first.get_by_role("button", name="why", exact=True).click()
    panel = page.locator(".why-panel")
    expect(panel).to_contain_text("Reason CAPACITY")
    expect(panel).to_contain_text("Created")
    expect(panel.get_by_role("link", name=re.compile("^[a-z]"))).not_to_have_count(0)
    take_picture(page, "queue-why")


def test_a_filter_and_an_order_are_in_the_address(simulated, visit, jobs):
    page = visit(simulated).open()
    page.get_by_label("Part of a name or id").fill("resnet-1")
    expect(page.get_by_text("10 rows")).to_be_visible()
    grid = page.get_by_role("grid", name="Jobs")
    grid.get_by_role("button", name="Name").click()
    expect(rows(page).first).to_contain_text("resnet-10")
    grid.get_by_role("button", name="Name").click()
    expect(rows(page).first).to_contain_text("resnet-19")
    expect(page).to_have_url(re.compile(r"q=resnet-1.*sort=-name|sort=-name.*q=resnet-1"))
    page.reload()
    expect(page.get_by_text("10 rows")).to_be_visible()
    expect(rows(page).first).to_contain_text("resnet-19")
    page.get_by_label("Label, as key or key:value").fill("team:nobody")
    page.get_by_label("Label, as key or key:value").press("Enter")
    expect(page.get_by_text("No open job matches the filter.")).to_be_visible()
    page.get_by_role("button", name="Clear the filter").click()
    expect(page.get_by_text(f"{len(jobs)} rows")).to_be_visible()


def test_selected_jobs_are_cancelled_and_leave_the_table(server, visit):
    names = [f"doomed-{number}" for number in range(5)]
    doomed = [submit(server, trainer_job(name, gpus=0)) for name in names]
    page = visit(server).open("/console/?q=doomed")
    expect(page.get_by_text("5 rows")).to_be_visible()
    expect(rows(page).filter(has_text="RUNNING")).to_have_count(5)
    page.get_by_label("Select doomed-0", exact=True).click()
    page.get_by_label("Select doomed-3", exact=True).click(modifiers=["Shift"])
    page.get_by_role("button", name="Cancel 4…").click()
    dialog = page.get_by_role("dialog", name="Cancel 4 jobs?")
    expect(dialog).to_contain_text("cannot be continued")
    take_picture(page, "queue-cancel")
    dialog.get_by_role("button", name="Cancel 4 jobs").click()
    expect(page.get_by_text("4 jobs will be cancelled.")).to_be_visible()
    page.mouse.move(5, 5)  # rows keep their places while the pointer is over them
    expect(page.get_by_text("1 row", exact=True)).to_be_visible()
    states = [native(server, name)["state"] for name in doomed]
    assert states.count("CANCELLED") + states.count("CANCELLING") == 4
    server.call("POST", f"/v1/{doomed[4]}:cancel", {})
    expect(page.get_by_text("No open job matches the filter.")).to_be_visible()
    page.get_by_role("button", name="Search ended jobs too").click()
    page.get_by_label("Select doomed-0", exact=True).click()
    expect(page.get_by_text("1 selected")).to_be_visible()
    expect(page.get_by_role("button", name=re.compile("^Cancel "))).to_have_count(0)


def test_a_new_job_appears_without_a_reload(simulated, visit, jobs):
    page = visit(simulated).open()
    expect(page.get_by_text(f"{len(jobs)} rows")).to_be_visible()
    expect(page.get_by_text("live")).to_be_visible()
    name = submit(simulated, simulated_job("newcomer", gpus=0))
    expect(row_of(page, "newcomer")).to_be_visible()
    expect(row_of(page, "newcomer")).to_contain_text("RUNNING")
    rows(page).nth(3).hover()  # rows keep their places under the pointer
    simulated.call("POST", f"/v1/{name}:cancel", {})
    expect(row_of(page, "newcomer")).to_contain_text("CANCELLED")
    page.get_by_role("button", name="1 change").click()
    expect(row_of(page, "newcomer")).to_have_count(0)


@pytest.mark.full
def test_an_empty_table_under_the_pointer_takes_new_jobs(simulated, visit):
    page = visit(simulated).open()
    expect(page.get_by_text("live")).to_be_visible()
    rows(page).nth(3).hover()
    page.keyboard.press("/")
    page.keyboard.type("awaited")
    expect(page.get_by_text("No open job matches the filter.")).to_be_visible()
    name = submit(simulated, simulated_job("awaited", gpus=0))
    expect(row_of(page, "awaited")).to_be_visible()
    simulated.call("POST", f"/v1/{name}:cancel", {})


@pytest.mark.full
def test_rows_that_change_do_not_reset_a_field(simulated, visit):
    page = visit(simulated).open()
    field = page.get_by_label("Label, as key or key:value")
    field.press_sequentially("team:vi")
    name = submit(simulated, simulated_job("meanwhile", gpus=0))
    expect(row_of(page, "meanwhile")).to_be_visible()
    field.press_sequentially("sion")
    field.press("Enter")
    expect(page.get_by_text(f"{RUNNING} rows")).to_be_visible()
    simulated.call("POST", f"/v1/{name}:cancel", {})


@pytest.mark.full
def test_two_tabs_that_cancel_one_job_both_get_an_answer(server, visit):
    name = submit(server, trainer_job("contested", gpus=0))
    visitor = visit(server)
    tabs = [visitor.open("/console/?q=contested") for _ in range(2)]
    for page in tabs:
        page.get_by_label("Select contested", exact=True).click()
        page.get_by_role("button", name="Cancel 1…").click()
    for page in tabs:
        page.get_by_role("dialog").get_by_role("button", name="Cancel 1 job").click()
        expect(
            page.get_by_text(re.compile("1 job will be cancelled|1 job not cancelled"))
        ).to_be_visible()
    server.wait_for(f"/v1/{name}", {"JOB_STATE_CANCELLED"})


@pytest.mark.full
def test_a_viewer_sees_the_project_s_jobs_and_cannot_cancel(simulated, visit, jobs, token):
    text = token("viewer")
    page = visit(simulated, token=text).open()
    expect(page.get_by_text(f"{len(jobs)} rows")).to_be_visible()
    page.get_by_label("Select resnet-23", exact=True).click()
    expect(page.get_by_text("1 selected")).to_be_visible()
    expect(page.get_by_role("button", name=re.compile("^Cancel"))).to_have_count(0)
    stranger = visit(simulated, token=token("viewer", "other-proj")).open()
    expect(stranger.get_by_text("Nothing waits and nothing runs.")).to_be_visible()
    take_picture(stranger, "queue-empty")


@pytest.mark.full
def test_the_job_of_another_project_is_as_one_that_is_not_there(simulated, visit, jobs, token):
    visitor = visit(simulated, token=token("viewer", "other-proj"))
    uid = jobs["resnet-00"].rpartition("/")[2]
    texts = []
    for job in (uid, "0" * len(uid)):
        page = visitor.open(f"/console/jobs/demo-proj/{job}")
        alert = page.get_by_role("alert").first
        expect(alert).to_be_visible()
        texts.append(alert.inner_text().replace(job, "JOB"))
    assert texts[0] == texts[1]
