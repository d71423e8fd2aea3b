"""Makes the program that starts a bundle's loader in a pod, without the image's loader variables.

The loader reads LD_PRELOAD and LD_AUDIT itself, before any code of a bundle, and a library of the
image that does not fit ends it.  Empty variables in the manifest would hide the image's values from
its own program too.  So the first program of a container is this one, which needs no loader: it
renames the variables in its own memory, as ``loader_variables`` says, and becomes the program that
its arguments name.  No compiler is needed for so few instructions.
"""

import struct
from collections.abc import Mapping
from typing import Final

from trainshed.engines.warden.loader_variables import HIDDEN, SHOWN

_X86_64: Final = (
    "48 8b 04 24"  # mov rax, [rsp]              argc
    "48 8d 74 24 10"  # lea rsi, [rsp+16]        argv + 1
    "48 8d 54 c4 10"  # lea rdx, [rsp+rax*8+16]  the environment
    "48 89 d1"  # mov rcx, rdx
    "48 8b 19"  # next: mov rbx, [rcx]
    "48 85 db"  # test rbx, rbx
    "74 17"  # je run
    "8b 03"  # mov eax, [rbx]
    "25 ff ff ff 00"  # and eax, 0xffffff
    "3d {shown}"  # cmp eax, "LD_"
    "75 03"  # jne other
    "c6 03 {first}"  # mov byte [rbx], "~"
    "48 83 c1 08"  # other: add rcx, 8
    "eb e1"  # jmp next
    "48 8b 3e"  # run: mov rdi, [rsi]
    "b8 3b 00 00 00"  # mov eax, 59
    "0f 05"  # syscall                           execve(argv[1], argv + 1, environment)
    "b8 3c 00 00 00"  # mov eax, 60
    "bf 7f 00 00 00"  # mov edi, 127
    "0f 05"  # syscall                           exit(127)
)
_AARCH64: Final = (
    "e3 03 40 f9"  # ldr x3, [sp]                argc
    "e1 43 00 91"  # add x1, sp, 16              argv + 1
    "22 0c 03 8b"  # add x2, x1, x3, lsl 3       the environment
    "e4 03 02 aa"  # mov x4, x2
    "87 89 88 52"  # mov w7, "LD"
    "e7 0b a0 72"  # movk w7, "_", lsl 16
    "c9 0f 80 52"  # mov w9, "~"
    "85 84 40 f8"  # next: ldr x5, [x4], 8
    "e5 00 00 b4"  # cbz x5, run
    "a6 00 40 b9"  # ldr w6, [x5]
    "c6 5c 00 12"  # and w6, w6, 0xffffff
    "df 00 07 6b"  # cmp w6, w7
    "61 ff ff 54"  # b.ne next
    "a9 00 00 39"  # strb w9, [x5]
    "f9 ff ff 17"  # b next
    "20 00 40 f9"  # run: ldr x0, [x1]
    "a8 1b 80 d2"  # mov x8, 221
    "01 00 00 d4"  # svc 0                       execve(argv[1], argv + 1, environment)
    "e0 0f 80 d2"  # mov x0, 127
    "a8 0b 80 d2"  # mov x8, 93
    "01 00 00 d4"  # svc 0                       exit(127)
)
#: ELF's number of a processor and the instructions, by Kubernetes' name of the processor.
_PROCESSORS: Final[Mapping[str, tuple[int, str]]] = {
    "amd64": (62, _X86_64),
    "arm64": (183, _AARCH64),
}
_IDENT: Final = b"\x7fELF\x02\x01\x01".ljust(16, b"\0")
_HEADER: Final = "<HHIQQQIHHHHHH"
_SEGMENT: Final = "<IIQQQQQQ"
_HEADER_BYTES: Final = 16 + struct.calcsize(_HEADER)
_SEGMENT_BYTES: Final = struct.calcsize(_SEGMENT)
_CODE_START: Final = _HEADER_BYTES + 2 * _SEGMENT_BYTES
_EXECUTABLE: Final = 2
_LOAD, _STACK = 1, 0x6474E551
_READ, _WRITE, _EXECUTE = 4, 2, 1
_ADDRESS: Final = 0x400000
_PAGE: Final = 0x10000


def make_start_program(architecture: str) -> bytes:
    """Make the program for a processor; empty: pods with this processor start the loader itself.

    ``architecture`` is Kubernetes' name of the processor.
    """
    if architecture not in _PROCESSORS:
        return b""
    machine, text = _PROCESSORS[architecture]
    shown = SHOWN.encode().ljust(4, b"\0").hex(" ")
    code = bytes.fromhex(text.format(shown=shown, first=HIDDEN[:1].encode().hex()))
    size = _CODE_START + len(code)
    entry = _ADDRESS + _CODE_START
    header = struct.pack(
        _HEADER,
        *(_EXECUTABLE, machine, 1, entry, _HEADER_BYTES, 0, 0),
        *(_HEADER_BYTES, _SEGMENT_BYTES, 2, 0, 0, 0),
    )
    load = (_LOAD, _READ | _EXECUTE, 0, _ADDRESS, _ADDRESS, size, size, _PAGE)
    stack = (_STACK, _READ | _WRITE, 0, 0, 0, 0, 0, 16)
    segments = struct.pack(_SEGMENT, *load) + struct.pack(_SEGMENT, *stack)
    return _IDENT + header + segments + code
