"""Measures the tab with the curves of a job that reported values for a day."""

from playwright.sync_api import Browser

from benchmarks.console.chromium import measured_session, reach_s, usable_s
from benchmarks.harness import Goal, at_most
from benchmarks.service.documents import PROJECT, VERTEX, pool
from benchmarks.service.measures import median, wait_for
from benchmarks.service.servers import Server

ROUNDS = 5
CURVES, MINUTES = 40, 1440
CLICK_S_MAX = 0.3


def measure_curves(browser: Browser, server: Server) -> list[Goal]:
    """Measure from the click on the tab until the charts in the window are drawn."""
    pools = [pool(1, gpus=0, args=(f"measured={MINUTES}",)), pool(1, gpus=0)]
    with server.client() as client:
        document = {"displayName": "measured", "jobSpec": {"workerPoolSpecs": pools}}
        job = str(client.call("POST", VERTEX, document)["name"]).rpartition("/")[2]
        path = f"/trainshed/v1/projects/{PROJECT}/jobs/{job}"
        wait_for(lambda: client.call("GET", path)["attempt"] == 1, f"{job} has not started")
    times = []
    with measured_session(browser, server.url, server.token) as session:
        page = session.new_page()
        for _ in range(ROUNDS):
            page.goto(f"/console/jobs/{PROJECT}/{job}")
            usable_s(page, "tabs")
            page.wait_for_timeout(500)
            tab = page.get_by_role("tab", name="Metrics")
            times.append(reach_s(page, f"curves {CURVES}", tab.click))
    name = f"job: {CURVES} curves of a day, from the click"
    return [at_most(name, median(times), CLICK_S_MAX, "s")]
