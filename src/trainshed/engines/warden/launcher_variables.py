"""The variables with which a launcher, or its cluster, starts a warden."""

from typing import Final

#: The variable with the launcher's addresses for wardens: ``HOSTNAME;PORT;ADDRESS,...;VARIABLE``,
#: where VARIABLE names a variable of a node that may contain an address of the first node.  An
#: address may be a name; wardens whose own host name is HOSTNAME also try the loopback address.
LAUNCHER: Final = "TRAINSHED_LAUNCHER"
SECRET: Final = "TRAINSHED_LAUNCHER_SECRET"  # noqa: S105 - a name, no secret
