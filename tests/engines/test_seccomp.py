"""The filter refuses ``prlimit`` of other processes, however the kernel is called, and no more."""

import pytest

from trainshed.engines.isolation import seccomp

ALLOWED, REFUSED = 0x7FFF0000, 0x00050001
OTHER_NUMBERS = (0, 157, 302, 340, 261, 369, 0x40000000)


def verdict(machine, architecture, number, first_word):
    """What the kernel's machine for such programs comes to."""
    words, at, held = {0: number, 4: architecture, 16: first_word}, 0, 0
    steps = seccomp.program(seccomp._PRLIMIT[machine])
    while True:
        code, if_so, if_not, word = steps[at]
        at += 1
        if code == 0x20:
            held = words[word]
        elif code == 0x15:
            at += if_so if held == word else if_not
        else:
            assert code == 0x06
            return word


@pytest.mark.parametrize("machine", seccomp._PRLIMIT)
def test_it_is_refused_for_others_and_allowed_for_oneself(machine):
    for architecture, numbers in seccomp._PRLIMIT[machine].items():
        for number in numbers:
            assert verdict(machine, architecture, number, 4711) == REFUSED
            assert verdict(machine, architecture, number, 0) == ALLOWED


@pytest.mark.parametrize("machine", seccomp._PRLIMIT)
def test_all_else_is_allowed(machine):
    known = seccomp._PRLIMIT[machine]
    for architecture in (*known, 0xC0000016):
        for number in set(OTHER_NUMBERS).difference(known.get(architecture, ())):
            assert verdict(machine, architecture, number, 4711) == ALLOWED
