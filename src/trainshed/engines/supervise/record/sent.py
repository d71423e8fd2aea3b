"""What was sent for an attempt, as its folder has it, for people.

An engine that sends more than the plan keeps the rest beside it when it sends it.
"""

import json
from collections.abc import Mapping
from contextlib import suppress
from typing import Final

from trainshed.engines.supervise.record.folder import AttemptFolder, read_file, write_json
from trainshed.files.beneath import PathBeneath

PLAN: Final = "plan.json"
_KEPT: Final = "sent.json"
#: A gang of a hundred with large environments has less.
_BYTES_MAX: Final = 1 << 26


def keep(folder: AttemptFolder, parts: Mapping[str, str]) -> None:
    """Keep what is about to be sent besides the plan.  Raises OSError."""
    write_json(f"{folder.path}/{_KEPT}", dict(parts), durably=True)


def sent(folder: AttemptFolder) -> dict[str, str]:
    """The plan and what was kept beside it, by name; empty where nothing was sent.

    Raises OSError where that cannot be read now.
    """
    documents: dict[str, str] = {}
    with suppress(FileNotFoundError, ValueError):
        documents[PLAN] = json.dumps(json.loads(_text(folder, PLAN)), indent=2)
    with suppress(FileNotFoundError, ValueError, AttributeError):
        extras = json.loads(_text(folder, _KEPT))
        documents |= {str(name): str(text) for name, text in extras.items()}
    return documents


def _text(folder: AttemptFolder, name: str) -> bytes:
    place = PathBeneath.of_file(f"{folder.path}/{name}", (folder.job,))
    return read_file(place, bytes_max=_BYTES_MAX)
