"""Alerts and readings of GPUs, which no simulated server has: the answers are made here."""

import json
import re

import pytest
from playwright.sync_api import expect

from console.browser import take_picture
from e2e.support import PROJECT

pytestmark = [pytest.mark.full, pytest.mark.slow, pytest.mark.timeout(300)]

JOB = f"projects/{PROJECT}/locations/us-central1/customJobs/7"
ALERTS = [
    {
        "kind": "GPU_HELD_IDLE", "subject": "GPU 3 of node-0000", "since": "2026-11-30T10:00:00Z",
        "message": f"{JOB} holds GPU 3 <b>of</b> node-0000 and has run nothing on it for 42 min",
        "job": JOB, "page": "/console/nodes",
    },
    {
        "kind": "NODE_LOST", "subject": "node-0009", "since": "2026-11-30T10:00:00Z",
        "message": "no engine has reported node-0009 for 5 min", "page": "/console/nodes",
    },
]  # fmt: skip


def answer_with(visitor, path, change):
    """Change the server's JSON answers to a path."""

    def answer(route):
        response = route.fetch()
        route.fulfill(response=response, body=json.dumps(change(response.json())))

    visitor.context.route(re.compile(rf"/trainshed/v1/{path}$"), answer)


def test_alerts_are_counted_in_the_bar_and_lead_to_what_they_are_about(simulated, visit):
    visitor = visit(simulated)
    answer_with(visitor, "alerts", lambda _: {"alerts": ALERTS})
    page = visitor.open()
    page.get_by_role("link", name=re.compile("^Alerts.*2$")).click()
    rows = page.get_by_role("row")
    expect(rows).to_have_count(3)
    expect(rows.nth(1)).to_contain_text("<b>of</b>")
    link = page.get_by_role("link", name="GPU 3 of node-0000")
    expect(link).to_have_attribute("href", f"/console/jobs/{PROJECT}/7")
    expect(page.get_by_role("link", name="node-0009")).to_have_attribute("href", "/console/nodes")
    take_picture(page, "alerts")


def test_without_alerts_the_page_says_what_was_looked_at(simulated, visit):
    visitor = visit(simulated)
    answer_with(visitor, "alerts", lambda _: {"alerts": []})
    page = visitor.open("/console/alerts")
    expect(page.get_by_text("Nothing needs a look")).to_be_visible()


def read(fleet):
    """Give the GPUs of the first node readings: the second is held and idle."""
    gpus = fleet["nodes"][0]["devices"]
    for gpu, use, idle_s in ((gpus[0], 0.93, 0.0), (gpus[1], 0.0, 2520.0)):
        reading = {"at": fleet["nodes"][0]["seen"], "use": use, "usedBytes": 12e9}
        more = {"state": "HELD", "job": JOB, "idleSeconds": idle_s, "recentUse": [use, None, use]}
        gpu.update(more | {"user": "ada", "reading": reading | {"powerWatts": 280.4}})
    return fleet


def test_nodes_with_a_gpu_that_is_held_and_idle_are_found(simulated, visit):
    visitor = visit(simulated)
    answer_with(visitor, "nodes", read)
    page = visitor.open("/console/nodes")
    cards = page.get_by_role("listitem").filter(has=page.get_by_role("heading"))
    expect(cards).to_have_count(4)
    gpus = cards.first.get_by_role("list").get_by_role("button")
    expect(gpus.nth(0)).to_contain_text("93 % · 12 GB · 280 W")
    expect(gpus.nth(1)).to_contain_text("idle 42 min · 7")
    page.get_by_label("held and idle for 10 min (1)").check()
    expect(cards).to_have_count(1)
    expect(page).to_have_url(re.compile("idle=1"))
    take_picture(page, "nodes-idle")
    gpus.nth(1).click()
    expect(page.get_by_role("dialog")).to_contain_text("Not used by its job for")
    expect(page.get_by_role("dialog")).to_contain_text("Held byada")
