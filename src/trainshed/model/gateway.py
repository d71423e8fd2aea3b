"""The addresses and files of the gateway, as a replica sees them."""

from typing import Final, NamedTuple

#: A job with this label has no gateway.
LABEL: Final = "trainshed-gateway"
OFF: Final = "off"

#: The certificate authorities that a program should trust: the machine's, and Trainshed's own.
BUNDLE: Final = "ca-bundle.pem"
#: Only Trainshed's own certificate authority.
AUTHORITY: Final = "ca.pem"
#: Settings of the command curl, which looks for them under this name.
CURLRC: Final = ".curlrc"
#: Settings of gsutil, which reads no environment variables for them.
BOTO: Final = "boto.cfg"


class GatewaySight(NamedTuple):
    """The values that the replicas of a job need to use the gateway."""

    address: str
    """HOST:PORT: the metadata server, and the proxy of https."""
    folder: str
    """The folder with the files of the constants above, which programs read."""
    hosts: tuple[tuple[str, str], ...] = ()
    """(address, name): Google's names that a hosts file directs to the gateway; if empty, programs
    need the proxy."""
    closed: tuple[tuple[str, str], ...] = ()
    """(address, name): names of the metadata server that the gateway cannot serve.  No process
    listens at the address, so a connection fails at once; a name lookup could take ten seconds."""
    listeners: tuple[tuple[str, int], ...] = ()
    """(address, port) of the gateway in the network of a job that has its own."""
    without_proxy: tuple[str, ...] = ()
    """Hosts that the machine reaches without its own proxy."""

    @property
    def names(self) -> tuple[tuple[str, str], ...]:
        """The (address, name) pairs of Google's names for a hosts file."""
        return (*self.hosts, *self.closed)
