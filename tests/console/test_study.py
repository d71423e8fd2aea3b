"""The page of a study: no trial, one, 1,000 and a stopped one, brushing, its tables and links."""

import re

import pytest
from playwright.sync_api import expect

from conftest import FULL
from console import generated_studies
from console.browser import DEADLINE_MS, find_violations, take_picture
from console.conftest import SIMULATED
from console.documents import create_study, study
from e2e.support import PROJECT, ml_job, serving, submit
from trainshed.store.opening import open_store

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]

LARGE = 1000 if FULL else 200
SIZES = {"empty": 0, "single": 1, "large": LARGE}
#: Studies of 80 trials by name.
KINDS = {
    "front": generated_studies.FRONT,
    "limited": generated_studies.LIMITED,
    "three": generated_studies.THREE,
    "rungs": generated_studies.RUNGS,
}


@pytest.fixture(scope="module")
def studied(tmp_path_factory):
    """A server with generated studies of several sizes."""
    folder = tmp_path_factory.mktemp("studied") / "data"
    folder.mkdir()
    store = open_store(f"sqlite:///{folder / 'trainshed.db'}")
    for name, count in SIZES.items():
        generated_studies.add_study(store, PROJECT, name, count)
    for name, kind in KINDS.items():
        generated_studies.add_study(store, PROJECT, name, 80, kind)
    store.close()
    with serving(folder, program=SIMULATED) as server:
        yield server


@pytest.fixture
def opened(studied, visit):
    """``opened(name)`` opens the page of a study."""
    visitor = visit(studied)
    return lambda name, query="": visitor.open(f"/console/studies/{PROJECT}/{name}{query}")


def figure(page, name):
    return page.get_by_role("region", name=name, exact=True)


def rows(page):
    return page.get_by_role("grid", name="Trials")


@pytest.mark.full
def test_a_study_without_trials_says_what_will_come(opened):
    page = opened("empty")
    expect(page.get_by_text("No trial has been made yet.")).to_be_visible()


@pytest.mark.full
def test_one_trial_is_drawn_and_importances_say_what_they_need(opened):
    page = opened("single")
    expect(figure(page, "Importances")).to_contain_text("need 5 finished trials; there are 1")
    expect(figure(page, "History")).to_contain_text("1 trial with a value")
    expect(figure(page, "Parallel coordinates").locator("canvas")).to_have_count(1)


def test_a_large_study_has_a_sentence_for_each_chart(opened):
    page = opened("large")
    expect(figure(page, "History")).to_contain_text(re.compile(r"The best accuracy, 0\.\d+, came"))
    expect(figure(page, "Importances")).to_contain_text("learning_rate")
    expect(figure(page, "Curves")).to_contain_text(re.compile(f"{LARGE:,} curves .* stopped early"))
    expect(figure(page, "Parallel coordinates").locator("canvas")).to_have_count(1)
    expect(rows(page)).to_have_attribute("aria-rowcount", str(LARGE + 1))
    assert page.locator(".table .row").count() < 100
    take_picture(page, "study")
    rows(page).get_by_role("button", name="State").click()
    expect(rows(page).get_by_text("INFEASIBLE").first).to_be_visible()
    expect(rows(page).get_by_text(re.compile("nan|exit code")).first).to_be_visible()


@pytest.mark.full
def test_the_goodput_of_a_large_study_is_read_on_a_click(opened):
    page = opened("large")
    refusal = {"error": {"code": 429, "message": "too many calls", "status": "RESOURCE_EXHAUSTED"}}
    page.route("**/goodput", lambda route: route.fulfill(status=429, json=refusal))
    page.get_by_role("button", name="Goodput and cost of the trials").click()
    expect(page.get_by_role("alert")).to_contain_text("Too many calls")
    page.unroute("**/goodput")
    page.get_by_role("button", name="Try again").click()
    expect(figure(page, "Goodput")).to_contain_text("Goodput is not known")
    expect(page.get_by_role("alert")).to_have_count(0)
    expect(page.get_by_text("Reading…")).to_have_count(0)
    expect(rows(page).get_by_role("button", name="goodput")).to_have_count(1)


@pytest.mark.full
def test_each_chart_is_a_table_too(opened):
    page = opened("large")
    for title in ("History", "Importances", "Parallel coordinates", "Curves", "Scatter"):
        figure(page, title).get_by_role("button", name="as table").click()
        expect(figure(page, title).get_by_role("gridcell").first).to_be_visible()
        expect(figure(page, title).get_by_role("button", name="as chart")).to_be_visible()


def test_a_trial_stopped_early_shows_its_rule_its_value_and_its_bar(opened):
    page = opened("large")
    stopped = rows(page).get_by_role("row").filter(has_text="stopped early by the median rule")
    stopped.first.click()
    detail = page.get_by_role("region", name=re.compile(r"Trial \d+"))
    expect(detail).to_contain_text("median rule")
    expect(detail).to_contain_text("the median of the averages of 9 completed trials")
    expect(page).to_have_url(re.compile("trial="))
    link = detail.get_by_role("link", name="log")
    assert re.search(rf"/console/jobs/{PROJECT}/\d+$", link.get_attribute("href"))


def test_two_objectives_have_a_picture_of_their_front(opened):
    page = opened("front")
    front = figure(page, "Pareto front")
    expect(front).to_contain_text("6 trials of 74 are in the front")
    expect(front.locator("circle.point-front")).to_have_count(6)
    expect(front.locator("path.point-beyond")).to_have_count(16)
    expect(front.locator("circle.point-beaten")).to_have_count(52)
    corners = front.locator("polyline.front-line").get_attribute("points").split()
    assert len(corners) == 2 * 6 - 1
    expect(front.get_by_text("accuracy (larger is better →)")).to_be_visible()
    expect(front.get_by_text("seconds (smaller is better ↓)")).to_be_visible()
    expect(figure(page, "Growth of the front")).to_contain_text("Its hypervolume is 96.6 %")
    expect(page.get_by_text("size at most 60: 58 of 80 ended trials are safe")).to_be_visible()
    expect(page.get_by_text("Pareto front of 6 trials:")).to_be_visible()
    front.locator("circle.point-front").last.hover()
    pointed = front.get_by_role("status")
    expect(pointed).to_contain_text(
        re.compile(r"Trial \d+, in the Pareto front: accuracy 0\..*--l")
    )
    number = re.search(r"Trial (\d+)", pointed.inner_text())[1]
    front.locator("circle.point-front").last.click()
    detail = page.get_by_role("region", name=f"Trial {number}", exact=True)
    expect(detail).to_contain_text(f"Trial {number} (in the Pareto front)")
    expect(front.locator("circle.chosen-point")).to_have_count(1)
    assert find_violations(page) == []
    detail.evaluate("node => node.scrollIntoView()")
    take_picture(page, "study-front")
    page.get_by_role("combobox", name="trials", exact=True).select_option("Pareto front")
    expect(rows(page)).to_have_attribute("aria-rowcount", "7")
    expect(page).to_have_url(re.compile("best=front"))


@pytest.mark.full
def test_a_trial_beyond_a_limit_says_which(opened):
    page = opened("limited", "?trial=77")
    detail = page.get_by_role("region", name="Trial 77", exact=True)
    expect(detail).to_contain_text("Beyond a limit: size 94.5 > 60.")
    row = rows(page).get_by_role("row").filter(has_text="size 94.5 > 60")
    expect(row.locator(".beyond")).to_have_text("✕ 94.5")
    expect(figure(page, "History")).to_contain_text("16 trials beyond a limit are crossed")
    expect(page.get_by_text("the study aims at 75%")).to_be_visible()
    expect(figure(page, "Pareto front")).to_have_count(0)
    take_picture(page, "study-limited")
    page.get_by_label("metric").select_option("size")
    expect(figure(page, "History")).to_contain_text("size is a limit: it must be at most 60")


@pytest.mark.full
def test_three_objectives_are_seen_in_pairs(opened):
    page = opened("three")
    front = figure(page, "Pareto front")
    expect(front.locator("polyline.front-line")).to_have_count(0)
    front.get_by_label("Vertical objective").select_option("size")
    expect(front.get_by_text("size (smaller is better ↓)")).to_be_visible()
    front.get_by_label("Horizontal objective").select_option("size")
    expect(front.get_by_text("accuracy (larger is better ↑)")).to_be_visible()
    expect(figure(page, "Growth of the front")).to_contain_text("this shows its size")
    expect(figure(page, "Parallel coordinates")).to_contain_text("Pareto front are thick")
    take_picture(page, "study-three")


@pytest.mark.full
def test_curves_show_the_rungs(opened):
    page = opened("rungs")
    expect(page.locator("main")).to_contain_text("Expected: dropout near 25e-2")
    curves = figure(page, "Curves")
    expect(curves).to_contain_text(
        re.compile(r"Dashed lines are rungs: rung 1 at 3 \(74 trials, con")
    )
    take_picture(page, "study-rungs")
    curves.get_by_label("Horizontal axis").select_option("by seconds")
    expect(curves).not_to_contain_text("rung")


def brush(page, at):
    """Drag along the axis at a share of the chart's width, over the middle of its height."""
    box = figure(page, "Parallel coordinates").locator("canvas").bounding_box()
    x = box["x"] + 50 + at * (box["width"] - 110)
    page.mouse.move(x, box["y"] + 0.35 * box["height"])
    page.mouse.down()
    page.mouse.move(x, box["y"] + 0.65 * box["height"], steps=8)
    page.mouse.up()


def read_settled(page, read):
    """Read a value until it stays the same: the last event of a drag may come after it."""
    value, before = read(), None
    while value != before:
        page.wait_for_timeout(500)
        value, before = read(), value
    return value


def test_dragging_along_an_axis_narrows_the_trials_and_the_address_has_the_range(opened):
    page = opened("large")
    parallel = figure(page, "Parallel coordinates")
    parallel.scroll_into_view_if_needed()
    expect(parallel.locator("canvas")).to_have_count(1)
    brush(page, 0)
    expect(parallel).to_contain_text("in the chosen ranges")
    expect(page).to_have_url(re.compile("range=learning_rate"))
    count = read_settled(page, lambda: int(rows(page).get_attribute("aria-rowcount")) - 1)
    assert 0 < count < 0.9 * LARGE
    take_picture(page, "study-brushed")
    page.reload()
    expect(rows(page)).to_have_attribute("aria-rowcount", str(count + 1))
    parallel.locator("summary").click()
    parallel.get_by_role("button", name="remove all").click()
    expect(rows(page)).to_have_attribute("aria-rowcount", str(LARGE + 1))


@pytest.mark.full
def test_ranges_need_no_mouse(opened):
    page = opened("large", "?best=10")
    expect(rows(page)).to_have_attribute("aria-rowcount", "95")
    parallel = figure(page, "Parallel coordinates")
    parallel.locator("summary").press("Enter")
    parallel.get_by_label("optimizer is").select_option("adam")
    expect(parallel).to_contain_text(re.compile(r"\d+ of them are in the chosen ranges"))
    least = parallel.get_by_label("dropout at least")
    least.fill("0.2")
    least.press("Enter")
    expect(page).to_have_url(re.compile("range=dropout"))


@pytest.mark.full
def test_a_study_that_runs_shows_trials_as_they_come(server, visit):
    name = create_study(server, study("live", trials=4, parallel=2))
    page = visit(server).open(f"/console/studies/{PROJECT}/{name.rpartition('/')[2]}")
    expect(rows(page)).to_have_attribute("aria-rowcount", "5")
    expect(figure(page, "History")).to_contain_text("4 trials with a value")
    expect(figure(page, "Curves")).to_contain_text("4 curves")
    expect(figure(page, "Importances")).to_contain_text("need 5 finished trials; there are 4")
    expect(figure(page, "Goodput")).to_contain_text("of the time of 4 trials")
    rows(page).get_by_role("gridcell", name="SUCCEEDED").first.click()
    detail = page.get_by_role("region", name=re.compile(r"Trial \d+"))
    expect(detail).to_contain_text(re.compile(r"goodput at most .* with machines; cost 0\.\d+ USD"))
    take_picture(page, "study-live")
    rows(page).get_by_role("link", name="log").first.click()
    expect(page).to_have_url(re.compile("/console/jobs/"))


@pytest.mark.full
def test_a_study_of_ai_platform_is_listed_and_its_trials_have_pages(local, visit):
    params = [{"parameterName": "lr", "type": "DOUBLE", "minValue": 0.1, "maxValue": 0.9}]
    search = {"goal": "MAXIMIZE", "hyperparameterMetricTag": "accuracy", "params": params}
    search |= {"maxTrials": 2, "maxParallelTrials": 1}
    job = ml_job("census_1", "import sys; print(sys.argv[1:])", hyperparameters=search)
    submit(local, job)
    page = visit(local).open("/console/")
    page.get_by_role("link", name="Studies").click()
    page.get_by_role("link", name="census_1").click()
    expect(rows(page)).to_have_attribute("aria-rowcount", "3")
    expect(page.get_by_text("2 of 2 trials")).to_be_visible()
    rows(page).get_by_role("link", name="log").last.click()
    expect(page.get_by_text(f"{PROJECT} / census_1/trials/1")).to_be_visible()
    expect(page.locator(".line-text", has_text="--lr")).to_be_visible()
    page.get_by_role("tab", name="Environment").click()
    expect(page.get_by_label("Environment variables")).to_contain_text("TF_CONFIG")
    page.get_by_role("tab", name="Spec").click()
    expect(page.locator("pre.job-spec")).to_be_visible()
    take_picture(page, "job-of-a-trial")
    page.get_by_role("link", name="trial of the study census_1").click()
    expect(rows(page)).to_have_attribute("aria-rowcount", "3")


@pytest.mark.full
def test_a_job_without_a_study_gets_a_sentence(studied, visit):
    page = visit(studied).open(f"/console/studies/{PROJECT}/absent")
    expect(page.get_by_text(f"project {PROJECT} has no job absent")).to_be_visible()


HOSTILE = "<img src=x onerror=document.title='hit'>{a|b}"


@pytest.mark.full
def test_names_that_are_markup_stay_text(simulated, visit):
    document = study("live", trials=3, parallel=3)
    document["displayName"] = HOSTILE
    words = {"values": [HOSTILE, "=1+1", "w" * 2000]}
    parameter = {"parameterId": HOSTILE, "categoricalValueSpec": words}
    document["studySpec"]["parameters"].append(parameter)
    name = create_study(simulated, document)
    page = visit(simulated).open(f"/console/studies/{PROJECT}/{name.rpartition('/')[2]}")
    expect(page.get_by_role("heading", level=1)).to_have_text(HOSTILE)
    expect(rows(page)).to_have_attribute("aria-rowcount", "4")
    expect(figure(page, "Parallel coordinates").locator("canvas")).to_have_count(1)
    assert page.locator("img").count() == 0
    assert page.title() != "hit"
    take_picture(page, "study-hostile")


@pytest.mark.full
@pytest.mark.timeout(600)
def test_46_000_trials_are_read_page_by_page(tmp_path, visit):
    folder = tmp_path / "data"
    folder.mkdir()
    store = open_store(f"sqlite:///{folder / 'trainshed.db'}")
    generated_studies.add_study(store, PROJECT, "huge", 46_000)
    store.close()
    with serving(folder, program=SIMULATED) as server:
        page = visit(server).open(f"/console/studies/{PROJECT}/huge")
        deadline_ms = 4 * DEADLINE_MS  # ten pages of trials on a busy machine
        expect(rows(page)).to_have_attribute("aria-rowcount", "46001", timeout=deadline_ms)
        expect(figure(page, "Parallel coordinates")).to_contain_text("the best 1,000 of")
        page.close()
