"""Finds the first words of a container whose plan gives none.

A warden is the first process of the container, so it must know the program that the image would
start.  The order is: the command of the job, the ``entrypoint`` of an [[image]] table, the image's
own as its registry describes it.  The launch plan has the first two already.  A pod gets an image
that the registry has described by its digest: the tag may move before a node pulls it.
"""

from typing import Final, NamedTuple

from trainshed.engines.kubernetes.registry import ImageDescription, Registry, RegistryFault
from trainshed.model.faults import EngineFault, TransientFault
from trainshed.model.launch_plan import ContainerPlan

_NO_ENTRY_POINT: Final = "the image has neither ENTRYPOINT nor CMD"
_WAYS: Final = (
    "give the command in the job (containerSpec.command or containerCommand); or have the "
    "administrator add `entrypoint` to an [[image]] table for the image in the server's "
    "configuration"
)
_REGISTRY_WAY: Final = "; or let the server ask the image's registry, which needs {settings}"


class ContainerStart(NamedTuple):
    """The image of a container and the words of its program."""

    image: str
    words: tuple[str, ...]
    description: ImageDescription | None = None
    """Set if the registry was asked."""


class ContainerStarts:
    """Finds what containers start with."""

    def __init__(
        self,
        registry: Registry | None,
        registry_settings: str = "`registry = true` in the [[engine]] table",
    ) -> None:
        """``registry``: None: no registry is asked.

        ``registry_settings`` are the settings that let the server ask a registry, as text for
        messages.
        """
        self._registry = registry
        self._registry_settings = registry_settings

    @property
    def needs_command(self) -> str:
        """Why a container without a command can never start; empty: it may (``Runtime``)."""
        if self._registry:
            return ""
        return (
            f"the engine asks no registry for entry points, which needs {self._registry_settings}"
        )

    def find(self, plan: ContainerPlan) -> ContainerStart:
        """Return the image and the words of a container; may send requests to a registry.

        Raises EngineFault, which names all ways to give a command, if there are no words;
        TransientFault if the registry may answer later.
        """
        if plan.command:
            return ContainerStart(plan.image, (*plan.command, *(plan.args or ())))
        if self._registry is None:
            raise EngineFault(self._explain(plan, "the engine asks no registry for entry points"))
        try:
            description = self._registry.describe(plan.image)
        except RegistryFault as fault:
            kind = TransientFault if fault.heals else EngineFault
            raise kind(self._explain(plan, str(fault))) from fault
        words = compose_words(plan, description)
        if not words:
            raise EngineFault(self._explain(plan, _NO_ENTRY_POINT))
        return ContainerStart(description.reference.text, words, description)

    def _explain(self, plan: ContainerPlan, reason: str) -> str:
        settings = self._registry_settings
        ways = _WAYS if self._registry else _WAYS + _REGISTRY_WAY.format(settings=settings)
        return f"the container of {plan.image} gives no command, and {reason}; {ways}"


def compose_words(plan: ContainerPlan, description: ImageDescription) -> tuple[str, ...]:
    """Compose the words as Docker does: args of the job replace CMD, and follow ENTRYPOINT."""
    args = description.command if plan.args is None else plan.args
    return (*description.entrypoint, *args)
