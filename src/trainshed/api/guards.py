"""Keeps web pages in a user's browser from calling the service.

A page cannot read answers of another origin, but it can send requests to it.  A page can also read
the answers if its own host name resolves first to the page's server and then to 127.0.0.1 (DNS
rebinding).  So a request must be addressed to a name of this server, and must not come from a page
of another origin.
Pure functions, which the application calls before anything else.
"""

import ipaddress
import re
from collections.abc import Collection
from functools import lru_cache
from urllib.parse import urlsplit

from trainshed.api.google_names import is_served_google_name
from trainshed.model.faults import UsageFault
from trainshed.model.refusals import Code, Refusal

#: ``name``, ``1.2.3.4`` or ``[::1]``, each with or without a port.
_AUTHORITY = re.compile(r"(?P<host>\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._-]+)(?::(?P<port>[0-9]{1,5}))?")
#: The longest address with its zone, which bounds the cache.
ADDRESS_MAX = 64
_WILDCARDS = frozenset({"0.0.0.0", "::", ""})  # noqa: S104  # recognised, not bound


def check_host(host: str | None, allowed: Collection[str]) -> None:
    """Refuse a request that is addressed to another name than this server's.

    ``host`` is the Host header (gRPC: ``:authority``).  The server accepts the names and addresses
    of loopback, Google's host names that ``trainshed run`` makes resolve to this server, and
    ``allowed``: the bound host and the configured names, each with a port (then only that port) or
    without.  A server that is bound to all addresses accepts any literal address, because DNS
    rebinding needs a name.
    Raises Refusal.
    """
    authority = _split(host or "")
    if authority is None:
        raise Refusal(Code.PERMISSION_DENIED, f"the Host header {host!r} is not a valid host")
    name, port = authority
    accepted = _split_allowed(tuple(allowed))
    if is_loopback(name) or is_served_google_name(name):
        return
    if (name, None) in accepted or (name, port) in accepted:
        return
    bound_to_all = any(allowed_name in _WILDCARDS for allowed_name, _ in accepted)
    if bound_to_all and _address(name) is not None:
        return
    raise Refusal(
        Code.PERMISSION_DENIED,
        f"this server does not answer to the name {name!r}; an administrator can add it to "
        "allowed_hosts in config.toml",
    )


@lru_cache(maxsize=16)
def _split_allowed(allowed: tuple[str, ...]) -> frozenset[tuple[str, int | None]]:
    """Return the configured names, split into host and port."""
    return frozenset(_split(entry) or (_plain(entry), None) for entry in allowed)


def check_origin(
    origin: str | None,
    sec_fetch_site: str | None,
    allowed: Collection[str],
    *,
    host: str | None = None,
) -> None:
    """Refuse a request from a web page of another origin.

    ``host`` is the checked Host header: pages that this server sent have this host as their
    origin.  ``allowed`` are whole origins, such as https://console.example.  Browsers alone
    send Origin or Sec-Fetch-Site, and no page can change them.  Raises Refusal.
    """
    if sec_fetch_site == "same-origin":
        return
    if origin is None and sec_fetch_site in (None, "none"):  # none: a user typed the address
        return
    if origin is not None and (_is_listed(origin, allowed) or _is_own(origin, host)):
        return
    raise Refusal(
        Code.PERMISSION_DENIED,
        f"a web page of {origin or 'another site'} may not call this server; an administrator "
        "can add its origin to allowed_origins in config.toml",
    )


def is_page_visit(verb: str, fetch_mode: str | None, fetch_dest: str | None) -> bool:
    """Return whether a browser opens an address in a tab: by a link, a bookmark or by typing.

    A page of another origin can cause a visit, but it cannot read the answer or frame it.
    """
    return verb == "GET" and (fetch_mode, fetch_dest) == ("navigate", "document")


def check_anonymous_binding(host: str, *, anonymous: bool) -> None:
    """Raise UsageFault if the network could call the server without a token."""
    if anonymous and not is_loopback(host):
        raise UsageFault(
            f"--anonymous accepts every caller, and other machines can reach --host {host}; "
            "use --host 127.0.0.1, or omit --anonymous and give tokens to users"
        )


def wants_tls(host: str, *, https: bool | None, insecure: bool) -> bool:
    """Return whether HTTP must use TLS at this address.

    ``https`` None: the address decides; ``insecure`` is the flag ``--insecure-http``.  Raises
    UsageFault if tokens would travel unencrypted without that flag.
    """
    if https and insecure:
        raise UsageFault("--insecure-http contradicts https = true in [server]; omit one of them")
    if https is None:
        return not insecure and not is_loopback(host)
    if not https and not insecure and not is_loopback(host):
        raise UsageFault(
            f"https is false in [server], and other machines can reach --host {host}: tokens "
            "would travel unencrypted; set https = true, or give --insecure-http if a proxy in "
            "front of the server speaks TLS"
        )
    return https


def is_loopback(host: str) -> bool:
    """Return whether a name or address can only mean this machine, without a look-up.

    Browsers and resolvers resolve ``localhost`` and its subdomains to this machine (RFC 6761).
    """
    name = _plain(host)
    if name == "localhost" or name.endswith(".localhost"):
        return True
    address = _address(name)
    if isinstance(address, ipaddress.IPv6Address) and address.ipv4_mapped is not None:
        return address.ipv4_mapped.is_loopback
    return address is not None and address.is_loopback


def _split(authority: str) -> tuple[str, int | None] | None:
    """Return a host without brackets, and its port; None if invalid."""
    match = _AUTHORITY.fullmatch(authority)
    if match is None:
        return None
    port = match["port"]
    return _plain(match["host"]), int(port) if port else None


def _plain(host: str) -> str:
    """Return a host in lower case without brackets and final dot, an address in short form."""
    name = host.removeprefix("[").removesuffix("]").lower().removesuffix(".")
    address = _address(name)
    return name if address is None else str(address)


def _address(name: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    return _parse_address(name) if len(name) <= ADDRESS_MAX else None


@lru_cache(maxsize=256)
def _parse_address(name: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        return ipaddress.ip_address(name)
    except ValueError:
        return None


def _is_listed(origin: str, allowed: Collection[str]) -> bool:
    return origin.lower() in {entry.lower().rstrip("/") for entry in allowed}


def _is_own(origin: str, host: str | None) -> bool:
    if host is None or not origin.startswith(("http://", "https://")):
        return False
    try:
        return urlsplit(origin).netloc.lower() == host.lower()
    except ValueError:  # brackets without an address
        return False
