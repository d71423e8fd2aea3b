"""Prints the lines of replicas on a terminal, with the replica's name as a prefix.

A local run shows the user's own program on the user's own terminal: its bytes are not filtered.
"""

import sys
from collections.abc import Iterable
from typing import TextIO

from trainshed.cli.terminal import ROLE_COLOURS, note, paint, wants_colour, write_unfiltered
from trainshed.engines.base import Stream
from trainshed.model.launch_plan import ReplicaPlan


class TerminalSink:
    """Writes lines to the streams that replicas wrote them to, with a prefix in the role's colour.

    With ``to_stderr`` all lines go to stderr, so that stdout contains only JSON.
    """

    def __init__(
        self, replicas: Iterable[ReplicaPlan], *, colour: str = "auto", to_stderr: bool = False
    ) -> None:
        """Prepare the prefix of every replica."""
        plans = tuple(replicas)
        width = max((len(replica.task_name) for replica in plans), default=0)
        self._streams: dict[str, TextIO] = {
            "stdout": sys.stderr if to_stderr else sys.stdout,
            "stderr": sys.stderr,
        }
        self._prefixes = {
            name: {
                replica.task_name: paint(
                    f"{replica.task_name:<{width}} │ ",
                    ROLE_COLOURS[replica.role.value],
                    on=wants_colour(colour, stream),
                )
                for replica in plans
            }
            for name, stream in self._streams.items()
        }
        self._colour = colour

    def line(self, replica: ReplicaPlan, text: str, stream: Stream) -> None:
        """Write one line of a replica, and flush it."""
        prefix = self._prefixes[stream][replica.task_name]
        write_unfiltered(f"{prefix}{text}\n", self._streams[stream])

    def note(self, text: str) -> None:
        """Write one note of Trainshed to stderr."""
        note(text, colour=self._colour)
