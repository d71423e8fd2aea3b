"""The values of ``[isolation] network``."""

from typing import Final

#: A network of its own for each attempt where the machine allows it, else the machine's.
AUTO: Final = "auto"
#: A network of its own for each attempt; a server that cannot give it does not start.
JOB: Final = "job"
#: The network of the machine.
HOST: Final = "host"

NETWORKS: Final = (AUTO, JOB, HOST)
