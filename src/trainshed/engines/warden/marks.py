"""Placeholders for addresses that are unknown until the replicas have nodes.

Commands and variables are composed with marks in the place of hosts and ports; when every warden
has said its address, the launcher fills them in.  A host's mark is a word in braces.  A port's is a
whole number that no port can have, and says of itself whose it is and how many neighbours it has.
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

#: Ports are below 65536; who adds to a mark stays above this.
_FIRST: Final = 4_000_000_000
_ROLES: Final = tuple(Role)
_INDEXES: Final = 10_000
#: Neighbouring ports that one replica may have; a width of 0 is the rendezvous.
_WIDTHS: Final = 100
_MARK: Final = re.compile(r"\{ts-host-[0-9]+-[0-9]+-[a-z_]+-[0-9]+\}|(?<![0-9])4[0-9]{9}(?![0-9])")


def addresses(
    key: AttemptKey, shape: "Sequence[ReplicaShape]"
) -> "Mapping[tuple[Role, int], Address]":
    """An address for every replica, made of marks.  Raises ValueError for what has no mark."""
    from trainshed.model.launch_plan import Address  # noqa: PLC0415 - a launcher needs none

    for replica in shape:
        if not (0 <= replica.index < _INDEXES and 1 <= replica.ports < _WIDTHS):
            raise ValueError(
                f"a role has {_INDEXES} replicas at most, and each 1 to {_WIDTHS - 1} ports"
            )
    return {
        (replica.role, replica.index): Address(
            host=_host(key, replica.role, replica.index),
            port=_port(replica.role, replica.index, replica.ports),
            rendezvous_port=_port(replica.role, replica.index, 0),
        )
        for replica in shape
    }


def filled(text: str, replacements: Mapping[str, str]) -> str:
    """A text with every mark replaced that something was found for."""
    if "{ts-host-" not in text and "4" not in text:
        return text
    return _MARK.sub(lambda mark: replacements.get(mark[0], mark[0]), text)


def used(
    key: AttemptKey, replicas: Iterable[tuple[Role, int]], texts: Iterable[str]
) -> tuple[ReplicaMarks, ...]:
    """The marks of some replicas, as far as their ports are spoken of in these texts."""
    marks = {mark for text in texts for mark in _MARK.findall(text)}
    widths: dict[tuple[Role, int], set[int]] = {}
    for mark in marks:
        if not mark.startswith("{"):
            role, index, width = _meaning(int(mark))
            widths.setdefault((role, index), set()).add(width)
    return tuple(_marks(key, *replica, widths.get(replica, set())) for replica in replicas)


def _marks(key: AttemptKey, role: Role, index: int, widths: set[int]) -> ReplicaMarks:
    width = max(widths, default=0)
    first = _port(role, index, width)
    return ReplicaMarks(
        host=_host(key, role, index),
        ports=tuple(range(first, first + width)),
        rendezvous=_port(role, index, 0) if 0 in widths else 0,
    )


def _host(key: AttemptKey, role: Role, index: int) -> str:
    return f"{{ts-host-{key.uid}-{key.attempt}-{role.value}-{index}}}"


def _port(role: Role, index: int, width: int) -> int:
    number = (_ROLES.index(role) * _INDEXES + index) * _WIDTHS + width
    return _FIRST + number * _WIDTHS


def _meaning(mark: int) -> tuple[Role, int, int]:
    """The role, the index and the number of ports of a port's mark; width -1 for other numbers."""
    number = (mark - _FIRST) // _WIDTHS
    of_replica, width = divmod(number, _WIDTHS)
    role, index = divmod(of_replica, _INDEXES)
    if role >= len(_ROLES):
        return _ROLES[0], 0, -1
    return _ROLES[role], index, width
