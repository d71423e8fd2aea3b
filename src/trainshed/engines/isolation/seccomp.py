"""A filter of one system call, for what neither users nor Landlock deny: limits of other processes.

``prlimit`` asks for the user alone.  A job of the server's own user could give the server a second
of CPU time, and the kernel would end it.
"""

import ctypes
import errno
import os
import struct
from typing import Final

from trainshed.engines.isolation import linux

# from linux/seccomp.h, linux/bpf_common.h and linux/audit.h
_SET_FILTER: Final = 1
_SPEC_ALLOW: Final = 1 << 2
_LOAD, _EQUALS, _RETURN = 0x20, 0x15, 0x06
_NUMBER, _ARCHITECTURE, _FIRST_WORD = 0, 4, 16
_ALLOW, _ERRNO = 0x7FFF0000, 0x00050000
_X32: Final = 0x40000000
#: The numbers of prlimit64 in each way that a program of the machine may call the kernel.
_PRLIMIT: Final[dict[str, dict[int, tuple[int, ...]]]] = {
    "x86_64": {0xC000003E: (302, _X32 | 302), 0x40000003: (340,)},
    "aarch64": {0xC00000B7: (261,), 0x40000028: (369,)},
}
_SECCOMP: Final = {"x86_64": 317, "aarch64": 277}

_Step = tuple[int, int, int, int]


def keep_limits_of_others() -> None:
    """Have this process, and all that it starts, change no limits but its own.  Raises OSError.

    It has given up new privileges before.  Other machines than these two have no filter.
    """
    machine = os.uname().machine
    if machine not in _PRLIMIT:
        return
    steps = program(_PRLIMIT[machine])
    code = b"".join(struct.pack("=HBBI", *step) for step in steps)
    buffer = ctypes.create_string_buffer(code, len(code))
    given = struct.pack("@HP", len(steps), ctypes.addressof(buffer))
    # without the flag older kernels would make the whole job slower (SSBD)
    linux.syscall("seccomp", _SECCOMP[machine], _SET_FILTER, _SPEC_ALLOW, ctypes.c_char_p(given))


def program(numbers: dict[int, tuple[int, ...]]) -> list[_Step]:
    """The filter: (code, steps to jump if so, if not, word), by the kernel's classic BPF."""
    refuse = [
        (_LOAD, 0, 0, _FIRST_WORD),
        (_EQUALS, 0, 1, 0),  # a process's own limits
        (_RETURN, 0, 0, _ALLOW),
        (_RETURN, 0, 0, _ERRNO | errno.EPERM),
    ]
    steps: list[_Step] = [(_RETURN, 0, 0, _ALLOW), *refuse]
    for architecture, calls in reversed(numbers.items()):
        steps = [*_of_architecture(architecture, calls, len(steps) - len(refuse)), *steps]
    return steps


def _of_architecture(architecture: int, calls: tuple[int, ...], behind: int) -> list[_Step]:
    """Its part, which jumps over the ``behind`` steps that follow before the refusal."""
    count = len(calls)
    compared = [(_EQUALS, count - 1 - i + 1 + behind, 0, call) for i, call in enumerate(calls)]
    rest = [(_LOAD, 0, 0, _NUMBER), *compared, (_RETURN, 0, 0, _ALLOW)]
    return [(_LOAD, 0, 0, _ARCHITECTURE), (_EQUALS, 0, len(rest), architecture), *rest]
