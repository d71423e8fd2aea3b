"""The conditions of a caller, held against what is there."""

from trainshed.model.stored_objects import Conditions, StoredObject
from trainshed.storage.object_files import NoSuchObject


class ConditionFailed(Exception):
    """Something that the caller wanted to be true is not; the message says what."""


def check_conditions(wanted: Conditions, found: StoredObject | None) -> None:
    """Raise ConditionFailed, or NoSuchObject where another revision is meant."""
    generation = found.generation if found else 0
    metageneration = found.metageneration if found else 0
    if wanted.revision not in (None, generation):
        raise NoSuchObject(f"No such object: its generation is not {wanted.revision}")
    failed = {
        "ifGenerationMatch": wanted.generation not in (None, generation),
        "ifGenerationNotMatch": wanted.generation_not == generation,
        "ifMetagenerationMatch": wanted.metageneration not in (None, metageneration),
        "ifMetagenerationNotMatch": wanted.metageneration_not == metageneration,
    }
    if missed := [name for name, has in failed.items() if has]:
        raise ConditionFailed(
            "At least one of the pre-conditions you specified did not hold: "
            f"{', '.join(missed)}; the object's generation is {generation}, "
            f"its metageneration {metageneration}."
        )
