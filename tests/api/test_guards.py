"""A web page of somebody else reaches nothing, whatever it makes a browser send."""

import ipaddress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trainshed.api.guards import (
    check_anonymous_binding,
    check_host,
    check_origin,
    is_loopback,
    wants_tls,
)
from trainshed.model.faults import UsageFault
from trainshed.model.refusals import Code, Refusal

ANY = "0.0.0.0"  # noqa: S104  # nothing is bound to it here
LABEL = st.from_regex(r"[a-z0-9]([a-z0-9-]{0,10}[a-z0-9])?", fullmatch=True)
NAMES = st.lists(LABEL, min_size=1, max_size=4).map(".".join)
PORTS = st.integers(0, 65_535)


def is_let_in(host, allowed=("127.0.0.1",)):
    try:
        check_host(host, allowed)
    except Refusal as refusal:
        return refusal.code is not Code.PERMISSION_DENIED
    return True


@pytest.mark.parametrize(
    "host",
    ["localhost", "LocalHost:8080", "localhost.", "127.0.0.1", "127.0.0.1:1", "127.9.9.9:80",
     "[::1]", "[::1]:8080", "[0:0:0:0:0:0:0:1]", "[::ffff:127.0.0.1]:80",
     "aiplatform.localhost:18999", "us-central1-aiplatform.localhost",
     "us-central1-aiplatform.googleapis.com", "Storage.googleapis.com:443"],
)  # fmt: skip
def test_loopback_is_always_ours(host):
    assert is_let_in(host, ())


@pytest.mark.parametrize(
    "host",
    [None, "", " ", "evil.example", "evil.example:8080", "localhost.evil.example", "127.0.0.1.evil",
     "localhost@evil.example", "evil.example#localhost", "localhost:80:80", "localhost:x",
     "localhost:123456", "::1", "[::1", "[::1]x", "10.0.0.1", ANY, "2130706433", "0x7f.1",
     "local host", "localhost\n", "localhost, evil.example", "xn--localhost", "notlocalhost",
     "bigquery.googleapis.com", "storage.googleapis.com.evil.example",
     "\uff11\uff12\uff17.0.0.1", "[fe80::1%eth0]"],
)  # fmt: skip
def test_everything_else_is_refused(host):
    assert not is_let_in(host)


def test_configured_names_count_with_their_port_or_with_any():
    assert is_let_in("Trainer.LAN:9", ["trainer.lan"])
    assert is_let_in("trainer.lan:8080", ["Trainer.lan.:8080"])
    assert not is_let_in("trainer.lan:8081", ["trainer.lan:8080"])
    assert not is_let_in("trainer.lan", ["trainer.lan:8080"])
    assert not is_let_in("sub.trainer.lan", ["trainer.lan"])
    assert is_let_in("[fd00::1]:80", ["fd00:0::1"])


@pytest.mark.parametrize("bound", [ANY, "::", "[::]"])
def test_bound_to_all_addresses_every_address_is_ours_and_no_name(bound):
    assert is_let_in("192.168.1.5:8080", [bound])
    assert is_let_in("[2001:db8::1]", [bound])
    assert not is_let_in("evil.example", [bound])


@given(NAMES, PORTS)
def test_a_name_is_let_in_exactly_if_it_is_listed(name, port):
    host = f"{name}:{port}"
    assert is_let_in(host, ["10.1.2.3"]) == is_loopback(name)
    assert is_let_in(host, [name])
    assert is_let_in(host.upper(), [host])
    assert not is_let_in(f"{host}x", [name])


@given(st.text(), st.lists(st.text(max_size=5), max_size=3))
def test_no_header_breaks_the_check(host, allowed):
    is_let_in(host, allowed)


@given(st.ip_addresses())
def test_an_address_is_ours_exactly_if_it_is_loopback_however_it_is_spelled(address):
    spelled = [str(address), address.exploded]
    for text in spelled:
        host = f"[{text}]" if isinstance(address, ipaddress.IPv6Address) else text
        assert is_let_in(host) == is_loopback(str(address))
        assert is_let_in(host, spelled)
        assert is_let_in(host, [ANY])


HOST = "127.0.0.1:8080"


def is_from_us(origin, site=None, allowed=()):
    try:
        check_origin(origin, site, allowed, host=HOST)
    except Refusal as refusal:
        return refusal.code is not Code.PERMISSION_DENIED
    return True


@pytest.mark.parametrize(
    ("origin", "site"),
    [(None, None), (None, "none"), (None, "same-origin"), (f"http://{HOST}", "same-origin"),
     (f"http://{HOST}", None), (f"https://{HOST}", None)],
)  # fmt: skip
def test_clients_and_our_own_pages_are_let_in(origin, site):
    assert is_from_us(origin, site)


@pytest.mark.parametrize(
    ("origin", "site"),
    [("https://evil.example", None), ("https://evil.example", "cross-site"), ("null", None),
     ("", None), ("http://127.0.0.1:3000", "same-site"), (None, "cross-site"),
     (None, "same-site"), (f"http://{HOST}.evil.example", None), (f"http://x@{HOST}", None),
     (f"ftp://{HOST}", None), ("http://[", None), ("file://", None)],
)  # fmt: skip
def test_pages_of_other_origins_are_refused(origin, site):
    assert not is_from_us(origin, site)


def test_an_origin_is_let_in_by_configuration():
    listed = ["https://Console.example/"]
    assert is_from_us("https://console.example", "cross-site", listed)
    assert not is_from_us("http://console.example", "cross-site", listed)
    assert not is_from_us("https://console.example:8443", "cross-site", listed)


@given(st.text(), st.one_of(st.none(), st.text()))
def test_no_origin_of_any_kind_breaks_the_check(origin, site):
    is_from_us(origin, site)


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "::1", "[::1]", "127.0.0.2"])
def test_anonymous_callers_may_be_let_in_on_loopback(host):
    check_anonymous_binding(host, anonymous=True)


@pytest.mark.parametrize("host", [ANY, "::", "", "10.0.0.1", "trainer.lan", "localhost.lan"])
def test_anonymous_on_other_addresses_is_refused_at_the_start(host):
    check_anonymous_binding(host, anonymous=False)
    with pytest.raises(UsageFault, match="--anonymous"):
        check_anonymous_binding(host, anonymous=True)


@pytest.mark.parametrize(
    ("host", "https", "insecure", "tls"),
    [
        ("127.0.0.1", None, False, False),
        ("localhost", False, False, False),
        ("::1", True, False, True),
        ("0.0.0.0", None, False, True),  # noqa: S104  # nothing is bound
        ("trainer.lan", None, False, True),
        ("10.0.0.7", True, False, True),
        ("10.0.0.7", None, True, False),
        ("10.0.0.7", False, True, False),
    ],
)
def test_tokens_travel_in_the_clear_to_other_machines_only_where_that_was_said(
    host, https, insecure, tls
):
    assert wants_tls(host, https=https, insecure=insecure) is tls


@pytest.mark.parametrize(
    ("host", "https", "insecure"), [("10.0.0.7", False, False), ("127.0.0.1", True, True)]
)
def test_plain_http_for_other_machines_needs_its_flag_and_no_other_word(host, https, insecure):
    with pytest.raises(UsageFault, match="--insecure-http"):
        wants_tls(host, https=https, insecure=insecure)
