"""The forms of Settings: refusals in place, keys, and what a submitter sees."""

import re

import pytest
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from playwright.sync_api import expect

from e2e.support import PROJECT, good

pytestmark = [pytest.mark.full, pytest.mark.slow, pytest.mark.timeout(300)]


def test_a_refused_token_gets_a_sentence_in_place(simulated, visit):
    page = visit(simulated).open("/console/settings?tab=tokens")
    page.get_by_label("Ends after").fill("soon")
    page.get_by_role("button", name="Make a token").click()
    expect(page.get_by_role("alert")).to_contain_text("Expires must be a duration such as 30d")
    expect(page.get_by_label("Ends after")).to_have_value("soon")


def test_a_key_is_added_and_removed(simulated, visit):
    page = visit(simulated).open("/console/settings?tab=keys")
    page.get_by_label("Email").fill("trainer@demo.iam.gserviceaccount.com")
    page.get_by_label("Public key").fill("not a key")
    page.get_by_role("button", name="Add the key").click()
    expect(page.get_by_role("alert")).to_be_visible()
    public = rsa.generate_private_key(public_exponent=65537, key_size=2048).public_key()
    text = public.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo).decode()
    page.get_by_label("Public key").fill(text)
    page.get_by_role("button", name="Add the key").click()
    row = page.get_by_role("row", name=re.compile("trainer@demo"))
    row.get_by_role("button", name=re.compile("^Remove the key")).click()
    page.get_by_role("dialog").get_by_role("button", name="Remove", exact=True).click()
    expect(page.get_by_text("No key is registered.")).to_be_visible()
    assert good(simulated.call("GET", "/trainshed/v1/keys"))["keys"] == []


def test_a_submitter_sees_what_an_administrator_is_needed_for(simulated, visit, token):
    page = visit(simulated, token=token("submitter")).open("/console/settings?tab=audit")
    expect(page.get_by_text("Only an administrator of all projects sees this.")).to_be_visible()
    page.get_by_role("link", name="This browser").click()
    expect(page.get_by_role("main")).to_contain_text(f"submitter of project {PROJECT}")


def test_the_audit_log_drawn_anew_loses_no_typed_text(simulated, visit):
    page = visit(simulated).open("/console/settings?tab=audit")
    field = page.get_by_label("Project", exact=True)
    field.press_sequentially("dem")
    with page.expect_response(re.compile("/trainshed/v1/audit")):
        page.get_by_role("button", name="Read again").evaluate("button => button.click()")
    expect(page.get_by_role("grid", name="Audit log")).to_be_visible()
    page.evaluate("() => new Promise(resolve => setTimeout(resolve))")
    expect(field).to_have_value("dem")
    field.press("Enter")
    expect(page).to_have_url(re.compile("of=dem"))
