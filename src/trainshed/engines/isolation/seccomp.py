"""Builds a filter of system calls for isolated programs, which refuses calls that no trainer needs.

The list has the refused calls, not the allowed ones: frameworks and drivers use more calls with
each release.  Calls that are newer than the list do not exist for a job, as on an older kernel.
Decision 0085 has the list's source (Docker's default profile) and the differences from it.
"""

import ctypes
import errno
import os
import struct
from collections.abc import Collection, Iterator
from typing import Final, NamedTuple

from trainshed.engines.isolation import linux
from trainshed.engines.isolation.modes import (  # fmt: skip
    BPF,
    HANDLES,
    IO_URING,
    KERNEL,
    KEYS,
    LEGACY,
    MOUNTS,
    NAMESPACES,
    PERF,
    SOCKETS,
    TERMINALS,
    USERFAULTFD,
)

#: The calls that set limits of other processes, which Landlock allows; the settings cannot name
#: this family.
LIMITS: Final = "limits"

# from linux/seccomp.h, linux/bpf_common.h and linux/audit.h
_SET_FILTER: Final = 1
_SPEC_ALLOW: Final = 1 << 2
_LOAD, _EQUALS, _HAS_BITS, _AT_LEAST, _JUMP, _RETURN = 0x20, 0x15, 0x45, 0x35, 0x05, 0x06
_NUMBER, _ARCHITECTURE, _FIRST_WORD, _WORD_BYTES = 0, 4, 16, 8
_ALLOW, _ERRNO, _KILL = 0x7FFF0000, 0x00050000, 0x80000000
_X32: Final = 0x40000000
_SECCOMP: Final = {"x86_64": 317, "aarch64": 277}
#: The native way to call the kernel first, then that of 32-bit programs.
_ARCHITECTURES: Final = {"x86_64": (0xC000003E, 0x40000003), "aarch64": (0xC00000B7, 0x40000028)}
#: The newest system call that was considered for this list: file_setattr of Linux 6.17.
_NEWEST: Final = 469

# from linux/sched.h, sys/socket.h, linux/personality.h and asm-generic/ioctls.h
_NEW_NAMESPACES: Final = 0x7E020000
_NEW_TIME: Final = 0x80
_UNIX, _INET, _INET6, _NETLINK = 1, 2, 10, 16
_TIOCSTI, _TIOCLINUX = 0x5412, 0x541C
_SAME_ADDRESSES, _UNAME26, _PER_LINUX32, _ASK = 0x40000, 0x20000, 8, 0xFFFFFFFF

_WHAT: Final = 'a filter of system calls ([isolation] seccomp = "none" switches it off)'

_Step = tuple[int, int, int, int]


class _Call(NamedTuple):
    """One refused system call, with its number for each machine; None: no such call."""

    x86_64: int | None
    aarch64: int | None
    error: int = errno.EPERM
    argument: int = 0
    """The argument that the next three fields test; the kernel ignores its upper 32 bits."""
    bits: int = 0
    """Refused only if the argument has one of these bits; 0: whatever the bits."""
    values: tuple[int, ...] = ()
    """Refused only if the argument is one of these values; empty: whatever the value."""
    allowed: tuple[int, ...] = ()
    """Refused unless the argument is one of these values."""


_NONE: Final = errno.ENOSYS
#: The calls by family.  A call with an older alternative fails with ENOSYS, so that programs use
#: the older call.
_CALLS: Final[dict[str, tuple[_Call, ...]]] = {
    NAMESPACES: (
        _Call(56, 220, bits=_NEW_NAMESPACES),  # clone
        _Call(435, 435, _NONE),  # clone3, whose flags no filter can read; libc then calls clone
        _Call(272, 97, bits=_NEW_NAMESPACES | _NEW_TIME),  # unshare
        _Call(308, 268),  # setns
    ),
    SOCKETS: (_Call(41, 198, errno.EAFNOSUPPORT, allowed=(_UNIX, _INET, _INET6, _NETLINK)),),
    TERMINALS: (_Call(16, 29, argument=1, values=(_TIOCSTI, _TIOCLINUX)),),  # ioctl
    MOUNTS: (
        *(_Call(165, 40), _Call(166, 39)),  # mount, umount2
        *(_Call(155, 41), _Call(161, 51)),  # pivot_root, chroot
        *(_Call(number, number, _NONE) for number in (428, 429)),  # open_tree, move_mount
        *(_Call(number, number, _NONE) for number in (430, 431)),  # fsopen, fsconfig
        *(_Call(number, number, _NONE) for number in (432, 433)),  # fsmount, fspick
        *(_Call(number, number, _NONE) for number in (442, 467)),  # mount_setattr, open_tree_attr
    ),
    IO_URING: tuple(_Call(number, number, _NONE) for number in (425, 426, 427)),
    KEYS: (_Call(248, 217, _NONE), _Call(249, 218, _NONE), _Call(250, 219, _NONE)),
    USERFAULTFD: (_Call(323, 282, _NONE),),
    BPF: (_Call(321, 280),),
    PERF: (_Call(298, 241),),  # perf_event_open
    HANDLES: (_Call(304, 265),),  # open_by_handle_at, which checks no folder on the path
    KERNEL: (
        *(_Call(175, 105), _Call(313, 273), _Call(176, 106)),  # init, finit, delete_module
        *(_Call(246, 104), _Call(320, 294), _Call(169, 142)),  # kexec_load, _file_load, reboot
        *(_Call(164, 170), _Call(227, 112)),  # settimeofday, clock_settime
        *(_Call(170, 161), _Call(171, 162)),  # sethostname, setdomainname
        *(_Call(167, 224), _Call(168, 225), _Call(163, 89)),  # swapon, swapoff, acct
        *(_Call(179, 60), _Call(443, 443)),  # quotactl, quotactl_fd
        *(_Call(103, 116), _Call(153, 58)),  # syslog, vhangup
        *(_Call(173, None), _Call(172, None)),  # ioperm, iopl
        _Call(300, 262),  # fanotify_init
    ),
    LEGACY: (
        _Call(  # personality; debuggers and sanitizers switch off random addresses
            135, 92,
            allowed=(0, _PER_LINUX32, _UNAME26, _UNAME26 | _PER_LINUX32, _SAME_ADDRESSES, _ASK),
        ),
        *(_Call(154, None), _Call(134, None)),  # modify_ldt, uselib
        *(_Call(136, None), _Call(139, None)),  # ustat, sysfs
        *(_Call(156, None), _Call(180, 42)),  # _sysctl, nfsservctl
        *(_Call(212, 18),),  # lookup_dcookie
    ),
    LIMITS: (_Call(302, 261, allowed=(0,)),),  # prlimit64, of other processes
}  # fmt: skip
#: The numbers of prlimit64 for 32-bit programs, which run only under a filter without families.
_LIMITS_32: Final = {"x86_64": 340, "aarch64": 369}


def is_known(machine: str) -> bool:
    """Return whether there is a filter for a machine, by ``uname -m``."""
    return machine in _SECCOMP


def code_of(families: Collection[str]) -> bytes:
    """Assemble the filter that refuses these families on this machine; empty without families.

    Also empty on machines other than x86-64 and arm64.
    """
    machine = os.uname().machine
    if not families or not is_known(machine):
        return b""
    return b"".join(struct.pack("=HBBI", *step) for step in assemble(machine, families))


def install(code: bytes) -> None:
    """Filter the system calls of this process and of its later children.  Raises OSError.

    Call ``linux.forbid_new_privileges`` before.
    """
    if not code:
        return
    number = _SECCOMP[os.uname().machine]
    buffer = ctypes.create_string_buffer(code, len(code))
    program = struct.pack("@HP", len(code) // _WORD_BYTES, ctypes.addressof(buffer))
    # without the flag older kernels would make the whole job slower (SSBD)
    linux.syscall(_WHAT, number, _SET_FILTER, _SPEC_ALLOW, ctypes.c_char_p(program))


def assemble(machine: str, families: Collection[str]) -> list[_Step]:
    """Return a filter in the kernel's classic BPF: (code, jump if true, jump if false, word).

    With a family of the settings, programs of 32 bits are killed and calls newer than the list do
    not exist.  With ``LIMITS`` alone all other calls are allowed.
    """
    native, old = _ARCHITECTURES[machine]
    is_strict = bool(set(families) - {LIMITS})
    first = [(_LOAD, 0, 0, _ARCHITECTURE)]
    section = _compose_section(
        native, [*_compose_native_steps(machine, families, is_strict=is_strict)]
    )
    if is_strict:
        return [*first, *section, (_RETURN, 0, 0, _KILL)]
    limits = [
        step for call in _CALLS[LIMITS] for step in _compose_call_steps(_LIMITS_32[machine], call)
    ]
    return [*first, *section, *_compose_section(old, limits), (_RETURN, 0, 0, _ALLOW)]


def _compose_section(architecture: int, steps: list[_Step]) -> Iterator[_Step]:
    """Yield the tests for one architecture; a conditional jump spans at most 255 steps."""
    body = [(_LOAD, 0, 0, _NUMBER), *steps, (_RETURN, 0, 0, _ALLOW)]
    yield (_EQUALS, 1, 0, architecture)
    yield (_JUMP, 0, 0, len(body))
    yield from body


def _compose_native_steps(
    machine: str, families: Collection[str], *, is_strict: bool
) -> Iterator[_Step]:
    if is_strict:  # this refuses the numbers of x32 too
        yield (_AT_LEAST, 0, 1, _NEWEST + 1)
        yield (_RETURN, 0, 0, _ERRNO | errno.ENOSYS)
    for family, calls in _CALLS.items():
        for call in calls if family in families else ():
            number = call.x86_64 if machine == "x86_64" else call.aarch64
            if number is not None:
                yield from _compose_call_steps(number, call)
                if not is_strict and machine == "x86_64":
                    yield from _compose_call_steps(_X32 | number, call)


def _compose_call_steps(number: int, call: _Call) -> Iterator[_Step]:
    """Yield the steps for one number, which is in the accumulator before and after."""
    refuse, allow = (_RETURN, 0, 0, _ERRNO | call.error), (_RETURN, 0, 0, _ALLOW)
    tests = [(_HAS_BITS, call.bits)] if call.bits else []
    tests += [(_EQUALS, value) for value in (*call.values, *call.allowed)]
    if not tests:
        yield from ((_EQUALS, 0, 1, number), refuse)
        return
    last = len(tests) - 1
    jumps = [(code, last - i + 1, 0, word) for i, (code, word) in enumerate(tests)]
    ends = (refuse, allow) if call.allowed else (allow, refuse)
    word = _FIRST_WORD + _WORD_BYTES * call.argument
    body = [(_LOAD, 0, 0, word), *jumps, *ends]
    yield (_EQUALS, 0, len(body), number)
    yield from body
