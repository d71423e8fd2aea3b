"""Signing in: a token in the form, a code in the address, signing out, and what is refused."""

import re
import subprocess

import pytest
from playwright.sync_api import expect

from console.browser import take_picture
from e2e.support import PROJECT, good
from server_process import TRAINSHED

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]

QUEUE = re.compile(r"/console/$")


def fill_in(page, token):
    page.get_by_label("Token").fill(token)
    page.get_by_label("Token").press("Enter")


def test_a_token_in_the_form_signs_in_and_a_wrong_one_gets_a_sentence_in_place(simulated, visit):
    visitor = visit(simulated, token=None)
    page = visitor.open()
    expect(page.get_by_role("heading", name="Sign in to Trainshed")).to_be_visible()
    take_picture(page, "signin")
    fill_in(page, "not-a-token")
    expect(page.get_by_role("alert")).to_contain_text("token")
    expect(page.get_by_label("Token")).to_have_value("not-a-token")
    fill_in(page, simulated.token)
    expect(page).to_have_url(QUEUE)
    cookies = visitor.context.cookies()
    assert [(c["httpOnly"], c["sameSite"]) for c in cookies] == [(True, "Strict")]
    assert simulated.token not in str(page.evaluate("[document.cookie, {...localStorage}]"))


@pytest.mark.full
@pytest.mark.parametrize(
    "address",
    [
        "https://elsewhere.test/",
        "//elsewhere.test",
        "/console/../v1/projects",
        "javascript:alert(1)",
    ],
)
def test_next_leads_nowhere_else(simulated, visit, address):
    page = visit(simulated, token=None).open(f"/console/signin?next={address}")
    fill_in(page, simulated.token)
    expect(page).to_have_url(QUEUE)


@pytest.mark.full
def test_next_leads_to_the_page_that_was_wanted(simulated, visit):
    page = visit(simulated, token=None).open("/console/nodes")
    expect(page.get_by_label("Token")).to_be_visible()
    fill_in(page, simulated.token)
    expect(page).to_have_url(re.compile("/console/nodes$"))


def test_a_code_signs_in_once_and_leaves_the_address(simulated, visit):
    link = printed_link(simulated)
    page = visit(simulated, token=None).open(link)
    expect(page.get_by_role("navigation")).to_be_visible()
    assert "code" not in page.url
    again = visit(simulated, token=None).open(link)
    expect(again.get_by_role("heading", name="Sign in to Trainshed")).to_be_visible()
    expect(again.get_by_role("alert")).to_contain_text("code")


@pytest.mark.full
def test_a_code_signs_in_where_the_form_is_open(simulated, visit):
    page = visit(simulated, token=None).open()
    expect(page.get_by_label("Token")).to_be_visible()
    code = printed_link(simulated).partition("#")[2]
    page.evaluate("code => location.hash = code", code)
    expect(page.get_by_role("navigation")).to_be_visible()
    assert "code" not in page.url


def printed_link(server):
    """The address that ``trainshed console`` prints."""
    done = subprocess.run(
        [TRAINSHED, "console", "--url", server.url],
        env={"TRAINSHED_TOKEN": server.token, "PATH": "/usr/bin:/bin"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return re.search(r"http\S+/console/#code=\S+", done.stdout)[0]


@pytest.mark.full
def test_signing_out_ends_the_sign_in_of_all_tabs(simulated, visit):
    visitor = visit(simulated)
    first, second = visitor.open(), visitor.open()
    first.get_by_title("User, theme and settings").click()
    first.get_by_role("button", name="Sign out", exact=True).click()
    expect(first.get_by_label("Token")).to_be_visible()
    second.reload()
    expect(second.get_by_label("Token")).to_be_visible()


@pytest.mark.full
def test_a_revoked_token_asks_to_sign_in_over_the_page(simulated, visit):
    """J10's end: that browser is out, and what the user typed stays."""
    made = make_token(simulated, "soon-revoked", "submitter")
    page = visit(simulated, token=made["token"]).open("/console/submit")
    expect(page.get_by_role("navigation")).to_be_visible()
    good(simulated.call("DELETE", f"/trainshed/v1/tokens/{made['id']}"))
    # the dialog may be over the link already: the page makes calls of its own
    page.get_by_role("link", name="Queue", include_hidden=True).dispatch_event("click")
    dialog = page.get_by_role("dialog", name="Your sign-in has ended")
    expect(dialog).to_be_visible()
    for _ in range(3):  # a browser closes a dialog at the second Escape, whatever the page does
        page.keyboard.press("Escape")
    expect(dialog).to_be_visible()
    fill_in(page, make_token(simulated, "again", "submitter")["token"])
    expect(dialog).to_be_hidden()


def make_token(server, name, role, project=PROJECT):
    document = {"name": name, "role": role, "project": project}
    return good(server.call("POST", "/trainshed/v1/tokens", document))
