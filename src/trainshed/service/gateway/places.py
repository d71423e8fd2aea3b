"""The addresses and names by which replicas reach the gateway."""

from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Final, NamedTuple

from trainshed.model.gateway import GatewaySight

#: The folder of the data directory that jobs may read; only the server may read its parent.
FOLDER: Final = "gateway/shown"
#: The prefix of the certificate's file names; a change of ``NAMES`` needs another prefix.
LEAF: Final = "gateway"
#: The names in the gateway's certificate: Google's hosts that it answers or refuses.
NAMES: Final = (
    "googleapis.com",
    "*.googleapis.com",
    "*.storage.googleapis.com",
    "accounts.google.com",
    "metadata.google.internal",
)
METADATA_HOSTS: Final = ("metadata.google.internal", "metadata", "169.254.169.254")
#: Names for hosts files, which match literally: Google's logging client appends a dot.
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
#: Hosts that take telemetry (``service.gateway.telemetry``).
TELEMETRY_HOSTS: Final = (LOGGING_HOST, MONITORING_HOST)
#: Other hosts of Google's that programs of jobs contact: a hosts file has no wildcards, and a name
#: that does not resolve may cost a client minutes.
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
    """One port for the metadata server, CONNECT and TLS; the first byte says which."""
    direct: str | None
    """Another loopback address, for hosts files, with the same services on port 443, or None."""
    bundle: Path
    """The CA certificates of the machine and ours as PEM; readable by every user."""
    also: tuple[str, ...] = ()
    """Further addresses with the same port, for replicas with a network of their own."""
    names: tuple[str, ...] = HOSTS
    """Google's names that lead to the gateway; all others lead to Google."""
    refusal: str = ""
    """Why jobs on the machine's network cannot use it now; jobs with their own network can."""

    @property
    def authority(self) -> str:
        return f"{self.host}:{self.port}"


#: Opens the gateway if needed and returns its place; None if the gateway is turned off.
OpenGateway = Callable[[], GatewayPlace | None]


def no_gateway() -> None: ...


NO_PROXIES: Final[Mapping[str, str]] = MappingProxyType({})
_PROXIES: Final = tuple(
    name
    for scheme in ("http", "https", "all")
    for name in (f"{scheme}_proxy", f"{scheme}_PROXY".upper())
)
NO_GATEWAY: Final[OpenGateway] = no_gateway


#: The gateway's address with ports 443 and 80 in a job's own network.
_DIRECT: Final = "127.0.0.2"
_PORTS: Final = (443, 80)


def sight_in_network(
    place: GatewayPlace, *, has_names: bool, proxies: Mapping[str, str] = NO_PROXIES
) -> GatewaySight:
    """Describe the gateway for replicas in a network of their own; see ``sight_of``.

    In that network the gateway has the same address as on the machine, and Google's ports.
    """
    sight = sight_of(place._replace(direct=_DIRECT), has_names=has_names, proxies=proxies)
    direct = [(_DIRECT, port) for port in _PORTS] if sight.hosts else []
    return sight._replace(listeners=((place.host, place.port), *direct))


def sight_of(
    place: GatewayPlace, *, has_names: bool = False, proxies: Mapping[str, str] = NO_PROXIES
) -> GatewaySight:
    """Describe the gateway for replicas; ``has_names``: they have a hosts file of their own.

    ``proxies`` are the replicas' proxy variables.  If they name a proxy, clients would send the
    requests for Google's hosts to that proxy too, so the gateway takes its place.
    """
    direct = place.direct if has_names and not any(map(proxies.get, _PROXIES)) else None
    without = proxies.get("no_proxy") or proxies.get("NO_PROXY") or ""
    return GatewaySight(
        address=place.authority,
        folder=str(place.bundle.parent),
        hosts=tuple((direct, name) for name in place.names) if direct else (),
        without_proxy=tuple(name.strip() for name in without.split(",") if name.strip()),
    )
