"""The filter of system calls refuses its families, however the kernel is called, and no more."""

import errno
import os

import pytest

from trainshed.engines.isolation import seccomp
from trainshed.engines.isolation.modes import CALL_FAMILIES, PERF

MACHINES = ("x86_64", "aarch64")
X86_64, I386, AARCH64, ARM, RISCV = 0xC000003E, 0x40000003, 0xC00000B7, 0x40000028, 0xC00000F3
NATIVE = {"x86_64": X86_64, "aarch64": AARCH64}
OF_32_BITS = {"x86_64": I386, "aarch64": ARM}
ALLOWED, KILLED = 0x7FFF0000, 0x80000000
STRICT = (*CALL_FAMILIES, seccomp.LIMITS)
#: What frameworks, debuggers and NUMA tools call, by name: (x86-64, arm64).
NEEDED = {
    "ptrace": (101, 117), "process_vm_readv": (310, 270), "pidfd_getfd": (438, 438),
    "mbind": (237, 235), "memfd_create": (319, 279), "shmget": (29, 194), "execve": (59, 221),
    "seccomp": (317, 277), "landlock_restrict_self": (446, 446), "futex": (202, 98),
    "sched_setaffinity": (203, 122), "inotify_init1": (294, 26), "io_setup": (206, 0),
}  # fmt: skip
PRLIMIT = {X86_64: 302, I386: 340, AARCH64: 261, ARM: 369}


def refused(error):
    return 0x00050000 | error


def verdict(machine, families, number, *arguments, architecture=None):
    """What the kernel's machine for such programs comes to."""
    words = {0: number, 4: architecture or NATIVE[machine]}
    words |= {16 + 8 * i: word for i, word in enumerate((*arguments, 0, 0, 0)[:3])}
    steps, at, held = seccomp.assemble(machine, families), 0, 0
    while True:
        code, if_so, if_not, word = steps[at]
        at += 1
        tests = {0x15: held == word, 0x45: bool(held & word), 0x35: held >= word}
        if code == 0x20:
            held = words[word]
        elif code == 0x05:
            at += word
        elif code in tests:
            at += if_so if tests[code] else if_not
        else:
            assert code == 0x06
            return word


def pick_number(machine, numbers):
    return numbers[MACHINES.index(machine)]


@pytest.mark.parametrize("machine", MACHINES)
def test_what_trainers_need_is_allowed(machine):
    for name, numbers in NEEDED.items():
        assert verdict(machine, STRICT, pick_number(machine, numbers), 7) == ALLOWED, name


@pytest.mark.parametrize("machine", MACHINES)
def test_a_family_is_refused_unless_it_is_left_out(machine):
    perf = pick_number(machine, (298, 241))
    assert verdict(machine, STRICT, perf) == refused(errno.EPERM)
    assert verdict(machine, set(STRICT) - {PERF}, perf) == ALLOWED


@pytest.mark.parametrize("family", CALL_FAMILIES)
def test_every_family_refuses_some_call_and_no_other_of_the_list(family):
    for machine in MACHINES:
        strict, alone = (
            {n for n in range(470) if verdict(machine, f, n, 0x7E020000, 0x5412) != ALLOWED}
            for f in (STRICT, (family,))
        )
        rest = {
            n
            for n in range(470)
            if verdict(machine, set(STRICT) - {family}, n, 0x7E020000, 0x5412) != ALLOWED
        }
        assert alone
        assert strict - rest == alone


@pytest.mark.parametrize("machine", MACHINES)
def test_processes_and_threads_are_made_and_namespaces_are_not(machine):
    clone, unshare = pick_number(machine, (56, 220)), pick_number(machine, (272, 97))
    threads, of_fork, user = 0x3D0F00, 0x11, 0x10000000
    assert verdict(machine, STRICT, clone, threads) == ALLOWED
    assert verdict(machine, STRICT, clone, of_fork) == ALLOWED
    assert verdict(machine, STRICT, unshare, 0x400) == ALLOWED  # of open files alone
    for call in (clone, unshare):
        assert verdict(machine, STRICT, call, user | of_fork) == refused(errno.EPERM)
    assert verdict(machine, STRICT, 435) == refused(errno.ENOSYS)  # libc calls clone then


@pytest.mark.parametrize("machine", MACHINES)
def test_a_terminal_is_used_and_not_typed_into(machine):
    ioctl = pick_number(machine, (16, 29))
    assert verdict(machine, STRICT, ioctl, 0, 0x5401) == ALLOWED
    assert verdict(machine, STRICT, ioctl, 0, 0x5412) == refused(errno.EPERM)


@pytest.mark.parametrize("machine", MACHINES)
def test_sockets_are_those_of_networks_and_files(machine):
    socket = pick_number(machine, (41, 198))
    verdicts = [verdict(machine, STRICT, socket, family) for family in range(46)]
    assert [n for n, answer in enumerate(verdicts) if answer == ALLOWED] == [1, 2, 10, 16]


@pytest.mark.parametrize("machine", MACHINES)
def test_limits_of_others_are_refused_and_ones_own_are_not(machine):
    for families in (STRICT, (seccomp.LIMITS,)):
        number = PRLIMIT[NATIVE[machine]]
        assert verdict(machine, families, number, 4711) == refused(errno.EPERM)
        assert verdict(machine, families, number, 0) == ALLOWED
    assert verdict(machine, CALL_FAMILIES, number, 4711) == ALLOWED


@pytest.mark.parametrize("machine", MACHINES)
def test_other_numbers_for_the_same_calls_lead_nowhere(machine):
    for architecture in (OF_32_BITS[machine], RISCV):
        assert verdict(machine, STRICT, 20, architecture=architecture) == KILLED
    x32, unknown = 0x40000000, 470
    for number in (unknown, x32 | 56, 0xFFFFFFFF):
        assert verdict(machine, STRICT, number) == refused(errno.ENOSYS)


@pytest.mark.parametrize("machine", MACHINES)
def test_without_families_only_limits_are_refused_in_programs_of_32_bits_too(machine):
    old = OF_32_BITS[machine]
    only = (seccomp.LIMITS,)
    assert verdict(machine, only, PRLIMIT[old], 7, architecture=old) == refused(errno.EPERM)
    assert verdict(machine, only, 20, architecture=old) == ALLOWED
    assert verdict(machine, only, 435) == ALLOWED
    if machine == "x86_64":
        assert verdict(machine, only, 0x40000000 | 302, 7) == refused(errno.EPERM)


def test_a_machine_that_is_not_known_has_no_filter(monkeypatch):
    names = os.uname()
    monkeypatch.setattr(os, "uname", lambda: os.uname_result((*names[:4], "riscv64")))
    assert seccomp.code_of(STRICT) == b""
