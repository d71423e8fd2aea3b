"""J9: a node goes into maintenance from the map, its job gets notice and goes on elsewhere."""

import re

import pytest
from playwright.sync_api import expect

from console.browser import take_picture
from console.documents import simulated_job, trainer_job
from e2e.support import native, submit

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]


@pytest.fixture
def running(simulated):
    """A job that runs until it is stopped; gives its name and its node."""
    name = submit(simulated, simulated_job("resnet"))
    simulated.wait_for(f"/v1/{name}", {"JOB_STATE_RUNNING"})
    yield name, node_of(simulated, name)
    simulated.call("POST", f"/v1/{name}:cancel", {})


def node_of(server, name):
    _, fleet = server.call("GET", "/trainshed/v1/nodes")
    return next((node["name"] for node in fleet["nodes"] if name in node.get("jobs", ())), None)


def test_a_node_goes_into_maintenance_and_its_job_goes_on_elsewhere(simulated, visit, running):
    name, node = running
    page = visit(simulated).open("/console/nodes")
    card = page.get_by_role("listitem").filter(has=page.get_by_role("heading", name=node))
    expect(card.get_by_text("READY")).to_be_visible()
    take_picture(page, "nodes")
    card.get_by_role("button", name=f"maintain {node}").click()
    dialog = page.get_by_role("dialog")
    link = dialog.get_by_role("link", name="resnet", exact=True)
    expect(link).to_have_attribute("href", re.compile(f"/{name.rpartition('/')[2]}$"))
    expect(dialog).to_contain_text("2 minutes of notice")
    take_picture(page, "nodes-maintain")
    dialog.get_by_role("button", name="Put into maintenance").click()
    expect(dialog).to_be_hidden()
    expect(card.get_by_text("MAINTENANCE")).to_be_visible()
    expect(card.get_by_role("link", name="resnet", exact=True)).to_have_count(0)
    simulated.wait_for(f"/v1/{name}", {"JOB_STATE_RUNNING"})
    page.goto(f"/console/jobs/{name.split('/')[1]}/{name.rpartition('/')[2]}")
    expect(
        page.get_by_text(re.compile("ended by itself .* after the notice")).first
    ).to_be_visible()
    page.goto("/console/nodes")
    card.get_by_role("button", name=f"resume {node}").click()
    dialog.get_by_role("button", name="Resume").click()
    expect(page.get_by_text(f"{node} takes new replicas.", exact=True)).to_be_visible()
    expect(card.get_by_text("READY")).to_be_visible()
    assert native(simulated, name)["attempt"] == 2


@pytest.mark.full
def test_the_only_machine_goes_into_maintenance_and_comes_back(local, visit):
    """J9 on real programs: the job saves its work, waits for the machine, and goes on there."""
    name = submit(local, trainer_job("resnet"))
    local.wait_for(f"/v1/{name}", {"JOB_STATE_RUNNING"})
    node = node_of(local, name)
    page = visit(local).open("/console/nodes")
    card = page.get_by_role("listitem").filter(has=page.get_by_role("heading", name=node))
    card.get_by_role("button", name=f"maintain {node}").click()
    dialog = page.get_by_role("dialog")
    expect(dialog.get_by_role("link", name="resnet", exact=True)).to_be_visible()
    dialog.get_by_role("button", name="Put into maintenance").click()
    expect(card.get_by_text("MAINTENANCE")).to_be_visible()
    take_picture(page, "nodes-local")
    page.goto(f"/console/jobs/{name.split('/')[1]}/{name.rpartition('/')[2]}")
    expect(page.locator(".job-title .state")).to_contain_text("QUEUED")
    expect(
        page.get_by_text(re.compile("ended by itself .* after the notice")).first
    ).to_be_visible()
    take_picture(page, "job-maintained")
    page.goto("/console/nodes")
    page.get_by_role("button", name=f"resume {node}").click()
    dialog.get_by_role("button", name="Resume").click()
    local.wait_for(f"/v1/{name}", {"JOB_STATE_RUNNING"})
    assert native(local, name)["attempt"] == 2
    local.call("POST", f"/v1/{name}:cancel", {})


@pytest.mark.full
def test_every_state_of_a_gpu_has_a_word(simulated, visit):
    page = visit(simulated).open("/console/nodes")
    gpus = page.get_by_role("list", name="GPUs of node-0003").get_by_role("button")
    expect(gpus).to_have_count(8)
    expect(gpus.nth(0)).to_contain_text("FOREIGN")
    expect(gpus.nth(1)).to_contain_text("FAULTY")
    expect(gpus.nth(7)).to_contain_text("MIG")
    gpus.nth(7).click()
    expect(page.get_by_role("dialog")).to_contain_text("NVIDIA A100 MIG 1g.10gb")
    take_picture(page, "nodes-mig")
    page.keyboard.press("Escape")
    gpus.nth(1).click()
    expect(page.get_by_role("dialog")).to_contain_text("fallen off the bus")
    page.keyboard.press("Escape")
    expect(page.get_by_role("dialog")).to_be_hidden()


@pytest.mark.full
def test_a_viewer_has_no_orders(simulated, visit, token):
    page = visit(simulated, token=token("viewer")).open("/console/nodes")
    expect(page.get_by_text("An administrator of all projects")).to_be_visible()
    expect(page.get_by_role("button", name="drain")).to_have_count(0)


@pytest.mark.full
def test_an_engine_that_is_away_is_named_with_its_reason(queueing, visit):
    server, engine = queueing
    page = visit(server).open("/console/nodes")
    expect(page.get_by_text("engine fake works")).to_be_visible()
    engine.unreachable = True
    notice = page.get_by_role("alert").filter(has_text="Engine fake does not work")
    expect(notice).to_contain_text("ENGINE_AWAY since")
    expect(notice).to_contain_text("The engine fake is away.")
    take_picture(page, "nodes-engine-away")
    engine.unreachable = False
    expect(notice).to_have_count(0)


@pytest.mark.full
def test_the_nodes_of_a_cluster_show_the_command_of_its_administrator(queueing, visit):
    page = visit(queueing[0]).open("/console/nodes")
    expect(page.get_by_text("fakectl drain").first).to_be_visible()
    expect(page.get_by_role("button", name=re.compile("^(drain|maintain) "))).to_have_count(0)
