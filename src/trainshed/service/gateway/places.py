"""Where the gateway is: what replicas have to know of it."""

from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Final, NamedTuple

from trainshed.model.gateway import GatewaySight

#: The folder of the data directory that jobs see; the one above it is the server's alone.
FOLDER: Final = "gateway/shown"
#: What the names of its certificate's files begin with; other ``NAMES`` need another one.
LEAF: Final = "gateway"
#: The names in its certificate: whatever of Google's it answers for, or refuses.
NAMES: Final = (
    "googleapis.com",
    "*.googleapis.com",
    "*.storage.googleapis.com",
    "accounts.google.com",
    "metadata.google.internal",
)
METADATA_HOSTS: Final = ("metadata.google.internal", "metadata", "169.254.169.254")
#: As hosts files name it, which are literal: Google's logging client writes a dot behind it.
METADATA_NAMES: Final = (*METADATA_HOSTS[:2], "metadata.google.internal.")
#: Google's hosts that a replica's hosts file may name: each is answered, if only with a refusal.
HOSTS: Final = (
    *METADATA_NAMES,
    "www.googleapis.com",
    "storage.googleapis.com",
    "oauth2.googleapis.com",
)
LOGGING_HOST: Final = "logging.googleapis.com"
MONITORING_HOST: Final = "monitoring.googleapis.com"
#: What programs tell of themselves, and want no answer to (``service.gateway.telemetry``).
TELEMETRY_HOSTS: Final = (LOGGING_HOST, MONITORING_HOST)
#: Others of Google's that programs of jobs ask for: a hosts file has no wildcards, and a name that
#: leads nowhere may take a client minutes.
OTHER_HOSTS: Final = tuple(
    f"{api}.googleapis.com"
    for api in (
        "aiplatform", "artifactregistry", "automl", "bigquery", "bigquerystorage", "bigtable",
        "clouderrorreporting", "cloudprofiler", "cloudresourcemanager", "cloudtrace", "compute",
        "dataflow", "dataproc", "datastore", "firestore", "iam", "iamcredentials", "ml", "pubsub",
        "secretmanager", "serviceusage", "spanner", "sqladmin",
    )
)  # fmt: skip


class GatewayPlace(NamedTuple):
    """A gateway that listens."""

    host: str
    """A loopback address."""
    port: int
    """For the metadata server, for CONNECT, and for TLS of Google's hosts; the first byte tells."""
    direct: str | None
    """Another loopback address, where port 443 does the same, for hosts files; None: none does."""
    bundle: Path
    """The machine's authorities and ours, as PEM; everybody may read it."""
    also: tuple[str, ...] = ()
    """Further addresses with the same port, for replicas with a network of their own."""
    names: tuple[str, ...] = HOSTS
    """Google's names that are to lead here; whatever else there is leads to Google."""
    refusal: str = ""
    """Why jobs with the machine's network cannot use it now; others have its address inside."""

    @property
    def authority(self) -> str:
        return f"{self.host}:{self.port}"


#: Opens the gateway unless it is open.  None: it is turned off.
OpenGateway = Callable[[], GatewayPlace | None]


def no_gateway() -> None: ...


NO_PROXIES: Final[Mapping[str, str]] = MappingProxyType({})
_PROXIES: Final = tuple(
    name
    for scheme in ("http", "https", "all")
    for name in (f"{scheme}_proxy", f"{scheme}_PROXY".upper())
)
NO_GATEWAY: Final[OpenGateway] = no_gateway


#: Where ports 443 and 80 are the gateway's in a network of a job's own: they are free there.
_DIRECT: Final = "127.0.0.2"
_PORTS: Final = (443, 80)


def sight_in_network(
    place: GatewayPlace, *, has_names: bool, proxies: Mapping[str, str] = NO_PROXIES
) -> GatewaySight:
    """What replicas see of it in a network of their own, as ``sight_of``.

    It has the same address there as on the machine, and Google's ports on any machine.
    """
    sight = sight_of(place._replace(direct=_DIRECT), has_names=has_names, proxies=proxies)
    direct = [(_DIRECT, port) for port in _PORTS] if sight.hosts else []
    return sight._replace(listeners=((place.host, place.port), *direct))


def sight_of(
    place: GatewayPlace, *, has_names: bool = False, proxies: Mapping[str, str] = NO_PROXIES
) -> GatewaySight:
    """What replicas see of it; ``has_names``: whether they have a hosts file of their own.

    ``proxies`` are the variables by which they would reach other hosts.  Where these name a proxy,
    clients ask that one for Google's names too, and so ours stands before it.
    """
    direct = place.direct if has_names and not any(map(proxies.get, _PROXIES)) else None
    without = proxies.get("no_proxy") or proxies.get("NO_PROXY") or ""
    return GatewaySight(
        address=place.authority,
        folder=str(place.bundle.parent),
        hosts=tuple((direct, name) for name in place.names) if direct else (),
        without_proxy=tuple(name.strip() for name in without.split(",") if name.strip()),
    )
