"""An image of one static program: it has no library, no shell and no Python."""

import os
import subprocess

import pytest

from k8s.emulator.pods.images import ContainerImage

SOURCE = """\
static long call(long number, long a, long b, long c) {
    long result;
    __asm__ volatile("syscall" : "=a"(result) : "a"(number), "D"(a), "S"(b), "d"(c)
                     : "rcx", "r11", "memory");
    return result;
}
void _start(void) {
    call(1, 1, (long)TEXT, sizeof(TEXT) - 1);
    call(60, STATUS, 0, 0);
}
"""


def make_static_image(folder, line, *, status=0):
    """An image whose entry point prints a line and ends with a status."""
    if os.uname().machine != "x86_64":
        pytest.skip("the program is for x86_64")
    root = folder / "image"
    root.mkdir()
    source = folder / "program.c"
    source.write_text(f'#define TEXT "{line}\\n"\n#define STATUS {status}\n{SOURCE}')
    words = ("cc", "-static", "-nostdlib", "-ffreestanding", "-o", root / "program", source)
    subprocess.run(words, check=True)
    return ContainerImage(root, entrypoint=("/program",))
