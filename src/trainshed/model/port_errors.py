"""The messages of programs that cannot listen because their port is in use.

gRPC does not name the reason in its last line; the usual reason is a port in use.
"""

from typing import Final

from trainshed.model.known_errors import KnownError

_HELP: Final = (
    "listen on port 0, or on the ports that MASTER_PORT and TF_CONFIG name; where jobs have "
    "networks of their own, the label trainshed-network=replica gives each replica every port"
)

#: The first that matches counts: those that name the port come first.
PORT_ERRORS: Final[tuple[KnownError, ...]] = (
    KnownError(
        r"while attempting to bind on address \([^)]*?, (\d+)[,)]|"
        r"failed to listen on any local network address\. port: (\d+).*EADDRINUSE|"
        r":(\d+) \(errno: 98 - Address already in use\)|"
        r"Failed to add port to server: No address added .*:(\d+)'|"
        r"Failed to bind to address \S*?:(\d+);|"
        r"trying to start at \S+, but is already running at \S+?:(\d+)\.|"
        r":(\d+): bind: [Aa]ddress already in use",
        f"the port {{0}} is in use by another process: {_HELP}",
    ),
    KnownError(
        r"[Aa]ddress already in use|\bEADDRINUSE\b|Could not start gRPC server",
        f"a port is in use by another process: {_HELP}",
    ),
)
