"""A hostile trainer, by the names and labels of its jobs: they are text on every page and file.

Hostile lines of a log are in test_log.py.
"""

import re

import pytest
from playwright.sync_api import expect

from console.browser import take_picture
from console.documents import simulated_job
from e2e.support import PROJECT, submit

pytestmark = [pytest.mark.full, pytest.mark.slow, pytest.mark.timeout(300)]

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
