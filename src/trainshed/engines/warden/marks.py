"""Placeholders for addresses that are unknown until the replicas have nodes.

Commands and variables are composed with marks instead of hosts and ports; when every warden has
connected, the launcher replaces the marks.  The mark of a host is a word in braces.  The mark of
a port is a number above all ports, which encodes the replica and its number of ports.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Final

from trainshed.engines.supervise.record.spec import ReplicaMarks
from trainshed.model.attempt import AttemptKey
from trainshed.model.roles import Role

if TYPE_CHECKING:
    from trainshed.engines.base import ReplicaShape
    from trainshed.model.launch_plan import Address

#: The smallest mark of a port.  No port is so large, and so no mark plus a small number is a port.
_FIRST: Final = 4_000_000_000
_ROLES: Final = tuple(Role)
_INDEXES: Final = 10_000
#: A replica has fewer neighbouring ports than this; a width of 0 means its rendezvous port.
_WIDTHS: Final = 100
_MARK: Final = re.compile(r"\{ts-host-[0-9]+-[0-9]+-[a-z_]+-[0-9]+\}|(?<![0-9])4[0-9]{9}(?![0-9])")


def addresses(
    key: AttemptKey, shape: "Sequence[ReplicaShape]"
) -> "Mapping[tuple[Role, int], Address]":
    """Return for every replica an address of marks.  Raises ValueError for too many ports."""
    from trainshed.model.launch_plan import Address  # noqa: PLC0415 - a launcher needs none

    for replica in shape:
        if not (0 <= replica.index < _INDEXES and 1 <= replica.ports < _WIDTHS):
            raise ValueError(
                f"a role must have at most {_INDEXES} replicas, and each 1 to {_WIDTHS - 1} ports, "
                f"got {replica.ports} ports for the replica {replica.index}"
            )
    return {
        (replica.role, replica.index): Address(
            host=_host_mark(key, replica.role, replica.index),
            port=_port_mark(replica.role, replica.index, replica.ports),
            rendezvous_port=_port_mark(replica.role, replica.index, 0),
        )
        for replica in shape
    }


def replace_marks(text: str, replacements: Mapping[str, str]) -> str:
    """Replace the marks in a text; marks that ``replacements`` does not contain remain."""
    if "{ts-host-" not in text and "4" not in text:
        return text
    return _MARK.sub(lambda mark: replacements.get(mark[0], mark[0]), text)


def list_used(
    key: AttemptKey, replicas: Iterable[tuple[Role, int]], texts: Iterable[str]
) -> tuple[ReplicaMarks, ...]:
    """Return the marks of each replica: its host, and the ports that the texts contain."""
    marks = {mark for text in texts for mark in _MARK.findall(text)}
    widths: dict[tuple[Role, int], set[int]] = {}
    for mark in marks:
        if not mark.startswith("{"):
            role, index, width = _decode_port(int(mark))
            widths.setdefault((role, index), set()).add(width)
    return tuple(_make_marks(key, *replica, widths.get(replica, set())) for replica in replicas)


def _make_marks(key: AttemptKey, role: Role, index: int, widths: set[int]) -> ReplicaMarks:
    width = max(widths, default=0)
    first = _port_mark(role, index, width)
    return ReplicaMarks(
        host=_host_mark(key, role, index),
        ports=tuple(range(first, first + width)),
        rendezvous=_port_mark(role, index, 0) if 0 in widths else 0,
    )


def _host_mark(key: AttemptKey, role: Role, index: int) -> str:
    return f"{{ts-host-{key.uid}-{key.attempt}-{role.value}-{index}}}"


def _port_mark(role: Role, index: int, width: int) -> int:
    number = (_ROLES.index(role) * _INDEXES + index) * _WIDTHS + width
    return _FIRST + number * _WIDTHS


def _decode_port(mark: int) -> tuple[Role, int, int]:
    """Return the role, the index and the width in a port's mark; width -1: ``mark`` is no mark."""
    number = (mark - _FIRST) // _WIDTHS
    replica_number, width = divmod(number, _WIDTHS)
    role, index = divmod(replica_number, _INDEXES)
    if role >= len(_ROLES):
        return _ROLES[0], 0, -1
    return _ROLES[role], index, width
