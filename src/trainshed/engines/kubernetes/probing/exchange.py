"""Exchanges files with the containers of a probe: replies to greetings and reads answers."""

import json
import os
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from trainshed.engines.kubernetes.probing.answers import ProbeAnswer
from trainshed.engines.kubernetes.probing.pods import CONTAINERS
from trainshed.engines.supervise.record.folder import read_file
from trainshed.files.beneath import PathBeneath
from trainshed.files.trees import remove_tree

#: Any user of an image may write files there, and only delete its own ones.
_MODE: Final = 0o1777
_REPLY_MODE: Final = 0o644
_BYTES_MAX: Final = 1 << 16
_ADDRESS_MAX: Final = 100


class ProbeExchange:
    """The folder of one probe, as the server sees it."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._greetings: dict[str, ProbeAnswer] = {}
        self.answers: dict[str, ProbeAnswer] = {}
        """The complete answers by container."""

    def open(self) -> None:
        """Create the folder.  Raises OSError."""
        self._folder.mkdir(mode=0o700)
        self._folder.chmod(_MODE)

    def close(self) -> None:
        """Remove the folder.  Raises OSError."""
        remove_tree(self._folder)

    @property
    def is_complete(self) -> bool:
        """Whether every container has answered."""
        return len(self.answers) == len(CONTAINERS)

    def look(self) -> None:
        """Reply to new greetings, and read new answers.  Raises OSError.

        Lists the folder, because on NFS a lookup may not find a new file.
        """
        files = {entry.name for entry in self._folder.iterdir()}
        for name in CONTAINERS:
            if name not in self._greetings and f"greeting-{name}.json" in files:
                self._reply(name, time.time())
            elif name in self._greetings and f"answer-{name}.json" in files:
                self._take(name)

    def _reply(self, name: str, received_s: float) -> None:
        path = self._folder / f"greeting-{name}.json"
        with suppress(OSError, ValueError, TypeError, LookupError):
            greeting, owner = self._read(path), os.lstat(path).st_uid
            self._greetings[name] = ProbeAnswer(
                node=str(greeting["node"])[:_ADDRESS_MAX],
                user=int(greeting["user"]),
                owner=owner,
                greeted_s=float(greeting["at_s"]),
                received_s=received_s,
            )
        if name in self._greetings:
            flags = os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_NOFOLLOW
            os.close(os.open(self._folder / f"reply-{name}", flags, _REPLY_MODE))

    def _take(self, name: str) -> None:
        with suppress(OSError, ValueError, TypeError, LookupError):
            answer = self._read(self._folder / f"answer-{name}.json")
            replied_s = answer["replied_s"]
            self.answers[name] = self._greetings[name]._replace(
                replied_s=None if replied_s is None else float(replied_s),
                address=str(answer["address"])[:_ADDRESS_MAX],
                resolve_s=float(answer["resolve_s"]),
            )

    def _read(self, path: Path) -> Mapping[str, Any]:
        document = json.loads(read_file(PathBeneath.of_file(str(path)), bytes_max=_BYTES_MAX))
        if not isinstance(document, dict):
            raise TypeError("an answer must be a JSON object")
        return document
