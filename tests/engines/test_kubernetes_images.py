"""What a container starts with: the command of the job, of the table, or of its image."""

import pytest

from trainshed.engines.kubernetes.image_reference import parse_reference
from trainshed.engines.kubernetes.images import ContainerStarts, compose_words
from trainshed.engines.kubernetes.registry import (
    ImageDescription,
    RegistryFault,
    RegistryTrouble,
)
from trainshed.model.faults import EngineFault, TransientFault
from trainshed.model.launch_plan import ContainerPlan

IMAGE = "registry.example/team/one:v1"
PINNED = parse_reference(f"registry.example/team/one@sha256:{'a' * 64}")
WAYS = ("containerSpec.command", "[[image]]", "registry = true")


class StubRegistry:
    """Answers with one description, or with trouble, and counts."""

    def __init__(self, answer):
        self.answer, self.images = answer, []

    def describe(self, image):
        self.images.append(image)
        if isinstance(self.answer, RegistryFault):
            raise self.answer
        return self.answer


def described(entrypoint=(), command=()):
    return ImageDescription(PINNED, "amd64", tuple(entrypoint), tuple(command))


def test_a_command_starts_the_image_as_it_is_named_and_no_registry_is_asked():
    registry = StubRegistry(described(["other"]))
    plan = ContainerPlan(image=IMAGE, command=("python", "-m", "x"), args=("--lr", "1"))
    start = ContainerStarts(registry).find(plan)
    assert start.image == IMAGE
    assert start.words == ("python", "-m", "x", "--lr", "1")
    assert registry.images == []


@pytest.mark.parametrize(
    ("entrypoint", "command", "args", "words"),
    [
        (["e"], ["c"], None, ("e", "c")),
        (["e"], ["c"], ("a",), ("e", "a")),
        (["e"], ["c"], (), ("e",)),
        ([], ["c", "d"], None, ("c", "d")),
        ([], ["c"], ("a",), ("a",)),
        ([], [], ("a",), ("a",)),
        ([], [], None, ()),
    ],
)
def test_the_words_of_an_image_are_joined_as_docker_joins_them(entrypoint, command, args, words):
    plan = ContainerPlan(image=IMAGE, args=args)
    assert compose_words(plan, described(entrypoint, command)) == words


def test_a_container_without_a_command_gets_its_image_by_digest():
    start = ContainerStarts(StubRegistry(described(["e"], ["c"]))).find(ContainerPlan(image=IMAGE))
    assert (start.image, start.words) == (PINNED.text, ("e", "c"))


@pytest.mark.parametrize(
    ("registry", "words"),
    [
        (None, "asks no registry"),
        (StubRegistry(described()), "neither ENTRYPOINT nor CMD"),
        (StubRegistry(RegistryFault(RegistryTrouble.NO_IMAGE, "there is none")), "there is none"),
    ],
)
def test_a_container_with_nothing_to_start_is_refused_with_the_ways_left(registry, words):
    with pytest.raises(EngineFault) as fault:
        ContainerStarts(registry).find(ContainerPlan(image=IMAGE))
    assert not isinstance(fault.value, TransientFault)
    assert words in str(fault.value)
    assert IMAGE in str(fault.value)
    assert [way in str(fault.value) for way in WAYS] == [True, True, registry is None]


def test_a_registry_that_may_answer_later_is_asked_again_later():
    registry = StubRegistry(RegistryFault(RegistryTrouble.UNREACHABLE, "it did not answer"))
    with pytest.raises(TransientFault, match="it did not answer"):
        ContainerStarts(registry).find(ContainerPlan(image=IMAGE))


def test_only_an_engine_that_asks_no_registry_needs_commands():
    assert ContainerStarts(StubRegistry(described())).needs_command == ""
    assert "registry = true" in ContainerStarts(None).needs_command
