"""The container runtime of a machine, or the reason why the machine has none."""

from typing import Final, NamedTuple

DOCKER: Final = "docker"
PODMAN: Final = "podman"
APPTAINER: Final = "apptainer"
SINGULARITY: Final = "singularity"

#: Names of the programs, in order of preference if several work.
NAMES: Final = (DOCKER, PODMAN, APPTAINER, SINGULARITY)

#: Values of the setting ``container_runtime`` besides the names.
AUTO: Final = "auto"
NO_RUNTIME: Final = "none"
CHOICES: Final = (AUTO, NO_RUNTIME, DOCKER, PODMAN, APPTAINER)

#: Runtimes whose containers are child processes of the runtime's command.  Containers of the other
#: runtimes belong to a daemon or a monitor, which continues after the end of the command.
CHILDREN_OF_CLIENT: Final = frozenset({APPTAINER, SINGULARITY})

#: The user of containers if the server is root and no setting names a user.  This user is not
#: ``nobody``, which daemons of the machine share; Debian assigns the number 65533 to no user.
UNPRIVILEGED: Final = "65533:65533"

#: Instead of ``UID:GID``: the user of the job's project, if projects have users.
USER_OF_PROJECT: Final = "project"

#: Instead of ``UID:GID``: the user that the image names, which is usually root.
USER_OF_IMAGE: Final = "image"


class Runtime(NamedTuple):
    """A container runtime that works on this machine."""

    name: str
    """One of ``NAMES``."""
    program: str
    """The path of its command."""
    version: str
    user: str | None
    """``UID:GID`` of the containers, or ``USER_OF_PROJECT``; None: the user of the image."""
    has_init: bool = False
    """Whether the runtime can add a first process that forwards signals and reaps children."""
    is_isolated: bool = False
    """Whether containers have no capabilities, and their own network if they have no peers.
    True for jobs of a server; containers of a local run have the rights of the run's user."""
    is_read_only: bool = False
    """Whether the image's own files are read-only."""
    needs_command: str = ""
    """Why a container without a command in its job or its [[image]] table cannot start; empty: such
    a container starts with its image's own."""
    runs_all_jobs: bool = False
    """Whether the engine runs every job in an image, so that the job's log need not say it."""

    @property
    def description(self) -> str:
        """Text such as ``docker 28.2.2, containers run as 1000:1000``."""
        users = {None: "their images say", USER_OF_PROJECT: "the users of their projects"}
        return f"{self.name} {self.version}, containers run as {users.get(self.user, self.user)}"


class RuntimeChoice(NamedTuple):
    """The container runtime at the start of the server, or the reason why there is none."""

    runtime: Runtime | None
    reason: str = ""
    """Text such as ``docker is installed but its daemon does not answer``; empty if there is a
    runtime."""
    remedy: str = (
        "docker, podman or apptainer on the server's machine; then a restart of the server"
    )
    """The software to install or the setting to change to get a runtime, as text for messages."""

    def with_isolation(self, *, is_read_only: bool, is_root: bool = False) -> "RuntimeChoice":
        """Return the runtime with isolation, for jobs of a server.

        ``is_root``: the server runs as root.  Docker and podman run containers as a given user, but
        apptainer runs containers as its caller.  If containers would run as root, return a
        choice without a runtime, with the reason.
        """
        if self.runtime is None:
            return self
        if is_root and self.runtime.name in CHILDREN_OF_CLIENT:
            return RuntimeChoice(
                None,
                f"{self.runtime.name} would run containers as root; use docker or podman, run the "
                "server as another user, or set allow_root_jobs = true in [isolation]",
            )
        runtime = self.runtime._replace(is_isolated=True, is_read_only=is_read_only)
        return self._replace(runtime=runtime)

    def for_projects(self) -> "RuntimeChoice":
        """Return the runtime with a user for each project, unless the settings name a user."""
        if self.runtime is None or self.runtime.user != UNPRIVILEGED:
            return self
        return self._replace(runtime=self.runtime._replace(user=USER_OF_PROJECT))

    @property
    def description(self) -> str:
        """The text that the server logs at its start."""
        return self.runtime.description if self.runtime else f"none: {self.reason}"


NONE: Final = RuntimeChoice(None, 'the setting container_runtime is "none"')
