"""Stores the documents that an engine sends to start an attempt, so that people can read them.

The plan is one of the documents.  An engine that sends others, such as a batch script, saves them
in a file beside the plan.
"""

import json
from collections.abc import Mapping
from contextlib import suppress
from typing import Final

from trainshed.engines.supervise.record.folder import AttemptFolder, read_file, write_json
from trainshed.files.beneath import PathBeneath

PLAN: Final = "plan.json"
_SENT: Final = "sent.json"
#: Limit of a file; the plan of a hundred replicas with large environments is smaller.
_BYTES_MAX: Final = 1 << 26


def save(folder: AttemptFolder, documents: Mapping[str, str]) -> None:
    """Save the documents that the engine is about to send besides the plan.  Raises OSError.

    They are not synced to disk, because only people read them: a loss of power may lose them.
    """
    write_json(f"{folder.path}/{_SENT}", dict(documents))


def sent(folder: AttemptFolder) -> dict[str, str]:
    """Return the texts of the plan and of the other documents, by name.

    Empty if the engine has sent nothing.  Raises OSError if the files cannot be read now.
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
