"""What a job did and cost, on its page, in the queue, on the page Usage, and beside other jobs."""

import re

import pytest
from playwright.sync_api import expect

from console.browser import take_picture
from console.documents import create_study, simulated_job, study
from console.test_log import job_path
from e2e.fleet import accounted
from e2e.support import native, submit

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]


@pytest.fixture(scope="module")
def measured(simulated):
    """The names of two jobs that run and have samples of an hour."""
    names = [submit(simulated, simulated_job(f"measured-{n}", "measured=60")) for n in (1, 2)]
    for name in names:
        simulated.wait_for(f"/v1/{name}", {"JOB_STATE_RUNNING"})
    yield names
    for name in names:
        simulated.call("POST", f"/v1/{name}:cancel", {})


def figure(page, name):
    return page.get_by_role("region", name=name, exact=True)


def figures(page):
    return page.locator(".figure h2")


def test_a_job_shows_its_values_its_use_and_where_its_time_went(simulated, visit, measured):
    page = visit(simulated).open(job_path(measured[0], "?tab=metrics"))
    expect(figures(page)).to_have_text(["accuracy", "loss"])
    loss = figure(page, "loss")
    expect(loss.locator("canvas")).to_have_count(1)
    expect(loss.locator(".line-legend")).to_contain_text("0.43085")
    page.get_by_label("smoothing").fill("0.6")
    expect(loss.locator(".line-legend")).to_contain_text("0.44175 (0.43085)")
    expect(page.locator(".job-progress")).to_contain_text("step 1,200 of 5,000 (24 %)")
    take_picture(page, "job-metrics")
    page.get_by_label("Part of a value's name").fill("LOSS")
    expect(figures(page)).to_have_text(["loss"])
    page.get_by_role("tab", name="Usage").click()
    titles = ["GPU use", "GPU memory", "GPU power", "CPU", "Memory", "Writes", "Processes", "Step"]
    expect(figures(page)).to_have_text(titles)
    expect(figure(page, "GPU use")).to_contain_text("mean 90 %, highest 94.5 %")
    expect(page.get_by_text("temperature of GPU-0a1b2c3d was not measured")).to_be_visible()
    take_picture(page, "job-usage")
    page.get_by_role("tab", name="Goodput").click()
    expect(page.get_by_label("Goodput").get_by_text("Where the time went")).to_be_visible()
    take_picture(page, "job-goodput")


@pytest.mark.full
def test_the_page_of_an_ended_job_has_the_figures_of_the_api(simulated, visit):
    name = submit(simulated, simulated_job("counted", "runs=2", gpus=1))
    accounted(simulated, name)
    goodput = native(simulated, name, "/goodput")
    page = visit(simulated).open(job_path(name, "?tab=goodput"))
    expect(page.locator(".goodput-message")).to_have_text(goodput["message"])
    texts = page.locator(".big-figures b").all_inner_texts()
    scheduling, ettr, cost = texts[1], texts[2], texts[4]
    for text, share in ((scheduling, goodput["scheduling"]), (ettr, goodput["ettr"])):
        if share is not None:
            assert float(text.split()[0]) == pytest.approx(100 * share, abs=0.06), texts
    assert float(cost.split()[0]) == pytest.approx(goodput["cost"]["amount"], rel=0.05), texts


@pytest.mark.full
def test_a_curve_is_a_table_too_and_its_axis_is_in_the_address(simulated, visit, measured):
    page = visit(simulated).open(job_path(measured[0], "?tab=metrics&axis=since&smooth=0&log=1"))
    expect(page.get_by_label("Horizontal axis")).to_have_value("since")
    expect(page.get_by_label("log axis")).to_be_checked()
    loss = figure(page, "loss")
    loss.get_by_role("button", name="as table").click()
    expect(loss.get_by_role("gridcell").first).to_have_text("0 s")
    expect(loss.get_by_role("grid")).to_have_attribute("aria-rowcount", "51")
    page.get_by_label("Horizontal axis").select_option("time")
    expect(loss.get_by_role("gridcell").first).to_have_text(re.compile(r"^\d{4}-\d\d-\d\d "))
    expect(page).to_have_url(re.compile("axis=time"))


@pytest.mark.full
def test_a_job_without_values_says_where_they_come_from(simulated, visit):
    name = submit(simulated, simulated_job("silent"))
    simulated.wait_for(f"/v1/{name}", {"JOB_STATE_RUNNING"})
    page = visit(simulated).open(job_path(name, "?tab=metrics"))
    expect(page.get_by_text("The job has written no values yet.")).to_be_visible()
    page.get_by_role("tab", name="Usage").click()
    expect(page.get_by_text("attempt 1 has no samples in this time", exact=False)).to_be_visible()
    simulated.call("POST", f"/v1/{name}:cancel", {})


@pytest.mark.full
def test_a_waiting_job_has_no_figures_and_a_study_names_its_trials(simulated, visit):
    blocker, waiting = (
        submit(simulated, simulated_job(name, gpus=4, workers=6)) for name in ("blocker", "waiting")
    )
    page = visit(simulated).open(job_path(waiting, "?tab=goodput"))
    expect(page.get_by_text("Goodput is not known")).to_be_visible()
    expect(page.get_by_text("the job has held no machine")).to_be_visible()
    page.get_by_role("tab", name="Usage").click()
    expect(page.get_by_text("Nothing has been measured yet.")).to_be_visible()
    for name in (waiting, blocker):
        simulated.call("POST", f"/v1/{name}:cancel", {})
    name = create_study(simulated, study("digits", trials=1, parallel=1))
    page.goto(job_path(name, "?tab=metrics"))
    expect(page.get_by_text("ask for one of its trials")).to_be_visible()
    expect(page.get_by_text("written no values yet")).to_have_count(0)


@pytest.mark.full
def test_curves_of_two_jobs_are_drawn_over_each_other(simulated, visit, measured):
    page = visit(simulated).open()
    for name in ("measured-1", "measured-2"):
        page.get_by_label(f"Select {name}").check()
    page.get_by_role("button", name="Curves").click()
    expect(figures(page)).to_have_text(["accuracy", "loss"])
    legend = figure(page, "loss").locator(".line-legend")
    expect(legend.locator(".line-name")).to_have_text(["measured-2", "measured-1"])
    take_picture(page, "curves")
    first = "/".join(job_path(measured[0]).split("/")[3:])
    page.get_by_role("button", name=f"Remove {first}").click()
    expect(page.get_by_role("list", name="Jobs").get_by_role("listitem")).to_have_count(1)
    expect(legend.locator("li")).to_have_count(1)
    page.get_by_label("Add").fill(first)
    page.keyboard.press("Enter")
    expect(legend.locator(".line-name")).to_have_text(["measured-2", "measured-1"])


@pytest.mark.full
@pytest.mark.usefixtures("measured")
def test_the_queue_shows_the_progress_of_a_running_job(simulated, visit):
    page = visit(simulated).open()
    row = page.get_by_role("row").filter(has_text="measured-1")
    expect(row).to_contain_text("24 %")
    expect(row.get_by_label("Progress")).to_be_visible()


@pytest.mark.full
@pytest.mark.usefixtures("measured")
def test_usage_lists_projects_and_days_and_saves_csv(simulated, visit):
    page = visit(simulated).open("/console/usage")
    expect(page.get_by_text("GPU hours", exact=False).first).to_be_visible()
    page.get_by_label("Rows").select_option("day")
    expect(page).to_have_url(re.compile("by=day"))
    with page.expect_download() as download:
        page.get_by_role("button", name="CSV").click()
    text = download.value.path().read_text()
    assert text.startswith("day,jobs,gpu_seconds_productive,")
    page.get_by_label("Rows").select_option("gpu")
    expect(page).to_have_url(re.compile("by=gpu"))
    expect(page.get_by_role("heading", name="GPU time by GPU")).to_be_visible()
    page.get_by_label("from", exact=True).fill("2020-01-01")
    page.get_by_label("to", exact=True).fill("2020-01-02")
    expect(page.get_by_text("No job held a machine in this period.")).to_be_visible()


def used_gpu(**fields):
    """A row of the report by GPU: two users held one GPU, for most of the time without using it."""
    holders = [("demo-proj", "ada", 7200.0, 5400.0), ("other-proj", "bob", 3600.0, 0.0)]
    names = ("project", "user", "seconds", "idle_s")
    cost = {"amount": 30.0, "currency": "USD", "at_least": False, "lacking": []}
    cost |= {"parts": {"idle": 15.0, "productive": 15.0}, "source": "own prices", "date": None}
    row = {"key": "node-0001/3", "user": "", "jobs": 2, "vcpu_seconds": {}, "energy_j": 7.2e6}
    row |= {"gpu_seconds": {"idle": 5400.0, "productive": 5400.0}, "cost": cost, "other_costs": []}
    row |= {"node": "node-0001", "more_holders": 4}
    row |= {"gpu": {"index": 3, "uuid": "GPU-0a1b2c3d", "type": "NVIDIA_H100_80GB"}}
    return row | {"holders": [dict(zip(names, one, strict=True)) for one in holders]} | fields


@pytest.mark.full
def test_usage_by_gpu_names_its_users_and_what_its_idle_time_cost(simulated, visit):
    visitor = visit(simulated)
    page = visitor.open()
    report = {"by": "gpu", "since": "2026-11-29", "until": "2026-11-29", "left_out": 0}
    report |= {"rows": [used_gpu()], "total": used_gpu(key="total"), "fleet": None}
    page.route("**/trainshed/v1/usage?**", lambda route: route.fulfill(json=report))
    page.goto("/console/nodes")
    page.get_by_role("link", name="idle GPUs of yesterday").click()
    row = page.get_by_role("grid", name="Usage by gpu").get_by_role("row").nth(1)
    expect(row).to_contain_text("node-0001/3 H100 80GB")
    users = row.get_by_text("demo-proj/ada 2 h; other-proj/bob 1 h; and 4 more")
    expect(users).to_have_attribute("title", re.compile(r"^demo-proj/ada 2 h, idle 1\.5 h\n"))
    expect(row).to_contain_text("1.5 h · 15.00 USD")
    with page.expect_download() as download:
        page.get_by_role("button", name="CSV").click()
    assert "node-0001/3,2,GPU-0a1b2c3d,NVIDIA_H100_80GB," in download.value.path().read_text()
    take_picture(page, "usage-by-gpu")
