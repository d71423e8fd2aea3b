"""Makes the network namespaces of an attempt, and runs slirp4netns for their hub.

Only the descriptors in this process, the supervisor, keep the namespaces alive.  slirp4netns ends
with the supervisor.  So neither remains after the attempt.
"""

import os
from typing import Final

from trainshed.engines.network.namespaces import (
    Namespaces,
    change_host_name,
    enter_namespace,
    make_namespaces,
)
from trainshed.engines.network.rule import NetworkRule
from trainshed.engines.processes import tree
from trainshed.engines.supervise.loop import Children, Loop
from trainshed.engines.supervise.network.way_out import Note, WayOut


class AttemptNetwork:
    """The namespaces of one attempt and the process that forwards packets out of them."""

    def __init__(self, rule: NetworkRule, loop: Loop, children: Children, note: Note) -> None:
        self._rule = rule
        self._spaces: Namespaces | None = None
        self.way_out: Final = WayOut(loop, children, note)

    def make(self) -> None:
        """Make the namespaces and start slirp4netns.  Raises OSError."""
        self._spaces = make_namespaces(
            self._rule, owns_user=os.geteuid() != 0, on_hub=self.way_out.start
        )

    @property
    def is_made(self) -> bool:
        """Whether the namespaces exist."""
        return self._spaces is not None

    @property
    def listeners(self) -> tuple[int, ...] | None:
        """Descriptors of the sockets of ``NetworkRule.listeners`` in each namespace.

        None: the namespaces do not exist yet.
        """
        if self._spaces is None:
            return None
        spaces = (*self._spaces.replicas, self._spaces.hub)
        return tuple(descriptor for space in spaces for descriptor in space.listeners)

    def enter_replica(self, index: int, host_name: str = "") -> None:
        """Move the calling process, a new fork, into the network of a replica.

        If ``host_name`` is not empty, set the host name of the process.  Raises OSError.
        """
        if self._spaces is not None:
            enter_namespace(self._spaces.user, self._spaces.of_replica(index).net)
            if host_name:
                change_host_name(host_name)

    def enter_hub(self) -> None:
        """Move the calling process, a new fork, into the hub.  Raises OSError."""
        if self._spaces is not None:
            enter_namespace(self._spaces.user, self._spaces.hub.net)

    def close_when_alone(self) -> None:
        """Kill slirp4netns if no other process of the attempt lives."""
        forwarders = self.way_out.processes
        children = (child for _, child in tree.descendants(os.getpid()))
        if forwarders and not tree.living(pid for pid in children if pid not in forwarders):
            self.way_out.kill()
