"""Where the gateway of a server, or of a local run, is for a replica."""

from dataclasses import dataclass, replace
from typing import Final

#: A job with this label is told nothing of the gateway.
LABEL: Final = "trainshed-gateway"
OFF: Final = "off"


@dataclass(frozen=True, slots=True, kw_only=True)
class GatewayPlace:
    """What a replica has to know of it."""

    host: str
    """An address of the machine."""
    port: int
    """Plain HTTP, proxy and TLS, all at one port."""
    bundle: str
    """A file of the authorities that a program is to trust: the machine's, and ours."""
    names: tuple[str, ...] = ()
    """The names of Google's that lead to ``host`` by the replica's own hosts file."""
    bridge: str | None = None
    """An address that containers with a network of their own reach; None where there is none."""

    @property
    def address(self) -> str:
        """``HOST:PORT``."""
        return f"{self.host}:{self.port}"

    @property
    def hosts(self) -> tuple[tuple[str, str], ...]:
        """(address, name), as in a launch plan."""
        return tuple((self.host, name) for name in self.names)

    @property
    def of_bridge(self) -> "GatewayPlace | None":
        """The same for containers with a network of their own; None where they reach none."""
        return replace(self, host=self.bridge) if self.bridge else None

    @property
    def has_names(self) -> bool:
        """Whether programs find it by Google's own names, and need no proxy."""
        return bool(self.names)
