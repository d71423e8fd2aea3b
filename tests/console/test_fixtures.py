"""A visitor notes what a page must never do: its other tests rest on that."""

import pytest

from console.browser import wait_on_page
from console.documents import create_study, simulated_job, study
from e2e.support import submit

pytestmark = [pytest.mark.full, pytest.mark.slow, pytest.mark.timeout(300)]

#: What a page does, and the fault that a visitor notes.
FAULTS = {
    "an image of another server": (
        "document.body.append(Object.assign(new Image(), {src: 'http://elsewhere.test/a.png'}))",
        "policy: img-src http://elsewhere.test/a.png",
    ),
    "a script in the page": (
        "document.head.append(Object.assign(document.createElement('script'), {text: '1'}))",
        "policy: script-src-elem inline",
    ),
    "code from text": ("setTimeout('1')", "policy: script-src eval"),
    "an error of a script": ("void Promise.reject(new Error('lost'))", "script: Error: lost"),
    "another server": (
        "void (location.href = 'http://127.0.0.2:1/')",
        "another server: GET http://127.0.0.2:1/",
    ),
}


@pytest.mark.parametrize("name", FAULTS)
def test_a_fault_is_noted(simulated, visit, name):
    code, fault = FAULTS[name]
    visitor = visit(simulated, token=None)
    page = visitor.open("/")
    page.evaluate(code)
    wait_on_page(page, lambda: any(text.startswith(fault) for text in visitor.faults))
    with pytest.raises(AssertionError):
        visitor.check()
    visitor.forgive(".")


def test_simulated_jobs_do_what_their_arguments_say(simulated):
    ends = {"JOB_STATE_SUCCEEDED": ("runs=0",), "JOB_STATE_FAILED": ("runs=0", "exit=3")}
    for state, words in ends.items():
        name = submit(simulated, simulated_job("ends", *words))
        simulated.wait_for(f"/v1/{name}", {state})
    name = create_study(simulated, study("learns", trials=3))
    document = simulated.wait_for(f"/v1/{name}", {"JOB_STATE_SUCCEEDED"})
    assert all(trial["finalMeasurement"]["stepCount"] == "8" for trial in document["trials"])
