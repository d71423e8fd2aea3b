"""The container runtime of a machine, or why there is none."""

from typing import Final, NamedTuple

DOCKER: Final = "docker"
PODMAN: Final = "podman"
APPTAINER: Final = "apptainer"
SINGULARITY: Final = "singularity"

#: What the programs are called, the one that is taken first where several work.
NAMES: Final = (DOCKER, PODMAN, APPTAINER, SINGULARITY)

#: What the setting ``container_runtime`` may be, besides the name of one.
AUTO: Final = "auto"
NO_RUNTIME: Final = "none"
CHOICES: Final = (AUTO, NO_RUNTIME, DOCKER, PODMAN, APPTAINER)

#: Those whose containers are processes of the replica itself; the others have a daemon or a monitor
#: that the end of their client does not end.
CHILDREN_OF_CLIENT: Final = frozenset({APPTAINER, SINGULARITY})

#: Whom containers run as where the server is root and nothing else was said.  Not ``nobody``, which
#: daemons of the machine share; Debian reserves this number and gives it to none.
UNPRIVILEGED: Final = "65533:65533"

#: In place of a user: the one of the job's project, where projects have users.
USER_OF_PROJECT: Final = "project"

#: In place of a user: the one that the image names, which is mostly root.
USER_OF_IMAGE: Final = "image"


class Runtime(NamedTuple):
    """A runtime that answers."""

    name: str
    """One of ``NAMES``."""
    program: str
    """The path of its command."""
    version: str
    user: str | None
    """``UID:GID`` of the containers, or ``USER_OF_PROJECT``; the image's own if None."""
    has_init: bool = False
    """Whether it can give containers a first process that passes on signals and reaps."""
    has_walls: bool = False
    """Whether containers have no capabilities, and a network of their own where they have no peers:
    those of a server.  A local run's are as free as its user."""
    is_read_only: bool = False
    """Whether the image's own files are closed for writing."""

    @property
    def description(self) -> str:
        """For people: ``docker 28.2.2, containers run as 1000:1000``."""
        whom = {None: "their images say", USER_OF_PROJECT: "the users of their projects"}
        return f"{self.name} {self.version}, containers run as {whom.get(self.user, self.user)}"


class Found(NamedTuple):
    """What was found when the server started: a runtime, or the reason why there is none."""

    runtime: Runtime | None
    reason: str = ""
    """``docker is installed but its daemon does not answer``; empty where there is a runtime."""
    way_out: str = (
        "a container runtime on the server (docker, podman or apptainer); then a restart of the "
        "server"
    )
    """What would be one, for people."""

    def with_walls(self, *, is_read_only: bool, is_root: bool = False) -> "Found":
        """The same for the jobs of a server; ``is_root``: its own user is root, and no job may be.

        Docker and podman run containers as the user that is asked for, apptainer as its caller.
        """
        if self.runtime is None:
            return self
        if is_root and self.runtime.name in CHILDREN_OF_CLIENT:
            return Found(
                None,
                f"{self.runtime.name} would run containers as root; use docker or podman, run the "
                "server as another user, or set allow_root_jobs = true in [isolation]",
            )
        runtime = self.runtime._replace(has_walls=True, is_read_only=is_read_only)
        return self._replace(runtime=runtime)

    def for_projects(self) -> "Found":
        """The same with a user for each project, where nobody has said who containers run as."""
        if self.runtime is None or self.runtime.user != UNPRIVILEGED:
            return self
        return self._replace(runtime=self.runtime._replace(user=USER_OF_PROJECT))

    @property
    def description(self) -> str:
        """The line of the server's start."""
        return self.runtime.description if self.runtime else f"none: {self.reason}"


NONE: Final = Found(None, 'the setting container_runtime is "none"')
