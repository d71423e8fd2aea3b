"""A hostile trainer: what it calls is refused, and the names of its jobs are text everywhere.

Hostile lines of a log are in test_log.py.
"""

import re

import pytest
from playwright.sync_api import expect

from console.browser import take_picture
from console.documents import simulated_job
from console.test_log import job_path
from e2e.support import (
    PROJECT,
    WITHOUT_WALLS,
    custom_job,
    good,
    log_lines,
    serving,
    submit,
)

pytestmark = [pytest.mark.full, pytest.mark.slow, pytest.mark.timeout(300)]

#: Calls the API of its own server as a page would, with secrets that it makes up.
CALLER = """\
import json, os, sys, urllib.error, urllib.request

url, project = "URL", "PROJECT"
print("<script>document.title='taken'</script>")
secrets = [
    {}, {"Authorization": "Bearer guessed"},
    {"Cookie": "trainshed_PORT=guessed", "X-Trainshed-Csrf": "guessed", "Origin": url},
]
calls = [
    ("GET", "projects"), ("GET", "projects/-/jobs"), ("GET", "stream?topic=queue:-"),
    ("GET", "signin"), ("POST", "signin"), ("GET", "tokens"), ("POST", "downloads"),
    ("POST", f"projects/{project}/jobs:cancel"), ("POST", "nodes/NODE:drain"),
]
for verb, path in calls:
    for headers in secrets:
        body = json.dumps({"names": ["x"], "token": "guessed", "code": "guessed"}).encode()
        request = urllib.request.Request(
            f"{url}/trainshed/v1/{path}", body if verb == "POST" else None,
            {"Content-Type": "application/json", **headers}, method=verb,
        )
        try:
            print("got", verb, path, urllib.request.urlopen(request, timeout=60).read())
        except urllib.error.HTTPError as error:
            print("refused", error.code, verb, path)
        except OSError as error:
            print("unreachable", verb, path, error)
"""
REFUSED = {"refused 400", "refused 401", "refused 403"}
TAKEN = "document.title='taken'"
NAMES = {
    "markup": f'<img src=http://elsewhere.test/a onerror="{TAKEN}"><script>{TAKEN}</script>',
    "a formula": '=HYPERLINK("http://elsewhere.test/")',
    "a long name": "n" * 128,
}


@pytest.fixture(scope="module")
def jobs(simulated):
    jobs = {kind: submit(simulated, simulated_job(name, gpus=0)) for kind, name in NAMES.items()}
    yield jobs
    for name in jobs.values():
        simulated.call("POST", f"/v1/{name}:cancel", {})


def test_the_name_of_a_value_is_text_on_its_chart(simulated, visit, jobs):
    """The server gives what a program reported; here the answer is made."""
    visitor = visit(simulated)
    points = [[step, 1.8e9 + step, 1.0, 1.0, 1.0] for step in range(3)]
    series = [
        {"name": name, "source": "event files", "run": name, "attempt": 1, "points": points}
        for name in (NAMES["markup"], "reversed \u202eeulav")
    ]
    answer = {"series": series, "left_out": [f"{TAKEN} <b>"], "complete": True}
    pattern = re.compile(r"/scalars\?")
    visitor.context.route(pattern, lambda route: route.fulfill(json=answer))
    job = jobs["markup"].rpartition("/")[2]
    page = visitor.open(f"/console/jobs/{PROJECT}/{job}?tab=metrics")
    headings = page.locator(".figure h2")
    expect(headings).to_have_text([NAMES["markup"], "reversed \u27e8RLO\u27e9eulav"])
    expect(page.locator(".figure canvas")).to_have_count(2)
    assert page.title() != "taken"


@pytest.mark.parametrize("kind", NAMES)
def test_the_name_of_a_job_is_text_on_every_page(simulated, visit, jobs, kind):
    job = jobs[kind].rpartition("/")[2]
    visitor = visit(simulated)
    page = visitor.open(f"/console/?q={job}")
    expect(page.get_by_text("1 row", exact=True)).to_be_visible()
    for path in (f"jobs/{PROJECT}/{job}", f"submit?from={PROJECT}/{job}"):
        page.goto(f"/console/{path}")
        expect(page.get_by_role("main")).to_contain_text(NAMES[kind][:9])
        assert page.locator("img, iframe, object, embed, main script").count() == 0
    take_picture(page, "hostile-name")
    assert "taken" not in page.title()


def test_a_formula_is_no_formula_in_a_spreadsheet(simulated, visit, jobs):
    page = visit(simulated).open("/console/")
    expect(page.get_by_text(f"{len(jobs)} rows")).to_be_visible()
    with page.expect_download() as saving:
        page.get_by_role("button", name="CSV").click()
    text = saving.value.path().read_text()
    assert "'=HYPERLINK" in text
    assert not re.search(r'(^|,)"?[=+@-]', text, re.MULTILINE), text


@pytest.fixture
def without_walls(tmp_path):
    """A server whose jobs can reach it; in its own network a job cannot."""
    with serving(tmp_path / "data", config=WITHOUT_WALLS) as server:
        yield server


def test_what_a_trainer_calls_is_refused_and_audited(without_walls, visit):
    server, code = without_walls, CALLER
    port = server.url.rpartition(":")[2]
    for word, value in {"URL": server.url, "PROJECT": PROJECT, "PORT": port}.items():
        code = code.replace(word, value)
    name = submit(server, custom_job("caller", code))
    server.wait_for(f"/v1/{name}", {"JOB_STATE_SUCCEEDED"})
    texts = [line["message"] for line in log_lines(server, name)]
    tries = [text for text in texts if text.startswith(("got ", "refused ", "unreachable "))]
    assert len(tries) == 27
    assert {" ".join(text.split()[:2]) for text in tries} <= REFUSED, tries
    entries = good(server.call("GET", "/trainshed/v1/audit?limit=500"))["entries"]
    refused = [entry for entry in entries if entry["status"] != "OK"]
    # to ask without any secret whether one is signed in is not audited
    assert len(refused) == len(tries) - 1, entries
    page = visit(server).open(job_path(name))
    expect(page.get_by_text("<script>document.title='taken'</script>").first).to_be_visible()
    assert page.title() != "taken"
    take_picture(page, "hostile-trainer")
