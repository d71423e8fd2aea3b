"""Which container runtime runs the images of jobs on a cluster's nodes."""

from pathlib import PurePosixPath
from typing import Final

from trainshed.engines.container_runtime import APPTAINER, SINGULARITY, Found, Runtime

NO_CONTAINERS: Final = "none"
#: Names of the programs on the nodes that can run an image for a warden.
PROGRAMS: Final = (APPTAINER, SINGULARITY)
WAY_OUT: Final = (
    'apptainer on the nodes, and `containers = "apptainer"` in the [[engine]] table of the '
    "cluster; then a restart of the server"
)


def is_choice(text: str) -> bool:
    """Whether the setting ``containers`` accepts this text."""
    is_program = PurePosixPath(text).name in PROGRAMS
    return text == NO_CONTAINERS or (is_program and ("/" not in text or text.startswith("/")))


def containers_of(choice: str) -> Found:
    """Return the runtime by the setting ``containers``; it runs as the server's user."""
    if choice == NO_CONTAINERS:
        return Found(None, 'the setting containers of the engine is "none"', WAY_OUT)
    name = PurePosixPath(choice).name
    return Found(Runtime(name=name, program=choice, version="of the nodes", user=None))
