"""The documents that an engine has sent to start an attempt, for people.

The plan is one of them.  An engine that sends more, such as a batch script, saves the rest in a
file beside the plan.
"""

import json
from collections.abc import Mapping
from contextlib import suppress
from typing import Final

from trainshed.engines.supervise.record.folder import AttemptFolder, read_file, write_json
from trainshed.files.beneath import PathBeneath

PLAN: Final = "plan.json"
_SENT: Final = "sent.json"
#: More than a plan of a hundred replicas with large environments has.
_BYTES_MAX: Final = 1 << 26


def keep(folder: AttemptFolder, parts: Mapping[str, str]) -> None:
    """Save the documents that the engine is about to send besides the plan.  Raises OSError."""
    write_json(f"{folder.path}/{_SENT}", dict(parts), durably=True)


def sent(folder: AttemptFolder) -> dict[str, str]:
    """Return the plan and the other documents by name; empty if the engine has sent nothing.

    Raises OSError if the files cannot be read now.
    """
    documents: dict[str, str] = {}
    with suppress(FileNotFoundError, ValueError):
        documents[PLAN] = json.dumps(json.loads(_read(folder, PLAN)), indent=2)
    with suppress(FileNotFoundError, ValueError, AttributeError):
        extras = json.loads(_read(folder, _SENT))
        documents |= {str(name): str(text) for name, text in extras.items()}
    return documents


def _read(folder: AttemptFolder, name: str) -> bytes:
    place = PathBeneath.of_file(f"{folder.path}/{name}", (folder.job,))
    return read_file(place, bytes_max=_BYTES_MAX)
