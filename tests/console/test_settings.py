"""J10: a token is made, shown once and revoked; the audit log has all of it."""

import re

import pytest
from playwright.sync_api import expect

from console.browser import take_picture

pytestmark = [pytest.mark.full, pytest.mark.slow, pytest.mark.timeout(300)]


def test_a_token_is_shown_once_and_its_browser_is_out_when_it_is_revoked(simulated, visit):
    page = visit(simulated).open("/console/settings?tab=tokens")
    form = page.get_by_role("form", name="Make a token")
    form.get_by_label("Name").fill("for-the-night")
    form.get_by_label("Project").fill("demo-proj")
    form.get_by_label("Role").select_option("viewer")
    form.get_by_role("button").click()
    dialog = page.get_by_role("dialog", name="The token for-the-night")
    text = dialog.locator(".secret").inner_text()
    take_picture(page, "settings-token")
    dialog.get_by_role("button", name="I have copied it").click()
    page.reload()
    row = page.get_by_role("row").filter(has_text="for-the-night")
    expect(row).to_contain_text("viewer")
    assert text not in page.content()
    guest = visit(simulated, token=text).open()
    expect(guest.get_by_role("grid", name="Jobs").or_(guest.locator(".empty"))).to_be_visible()
    row.get_by_role("button", name="Revoke").click()
    page.get_by_role("dialog").get_by_role("button", name="Revoke").click()
    expect(row).to_contain_text("revoked")
    expect(guest.get_by_role("dialog", name="Your sign-in has ended")).to_be_visible()
    take_picture(guest, "signed-out")
    page.goto("/console/settings?tab=audit")
    log = page.get_by_role("main")
    expect(log).to_contain_text(re.compile(r"POST\s*tokens"))
    expect(log).to_contain_text(re.compile(r"DELETE\s*tokens/"))
    assert text not in page.content()
