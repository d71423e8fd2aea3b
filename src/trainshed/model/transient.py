"""What is wrong with a machine for a while, and is not the fault of any job.

A job that meets it waits and is tried again; ending it would lose what was accepted.
"""

import errno
from typing import Final

from trainshed.model.faults import EngineFault

#: A full disk, one that is away or read-only, and too little of what is shared by all.
_TRANSIENT: Final = frozenset(
    {
        errno.EAGAIN,
        errno.EDQUOT,
        errno.EIO,
        errno.EMFILE,
        errno.ENFILE,
        errno.ENOMEM,
        errno.ENOSPC,
        errno.EROFS,
        errno.ESTALE,
    }
)


class TransientFault(EngineFault):
    """What a valid plan asked could not be done now, and may be done later."""


def is_transient(error: BaseException) -> bool:
    """Whether an error is one of the machine, and worth another try."""
    is_one = isinstance(error, OSError) and error.errno in _TRANSIENT
    return is_one or isinstance(error, TransientFault)
