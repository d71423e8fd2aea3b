"""The console's page and files: who may load them, and what a browser may do with them."""

import gzip
import re

import pytest

from api.support import application, client
from trainshed.api.compression import accepts_gzip
from trainshed.api.console.bundle import read_bundle

INDEX = (
    '<meta name="trainshed-revision" content="abc123">'
    '<meta name="trainshed-nonce" content="@NONCE@"><script src="/console/static/main-0A1B2C3D.js">'
)
SCRIPT = b"console.log(1)"
LINK = {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "document"}
PLAIN = {"Accept-Encoding": "identity"}


@pytest.fixture(scope="module")
def bundle(tmp_path_factory):
    folder = tmp_path_factory.mktemp("static")
    (folder / "index.html").write_text(INDEX)
    (folder / "main-0A1B2C3D.js").write_bytes(SCRIPT)
    (folder / "main-0A1B2C3D.js.gz").write_bytes(gzip.compress(SCRIPT))
    (folder / "main-0A1B2C3D.css").write_text("a{}")
    (folder / "LICENSES.txt").write_text("all")
    (folder / "sources.sha256").write_text("abc123")
    return read_bundle(folder)


@pytest.fixture(scope="module")
def http(bundle):
    with client(application([], console=bundle), token=None) as http:
        yield http


@pytest.mark.parametrize("path", ["/console/", "/console/jobs/demo/a%2Fb?tab=log", "/console/x.js"])
def test_each_address_of_the_console_gives_the_page(http, path):
    answer = http.get(path)
    assert answer.status_code == 200
    assert answer.headers["content-type"] == "text/html; charset=utf-8"
    assert "/console/static/main-0A1B2C3D.js" in answer.text


def test_the_nonce_of_the_page_is_that_of_its_policy_and_new_each_time(http):
    answers = [http.get("/console/") for _ in range(2)]
    nonces = [re.search(r'nonce" content="([\w-]{20,})"', answer.text)[1] for answer in answers]
    assert nonces[0] != nonces[1]
    for answer, nonce in zip(answers, nonces, strict=True):
        policy = answer.headers["content-security-policy"]
        assert f"style-src 'self' 'nonce-{nonce}';" in policy
        assert answer.headers["cache-control"] == "no-store"


def test_the_policy_lets_a_page_run_and_load_only_files_of_the_server(http):
    answer = http.get("/console/")
    rules = dict(
        rule.strip().partition(" ")[::2]
        for rule in answer.headers["content-security-policy"].split(";")
    )
    assert rules["default-src"] == rules["base-uri"] == rules["frame-ancestors"] == "'none'"
    assert rules["script-src"] == rules["connect-src"] == rules["form-action"] == "'self'"
    assert not any("unsafe" in rule or "*" in rule for rule in rules.values())
    expected = {
        "x-content-type-options": "nosniff",
        "x-frame-options": "DENY",
        "referrer-policy": "no-referrer",
        "cross-origin-opener-policy": "same-origin",
        "cross-origin-resource-policy": "same-origin",
    }
    assert {name: answer.headers[name] for name in expected} == expected
    assert "camera=()" in answer.headers["permissions-policy"]


def test_a_static_file_is_compressed_for_a_browser_that_accepts_gzip(http):
    answer = http.get("/console/static/main-0A1B2C3D.js", headers={"Accept-Encoding": "gzip, br"})
    assert (answer.headers["content-encoding"], answer.content) == ("gzip", SCRIPT)
    assert "Accept-Encoding" in answer.headers["vary"]
    plain = http.get("/console/static/main-0A1B2C3D.js", headers=PLAIN)
    assert "content-encoding" not in plain.headers
    assert plain.content == SCRIPT
    assert plain.headers["content-type"] == "text/javascript; charset=utf-8"
    assert (
        http.get("/console/static/main-0A1B2C3D.css").headers["content-type"].startswith("text/css")
    )


def test_only_a_file_with_a_hash_in_its_name_may_be_cached_for_ever(http):
    hashed = http.get("/console/static/main-0A1B2C3D.js")
    licences = http.get("/console/static/LICENSES.txt")
    assert hashed.headers["cache-control"] == "public, max-age=31536000, immutable"
    assert licences.headers["cache-control"] == "no-cache"


@pytest.mark.parametrize(
    "name",
    ["main-FFFFFFFF.js", "main-0A1B2C3D.js.gz", "sources.sha256", "index.html", "..%2Fbundle.py"],
)
def test_a_file_that_is_not_of_the_bundle_is_not_given(http, name):
    answer = http.get(f"/console/static/{name}")
    assert "def " not in answer.text
    assert answer.status_code == 404 or "trainshed-revision" in answer.text


def test_files_that_an_upgrade_replaces_are_served_until_the_server_starts_again(tmp_path):
    (tmp_path / "index.html").write_text(INDEX)
    (tmp_path / "a-00000000.js").write_bytes(SCRIPT)
    (tmp_path / "b-00000000.js").write_bytes(SCRIPT)
    (tmp_path / "b-00000000.js.gz").write_bytes(gzip.compress(SCRIPT))
    bundle = read_bundle(tmp_path)
    for path in tmp_path.iterdir():
        path.unlink()
    with client(application([], console=bundle), token=None) as http:
        for name in ("a-00000000.js", "b-00000000.js"):
            assert http.get(f"/console/static/{name}", headers=PLAIN).content == SCRIPT


@pytest.mark.parametrize("path", ["/console/", "/console/static/main-0A1B2C3D.js"])
@pytest.mark.parametrize("verb", ["POST", "PUT", "DELETE"])
def test_pages_and_files_can_only_be_read(http, verb, path):
    assert http.request(verb, path).status_code == 405


@pytest.mark.parametrize("path", ["/console/", "/console/jobs/p/j", "/console", "/"])
def test_a_link_on_another_page_opens_the_console(http, path):
    headers = {**LINK, "Accept": "text/html"}
    assert http.get(path, headers=headers).status_code in (200, 303)


@pytest.mark.parametrize(
    "headers",
    [
        {**LINK, "Sec-Fetch-Dest": "iframe"},
        {**LINK, "Sec-Fetch-Mode": "no-cors", "Sec-Fetch-Dest": "script"},
        {"Sec-Fetch-Site": "cross-site"},
        {"Sec-Fetch-Site": "same-site", "Sec-Fetch-Mode": "cors", "Sec-Fetch-Dest": "empty"},
        {"Origin": "https://evil.example"},
        {**LINK, "Host": "evil.example"},
    ],
)
def test_another_page_may_not_frame_load_or_read_the_console(http, headers):
    assert http.get("/console/", headers=headers).status_code == 403


def test_a_link_on_another_page_opens_nothing_but_the_page(http):
    for path in ("/v1/projects/demo/jobs", "/trainshed/v1/nodes"):
        assert http.get(path, headers=LINK).status_code in (403, 404)


def test_the_address_of_the_server_leads_a_browser_to_the_console(http):
    answer = http.get("/", headers={"Accept": "text/html,*/*"})
    assert (answer.status_code, answer.headers["location"]) == (303, "/console/")
    assert http.get("/", headers={"Accept": "application/json"}).status_code == 404
    assert http.get("/console").headers["location"] == "/console/"


def test_a_server_without_a_console_says_so_at_its_address():
    with client(application([]), token=None) as http:
        page = http.get("/", headers={"Accept": "text/html"})
        assert (page.status_code, "switched off" in page.text) == (200, True)
        assert http.get("/console/").status_code == 404


@pytest.mark.parametrize(
    ("header", "accepted"),
    [
        ("gzip", True), ("br, gzip;q=0.5", True), ("*", True), ("GZIP", True),
        ("", False), ("br", False), ("gzip;q=0", False), ("gzip; q=0.000", False),
        ("identity", False), ("xgzip", False),
    ],
)  # fmt: skip
def test_gzip_is_sent_to_a_client_that_accepts_it(header, accepted):
    assert accepts_gzip(header) is accepted


def test_the_bundle_of_this_release_has_all_files_that_its_page_names():
    bundle = read_bundle()
    names = re.findall(r"/console/static/([\w.-]+)", bundle.index)
    assert set(names) <= set(bundle.files)
    assert "@NONCE@" in bundle.index
    assert bundle.revision
