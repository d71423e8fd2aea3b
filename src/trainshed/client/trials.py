"""What a server says of a study's trials beside Google's document."""

from dataclasses import dataclass, field
from typing import Final

from trainshed.client.collections import native_path
from trainshed.client.faults import Json, ServerRefusal, Unreachable
from trainshed.client.http import Server

#: What other servers of these APIs answer, and older ones of ours.
_NOT_HERE: Final = frozenset({404, 501})


@dataclass(slots=True)
class NativeTrials:
    """The trials of a tuning job at their native path, where the server has one."""

    server: Server
    path: str
    _told: Json = field(default_factory=dict, init=False)
    _is_here: bool = field(default=True, init=False)

    def ask(self) -> Json:
        """The newest answer; an empty one from a server that has none.  Raises ServerRefusal.

        A server that has gone is not waited for: whoever asks for the study itself does that.
        """
        try:
            self._told = self.server.call("GET", self.path) if self._is_here else self._told
        except Unreachable:
            pass
        except ServerRefusal as refusal:
            if refusal.http_status not in _NOT_HERE:
                raise
            self._is_here = False
        return self._told


def native_trials(server: Server, name: str, project: str) -> NativeTrials:
    """The trials of the tuning job of an id or a full name."""
    return NativeTrials(server, f"{native_path(name, project)}/trials")
